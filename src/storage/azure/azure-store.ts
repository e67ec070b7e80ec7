// Containers of Azure Blob Storage: signed requests, block blobs, listings.
// https://learn.microsoft.com/rest/api/storageservices/blob-service-rest-api
import { createHmac, randomBytes } from 'node:crypto';
import { epochMs } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { type HttpCall, HttpClient, httpAddress, type Reply, unavailable } from '../http-client.ts';
import {
  type Condition,
  type ObjectPart,
  type ObjectRange,
  type ObjectStore,
  STORE_CALLS,
  type StoredObject,
} from '../object-store.ts';
import { elements, tag } from '../xml.ts';
import { accessTokens, type TokenSource } from './azure-tokens.ts';

const API_VERSION = '2023-11-03';

type Env = NodeJS.ProcessEnv;

interface Account {
  name: string;
  /** The URL of the account. For emulators, its path contains the account name. */
  endpoint: URL;
  /** How requests are authorised: with a shared key, a shared access signature, or access tokens. */
  login: { key: Buffer } | { sas: URLSearchParams } | { tokens: TokenSource };
}

/**
 * Reads $AZURE_STORAGE_CONNECTION_STRING, or $AZURE_STORAGE_ACCOUNT with $AZURE_STORAGE_KEY, $AZURE_STORAGE_SAS_TOKEN
 * or an identity, in the same way as the tools of Azure.
 * @throws SluiceError usage
 */
export function openAzure(container: string, env: Env): AzureStore {
  return new AzureStore(container, accountOf(env), env.SSL_CERT_FILE);
}

function accountOf(env: Env): Account {
  const { AZURE_STORAGE_CONNECTION_STRING: connection } = env;
  if (connection) return accountOfConnection(connection);
  const name = env.AZURE_STORAGE_ACCOUNT ?? env.AZURE_STORAGE_ACCOUNT_NAME;
  const configured = env.AZURE_STORAGE_ENDPOINT ?? env.AZURE_STORAGE_SERVICE_ENDPOINT;
  if (!name) {
    throw new SluiceError('usage', 'az:// needs $AZURE_STORAGE_ACCOUNT or $AZURE_STORAGE_CONNECTION_STRING');
  }
  const endpoint = addressOf(configured ?? `https://${name}.blob.core.windows.net`);
  const { AZURE_STORAGE_KEY: key, AZURE_STORAGE_ACCOUNT_KEY: accountKey, AZURE_STORAGE_SAS_TOKEN: sas } = env;
  if (key || accountKey) return { name, endpoint, login: { key: Buffer.from((key || accountKey)!, 'base64') } };
  if (sas) return { name, endpoint, login: { sas: new URLSearchParams(sas.replace(/^\?/, '')) } };
  return { name, endpoint, login: { tokens: accessTokens(env) } };
}

function accountOfConnection(connection: string): Account {
  const settings = new Map(
    connection.split(';').flatMap((part): [string, string][] => {
      const at = part.indexOf('=');
      return at < 0 ? [] : [[part.slice(0, at).trim().toLowerCase(), part.slice(at + 1).trim()]];
    }),
  );
  const name = settings.get('accountname') ?? '';
  const scheme = settings.get('defaultendpointsprotocol') ?? 'https';
  const suffix = settings.get('endpointsuffix') ?? 'core.windows.net';
  const endpoint = addressOf(settings.get('blobendpoint') ?? `${scheme}://${name}.blob.${suffix}`);
  const [key, sas] = [settings.get('accountkey'), settings.get('sharedaccesssignature')];
  if (key && name) return { name, endpoint, login: { key: Buffer.from(key, 'base64') } };
  if (sas) return { name, endpoint, login: { sas: new URLSearchParams(sas.replace(/^\?/, '')) } };
  throw new SluiceError('usage', '$AZURE_STORAGE_CONNECTION_STRING has neither AccountKey nor SharedAccessSignature');
}

const addressOf = (text: string): URL => httpAddress('the endpoint of the Azure storage account', text);

/** A container. If an upload is not completed, the service removes its blocks after a week. */
class AzureStore implements ObjectStore {
  readonly #container: string;
  readonly #account: Account;
  readonly #http: HttpClient;

  constructor(container: string, account: Account, caFile?: string) {
    this.#container = container;
    this.#account = account;
    this.#http = new HttpClient(account.endpoint.protocol === 'https:', {
      ...STORE_CALLS,
      name: `az://${container}`,
      caFile,
      authorize: (call) => this.#authorize(call),
    });
  }

  async list(prefix: string): Promise<{ objects: StoredObject[] }> {
    const objects: StoredObject[] = [];
    let marker = '';
    do {
      const url = this.#url('', { restype: 'container', comp: 'list', prefix, ...(marker ? { marker } : {}) });
      const { text } = this.#expect(await this.#http.text({ method: 'GET', url }), [200]);
      for (const blob of elements(text, 'Blob')) {
        const key = nameOf(blob);
        objects.push({ key, version: quoted(tag(blob, 'Etag')), bytes: Number(tag(blob, 'Content-Length')) });
      }
      marker = tag(text, 'NextMarker');
    } while (marker);
    return { objects };
  }

  async head(key: string): Promise<Omit<StoredObject, 'key'> | null> {
    const reply = await this.#http.text({ method: 'HEAD', url: this.#url(key) });
    const { status, headers } = this.#expect(reply, [200, 404], missingBlob);
    return status === 404 ? null : { bytes: Number(headers['content-length']), version: quoted(headers.etag ?? '') };
  }

  async read(
    key: string,
    { from, to, version }: { from: number; to: number | null; version: string },
  ): Promise<ObjectRange> {
    const headers = { range: `bytes=${from}-${to === null ? '' : to - 1}`, 'if-match': version };
    const reply = await this.#http.stream({ method: 'GET', url: this.#url(key), headers });
    const { body, status, headers: found } = reply.body ? reply : this.#expect(reply, [404, 412, 416]);
    return { body, partial: status === 206, version: found.etag === undefined ? null : quoted(found.etag) };
  }

  async put(key: string, body: Uint8Array, condition?: Condition): Promise<'done' | 'refused' | 'unsure'> {
    const headers: Record<string, string> = { 'x-ms-blob-type': 'BlockBlob', 'content-type': OCTETS };
    if (condition && 'ifNone' in condition) headers['if-none-match'] = '*';
    else if (condition) headers['if-match'] = condition.ifMatch;
    const call: HttpCall = { method: 'PUT', url: this.#url(key), headers, body };
    const reply = this.#expect(await this.#http.text(call), condition ? [201, 404, 409, 412] : [201], missingBlob);
    if (reply.status === 201) return 'done';
    return reply.sent > 1 ? 'unsure' : 'refused';
  }

  /** Only creates a prefix for block IDs, because an upload needs no request before its first block. */
  async beginParts(): Promise<string> {
    return randomBytes(12).toString('hex');
  }

  async putPart(key: string, upload: string, part: number, body: Uint8Array): Promise<string> {
    // All block IDs of a blob must have the same length.
    const id = Buffer.from(`${upload}-${String(part).padStart(6, '0')}`).toString('base64');
    const url = this.#url(key, { comp: 'block', blockid: id });
    this.#expect(await this.#http.text({ method: 'PUT', url, body }), [201]);
    return id;
  }

  async completeParts(key: string, _upload: string, parts: readonly ObjectPart[]): Promise<void> {
    const blocks = parts.map(({ etag }) => `<Latest>${etag}</Latest>`).join('');
    const body = Buffer.from(`<?xml version="1.0" encoding="utf-8"?><BlockList>${blocks}</BlockList>`);
    const headers = { 'content-type': 'application/xml', 'x-ms-blob-content-type': OCTETS };
    this.#expect(await this.#http.text({ method: 'PUT', url: this.#url(key, { comp: 'blocklist' }), headers, body }), [201]); // biome-ignore format: one line
  }

  /** Does nothing: Azure has no request for this, and the service removes uncommitted blocks. */
  async abortParts(): Promise<void> {}

  async remove(key: string): Promise<void> {
    this.#expect(await this.#http.text({ method: 'DELETE', url: this.#url(key) }), [202, 404], missingBlob);
  }

  #url(key: string, query: Record<string, string> = {}): URL {
    const { endpoint, login } = this.#account;
    const url = new URL(endpoint);
    const path = [this.#container, ...(key === '' ? [] : key.split('/'))].map(encodeURIComponent).join('/');
    url.pathname = `${url.pathname.replace(/\/$/, '')}/${path}`;
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    if ('sas' in login) for (const [name, value] of login.sas) url.searchParams.set(name, value);
    return url;
  }

  async #authorize(call: HttpCall): Promise<Record<string, string>> {
    const { login, name } = this.#account;
    const versioned = { 'x-ms-version': API_VERSION, 'x-ms-date': new Date(epochMs()).toUTCString() };
    if ('sas' in login) return versioned;
    if ('tokens' in login) return { ...versioned, authorization: `Bearer ${await login.tokens()}` };
    const signature = createHmac('sha256', login.key)
      .update(textToSign(call, versioned, name))
      .digest('base64');
    return { ...versioned, authorization: `SharedKey ${name}:${signature}` };
  }

  #expect<R extends Reply>(reply: R, statuses: readonly number[], missing?: (reply: Reply) => boolean): R {
    const { status, text, headers } = reply;
    if (statuses.includes(status) && (status !== 404 || !missing || missing(reply))) return reply;
    const code = String(headers['x-ms-error-code'] ?? tag(text, 'Code'));
    const message = tag(text, 'Message').split('\n')[0] ?? '';
    const why = `it answered ${status} ${code} ${message}`.trim();
    throw unavailable(`az://${this.#container}`, why, undefined, STORE_CALLS.code);
  }
}

const OCTETS = 'application/octet-stream';

/** The name of a blob in a listing. A name with characters that XML does not allow is percent-encoded. */
function nameOf(blob: string): string {
  const [, encoded] = blob.split('<Name Encoded="true">');
  return encoded === undefined ? tag(blob, 'Name') : decodeURIComponent(encoded.slice(0, encoded.indexOf('<')));
}

/** Whether the blob is missing, and not its container. */
const missingBlob = ({ headers }: Reply): boolean => headers['x-ms-error-code'] !== 'ContainerNotFound';

/** Adds quotes to an ETag, because listings return ETags without quotes. */
const quoted = (etag: string): string => (etag === '' || etag.startsWith('"') ? etag : `"${etag}"`);

/** The text to sign; see https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key */
function textToSign(
  { method, url, headers = {}, body }: HttpCall,
  versioned: Record<string, string>,
  account: string,
): string {
  const all = new Map(Object.entries({ ...headers, ...versioned }).map(([name, value]) => [name.toLowerCase(), value]));
  const of = (name: string): string => all.get(name) ?? '';
  const bytes = body === undefined ? 0 : body instanceof Uint8Array ? body.length : body.bytes;
  const own = [...all].filter(([name]) => name.startsWith('x-ms-')).sort(([a], [b]) => (a < b ? -1 : 1));
  const query = [...new Set(url.searchParams.keys())].sort();
  const lines = [
    method,
    of('content-encoding'),
    of('content-language'),
    bytes === 0 ? '' : String(bytes),
    of('content-md5'),
    of('content-type'),
    '',
    of('if-modified-since'),
    of('if-match'),
    of('if-none-match'),
    of('if-unmodified-since'),
    of('range'),
    ...own.map(([name, value]) => `${name}:${value}`),
    `/${account}${url.pathname}`,
    ...query.map((name) => `${name.toLowerCase()}:${url.searchParams.getAll(name).sort().join(',')}`),
  ];
  return lines.join('\n');
}
