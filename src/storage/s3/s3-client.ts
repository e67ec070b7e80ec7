// Objects of a bucket: signed requests, conditional writes, listings.
import { createHash } from 'node:crypto';
import { AwsV4Signer } from 'aws4fetch';
import { type Download, type HttpCall, HttpClient, type OutageCode, type Reply, unavailable } from '../http-client.ts';
import type { Condition, ObjectPart, ObjectRange, ObjectStore } from '../object-store.ts';
import { elements, tag } from '../xml.ts';
import type { CredentialSource } from './renewed-credentials.ts';

export interface S3ClientOptions {
  name: string;
  /** URL of the server, without the bucket. */
  endpoint: URL;
  bucket: string;
  region: string;
  pathStyle: boolean;
  credentials: CredentialSource;
  timeoutMs: number;
  retries: number;
  caFile?: string | undefined;
  /** See `HttpClientOptions`. */
  code?: OutageCode;
}

export interface S3Object {
  key: string;
  /** The ETag. */
  version: string;
  bytes: number;
}

const EMPTY = createHash('sha256').update('').digest('hex');

export class S3Client implements ObjectStore {
  readonly #http: HttpClient;
  readonly #options: S3ClientOptions;

  constructor(options: S3ClientOptions) {
    this.#options = options;
    const { name, timeoutMs, retries, caFile, code } = options;
    const authorize = (call: HttpCall) => this.#sign(call);
    this.#http = new HttpClient(options.endpoint.protocol === 'https:', {
      name,
      timeoutMs,
      retries,
      caFile,
      authorize,
      ...(code ? { code } : {}),
    });
  }

  close(): void {
    this.#http.close();
  }

  /**
   * Lists the objects whose keys start with `prefix`. If `delimiter` is given, also lists the folders directly below
   * `prefix`. Keys are requested without encoding, because with `encoding-type=url` some servers also encode the
   * continuation token.
   */
  async list(prefix: string, delimiter?: '/'): Promise<{ objects: S3Object[]; folders: string[] }> {
    const objects: S3Object[] = [];
    const folders: string[] = [];
    let token: string | undefined;
    do {
      const url = this.#url('');
      const query = { 'list-type': '2', prefix, ...(delimiter ? { delimiter } : {}) };
      for (const [k, v] of Object.entries(query)) url.searchParams.set(k, v);
      if (token !== undefined) url.searchParams.set('continuation-token', token);
      const reply = this.#expect(await this.#text({ method: 'GET', url }), [200]);
      for (const item of elements(reply.text, 'Contents')) {
        objects.push({ key: tag(item, 'Key'), version: tag(item, 'ETag'), bytes: Number(tag(item, 'Size')) });
      }
      for (const item of elements(reply.text, 'CommonPrefixes')) folders.push(tag(item, 'Prefix'));
      token = tag(reply.text, 'IsTruncated') === 'true' ? tag(reply.text, 'NextContinuationToken') : undefined;
    } while (token);
    return { objects, folders };
  }

  /** The contents of an object as text; null: the object does not exist. */
  async get(key: string): Promise<{ text: string; etag: string } | null> {
    const reply = this.#expect(await this.#text({ method: 'GET', url: this.#url(key) }), [200, 404]);
    return reply.status === 404 ? null : { text: reply.text, etag: reply.headers.etag ?? '' };
  }

  /** Downloads an object into a new file. null: the object does not exist. */
  async download(key: string, file: string): Promise<Download | null> {
    const reply = this.#expect(
      await this.#unexpired(() => this.#http.download({ method: 'GET', url: this.#url(key) }, file)),
      [200, 404],
    );
    return reply.status === 404 ? null : reply;
  }

  /**
   * Writes an object. `refused`: the condition is not met. `unsure`: the condition is not met, but the request was sent
   * more than once, so an earlier attempt may have written the object.
   */
  async put(
    key: string,
    body: Uint8Array | { file: string; bytes: number; sha256: string },
    condition?: Condition,
    metadata: Record<string, string> = {},
  ): Promise<'done' | 'refused' | 'unsure'> {
    const sha256 = body instanceof Uint8Array ? createHash('sha256').update(body).digest('hex') : body.sha256;
    const headers: Record<string, string> = { ...metadata, 'x-amz-content-sha256': sha256 };
    if (condition) Object.assign(headers, 'ifNone' in condition ? IF_NONE : { 'if-match': condition.ifMatch });
    const call: HttpCall = { method: 'PUT', url: this.#url(key), headers, body };
    // 409 means a concurrent conditional write. 404 means that the object to match no longer exists.
    const reply = this.#expect(await this.#text(call), condition ? [200, 404, 409, 412] : [200]);
    if (reply.status === 404 && tag(reply.text, 'Code') !== 'NoSuchKey') this.#expect(reply, [200]);
    if (reply.status === 200) return 'done';
    return reply.sent > 1 ? 'unsure' : 'refused';
  }

  /** Size and version; null: the object does not exist. */
  async head(key: string): Promise<{ bytes: number; version: string } | null> {
    const reply = this.#expect(await this.#text({ method: 'HEAD', url: this.#url(key) }), [200, 404]);
    if (reply.status === 404) return null;
    return { bytes: Number(reply.headers['content-length']), version: reply.headers.etag ?? '' };
  }

  async read(
    key: string,
    { from, to, version }: { from: number; to: number | null; version: string },
  ): Promise<ObjectRange> {
    const headers = { range: `bytes=${from}-${to === null ? '' : to - 1}`, 'if-match': version };
    const reply = await this.#unexpired(() => this.#http.stream({ method: 'GET', url: this.#url(key), headers }));
    const { body, status } = reply.body ? reply : this.#expect(reply, [404, 412, 416]);
    // A server that ignores If-Match returns the version that it sends, so the caller can compare it.
    return { body, partial: status === 206, version: reply.headers.etag ?? null };
  }

  /** Starts a multipart upload, which is not visible until it is completed. Returns its ID. */
  async beginParts(key: string): Promise<string> {
    const url = this.#url(key);
    url.searchParams.set('uploads', '');
    const reply = this.#expect(await this.#text({ method: 'POST', url, repeatable: true }), [200]);
    return tag(reply.text, 'UploadId');
  }

  /** Uploads part `part` (counted from 1) and returns its ETag. */
  async putPart(key: string, upload: string, part: number, body: Uint8Array): Promise<string> {
    const url = this.#url(key);
    url.searchParams.set('partNumber', String(part));
    url.searchParams.set('uploadId', upload);
    const headers = { 'x-amz-content-sha256': createHash('sha256').update(body).digest('hex') };
    return this.#expect(await this.#text({ method: 'PUT', url, headers, body }), [200]).headers.etag ?? '';
  }

  /** Publishes the object, which consists of these parts in order. S3 can report an error with status 200. */
  async completeParts(key: string, upload: string, made: readonly ObjectPart[]): Promise<void> {
    const before = (await this.head(key))?.version;
    const url = this.#url(key);
    url.searchParams.set('uploadId', upload);
    const parts = made.map(
      ({ part, etag }) => `<Part><PartNumber>${part}</PartNumber><ETag>${etag.replaceAll('"', '&quot;')}</ETag></Part>`,
    );
    const body = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`);
    const headers = { 'x-amz-content-sha256': createHash('sha256').update(body).digest('hex') };
    const reply = await this.#text({ method: 'POST', url, headers, body });
    // If the upload no longer exists after several attempts, an earlier attempt may have succeeded. A new version of
    // the object proves this.
    const after = reply.status === 404 && reply.sent > 1 ? (await this.head(key))?.version : undefined;
    if (after !== undefined && after !== before) return;
    this.#expect(reply, [200]);
    const code = tag(reply.text, 'Code');
    if (code !== '') throw unavailable(this.#options.name, `it answered ${code}`, undefined, this.#options.code);
  }

  async abortParts(key: string, upload: string): Promise<void> {
    const url = this.#url(key);
    url.searchParams.set('uploadId', upload);
    this.#expect(await this.#text({ method: 'DELETE', url }), [200, 204, 404]);
  }

  async remove(key: string): Promise<void> {
    this.#expect(await this.#text({ method: 'DELETE', url: this.#url(key) }), [200, 204, 404]);
  }

  #url(key: string): URL {
    const { endpoint, bucket, pathStyle } = this.#options;
    const url = new URL(endpoint);
    const base = url.pathname.replace(/\/$/, '');
    const encoded = key.split('/').map(encodeSegment).join('/');
    if (!pathStyle) url.hostname = `${bucket}.${url.hostname}`;
    url.pathname = pathStyle ? `${base}/${bucket}${key === '' ? '' : `/${encoded}`}` : `${base}/${encoded}`;
    return url;
  }

  async #sign(call: HttpCall): Promise<Record<string, string>> {
    const { accessKeyId, secretAccessKey, sessionToken } = await this.#options.credentials();
    const signer = new AwsV4Signer({
      accessKeyId,
      secretAccessKey,
      ...(sessionToken ? { sessionToken } : {}),
      method: call.method,
      url: call.url.href,
      headers: { 'x-amz-content-sha256': EMPTY, ...call.headers },
      service: 's3',
      region: this.#options.region,
    });
    const { headers } = await signer.sign();
    return Object.fromEntries(headers as unknown as Iterable<[string, string]>);
  }

  #text(call: HttpCall): Promise<Reply> {
    return this.#unexpired(() => this.#http.text(call), call.method === 'HEAD');
  }

  /**
   * Sends a request. If the server reports expired keys, sends it once more with new keys: keys can become invalid
   * early, for example if a session is revoked or a clock is wrong.
   */
  async #unexpired<R extends Reply>(send: () => Promise<R>, wordless = false): Promise<R> {
    const used = await this.#options.credentials();
    const reply = await send();
    if (reply.status !== 400 && reply.status !== 403) return reply;
    if (!EXPIRED.has(tag(reply.text, 'Code')) && !(wordless && reply.status === 400)) return reply;
    const { sessionToken, accessKeyId } = await this.#options.credentials('renew');
    return sessionToken === used.sessionToken && accessKeyId === used.accessKeyId ? reply : send();
  }

  #expect<R extends Reply>(reply: R, statuses: readonly number[]): R {
    const code = reply.status === 200 ? '' : tag(reply.text, 'Code');
    if (statuses.includes(reply.status) && code !== 'NoSuchBucket') return reply;
    const message = tag(reply.text, 'Message') || reply.text.slice(0, 200);
    throw unavailable(
      this.#options.name,
      `it answered ${reply.status} ${code} ${message}`.trim(),
      undefined,
      this.#options.code,
    );
  }
}

/** Error codes for expired keys. */
const EXPIRED = new Set(['ExpiredToken', 'ExpiredTokenException', 'TokenRefreshRequired', 'InvalidToken']);
const IF_NONE = { 'if-none-match': '*' };

/** Encodes a path segment. For signatures, the characters !'()* must be encoded too. */
const encodeSegment = (segment: string): string =>
  encodeURIComponent(segment).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
