// What the services of AWS answer to whoever asks for keys and for parts of an object: by their documentation, on a port of this machine.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { epochMs } from '../../src/core/clock.ts';

export interface LentKeys {
  id: string;
  token: string;
  expiresAt: number;
}

interface Called {
  what: string;
  /** Who asked: what proved it, or the key a call was signed with. */
  by: string;
}

/** Lends keys by web identity (STS), to a container and to an instance (IMDSv2), and takes objects of those who have one of them. */
export class AwsEndpoints implements AsyncDisposable {
  readonly calls: Called[] = [];
  readonly lent: LentKeys[] = [];
  readonly objects = new Map<string, Buffer>();
  /** Of the next keys, milliseconds. */
  life = 3600_000;
  /** Answers instead of keys: status and body. */
  refusal: [number, string] | null = null;
  /** Keys that storage takes for ended, whatever was said when they were lent. */
  readonly revoked = new Set<string>();
  readonly #uploads = new Map<string, Map<number, Buffer>>();
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async open(): Promise<AwsEndpoints> {
    const server = createServer();
    const endpoints = new AwsEndpoints(server);
    server.on('request', (request, response) => void endpoints.#answer(request, response));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return endpoints;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const url = new URL(request.url!, this.url);
    const [status, text, headers] = this.#route(request, url, body);
    response.writeHead(status, { ...headers, 'content-length': String(text.length) });
    response.end(request.method === 'HEAD' ? undefined : text);
  }

  #route(request: IncomingMessage, url: URL, body: Buffer): [number, string | Buffer, Record<string, string>?] {
    const { method, headers } = request;
    const header = (name: string) => String(headers[name] ?? '');
    if (url.pathname === '/latest/api/token') {
      this.calls.push({ what: 'IMDS token', by: header('x-aws-ec2-metadata-token-ttl-seconds') });
      return method === 'PUT' ? [200, 'session-of-imds'] : [405, ''];
    }
    if (url.pathname.startsWith('/latest/meta-data/iam/security-credentials/')) {
      this.calls.push({ what: 'IMDS', by: header('x-aws-ec2-metadata-token') });
      if (header('x-aws-ec2-metadata-token') !== 'session-of-imds') return [401, ''];
      return url.pathname.endsWith('/') ? [200, 'scoring-role'] : this.#keys('json');
    }
    if (url.pathname === '/v1/credentials') {
      this.calls.push({ what: 'container', by: header('authorization') });
      return this.#keys('json');
    }
    if (method === 'POST' && url.pathname === '/') {
      const form = new URLSearchParams(body.toString());
      const [action, role, token] = ['Action', 'RoleArn', 'WebIdentityToken'].map((name) => form.get(name));
      this.calls.push({ what: `${action} ${role}`, by: token ?? '' });
      return this.#keys('xml');
    }
    return this.#storage(request, url, body);
  }

  #keys(as: 'json' | 'xml'): [number, string, Record<string, string>] {
    const type = { 'content-type': as === 'json' ? 'application/json' : 'text/xml' };
    if (this.refusal) return [...this.refusal, type];
    const keys = {
      id: `AKIA${this.lent.length}`,
      token: `token-${this.lent.length}`,
      expiresAt: epochMs() + this.life,
    };
    this.lent.push(keys);
    const end = new Date(keys.expiresAt).toISOString();
    if (as === 'json') {
      const said = { Code: 'Success', Type: 'AWS-HMAC', AccessKeyId: keys.id, SecretAccessKey: 'secret' };
      return [200, JSON.stringify({ ...said, Token: keys.token, Expiration: end }), type];
    }
    const credentials = `<AccessKeyId>${keys.id}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>${keys.token}</SessionToken><Expiration>${end}</Expiration>`; // biome-ignore format: one line
    return [200, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>${credentials}</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, type]; // biome-ignore format: one line
  }

  #storage(
    { method, headers }: IncomingMessage,
    url: URL,
    body: Buffer,
  ): [number, string | Buffer, Record<string, string>?] {
    const id = /Credential=([^/]+)\//.exec(headers.authorization ?? '')?.[1] ?? '';
    const query = url.searchParams;
    this.calls.push({ what: `${method} part ${query.get('partNumber') ?? '-'}`, by: id });
    const keys = this.lent.find((k) => k.id === id);
    if (!keys || keys.token !== headers['x-amz-security-token']) return [403, error('InvalidAccessKeyId')];
    if (this.revoked.has(id)) return [400, error('ExpiredToken')];
    const upload = query.get('uploadId') ?? '';
    const parts = this.#uploads.get(upload);
    if (method === 'POST' && query.has('uploads')) {
      const name = `upload-${this.#uploads.size}`;
      this.#uploads.set(name, new Map());
      return [200, `<InitiateMultipartUploadResult><UploadId>${name}</UploadId></InitiateMultipartUploadResult>`];
    }
    if (method === 'PUT') {
      if (parts) parts.set(Number(query.get('partNumber')), body);
      else this.objects.set(url.pathname, body);
      return [200, '', { etag: `"${body.length}"` }];
    }
    if (method === 'POST' && parts) {
      this.objects.set(url.pathname, Buffer.concat([...parts].sort(([a], [b]) => a - b).map(([, part]) => part)));
      return [200, '<CompleteMultipartUploadResult/>'];
    }
    const stored = this.objects.get(url.pathname);
    if (!stored) return [404, error('NoSuchKey')];
    const etag = { etag: `"${stored.length}"` };
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') ?? [];
    if (from === undefined || method === 'HEAD') return [200, stored, etag];
    return [206, stored.subarray(Number(from), to ? Number(to) + 1 : undefined), etag];
  }
}

const error = (code: string): string => `<Error><Code>${code}</Code><Message>as documented</Message></Error>`;
