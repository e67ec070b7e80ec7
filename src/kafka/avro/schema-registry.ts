// A client of the Confluent schema registry API: schemas by id, and the id of a schema under a subject.
import { SluiceError } from '../../core/errors.ts';

export interface SchemaRegistryOptions {
  /** Base address, such as https://registry:8081. */
  url: string;
  username?: string;
  password?: string;
  /** Longest wait for an answer, ms. Default 5,000. */
  timeoutMs?: number;
}

const MEDIA_TYPE = 'application/vnd.schemaregistry.v1+json';
const TRIES = 4;

/** Schema ids are immutable, so schemas are cached for ever. */
export class SchemaRegistry {
  readonly #options: SchemaRegistryOptions;
  readonly #schemas = new Map<number, Promise<string | null>>();

  constructor(options: SchemaRegistryOptions) {
    this.#options = options;
  }

  /** The Avro schema of an id as JSON text; null if the registry does not know it. @throws SluiceError schema_registry_unavailable */
  schema(id: number): Promise<string | null> {
    let known = this.#schemas.get(id);
    if (!known) {
      known = this.#ask('GET', `/schemas/ids/${id}`).then((answer) => {
        if (answer === null) return null;
        if (answer.schemaType !== undefined && answer.schemaType !== 'AVRO') return null;
        return typeof answer.schema === 'string' ? answer.schema : null;
      });
      this.#schemas.set(id, known);
      // Failures are not cached: a missing schema may be registered later.
      known.then((found) => found === null && this.#schemas.delete(id)).catch(() => this.#schemas.delete(id));
    }
    return known;
  }

  /** Registers a schema under a subject, or finds it there; its id. @throws SluiceError schema_registry_unavailable | kafka_config */
  async register(subject: string, schema: string): Promise<number> {
    const answer = await this.#ask('POST', `/subjects/${encodeURIComponent(subject)}/versions`, { schema });
    if (typeof answer?.id !== 'number') {
      throw new SluiceError('kafka_config', `the schema registry does not take the schema of ${subject}`);
    }
    return answer.id;
  }

  async #ask(method: string, path: string, body?: object): Promise<Record<string, unknown> | null> {
    const { url, username, password, timeoutMs = 5000 } = this.#options;
    const headers: Record<string, string> = { accept: MEDIA_TYPE };
    if (body) headers['content-type'] = MEDIA_TYPE;
    if (username !== undefined)
      headers.authorization = `Basic ${Buffer.from(`${username}:${password ?? ''}`).toString('base64')}`;
    let reason = '';
    for (let attempt = 0; attempt < TRIES; attempt++) {
      if (attempt > 0) await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** attempt));
      try {
        const response = await fetch(`${url.replace(/\/$/, '')}${path}`, {
          method,
          headers,
          signal: AbortSignal.timeout(timeoutMs),
          ...(body ? { body: JSON.stringify(body) } : {}),
        });
        if (response.ok) return (await response.json()) as Record<string, unknown>;
        await response.body?.cancel();
        if (response.status === 404) return null;
        if (response.status === 401 || response.status === 403) {
          throw new SluiceError('kafka_config', `the schema registry refuses the login (${response.status})`);
        }
        if (response.status === 409 || response.status === 422) {
          throw new SluiceError(
            'kafka_config',
            `the schema registry refuses the schema (${response.status}): it does not fit earlier versions`,
          );
        }
        reason = `status ${response.status}`;
      } catch (cause) {
        if (cause instanceof SluiceError) throw cause;
        reason = cause instanceof Error ? cause.message : String(cause);
      }
    }
    throw new SluiceError('schema_registry_unavailable', `the schema registry does not answer: ${reason}`);
  }
}
