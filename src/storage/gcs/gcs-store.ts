// Buckets of Google Cloud Storage, accessed with its JSON API.
// Versions are generations, and an upload in parts is a resumable upload.
// https://cloud.google.com/storage/docs/json_api
import { sleep } from '../../core/clock.ts';
import { type HttpCall, HttpClient, httpAddress, type Reply, unavailable } from '../http-client.ts';
import {
  type Condition,
  type ObjectPart,
  type ObjectRange,
  type ObjectStore,
  STORE_CALLS,
  type StoredObject,
} from '../object-store.ts';

const FIRST_WAIT_MS = 200;
const SCOPE = 'https://www.googleapis.com/auth/devstorage.read_write';
/** The size of each request of an upload, except the last, must be a multiple of this, bytes. */
const CHUNK_BYTES = 256 * 1024;
/** Status of the response while an upload is incomplete. */
const INCOMPLETE = 308;

/**
 * Uses Google's Application Default Credentials: $GOOGLE_APPLICATION_CREDENTIALS, workload identity federation, or the
 * metadata server. If $STORAGE_EMULATOR_HOST is set, no credentials are used.
 * @throws SluiceError usage if the endpoint is not an address
 */
export async function openGcs(bucket: string, env: NodeJS.ProcessEnv): Promise<GcsStore> {
  const { STORAGE_EMULATOR_HOST: emulator } = env;
  if (emulator) {
    const address = emulator.includes('://') ? emulator : `http://${emulator}`;
    return new GcsStore(bucket, httpAddress('$STORAGE_EMULATOR_HOST', address), null);
  }
  const { GoogleAuth } = await import('google-auth-library');
  const auth = new GoogleAuth({ scopes: [SCOPE] });
  return new GcsStore(bucket, new URL('https://storage.googleapis.com'), async () => {
    try {
      return (await auth.getAccessToken()) ?? '';
    } catch (cause) {
      throw unavailable(`gs://${bucket}`, `no credentials: ${(cause as Error).message}`, cause, STORE_CALLS.code);
    }
  });
}

interface Upload {
  /** Number of bytes that the service has confirmed. */
  sent: number;
  /** Bytes of the last part that do not fill a chunk. */
  rest: Buffer;
  /** Resolves when all earlier parts have been sent. */
  turn: Promise<void>;
}

class GcsStore implements ObjectStore {
  readonly #bucket: string;
  readonly #endpoint: URL;
  readonly #http: HttpClient;
  /** The uploads in progress, by session URL. */
  readonly #uploads = new Map<string, Upload>();

  constructor(bucket: string, endpoint: URL, token: (() => Promise<string>) | null) {
    this.#bucket = bucket;
    this.#endpoint = endpoint;
    this.#http = new HttpClient(endpoint.protocol === 'https:', {
      ...STORE_CALLS,
      name: `gs://${bucket}`,
      ...(token ? { authorize: async () => ({ authorization: `Bearer ${await token()}` }) } : {}),
    });
  }

  async list(prefix: string): Promise<{ objects: StoredObject[] }> {
    const objects: StoredObject[] = [];
    let pageToken = '';
    do {
      const fields = 'items(name,size,generation),nextPageToken';
      const url = this.#url('', { prefix, fields, ...(pageToken ? { pageToken } : {}) });
      const { text } = this.#expect(await this.#http.text({ method: 'GET', url }), [200]);
      const page = JSON.parse(text) as { items?: Metadata[]; nextPageToken?: string };
      for (const item of page.items ?? []) objects.push({ key: item.name, ...versionOf(item) });
      pageToken = page.nextPageToken ?? '';
    } while (pageToken);
    return { objects };
  }

  async head(key: string): Promise<Omit<StoredObject, 'key'> | null> {
    const url = this.#url(key, { fields: 'name,size,generation' });
    const { status, text } = this.#expect(await this.#http.text({ method: 'GET', url }), [200, 404]);
    // A missing bucket has status 404 too, but must be distinguished from a missing object.
    if (status === 404) return text.includes('bucket does not exist') ? this.#refuse(404, text) : null;
    return versionOf(JSON.parse(text) as Metadata);
  }

  async read(
    key: string,
    { from, to, version }: { from: number; to: number | null; version: string },
  ): Promise<ObjectRange> {
    const url = this.#url(key, { alt: 'media', ifGenerationMatch: version });
    // Without gzip in Accept-Encoding, the service would decompress objects that are stored with this encoding.
    const headers = { range: `bytes=${from}-${to === null ? '' : to - 1}`, 'accept-encoding': 'gzip' };
    const reply = await this.#http.stream({ method: 'GET', url, headers });
    const { body, status, headers: found } = reply.body ? reply : this.#expect(reply, [404, 412, 416]);
    return { body, partial: status === 206, version: (found['x-goog-generation'] as string | undefined) ?? null };
  }

  async put(key: string, body: Uint8Array, condition?: Condition): Promise<'done' | 'refused' | 'unsure'> {
    const generation = condition && ('ifNone' in condition ? '0' : condition.ifMatch);
    const url = this.#uploadUrl(key, { uploadType: 'media', ...(generation ? { ifGenerationMatch: generation } : {}) });
    const call: HttpCall = { method: 'POST', url, headers: { 'content-type': OCTETS }, body };
    const reply = this.#expect(await this.#http.text(call), condition ? [200, 412] : [200]);
    if (reply.status === 200) return 'done';
    return reply.sent > 1 ? 'unsure' : 'refused';
  }

  async beginParts(key: string): Promise<string> {
    const url = this.#uploadUrl(key, { uploadType: 'resumable' });
    const headers = { 'x-upload-content-type': OCTETS, 'content-type': 'application/json' };
    const reply = this.#expect(await this.#http.text({ method: 'POST', url, headers, body: Buffer.from('{}') }), [200, 201]); // biome-ignore format: one line
    const session = new URL(reply.headers.location ?? '', this.#endpoint);
    // Emulators return a URL with their internal host name, so the host is replaced.
    session.protocol = this.#endpoint.protocol;
    session.host = this.#endpoint.host;
    this.#uploads.set(session.href, { sent: 0, rest: Buffer.alloc(0), turn: Promise.resolve() });
    return session.href;
  }

  async putPart(_key: string, session: string, part: number, body: Uint8Array): Promise<string> {
    const upload = this.#uploads.get(session)!;
    const turn = upload.turn.then(async () => {
      const bytes = Buffer.concat([upload.rest, body]);
      const whole = bytes.length - (bytes.length % CHUNK_BYTES);
      if (whole > 0) await this.#send(session, upload, bytes.subarray(0, whole), null);
      upload.rest = bytes.subarray(whole);
    });
    upload.turn = turn;
    turn.catch(() => {});
    await turn;
    return String(part);
  }

  /** Sends the last request, which contains the size of the object and thereby makes it visible. */
  async completeParts(key: string, session: string, _parts: readonly ObjectPart[]): Promise<void> {
    const upload = this.#uploads.get(session)!;
    await upload.turn;
    const before = await this.head(key);
    const total = upload.sent + upload.rest.length;
    try {
      await this.#send(session, upload, upload.rest, total);
    } catch (error) {
      // The request may have completed the object although its response was lost.
      const after = await this.head(key);
      if (after?.bytes !== total || after.version === before?.version) throw error;
    }
    this.#uploads.delete(session);
  }

  async abortParts(_key: string, session: string): Promise<void> {
    const upload = this.#uploads.get(session);
    this.#uploads.delete(session);
    await upload?.turn.catch(() => {});
    // 499: the session was cancelled.
    this.#expect(await this.#http.text({ method: 'DELETE', url: new URL(session) }), [200, 204, 404, 410, 499]);
  }

  async remove(key: string): Promise<void> {
    this.#expect(await this.#http.text({ method: 'DELETE', url: this.#url(key) }), [200, 204, 404]);
  }

  /** Sends bytes of an upload. `total`: size of the object; null: further requests follow. */
  async #send(session: string, upload: Upload, bytes: Uint8Array, total: number | null): Promise<void> {
    const end = upload.sent + bytes.length;
    let stored = upload.sent;
    for (let failures = 0; ; ) {
      let reply: Reply;
      try {
        reply = await this.#put(session, bytes.subarray(bytes.length - (end - stored)), stored, total);
      } catch (error) {
        if (++failures > STORE_CALLS.retries) throw error;
        await sleep(FIRST_WAIT_MS * 2 ** failures * (0.5 + Math.random()));
        // The request may have stored bytes although its response was lost, so the service is queried for their number.
        reply = await this.#put(session, null, stored, null);
      }
      if (reply.status !== INCOMPLETE) break;
      stored = storedBytes(reply);
      if (stored < upload.sent || stored > end) this.#refuse(reply.status, `${stored} bytes of the upload are stored`);
      if (stored === end && total === null) break;
    }
    upload.sent = end;
  }

  /** Sends bytes that start at offset `from` of the object. If `bytes` is null, queries the number of stored bytes. */
  async #put(session: string, bytes: Uint8Array | null, from: number, total: number | null): Promise<Reply> {
    const size = total ?? '*';
    const range = bytes?.length ? `bytes ${from}-${from + bytes.length - 1}/${size}` : `bytes */${size}`;
    const headers = { 'content-range': range, 'content-type': OCTETS };
    // A request with bytes is not repeated automatically, because a retry must start after the stored bytes.
    const repeatable = bytes === null;
    const body = bytes ?? new Uint8Array(0);
    const call: HttpCall = { method: 'PUT', url: new URL(session), headers, body, repeatable, accepts: INCOMPLETE };
    return this.#expect(await this.#http.text(call), [200, 201, INCOMPLETE]);
  }

  #url(key: string, query: Record<string, string> = {}): URL {
    return this.#address(`/storage/v1/b/${this.#bucket}/o${key === '' ? '' : `/${encodeURIComponent(key)}`}`, query);
  }

  #uploadUrl(name: string, query: Record<string, string>): URL {
    return this.#address(`/upload/storage/v1/b/${this.#bucket}/o`, { ...query, name });
  }

  #address(path: string, query: Record<string, string>): URL {
    const url = new URL(this.#endpoint);
    url.pathname = path;
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    return url;
  }

  #expect<R extends Reply>(reply: R, statuses: readonly number[]): R {
    return statuses.includes(reply.status) ? reply : this.#refuse(reply.status, messageOf(reply.text));
  }

  #refuse(status: number, message: string): never {
    throw unavailable(`gs://${this.#bucket}`, `it answered ${status} ${message}`.trim(), undefined, STORE_CALLS.code);
  }
}

/**
 * Number of stored bytes of an incomplete upload. The header is `bytes=0-LAST`; it is absent if no bytes are stored.
 */
const storedBytes = ({ headers: { range } }: Reply): number =>
  range === undefined ? 0 : Number(range.slice(range.lastIndexOf('-') + 1)) + 1;

const OCTETS = 'application/octet-stream';

interface Metadata {
  name: string;
  size?: string;
  generation?: string;
}

const versionOf = ({ size = '0', generation = '' }: Metadata): Omit<StoredObject, 'key'> => ({
  bytes: Number(size),
  version: generation,
});

function messageOf(text: string): string {
  try {
    return (JSON.parse(text) as { error?: { message?: string } }).error?.message ?? '';
  } catch {
    return text.slice(0, 200);
  }
}
