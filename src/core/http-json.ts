// Requests over HTTP or HTTPS with a response of JSON or text.
// fetch is not used, because it does not support custom certificate authorities and client certificates.
import http from 'node:http';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import type { ConnectionOptions } from 'node:tls';

interface JsonRequest {
  method: 'GET' | 'POST';
  url: string;
  headers: Readonly<Record<string, string>>;
  body?: string | undefined;
  tls: ConnectionOptions;
  /** Timeout for the whole response, ms. */
  timeoutMs: number;
  /** Maximum size of the response in bytes. Default: 16 MiB. */
  mostBytes?: number;
}

export interface JsonAnswer {
  status: number;
  /** null: the body is not a JSON object. */
  body: Record<string, unknown> | null;
}

/** Default maximum size of a response, bytes. This is enough for schemas and tokens. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

/** @throws Error of the network or TLS, or a timeout */
export async function requestJson(request: JsonRequest): Promise<JsonAnswer> {
  const { status, text: words } = await requestText(request);
  return { status, body: objectOf(words) };
}

/** @throws Error of the network or TLS, or a timeout */
export async function requestText(request: JsonRequest): Promise<{ status: number; text: string }> {
  const { method, url, headers, body, tls, timeoutMs, mostBytes = MAX_ANSWER_BYTES } = request;
  const signal = AbortSignal.timeout(timeoutMs);
  const options = { method, headers, signal };
  const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>();
  const sent = url.startsWith('https:') ? https.request(url, { ...options, ...tls }) : http.request(url, options);
  sent.on('response', resolve);
  sent.on('error', reject);
  sent.end(body);
  const response = await promise;
  let bytes = 0;
  response.on('data', (part: Buffer) => {
    bytes += part.length;
    if (bytes > mostBytes) response.destroy(new Error('the answer is too large'));
  });
  return { status: response.statusCode ?? 0, text: await text(response) };
}

function objectOf(words: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(words);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}
