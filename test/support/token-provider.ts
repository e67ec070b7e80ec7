// An identity provider on a port of its own: its keys, its discovery and its tokens, over HTTPS.
import { writeFileSync } from 'node:fs';
import type http from 'node:http';
import https from 'node:https';
import type net from 'node:net';
import path from 'node:path';
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose';
import { onTestFinished } from 'vitest';
import { devCertificate } from '../../src/doors/http/wire/listener.ts';
import { scratch } from './cli.ts';

export const AUDIENCE = 'sluice';

/** undefined takes a claim away. */
export type ChangedClaims = { [name in keyof JWTPayload]?: JWTPayload[name] | undefined };

export interface SigningKey {
  kid: string;
  alg: string;
  privateKey: Awaited<ReturnType<typeof generateKeyPair>>['privateKey'];
  publicJwk: JWK;
  privateJwk: JWK;
}

export async function newSigningKey(kid: string, alg = 'ES256'): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  const named = { kid, alg, use: 'sig' };
  const publicJwk = { ...(await exportJWK(publicKey)), ...named };
  return { kid, alg, privateKey, publicJwk, privateJwk: { ...(await exportJWK(privateKey)), ...named } };
}

/** Where a provider keeps its certificate, and what ends it: by default the test that runs. */
export interface ProviderPlace {
  folder: string;
  onEnd: (end: () => void) => void;
}
const ofThisTest = (): ProviderPlace => ({ folder: scratch(), onEnd: onTestFinished });

/** A server over HTTPS whose certificate is in `ca`; `serving` can be changed. */
export async function tlsServer(handler: http.RequestListener, { folder, onEnd } = ofThisTest()) {
  const { cert, key } = await devCertificate();
  const state = { handler };
  const server = https.createServer({ cert, key }, (request, response) => state.handler(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onEnd(() => void server.close().closeAllConnections());
  const ca = path.join(folder, 'ca.pem');
  writeFileSync(ca, cert);
  const { port } = server.address() as net.AddressInfo;
  return { url: `https://localhost:${port}`, ca, cert, state };
}

/** A provider that publishes what it is told, counts who reads it, and signs what it is given. */
export async function tokenProvider(first: SigningKey, place = ofThisTest()) {
  const reads = { keys: 0, discovery: 0 };
  const published = { keys: [first.publicJwk] as JWK[], status: 200, body: null as string | null };
  const server = await tlsServer((request, response) => {
    const about = request.url === '/.well-known/openid-configuration';
    reads[about ? 'discovery' : 'keys']++;
    const body = about ? { issuer: server.url, jwks_uri: `${server.url}/keys` } : { keys: published.keys };
    response.writeHead(published.status, { 'content-type': 'application/json' });
    response.end(published.body ?? JSON.stringify(body));
  }, place);
  /** A token that is right unless `claims` or `header` say otherwise; undefined takes a claim away. */
  const sign = (claims: ChangedClaims = {}, key = first, header: Record<string, unknown> = {}) => {
    const now = Math.floor(Date.now() / 1000);
    const all = { iss: server.url, aud: AUDIENCE, sub: 'batch', iat: now, exp: now + 300, scope: 'predict', ...claims };
    return new SignJWT(all as JWTPayload)
      .setProtectedHeader({ alg: key.alg, kid: key.kid, typ: 'at+jwt', ...header })
      .sign(key.privateKey);
  };
  return { ...server, reads, published, sign };
}

/** The settings of a service that takes tokens of it. */
export const oidcSettings = ({ url, ca }: { url: string; ca: string }, more: object = {}): string =>
  `oidc=${JSON.stringify([{ name: 'corporate', issuer: url, audience: [AUDIENCE], ca, ...more }])}`;
