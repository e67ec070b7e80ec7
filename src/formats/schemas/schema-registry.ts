// A client of the Confluent schema registry API.
// Reads schemas by ID or version, with their references, and registers the schema of predictions.
import type { ConnectionOptions } from 'node:tls';
import { sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { type JsonAnswer, requestJson } from '../../core/http-json.ts';

export type SchemaType = 'AVRO' | 'JSON' | 'PROTOBUF';

interface SchemaRegistryOptions {
  /** Base address, such as https://registry:8081. */
  url: string;
  /** Returns the Authorization header; null: none. Called for every request, because tokens are renewed. */
  authorization?: () => Promise<string | null>;
  tls?: ConnectionOptions;
  /** Timeout for a response, ms. Default: 5,000. */
  timeoutMs?: number;
}

/** A schema and the schemas that it references. `name`: the name that the schema uses for a reference. */
export interface RegisteredSchema {
  readonly type: SchemaType;
  readonly text: string;
  readonly references: readonly { readonly name: string; readonly schema: RegisteredSchema }[];
}

export interface NewSchema {
  readonly type: SchemaType;
  readonly text: string;
}

const MEDIA_TYPE = 'application/vnd.schemaregistry.v1+json';
const TRIES = 4;
/** Maximum depth of references. Without a limit, circular references would never end. */
const MAX_REFERENCE_DEPTH = 16;

/** Caches schemas indefinitely, because schema IDs and versions are immutable. */
export class SchemaRegistry {
  readonly #options: SchemaRegistryOptions;
  readonly #schemas = new Map<string, Promise<RegisteredSchema | null>>();

  constructor(options: SchemaRegistryOptions) {
    this.#options = options;
  }

  /**
   * The schema with this ID; null: the registry does not have it.
   * @throws SluiceError schema_registry_unavailable | kafka_config
   */
  byId(id: number): Promise<RegisteredSchema | null> {
    return this.#schema(`/schemas/ids/${id}`, 0);
  }

  /**
   * The schema of a version of a subject; null: the version does not exist.
   * @throws SluiceError schema_registry_unavailable | kafka_config
   */
  byVersion(subject: string, version: number | 'latest'): Promise<RegisteredSchema | null> {
    return this.#schema(`/subjects/${encodeURIComponent(subject)}/versions/${version}`, 0);
  }

  /**
   * Returns the ID of a schema under a subject. Registers the schema if it does not exist there.
   * @throws SluiceError schema_registry_unavailable | kafka_config
   */
  async register(subject: string, schema: NewSchema): Promise<number> {
    const { status, body } = await this.#ask(
      'POST',
      `/subjects/${encodeURIComponent(subject)}/versions`,
      bodyOf(schema),
    );
    if (typeof body?.id === 'number') return body.id;
    throw new SluiceError('kafka_config', `the schema registry rejects the schema of ${subject} (${status})`);
  }

  /**
   * The ID of an existing schema under a subject.
   * @throws SluiceError schema_registry_unavailable | kafka_config (not registered)
   */
  async find(subject: string, schema: NewSchema): Promise<number> {
    const { body } = await this.#ask('POST', `/subjects/${encodeURIComponent(subject)}`, bodyOf(schema));
    if (typeof body?.id === 'number') return body.id;
    throw new SluiceError(
      'kafka_config',
      `the schema of predictions is not registered under ${subject}, and register is false; \`sluice lint --schema\` prints it`,
    );
  }

  #schema(path: string, depth: number): Promise<RegisteredSchema | null> {
    let known = this.#schemas.get(path);
    if (!known) {
      known = this.#fetch(path, depth);
      this.#schemas.set(path, known);
      // Failures, missing schemas and "latest" are not cached, because a missing schema may be registered later.
      const forget = () => this.#schemas.delete(path);
      known.then((found) => (found === null || path.endsWith('/latest')) && forget()).catch(forget);
    }
    return known;
  }

  async #fetch(path: string, depth: number): Promise<RegisteredSchema | null> {
    const { body } = await this.#ask('GET', path);
    if (typeof body?.schema !== 'string') return null;
    const named = (body.references ?? []) as { name: string; subject: string; version: number }[];
    if (depth >= MAX_REFERENCE_DEPTH) throw new SluiceError('kafka_config', 'schemas refer to each other without end');
    const references = await Promise.all(
      named.map(async ({ name, subject, version }) => {
        const schema = await this.#schema(`/subjects/${encodeURIComponent(subject)}/versions/${version}`, depth + 1);
        if (!schema)
          throw new SluiceError('kafka_config', `a schema refers to ${subject} ${version}, which does not exist`);
        return { name, schema };
      }),
    );
    return { type: (body.schemaType ?? 'AVRO') as SchemaType, text: body.schema, references };
  }

  async #ask(method: 'GET' | 'POST', path: string, body?: object): Promise<JsonAnswer> {
    let reason = '';
    for (let attempt = 0; attempt < TRIES; attempt++) {
      if (attempt > 0) await sleep(100 * 2 ** attempt);
      try {
        const answer = await this.#once(method, path, body);
        refuse(answer);
        if (answer.status < 300 || answer.status === 404) return answer;
        reason = `status ${answer.status}`;
      } catch (cause) {
        if (cause instanceof SluiceError) throw cause;
        reason = cause instanceof Error ? cause.message : String(cause);
      }
    }
    throw new SluiceError('schema_registry_unavailable', `the schema registry is unreachable: ${reason}`);
  }

  async #once(method: 'GET' | 'POST', path: string, body: object | undefined): Promise<JsonAnswer> {
    const { url, authorization, tls = {}, timeoutMs = 5000 } = this.#options;
    const login = (await authorization?.()) ?? null;
    const headers = {
      accept: MEDIA_TYPE,
      ...(body ? { 'content-type': MEDIA_TYPE } : {}),
      ...(login === null ? {} : { authorization: login }),
    };
    const target = `${url.replace(/\/$/, '')}${path}`;
    return requestJson({ method, url: target, headers, body: body && JSON.stringify(body), tls, timeoutMs });
  }
}

/**
 * The request body for a schema. It omits the type for Avro, which is the default of the API: old registries support
 * only Avro and reject the property.
 */
const bodyOf = ({ type, text }: NewSchema): object =>
  type === 'AVRO' ? { schema: text } : { schema: text, schemaType: type };

/** Throws if the response is an error that a retry cannot fix. @throws SluiceError kafka_config */
function refuse({ status, body }: JsonAnswer): void {
  if (status === 401 || status === 403) {
    throw new SluiceError('kafka_config', `the schema registry rejects the login (${status})`);
  }
  if (status === 409 || status === 422) {
    const why = status === 409 ? 'it is incompatible with earlier versions' : 'it is not valid there';
    // The message of the registry describes schemas, not values, so it may be reported.
    const words = typeof body?.message === 'string' ? `: ${body.message.slice(0, 500)}` : '';
    throw new SluiceError('kafka_config', `the schema registry rejects the schema (${status}): ${why}${words}`);
  }
}
