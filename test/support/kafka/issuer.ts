// An issuer of tokens as brokers know them: signed JWTs by the client credentials grant, and the keys they are checked with.
import { createSign, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { generate } from 'selfsigned';
import type { TokenEndpoint } from '../../../src/connectors/kafka/client/connection.ts';
import type { ExtraSettings } from './settings.ts';

export const CLIENT_SECRET = 'sec+ret/of the~issuer';
const MODULE = 'org.apache.kafka.common.security.oauthbearer';

interface Key {
  id: string;
  privateKey: KeyObject;
  jwk: object;
}

export class Issuer implements AsyncDisposable {
  /** Of tokens given from now on, s. */
  lifetime = 60;
  /** What the endpoint answers with; 200: tokens. */
  status = 200;
  /** Claims in place of the usual ones. */
  claims: Record<string, unknown> = {};
  /** Tokens given. */
  given = 0;
  /** Forms and Authorization headers that came. */
  readonly asked: { form: URLSearchParams; authorization: string | undefined }[] = [];
  #keys: Key[] = [newKey()];
  readonly #plain: http.Server;
  readonly #tls: https.Server;

  private constructor(pems: { private: string; cert: string }) {
    const handle = (request: http.IncomingMessage, response: http.ServerResponse) => {
      this.#handle(request, response).catch(() => request.socket.destroy());
    };
    this.#plain = http.createServer(handle);
    this.#tls = https.createServer({ key: pems.private, cert: pems.cert }, handle);
  }

  /** `ca`: where the authority of its certificate is written to. */
  static async open(ca: string): Promise<Issuer> {
    const pems = await generate([{ name: 'commonName', value: 'issuer' }], {
      extensions: [{ name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] }],
    });
    writeFileSync(ca, pems.cert);
    const issuer = new Issuer(pems);
    for (const server of [issuer.#plain, issuer.#tls]) {
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    }
    return issuer;
  }

  /** Reached over TLS by those who trust `ca`, else without. */
  endpoint(ca?: string): TokenEndpoint {
    const url = ca === undefined ? `http://127.0.0.1:${port(this.#plain)}` : `https://127.0.0.1:${port(this.#tls)}`;
    const clientSecret = { env: 'SLUICE_TEST_CLIENT_SECRET' };
    const tls = ca === undefined ? {} : { tls: { caFile: ca } };
    return { url: `${url}/token`, clientId: 'scoring', clientSecret, scope: 'kafka', ...tls };
  }

  /** A listener OAUTH at `address` whose logins end after `reauthMs`. */
  settings(address: string, reauthMs: number): ExtraSettings {
    const login = 'listener.name.oauth.oauthbearer';
    return (own) => ({
      listeners: `${own.listeners},OAUTH://${address}`,
      'advertised.listeners': `${own['advertised.listeners']},OAUTH://${address}`,
      'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,OAUTH:SASL_PLAINTEXT',
      'sasl.enabled.mechanisms': 'OAUTHBEARER',
      [`${login}.sasl.jaas.config`]: `${MODULE}.OAuthBearerLoginModule required;`,
      [`${login}.sasl.server.callback.handler.class`]: `${MODULE}.OAuthBearerValidatorCallbackHandler`,
      [`${login}.connections.max.reauth.ms`]: String(reauthMs),
      'sasl.oauthbearer.jwks.endpoint.url': this.#jwks,
      'sasl.oauthbearer.expected.audience': 'kafka',
      'sasl.oauthbearer.expected.issuer': 'https://issuer.test',
    });
  }

  /** What brokers need beside the settings. */
  get javaFlags(): readonly string[] {
    return [`-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=${this.#jwks}`];
  }

  token(): string {
    this.given++;
    const now = Math.floor(Date.now() / 1000);
    const { id, privateKey } = this.#keys[0]!;
    const usual = {
      iss: 'https://issuer.test',
      aud: 'kafka',
      sub: 'scoring',
      iat: now,
      exp: now + this.lifetime,
      jti: crypto.randomUUID(),
    };
    const signed = [
      { alg: 'RS256', kid: id, typ: 'JWT' },
      { ...usual, ...this.claims },
    ]
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.');
    return `${signed}.${createSign('RSA-SHA256').update(signed).sign(privateKey, 'base64url')}`;
  }

  /** Tokens are signed with a key that no broker has heard of; the old one goes on being known. */
  changeKey(): void {
    this.#keys = [newKey(), ...this.#keys];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of [this.#plain, this.#tls]) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  get #jwks(): string {
    return `http://127.0.0.1:${port(this.#plain)}/jwks`;
  }

  async #handle(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const body = await text(request);
    const answer = (status: number, value: object) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (request.url === '/jwks') return void answer(200, { keys: this.#keys.map((k) => k.jwk) });
    const { authorization } = request.headers;
    const form = new URLSearchParams(body);
    this.asked.push({ form, authorization });
    if (this.status !== 200) return void answer(this.status, { error: 'temporarily_unavailable' });
    const [id, secret] = credentials(form, authorization);
    if (id !== 'scoring' || secret !== CLIENT_SECRET) return void answer(401, { error: 'invalid_client' });
    answer(200, { access_token: this.token(), token_type: 'Bearer', expires_in: this.lifetime });
  }
}

/** By either method of RFC 6749, 2.3.1. */
function credentials(form: URLSearchParams, authorization: string | undefined): (string | null)[] {
  if (authorization === undefined) return [form.get('client_id'), form.get('client_secret')];
  const words = Buffer.from(authorization.replace('Basic ', ''), 'base64').toString();
  return words.split(':').map((word) => new URLSearchParams(`a=${word}`).get('a'));
}

function newKey(): Key {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const id = crypto.randomUUID();
  return { id, privateKey, jwk: { ...publicKey.export({ format: 'jwk' }), kid: id, use: 'sig', alg: 'RS256' } };
}

const port = (server: http.Server): number => (server.address() as AddressInfo).port;
