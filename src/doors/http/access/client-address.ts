// The client address of a request, taken from the connection or from a trusted proxy.
import { BlockList, isIP, isIPv6 } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';

/** Parses the addresses and networks in a setting. @throws SluiceError usage, naming the setting */
export function addressList(setting: string, addresses: readonly string[]): BlockList {
  const list = new BlockList();
  for (const address of addresses) {
    const [ip = '', bits] = address.split('/');
    if (isIP(ip) === 0) throw new SluiceError('usage', `${setting}: ${address} is not an IP address or a network`);
    const family = familyOf(ip);
    if (bits === undefined) list.addAddress(ip, family);
    else list.addSubnet(ip, Number(bits), family);
  }
  return list;
}

const familyOf = (ip: string): 'ipv4' | 'ipv6' => (isIPv6(ip) ? 'ipv6' : 'ipv4');

export const isListed = (list: BlockList, ip: string): boolean => isIP(ip) !== 0 && list.check(ip, familyOf(ip));

/** The address of the peer. IPv4-mapped IPv6 addresses are returned as IPv4 addresses. */
export const peerOf = (request: FastifyRequest): string =>
  (request.raw.socket.remoteAddress ?? '').replace(/^::ffff:/, '');

/**
 * Returns the function that determines client addresses. `proxies`: trusted proxies. X-Forwarded-For is read from its
 * end up to the first address that is not a proxy. The client may have forged the entries before that address.
 */
export function clientAddress(proxies: BlockList | null): (request: FastifyRequest) => string {
  return (request) => {
    const peer = peerOf(request);
    if (!proxies || !isListed(proxies, peer)) return peer;
    const said = [request.headers['x-forwarded-for'] ?? []].flat().join(',').split(',');
    let last = peer;
    for (const part of said.reverse()) {
      const ip = part.trim().replace(/^::ffff:/i, '');
      if (isIP(ip) === 0) return last;
      last = ip;
      if (!isListed(proxies, ip)) return ip;
    }
    return last;
  };
}
