// The socket side of the service: TLS with certificate reload, a readable refusal of plain HTTP, or a check of the proxy's address.
import { watch } from 'node:fs';
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import type { FastifyRequest } from 'fastify';
import { generate } from 'selfsigned';
import { SluiceError } from '../../../core/errors.ts';
import { problemOf } from './problem.ts';

export interface Certificate {
  cert: string;
  key: string;
}

/** First byte of every TLS connection (a handshake record, RFC 8446). */
const TLS_HANDSHAKE = 22;
const PLAIN_ANSWER =
  'HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nThis port speaks HTTPS: use https://\n';

/** @throws SluiceError usage */
export async function readCertificate(files: { certificate: string; key: string }): Promise<Certificate> {
  try {
    const [cert, key] = await Promise.all([readFile(files.certificate, 'utf8'), readFile(files.key, 'utf8')]);
    return { cert, key };
  } catch (cause) {
    throw new SluiceError('usage', `the certificate cannot be read: ${(cause as Error).message}`, { cause });
  }
}

/** A self-signed certificate for localhost, for --dev. */
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
  /** Factory of the server fastify runs in. */
  factory: (handler: http.RequestListener) => http.Server | https.Server;
  listen(port: number, host: string): Promise<net.AddressInfo>;
  /** New connections use this certificate. @throws when it is invalid */
  replaceCertificate(certificate: Certificate): void;
  /** Takes no more connections. */
  close(): void;
  /** Connections that are open. */
  open(): number;
  /** Ends the connections that are not answering anything. */
  closeIdle(): void;
  /** Ends all connections. */
  closeAll(): void;
}

export interface ListenerOptions {
  /** Absent: plain HTTP, behind a proxy. */
  certificate?: Certificate;
  headersTimeoutMs: number;
  keepAliveMs: number;
  headerBytes: number;
}

export function createListener(options: ListenerOptions): Listener {
  let server: http.Server | https.Server;
  // A socket under TLS emits no close event, so open connections are counted here.
  const open = new Set<net.Socket>();
  const count = (socket: net.Socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
  };
  const common: http.ServerOptions = {
    maxHeaderSize: options.headerBytes,
    headersTimeout: options.headersTimeoutMs,
    connectionsCheckingInterval: Math.max(500, Math.min(5000, options.headersTimeoutMs / 2)),
    requestTimeout: 0,
    keepAliveTimeout: options.keepAliveMs,
    insecureHTTPParser: false,
    requireHostHeader: true,
  };
  // Peeks at the first byte, so that a plain request on the TLS port gets an HTTP answer instead of a broken handshake.
  const front = net.createServer({ noDelay: true }, (socket) => {
    if (!options.certificate) {
      server.emit('connection', socket);
      return;
    }
    socket.setTimeout(options.headersTimeoutMs, () => socket.destroy());
    socket.on('error', () => socket.destroy());
    socket.once('data', (first) => {
      socket.pause();
      socket.setTimeout(0);
      if (first[0] !== TLS_HANDSHAKE) {
        socket.end(PLAIN_ANSWER);
        return;
      }
      socket.unshift(first);
      server.emit('connection', socket);
    });
  });
  return {
    factory: (handler) => {
      server = options.certificate
        ? https.createServer({ ...common, ...options.certificate, minVersion: 'TLSv1.2' }, handler)
        : http.createServer(common, handler);
      server.on(options.certificate ? 'secureConnection' : 'connection', count);
      server.on('clientError', onClientError);
      server.on('tlsClientError', (_error: Error, socket: net.Socket) => socket.destroy());
      return server;
    },
    listen: (port, host) =>
      new Promise((resolve, reject) => {
        front.once('error', (cause: NodeJS.ErrnoException) => {
          reject(new SluiceError('usage', `cannot listen on ${host}:${port}: ${cause.code}`, { cause }));
        });
        front.listen({ port, host, backlog: 1024 }, () => {
          // The server behind never listens itself; it begins to watch its connections (head time-outs) at this event.
          server.emit('listening');
          resolve(front.address() as net.AddressInfo);
        });
      }),
    replaceCertificate: (certificate) =>
      (server as https.Server).setSecureContext({ ...certificate, minVersion: 'TLSv1.2' }),
    close: () => void front.close(),
    open: () => open.size,
    closeIdle: () => server.closeIdleConnections(),
    closeAll: () => {
      server.closeAllConnections();
      for (const socket of open) socket.destroy();
    },
  };
}

/**
 * A request head that cannot be parsed. While an answer is being written on the connection nothing may be put in between.
 */
function onClientError(error: NodeJS.ErrnoException, socket: net.Socket): void {
  // Later bytes reach the parser, too, which reports the error again.
  if (refused.has(socket)) return;
  const busy = (socket as net.Socket & { _httpMessage?: http.ServerResponse })._httpMessage;
  if (error.code === 'ECONNRESET' || !socket.writable || busy) {
    socket.destroy();
    return;
  }
  refused.add(socket);
  const words = HEAD_FAULTS[error.code ?? ''] ?? 'the request head is malformed';
  const { status, headers, body } = problemOf(new SluiceError('bad_request', words), crypto.randomUUID());
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`HTTP/1.1 ${status} Bad Request\r\n${head.join('')}connection: close\r\n\r\n${JSON.stringify(body)}\n`);
  // Bytes still in flight are read and discarded: a reset would destroy the answer.
  socket.resume();
  setTimeout(() => socket.end(() => socket.destroy()), LINGER_MS).unref();
}

const LINGER_MS = 500;

/** Sockets that have been sent their last answer. */
const refused = new WeakSet<net.Socket>();

const HEAD_FAULTS: Record<string, string> = {
  HPE_HEADER_OVERFLOW: 'the request head is too large',
  ERR_HTTP_REQUEST_TIMEOUT: 'the request head did not come in time',
};

/** Follows certificate files; an invalid version leaves the old one in use and is reported to `onError`. */
export function followCertificate(
  files: { certificate: string; key: string },
  listener: Listener,
  onError: (error: unknown) => void,
): () => void {
  let timer: NodeJS.Timeout | undefined;
  const reload = () => {
    clearTimeout(timer);
    // Certificate and key are written one after the other.
    timer = setTimeout(() => {
      readCertificate(files)
        .then((c) => listener.replaceCertificate(c))
        .catch(onError);
    }, 200);
  };
  const folders = new Set([files.certificate, files.key].map((f) => path.dirname(path.resolve(f))));
  const watchers = [...folders].map((folder) => watch(folder, reload));
  for (const w of watchers) w.unref();
  return () => {
    clearTimeout(timer);
    for (const w of watchers) w.close();
  };
}

/** Behind a proxy that terminates TLS: accepts only its addresses, and only requests that reached it over HTTPS. */
export function proxyCheck(addresses: readonly string[]): (request: FastifyRequest) => void {
  const allowed = new net.BlockList();
  for (const address of addresses) {
    const [ip, bits] = address.split('/');
    const family = net.isIPv6(ip!) ? 'ipv6' : 'ipv4';
    if (!net.isIP(ip!)) throw new SluiceError('usage', `behind_tls_proxy: ${address} is not an address`);
    if (bits === undefined) allowed.addAddress(ip!, family);
    else allowed.addSubnet(ip!, Number(bits), family);
  }
  return (request) => {
    const peer = (request.raw.socket.remoteAddress ?? '').replace(/^::ffff:/, '');
    const known = net.isIP(peer) !== 0 && allowed.check(peer, net.isIPv6(peer) ? 'ipv6' : 'ipv4');
    if (!known || request.headers['x-forwarded-proto'] !== 'https') {
      throw new SluiceError('https_required', 'the request did not come over HTTPS through a known proxy');
    }
  };
}
