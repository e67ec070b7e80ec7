// Requests over HTTP/2 to a service of a test, in the form of those over HTTP/1.1 (`call`).
import http2 from 'node:http2';
import { onTestFinished } from 'vitest';
import type { CallOptions, Reply, Service } from './service.ts';

export interface StreamReply extends Reply {
  trailers: http2.IncomingHttpHeaders;
  /** The code of RST_STREAM: 0 for an answer that is whole. */
  code: number;
}

/** Ended when the test is. */
export function connectH2({ port }: Pick<Service, 'port'>, options: http2.SecureClientSessionOptions = {}) {
  const session = http2.connect(`https://localhost:${port}`, { rejectUnauthorized: false, ...options });
  session.on('error', () => {});
  onTestFinished(() => session.destroy());
  return session;
}

export interface OpenStream {
  stream: http2.ClientHttp2Stream;
  /** Resolves when the stream is over, however. */
  over: Promise<StreamReply>;
}

/** `paused`: nothing of the answer is read until the test does. */
export function openStream(
  session: http2.ClientHttp2Session,
  headers: http2.OutgoingHttpHeaders,
  { endStream = false, paused = false } = {},
): OpenStream {
  const stream = session.request({ ':method': 'POST', ...headers }, { endStream });
  let head: http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader = {};
  let trailers: http2.IncomingHttpHeaders = {};
  const chunks: Buffer[] = [];
  stream.on('response', (came) => {
    head = came;
  });
  stream.on('trailers', (came) => {
    trailers = came;
  });
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  if (paused) stream.pause();
  stream.on('error', () => {});
  const over = new Promise<void>((resolve) => stream.on('close', resolve)).then(() => {
    const bytes = Buffer.concat(chunks);
    const text = bytes.toString();
    let json: unknown = null;
    try {
      json = JSON.parse(text);
    } catch {
      // not every answer is JSON
    }
    const { ':status': status = 0, ...headers } = head;
    return { status, headers, trailers, bytes, text, json, code: stream.rstCode };
  });
  return { stream, over };
}

/** `call` of a service over this session. */
export const callOver =
  (session: http2.ClientHttp2Session, token: string) =>
  (method: string, path: string, { body, headers, token: other = token }: CallOptions = {}): Promise<StreamReply> => {
    const authorization = other === null ? {} : { authorization: `API-Key ${other}` };
    const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body as string) };
    const { stream, over } = openStream(
      session,
      { ':method': method, ':path': path, ...authorization, ...length, ...headers },
      { endStream: body === undefined },
    );
    if (body !== undefined) stream.end(body);
    return over;
  };
