// The calls of an MLflow tracking server's REST interface that a package registry needs.

import type { Static, TSchema } from 'typebox';
import { Type } from 'typebox';
import { Value } from 'typebox/value';
import { epochMs } from '../../core/clock.ts';
import { type Download, type HttpCall, HttpClient, type Reply, unavailable } from '../../storage/http-client.ts';

export interface MlflowClientOptions {
  name: string;
  address: URL;
  /** Returns the value of the Authorization header. Called before each request. */
  authorization: () => string | undefined;
  timeoutMs: number;
  retries: number;
  caFile?: string | undefined;
}

const Tags = Type.Optional(Type.Array(Type.Object({ key: Type.String(), value: Type.String() })));
const ModelSchema = Type.Object({
  name: Type.String(),
  aliases: Type.Optional(Type.Array(Type.Object({ alias: Type.String(), version: Type.String() }))),
  tags: Tags,
});
const VersionSchema = Type.Object({
  name: Type.String(),
  version: Type.String(),
  creation_timestamp: Type.Integer(),
  source: Type.Optional(Type.String()),
  run_id: Type.Optional(Type.String()),
  status: Type.Optional(Type.String()),
  tags: Tags,
});
const Page = { next_page_token: Type.Optional(Type.String()) };
const RunSchema = Type.Object({ info: Type.Object({ run_id: Type.String(), artifact_uri: Type.String() }) });

export type MlflowModel = Static<typeof ModelSchema>;
export type MlflowVersion = Static<typeof VersionSchema>;
type MlflowRun = Static<typeof RunSchema>['info'];

/** Maximum number of retries if another client sets the same alias at the same time. */
const COLLISIONS = 5;

/** The server understood the request, but rejected it. */
export class MlflowRefusal extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

export class MlflowClient {
  readonly #http: HttpClient;
  readonly #options: MlflowClientOptions;

  constructor(options: MlflowClientOptions) {
    this.#options = options;
    const { name, timeoutMs, retries, caFile } = options;
    this.#http = new HttpClient(options.address.protocol === 'https:', {
      name,
      timeoutMs,
      retries,
      caFile,
      authorize: async (): Promise<Record<string, string>> => {
        const authorization = options.authorization();
        return authorization === undefined ? {} : { authorization };
      },
    });
  }

  close(): void {
    this.#http.close();
  }

  async models(): Promise<MlflowModel[]> {
    const schema = Type.Object({ ...Page, registered_models: Type.Optional(Type.Array(ModelSchema)) });
    return this.#pages(schema, 'registered-models/search', { max_results: '1000' }, (p) => p.registered_models);
  }

  async versions(filter?: string): Promise<MlflowVersion[]> {
    const schema = Type.Object({ ...Page, model_versions: Type.Optional(Type.Array(VersionSchema)) });
    const query = { max_results: '10000', ...(filter === undefined ? {} : { filter }) };
    return this.#pages(schema, 'model-versions/search', query, (p) => p.model_versions);
  }

  async model(name: string): Promise<MlflowModel | null> {
    const schema = Type.Object({ registered_model: ModelSchema });
    return (await orNull(this.#get(schema, 'registered-models/get', { name })))?.registered_model ?? null;
  }

  /** The location of a version's artifacts; null if the version does not exist. */
  async downloadUri(name: string, version: string): Promise<string | null> {
    const schema = Type.Object({ artifact_uri: Type.String() });
    return (
      (await orNull(this.#get(schema, 'model-versions/get-download-uri', { name, version })))?.artifact_uri ?? null
    );
  }

  async createModel(name: string): Promise<void> {
    await orExists(this.#send('POST', 'registered-models/create', { name }));
  }

  /** The id of the experiment. Creates the experiment if it does not exist. */
  async experiment(name: string): Promise<string> {
    const schema = Type.Object({ experiment: Type.Object({ experiment_id: Type.String() }) });
    const get = () => orNull(this.#get(schema, 'experiments/get-by-name', { experiment_name: name }));
    const found = await get();
    if (found) return found.experiment.experiment_id;
    await orExists(this.#send('POST', 'experiments/create', { name }));
    return (await get())?.experiment.experiment_id ?? '';
  }

  async createRun(experimentId: string, runName: string): Promise<MlflowRun> {
    const body = { experiment_id: experimentId, run_name: runName, start_time: epochMs() };
    return this.#read(Type.Object({ run: RunSchema }), await this.#send('POST', 'runs/create', body, false)).run.info;
  }

  async endRun(runId: string, status: 'FINISHED' | 'FAILED'): Promise<void> {
    await this.#send('POST', 'runs/update', { run_id: runId, status, end_time: epochMs() });
  }

  /**
   * Creates a version. Returns the number that the server assigned. The request is never repeated, because two requests
   * would create two versions.
   */
  async createVersion(name: string, source: string, runId: string, tags: Record<string, string>): Promise<string> {
    const list = Object.entries(tags).map(([key, value]) => ({ key, value }));
    const schema = Type.Object({ model_version: VersionSchema });
    const body = { name, source, run_id: runId, tags: list };
    return this.#read(schema, await this.#send('POST', 'model-versions/create', body, false)).model_version.version;
  }

  async deleteVersion(name: string, version: string): Promise<void> {
    await orNull(this.#send('DELETE', 'model-versions/delete', { name, version }));
  }

  async tagVersion(name: string, version: string, key: string, value: string): Promise<void> {
    await this.#send('POST', 'model-versions/set-tag', { name, version, key, value });
  }

  async tagModel(name: string, key: string, value: string): Promise<void> {
    await this.#send('POST', 'registered-models/set-tag', { name, key, value });
  }

  async setAlias(name: string, alias: string, version: string | null): Promise<void> {
    if (version === null) {
      await this.#send('DELETE', 'registered-models/alias', { name, alias });
      return;
    }
    for (let tried = 1; ; tried++) {
      try {
        await this.#send('POST', 'registered-models/alias', { name, alias, version });
        return;
      } catch (error) {
        // MLflow first looks for the alias and then inserts it. Of two concurrent inserts, its database therefore
        // rejects one.
        const collided = error instanceof MlflowRefusal && /IntegrityError|UniqueViolation/i.test(error.message);
        if (!collided || tried > COLLISIONS) throw error;
      }
    }
  }

  /** Names of the files and folders directly in an artifact folder; empty if the folder does not exist. */
  async listArtifacts(folder: string): Promise<{ path: string; folder: boolean }[]> {
    const schema = Type.Object({
      files: Type.Optional(Type.Array(Type.Object({ path: Type.String(), is_dir: Type.Optional(Type.Boolean()) }))),
    });
    const url = this.#url('mlflow-artifacts/artifacts', { path: folder });
    const reply = await orNull(this.#http.text({ method: 'GET', url }).then((r) => this.#expect(r)));
    const { files = [] } = reply ? this.#read(schema, reply) : {};
    return files.map((f) => ({ path: f.path, folder: f.is_dir === true }));
  }

  async downloadArtifact(artifact: string, file: string): Promise<Download> {
    return this.#expect(await this.#http.download({ method: 'GET', url: this.#artifact(artifact) }, file));
  }

  async uploadArtifact(artifact: string, body: NonNullable<HttpCall['body']>): Promise<void> {
    this.#expect(await this.#http.text({ method: 'PUT', url: this.#artifact(artifact), body }));
  }

  #artifact(artifact: string): URL {
    const encoded = artifact.split('/').map(encodeURIComponent).join('/');
    return this.#url(`mlflow-artifacts/artifacts/${encoded}`);
  }

  #url(below: string, query: Record<string, string> = {}): URL {
    const { href } = this.#options.address;
    const base = href.endsWith('/') ? href : `${href}/`;
    const url = new URL(`api/2.0/${below}`, base);
    for (const [k, v] of Object.entries(query)) url.searchParams.set(k, v);
    return url;
  }

  async #pages<S extends TSchema, T>(
    schema: S,
    below: string,
    query: Record<string, string>,
    items: (page: Static<S>) => T[] | undefined,
  ): Promise<T[]> {
    const all: T[] = [];
    let token: string | undefined;
    do {
      const page = await this.#get(schema, below, { ...query, ...(token ? { page_token: token } : {}) });
      all.push(...(items(page) ?? []));
      token = (page as { next_page_token?: string }).next_page_token;
    } while (token);
    return all;
  }

  async #get<S extends TSchema>(schema: S, below: string, query: Record<string, string>): Promise<Static<S>> {
    const reply = await this.#http.text({ method: 'GET', url: this.#url(`mlflow/${below}`, query) });
    return this.#read(schema, this.#expect(reply));
  }

  async #send(method: 'POST' | 'DELETE', below: string, body: object, repeatable = true): Promise<Reply> {
    const url = this.#url(`mlflow/${below}`);
    const headers = { 'content-type': 'application/json' };
    const call: HttpCall = { method, url, headers, body: Buffer.from(JSON.stringify(body)), repeatable };
    return this.#expect(await this.#http.text(call));
  }

  #read<S extends TSchema>(schema: S, reply: Reply): Static<S> {
    let value: unknown;
    try {
      value = JSON.parse(reply.text);
    } catch {
      value = undefined;
    }
    if (Value.Check(schema, value)) return value as Static<S>;
    throw unavailable(this.#options.name, 'the response is not that of an MLflow server');
  }

  /** @throws MlflowRefusal: a rejection that the caller can handle | SluiceError registry_unavailable */
  #expect<R extends Reply>(reply: R): R {
    if (reply.status < 300) return reply;
    let refusal: { error_code?: unknown; message?: unknown } = {};
    try {
      refusal = JSON.parse(reply.text);
    } catch {
      // Not every response is JSON, so the text is used below.
    }
    const message = typeof refusal?.message === 'string' ? refusal.message : reply.text.slice(0, 200);
    const code = refusal?.error_code;
    if (typeof code === 'string' && reply.status !== 401 && reply.status !== 403)
      throw new MlflowRefusal(code, message);
    throw unavailable(this.#options.name, `it responded with ${reply.status} ${message}`.trim());
  }
}

/** Returns null if the object does not exist. */
async function orNull<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof MlflowRefusal && error.code === 'RESOURCE_DOES_NOT_EXIST') return null;
    throw error;
  }
}

/** Ignores the error that the object already exists. */
async function orExists(call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof MlflowRefusal && error.code === 'RESOURCE_ALREADY_EXISTS')) throw error;
  }
}
