// The sockets of the service: TLS with certificate reload, and a readable error for plain HTTP. Behind a proxy: a check
// of the proxy's address.
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import type { FastifyRequest } from 'fastify';
import { generate } from 'selfsigned';
import { startTimer } from '../../../core/clock.ts';
import { type ErrorCode, SluiceError } from '../../../core/errors.ts';
import { followFiles } from '../../../core/follow-files.ts';
import { addressList, isListed, peerOf } from '../access/client-address.ts';
import { type ClientCertificate, ClientCertificates } from '../access/client-certificate.ts';
import { clientTimer, loopStalls } from './client-timer.ts';
import { problemOf } from './problem.ts';

export interface Certificate {
  cert: string;
  key: string;
  /** CA certificates (PEM) that must have issued the certificates of clients. */
  ca?: string;
  /** Revocation lists (PEM) of these authorities. */
  crl?: string;
}

/** Files with the server's certificate and key, and with the authorities and the revocation list for clients. */
interface CertificateFiles {
  certificate: string;
  key: string;
  client_ca?: string | undefined;
  client_crl?: string | undefined;
}

/**
 * Only ciphers with forward secrecy and authenticated encryption are allowed. This rule excludes RSA key exchange and
 * CBC, whatever the defaults of Node are. All ciphers of TLS 1.3 meet the condition.
 */
const TLS_SETTINGS = {
  minVersion: 'TLSv1.2',
  ciphers: [
    ...['TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256', 'TLS_AES_128_GCM_SHA256'],
    ...['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES128-GCM-SHA256'],
    ...['ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-RSA-AES256-GCM-SHA384'],
    ...['ECDHE-ECDSA-CHACHA20-POLY1305', 'ECDHE-RSA-CHACHA20-POLY1305'],
  ].join(':'),
} as const;

/** First byte of every TLS connection: the type of a handshake record (RFC 8446). */
const TLS_HANDSHAKE = 22;
const PLAIN_ANSWER =
  'HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nThis port speaks HTTPS: use https://\n';

/** @throws SluiceError usage */
export async function readCertificate(files: CertificateFiles): Promise<Certificate> {
  const { certificate, key, client_ca, client_crl } = files;
  const read = async (file: string | undefined) => (file === undefined ? undefined : readFile(file, 'utf8'));
  try {
    const [cert, keyText, ca, crl] = await Promise.all([certificate, key, client_ca, client_crl].map(read));
    return { cert: cert!, key: keyText!, ...(ca === undefined ? {} : { ca }), ...(crl === undefined ? {} : { crl }) };
  } catch (cause) {
    throw new SluiceError('usage', `the certificate cannot be read: ${(cause as Error).message}`, { cause });
  }
}

/** Creates a self-signed certificate for localhost, for --dev. */
export async function devCertificate(): Promise<Certificate> {
  const made = await generate([{ name: 'commonName', value: 'localhost' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    extensions: [
      {
        name: 'subjectAltName',
        altNames: [
          { type: 2, value: 'localhost' },
          { type: 7, ip: '127.0.0.1' },
        ],
      },
    ],
  });
  return { cert: made.cert, key: made.private };
}

export interface Listener {
  /** Creates the server that Fastify uses. */
  factory: (handler: http.RequestListener) => http.Server | https.Server;
  listen(port: number, host: string): Promise<net.AddressInfo>;
  /** Uses this certificate for new connections. @throws an error if the certificate is invalid */
  replaceCertificate(certificate: Certificate): void;
  /** The client certificate of a connection. */
  clientOf(socket: net.Socket): ClientCertificate;
  /** Stops accepting connections. */
  close(): void;
  /** Number of open connections. */
  open(): number;
  /** Closes the connections that have no response in progress. */
  closeIdle(): void;
  /** Closes all connections. */
  closeAll(): void;
}

interface ListenerOptions {
  /** Absent for plain HTTP behind a proxy. */
  certificate?: Certificate;
  /** Whether to reject the connections of clients that have no certificate issued by `certificate.ca`. */
  requireClient?: boolean;
  headersTimeoutMs: number;
  keepAliveMs: number;
  headerBytes: number;
  /** Called when the listener itself answered a request. No other part of the service sees such a request. */
  onRefused?: (code: ErrorCode) => void;
}

export function createListener(options: ListenerOptions): Listener {
  let server: http.Server | https.Server;
  // Open connections are counted here, because a socket under TLS emits no close event.
  const open = new Set<net.Socket>();
  const count = (socket: net.Socket) => {
    open.add(socket);
    heads.set(socket, { requests: 0, stalls: loopStalls() });
    socket.on('close', () => open.delete(socket));
  };
  const clients = new ClientCertificates();
  let authorities = options.certificate;
  const doorman = new Doorman(options.headersTimeoutMs);
  const front = net.createServer({ noDelay: true }, (socket) => {
    if (options.certificate) doorman.admitTls(socket, () => server.emit('connection', socket));
    else server.emit('connection', socket);
  });
  const clientError = (error: NodeJS.ErrnoException, socket: net.Socket) => {
    onClientError(error, socket, options);
  };
  return {
    factory: (handler) => {
      server = newServer(options, handler);
      server.on(options.certificate ? 'secureConnection' : 'connection', count);
      server.on('secureConnection', (socket: net.Socket) => {
        doorman.greeted(socket);
        clients.greeted(socket);
      });
      server.on('request', headCame);
      server.on('clientError', clientError);
      server.on('tlsClientError', (_error: Error, socket: net.Socket) => socket.destroy());
      return server;
    },
    listen: (port, host) =>
      new Promise((resolve, reject) => {
        front.once('error', (cause: NodeJS.ErrnoException) => {
          reject(new SluiceError('usage', `cannot listen on ${host}:${port}: ${cause.code}`, { cause }));
        });
        front.listen({ port, host, backlog: 1024 }, () => {
          // The inner server never listens. This event makes the server check its connections for heads that arrive too
          // late.
          server.emit('listening');
          resolve(front.address() as net.AddressInfo);
        });
      }),
    replaceCertificate: (certificate) => {
      // The new context also has new ticket keys, so a session that the old authorities authenticated cannot be
      // resumed.
      (server as https.Server).setSecureContext({ ...certificate, ...TLS_SETTINGS });
      if (certificate.ca === authorities?.ca && certificate.crl === authorities?.crl) return;
      authorities = certificate;
      clients.checkAnew();
      server.closeIdleConnections();
    },
    clientOf: (socket) => clients.of(socket),
    close: () => {
      front.close();
    },
    open: () => open.size,
    closeIdle: () => server.closeIdleConnections(),
    closeAll: () => {
      server.closeAllConnections();
      for (const socket of open) socket.destroy();
      doorman.closeAll();
    },
  };
}

/** Creates an HTTP/1.1 server, over TLS if there is a certificate. */
function newServer(options: ListenerOptions, handler: http.RequestListener): http.Server | https.Server {
  const common: http.ServerOptions = {
    maxHeaderSize: options.headerBytes,
    headersTimeout: options.headersTimeoutMs,
    connectionsCheckingInterval: Math.max(500, Math.min(5000, options.headersTimeoutMs / 2)),
    requestTimeout: 0,
    keepAliveTimeout: options.keepAliveMs,
    insecureHTTPParser: false,
    // The service itself checks the Host header, so that it can answer with a problem document.
    requireHostHeader: false,
  };
  if (!options.certificate) return http.createServer(common, handler);
  return https.createServer({ ...common, ...tlsOptions(options) }, handler);
}

const tlsOptions = ({ certificate, requireClient = false }: ListenerOptions): https.ServerOptions => ({
  ...certificate,
  ...TLS_SETTINGS,
  // Clients without a trusted certificate may connect: they then get an error response, or authenticate with a key.
  ...(certificate?.ca === undefined ? {} : { requestCert: true, rejectUnauthorized: requireClient }),
});

/**
 * Accepts TLS connections. Each connection must complete its handshake before a deadline, which starts when the
 * connection is accepted.
 */
class Doorman {
  readonly #withinMs: number;
  /**
   * Connections that have not completed their handshake, by client address and port, each with a function that cancels
   * its deadline.
   */
  readonly #waiting = new Map<string, { socket: net.Socket; admitted: () => void }>();

  constructor(withinMs: number) {
    this.#withinMs = withinMs;
  }

  /** Looks at the first byte, so that a plain HTTP request gets a readable error instead of a failed handshake. */
  admitTls(socket: net.Socket, admit: () => void): void {
    const admitted = clientTimer(this.#withinMs, () => socket.destroy());
    const name = nameOf(socket);
    this.#waiting.set(name, { socket, admitted });
    socket.on('close', () => {
      admitted();
      if (this.#waiting.get(name)?.socket === socket) this.#waiting.delete(name);
    });
    socket.on('error', () => socket.destroy());
    socket.once('data', (first) => {
      socket.pause();
      if (first[0] !== TLS_HANDSHAKE) {
        sayLastWord(socket, PLAIN_ANSWER);
        return;
      }
      socket.unshift(first);
      admit();
    });
  }

  /** Called when a connection has completed its handshake. */
  greeted(socket: net.Socket): void {
    const name = nameOf(socket);
    this.#waiting.get(name)?.admitted();
    this.#waiting.delete(name);
  }

  closeAll(): void {
    for (const { socket } of this.#waiting.values()) socket.destroy();
  }
}

const nameOf = ({ remoteAddress, remotePort }: net.Socket): string => `${remoteAddress} ${remotePort}`;

/**
 * The request heads of a connection: how many arrived, and how often the event loop had stalled before the pending
 * head.
 */
interface Heads {
  requests: number;
  stalls: number;
}

const heads = new WeakMap<net.Socket, Heads>();

function headCame({ socket }: http.IncomingMessage): void {
  const known = heads.get(socket);
  if (!known) return;
  known.requests++;
  known.stalls = loopStalls();
}

/**
 * Answers a request head that cannot be parsed, unless a response is being written on the connection: nothing may be
 * inserted into that response.
 */
function onClientError(error: NodeJS.ErrnoException, socket: net.Socket, options: ListenerOptions): void {
  // Later bytes reach the parser as well, which then reports the error again.
  if (refused.has(socket)) return;
  const busy = (socket as net.Socket & { _httpMessage?: http.ServerResponse })._httpMessage;
  if (error.code === 'ECONNRESET' || !socket.writable || busy) {
    socket.destroy();
    return;
  }
  const known = heads.get(socket);
  const fault = headFault(error.code, options.headerBytes);
  if (error.code !== LATE_HEAD || !known || known.stalls === loopStalls()) {
    refuse(socket, fault, options);
    return;
  }
  // The event loop may have stalled, so that the remaining head is unread. The server reports a late head only once, so
  // a timer checks again.
  const { requests } = known;
  const stop = clientTimer(options.headersTimeoutMs, () => {
    if (known.requests === requests) refuse(socket, fault, options);
  });
  socket.on('close', stop);
}

const LATE_HEAD = 'ERR_HTTP_REQUEST_TIMEOUT';

function headFault(code: string | undefined, headerBytes: number): SluiceError {
  if (code === LATE_HEAD) return new SluiceError('bad_request', 'the request header did not arrive in time');
  if (code !== 'HPE_HEADER_OVERFLOW') return new SluiceError('bad_request', 'the request header is malformed');
  const extra = { limit: 'header_bytes', value: headerBytes, unit: 'bytes' };
  return new SluiceError('limit_exceeded', 'the request header is too large', { extra });
}

function refuse(socket: net.Socket, fault: SluiceError, { onRefused }: ListenerOptions): void {
  // Browsers open connections ahead. A response to no request could cross with the first request, and the browser would
  // take it for the response to that request. If the connection is closed, the browser repeats the request on another.
  if (socket.bytesRead === 0) {
    socket.destroy();
    return;
  }
  onRefused?.(fault.code);
  const { status, headers, body } = problemOf(fault, crypto.randomUUID());
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const text = JSON.stringify(body);
  sayLastWord(socket, `HTTP/1.1 ${status} Bad Request\r\n${head.join('')}connection: close\r\n\r\n${text}\n`);
}

const LINGER_MS = 500;

/** Sockets to which the last response was sent. */
const refused = new WeakSet<net.Socket>();

/** Sends the last response on a connection and closes the connection, whatever the client does. */
function sayLastWord(socket: net.Socket, text: string): void {
  refused.add(socket);
  socket.write(text);
  // Reads and discards bytes that are still arriving. If the connection were closed before they are read, it would be
  // reset and the response lost.
  socket.resume();
  startTimer(() => socket.end(() => socket.destroy()), LINGER_MS).unref();
  startTimer(() => socket.destroy(), 4 * LINGER_MS).unref();
}

/**
 * Watches certificate files. `onCertificate` is called with each new certificate. If the new certificate is invalid,
 * the old one stays in use and `onError` is called.
 */
export function followCertificate(
  files: CertificateFiles,
  onCertificate: (certificate: Certificate) => void,
  onError: (error: unknown) => void,
): () => void {
  const { certificate, key, client_ca, client_crl } = files;
  const named = [certificate, key, client_ca, client_crl].filter((file) => file !== undefined);
  const reload = async () => onCertificate(await readCertificate(files));
  // Certificate and key are written one after the other.
  return followFiles(named, { reload, onError, delayMs: 200 });
}

/** What the operator of a trusted proxy must change; null if nothing is wrong. */
function proxyWithoutProto(proto: string): string | null {
  if (proto === 'https') return null;
  return proto === ''
    ? 'the proxy sent no X-Forwarded-Proto: set it to https in the proxy'
    : 'the client reached the proxy without HTTPS';
}

/**
 * Returns the check for use behind a proxy that terminates TLS. The check accepts a request only if it comes from an
 * address of the proxy and reached the proxy over HTTPS.
 */
export function proxyCheck(addresses: readonly string[]): (request: FastifyRequest) => void {
  const allowed = addressList('behind_tls_proxy', addresses);
  return (request) => {
    // If there are several values, the first describes the connection of the client.
    const proto = [request.headers['x-forwarded-proto']].flat().join().split(',')[0]!.trim().toLowerCase();
    const why = isListed(allowed, peerOf(request))
      ? proxyWithoutProto(proto)
      : 'its address is not in behind_tls_proxy';
    if (why === null) return;
    throw new SluiceError(
      'https_required',
      'the request did not arrive over HTTPS through a trusted proxy (X-Forwarded-Proto)',
      {
        logMessage: `a request from ${peerOf(request)} was rejected: ${why}`,
      },
    );
  };
}
