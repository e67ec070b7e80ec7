// Writes audit records of the service: requests with their model, rejected requests, ends of jobs, changes of keys.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { AuditLog } from '../../../audit/audit-log.ts';
import type { AuditFields } from '../../../audit/audit-record.ts';
import type { ServerConfig } from '../../../config/server-config.ts';
import { monotonicMs } from '../../../core/clock.ts';
import { asSluiceError, SluiceError } from '../../../core/errors.ts';
import { type Log, type LogEvent, type LogFields, named } from '../../../core/log.ts';
import { type ModelEntry, parseReference, type Registry } from '../../../model/registry/registry.ts';
import { neighbourhoodOf } from './failed-logins.ts';
import type { ApiKey, KeysFile } from './keys-file.ts';
import { LoginRefused } from './permissions.ts';

type AuditConfig = NonNullable<ServerConfig['audit']>;

interface AuditTrailOptions {
  config: AuditConfig;
  log: AuditLog;
  addressOf: (request: FastifyRequest) => string;
}

/** Log events at which a job ends, with the final state of the job. */
const JOB_ENDS: Partial<Record<LogEvent, string>> = {
  job_done: 'done',
  job_failed: 'failed',
  job_cancelled: 'cancelled',
};
/** Fields of these events to record. The fields contain only numbers, names and codes. */
const JOB_FIELDS = ['job_id', 'request_id', 'key', 'model', 'package_sha256', 'pipeline', 'rows', 'scored', 'rejected', 'bytes_in', 'bytes_out', 'code', 'ms'] as const; // biome-ignore format: one line

export class AuditTrail {
  readonly #config: AuditConfig;
  readonly #log: AuditLog;
  readonly #addressOf: AuditTrailOptions['addressOf'];

  constructor({ config, log, addressOf }: AuditTrailOptions) {
    this.#config = config;
    this.#log = log;
    this.#addressOf = addressOf;
  }

  /** Whether requests may be processed. False while requests cannot be recorded although they must be. */
  get ready(): boolean {
    return this.#config.on_failure === 'continue' || this.#log.available;
  }

  /** @throws SluiceError audit_unavailable */
  assertReady(): void {
    if (!this.ready) throw new SluiceError('audit_unavailable', 'the audit log cannot record this operation');
  }

  /**
   * Records the end of every request that requires a key. Requests for metrics are recorded only if they are rejected.
   * Requests for unknown paths are recorded, too, because an attacker could use them to guess keys.
   */
  follow(app: FastifyInstance): void {
    app.addHook('onRequest', (request, reply, done) => {
      this.begin(request, reply);
      done();
    });
  }

  /** Records a request when it ends. */
  begin(request: FastifyRequest, reply: FastifyReply): void {
    const began = monotonicMs();
    // `close` is emitted exactly once, even if the connection was lost.
    reply.raw.once('close', () => this.#ended(request, reply, monotonicMs() - began));
  }

  /** A log that also writes an audit record when a job ends. */
  ofJobs(log: Log): Log {
    return (level, event, says, fields = {}) => {
      log(level, event, says, fields);
      const state = JOB_ENDS[event];
      if (state !== undefined) this.#log.append('job', { state, ...jobFields(fields) });
    };
  }

  /** Records a change of the keys file. Only names are recorded, neither tokens nor their hashes. */
  keysChanged(before: readonly ApiKey[], { keys, certificates }: KeysFile): void {
    const old = new Map(before.map((key) => [key.name, JSON.stringify(key)]));
    const names = keys.map(({ name }) => name);
    this.#log.append('keys', {
      added: names.filter((name) => !old.has(name)),
      removed: [...old.keys()].filter((name) => !names.includes(name)),
      changed: keys.filter((key) => old.has(key.name) && old.get(key.name) !== JSON.stringify(key)).map((k) => k.name),
      certificates: certificates.map(({ name }) => name),
    });
  }

  #ended(request: FastifyRequest, reply: FastifyReply, ms: number): void {
    const { identity, story } = request;
    const { fault } = story;
    const login = fault instanceof LoginRefused ? fault : null;
    // These requests are not recorded, because requests without credentials or a flood of failed attempts could fill
    // the disk.
    if (login?.limited) {
      if (login.first) this.#log.append('logins_limited', this.#address(request));
      return;
    }
    if (!identity && (login === null || login.reason === 'none')) return;
    if (request.routeOptions.config?.scope === 'metrics' && login === null) return;
    const { raw } = reply;
    const cut = !raw.writableFinished;
    this.#log.append('request', {
      request_id: request.id,
      identity_kind: identity?.kind ?? null,
      identity: identity?.name ?? login?.label ?? null,
      ...this.#address(request),
      method: story.method ?? request.method,
      ...(story.method === null ? {} : { method_sent: request.method }),
      route: request.routeOptions.url ?? null,
      ...(story.pipeline === null ? {} : { pipeline: story.pipeline }),
      model: story.model,
      package_sha256: story.packageSha256,
      ...(story.alias === null ? {} : { alias: story.alias }),
      ...(story.job === null ? {} : { job_id: story.job }),
      rows: story.rows,
      scored: story.scored,
      rejected: story.rejected,
      status: raw.headersSent ? raw.statusCode : null,
      cut,
      ...(fault === null ? {} : { code: asSluiceError(fault, 'internal_error').code }),
      ...(login === null ? {} : { login: login.reason }),
      bytes_in: story.bytesIn,
      bytes_out: story.bytesOut || Number(raw.getHeader('content-length') ?? 0) || 0,
      ms: Math.round(ms),
    });
  }

  #address(request: FastifyRequest): AuditFields {
    const { address } = this.#config;
    if (address === 'none') return {};
    const whole = this.#addressOf(request);
    return { address: address === 'full' ? whole : networkOf(whole) };
  }
}

/** The network of an address: the first three numbers of an IPv4 address, or the first 64 bits of an IPv6 address. */
function networkOf(address: string): string {
  const parts = address.split('.');
  return parts.length === 4 ? `${parts.slice(0, 3).join('.')}.0/24` : neighbourhoodOf(address);
}

const jobFields = (fields: LogFields): AuditFields =>
  Object.fromEntries(
    JOB_FIELDS.flatMap((name) => (fields[name] == null ? [] : [[name, fields[name] as string | number]])),
  );

/** Path parameters that name a model or an alias. */
interface TargetParams {
  ref?: string;
  name?: string;
  version?: string;
  alias?: string;
}

/**
 * Adds job, model and alias to the record of a rejected request, if they exist in the registry. Other names are
 * omitted, because the client may have invented them.
 */
export async function noteRefusedTarget(
  request: FastifyRequest,
  refusal: LoginRefused,
  registry: Pick<Registry, 'list'>,
): Promise<void> {
  const { ref, name, version, alias } = (request.params ?? {}) as TargetParams;
  const { modelId } = (request.query ?? {}) as { modelId?: string };
  const inPath = version === undefined ? name : `${name}:${version}`;
  if (refusal.job !== null) request.story.job = named(refusal.job);
  const reference = refusal.asked ?? ref ?? modelId ?? inPath;
  if (typeof reference !== 'string') return;
  try {
    const asked = parseReference(reference);
    const entry = (await registry.list()).find(({ id }) => id === asked.id);
    if (!entry) return;
    request.story.model = named(isListed(entry, asked) ? reference : asked.id);
    if (alias !== undefined && Object.hasOwn(entry.aliases, alias)) request.story.alias = named(alias);
  } catch {
    // Without a reference, or if the registry is unreachable, the rejection is recorded without the model.
  }
}

const isListed = ({ versions, aliases }: ModelEntry, { version, alias }: ReturnType<typeof parseReference>): boolean =>
  (version === undefined || versions.includes(version)) && (alias === undefined || Object.hasOwn(aliases, alias));
