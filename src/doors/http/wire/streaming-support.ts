// What a connection permits: whether a response may start before the body ends, and whether clients detect a truncated
// response.
import type { IncomingMessage } from 'node:http';
import type { ServerConfig } from '../../../config/server-config.ts';

/** Headers that proxies add. */
const FORWARDED = ['via', 'forwarded', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host', 'x-real-ip'];

/**
 * Whether the response must wait for the end of the body and have a Content-Length. HTTP/1.0 ends a response by closing
 * the connection, so a truncated response looks complete. And many proxies stop sending the body when the response
 * starts.
 */
export function mustBeWhole(
  raw: IncomingMessage,
  config: Pick<ServerConfig, 'behind_tls_proxy' | 'proxy_streams'>,
): boolean {
  const { headers } = raw;
  if (!marksEnd(raw)) return true;
  if (config.proxy_streams) return false;
  return config.behind_tls_proxy !== undefined || FORWARDED.some((name) => headers[name] !== undefined);
}

/** Whether the client accepts trailers after a chunked response (RFC 9110, section 10.1.4). */
export const takesTrailers = (raw: IncomingMessage): boolean =>
  marksEnd(raw) &&
  (raw.headers.te?.toString() ?? '').split(',').some((coding) => coding.trim().toLowerCase() === 'trailers');

/**
 * Whether clients can detect that a response without a length was truncated. Node treats versions before HTTP/1.1 as
 * HTTP/1.0.
 */
const marksEnd = (raw: IncomingMessage): boolean => protocolOf(raw) !== 'HTTP/1.0';

/** The protocol version with which Node responds, which can differ from the version in the request head. */
export function protocolOf(raw: IncomingMessage): 'HTTP/1.0' | 'HTTP/1.1' {
  return raw.httpVersionMajor === 1 && raw.httpVersionMinor >= 1 ? 'HTTP/1.1' : 'HTTP/1.0';
}
