// HTTP route that reports the state of pipelines: uploads to this service, and topics that `sluice run` processes read.
import { lookup } from 'node:dns/promises';
import type { FastifyInstance } from 'fastify';
import { monotonicMs } from '../../../core/clock.ts';
import { requestJson } from '../../../core/http-json.ts';
import { parseReference } from '../../../model/registry/registry.ts';
import type { PipelineReport, PipelineReports } from '../../../monitor/pipeline-report.ts';
import { type Identity, permits } from '../access/identity.ts';
import { jsonResponse, REFUSALS, schemaRef } from '../openapi/route-parts.ts';

/**
 * TIMEOUT_MS: timeout of a request to a member. FRESH_MS: up to this age, the last answer of a member is used again.
 */
const TIMEOUT_MS = 1500;
const FRESH_MS = 2000;
const MOST_MEMBER_BYTES = 1024 * 1024;
/** Maximum number of addresses per host name, and of pipelines per member. */
const MOST_ADDRESSES = 100;
const MOST_PIPELINES = 100;

const SUMMARY = 'State of the pipelines of the models of this key: lag, age of the oldest application, dead letters';
const LIST = {
  summary: SUMMARY,
  tags: ['runs'],
  response: {
    200: jsonResponse(SUMMARY, {
      type: 'object',
      required: ['pipelines', 'unreachable'],
      properties: {
        pipelines: { type: 'array', items: schemaRef('Pipeline') },
        unreachable: {
          type: 'array',
          items: { type: 'string' },
          description: 'members whose pipelines are unknown; empty for a key that is restricted to some models',
        },
      },
    }),
    401: REFUSALS[401],
    403: REFUSALS[403],
  },
};

/** A pipeline for which this service receives uploads. */
export interface UploadEntry {
  name: string;
  spec: { model: string };
}

export function addPipelineStates(
  app: FastifyInstance,
  { members, uploads }: { members: readonly string[]; uploads: readonly UploadEntry[] },
): void {
  const readers = members.map((address) => new MemberReader(address));
  app.get('/api/v1/pipelines', { config: { scope: 'models:read' }, schema: LIST }, async (request) => {
    const identity = request.identity!;
    const found = (await Promise.all(readers.map((reader) => reader.read()))).flat();
    const reports = found.flatMap((member) => member.pipelines.map((report) => ({ report, member })));
    const visible = reports.filter(({ report }) => mayRead(identity, report.model));
    const groups = Map.groupBy(visible, ({ report }) => `${report.name}\n${report.model}`);
    const own = uploads.filter(({ spec }) => mayRead(identity, spec.model));
    const seesAll = identity.grants.some((grant) => grant.models === undefined && grant.scopes.includes('models:read'));
    return {
      pipelines: [...[...groups.values()].map(combined), ...own.map(ofUploads)],
      unreachable: seesAll
        ? found.flatMap(({ address, reached, pipelines }) => (reached || pipelines.length > 0 ? [] : [address]))
        : [],
    };
  });
}

function mayRead(identity: Identity, reference: string): boolean {
  try {
    return permits(identity, 'models:read', parseReference(reference).id);
  } catch {
    return false;
  }
}

interface MemberState {
  address: string;
  /** If false, `pipelines` is the last known state. */
  reached: boolean;
  pipelines: PipelineReport[];
}

/** The processes (members) behind one configured address, with their last known states. */
class MemberReader {
  readonly #address: URL;
  readonly #last = new Map<string, PipelineReport[]>();
  #read: { at: number; found: Promise<MemberState[]> } | null = null;

  constructor(address: string) {
    this.#address = new URL(address);
  }

  read(): Promise<MemberState[]> {
    const now = monotonicMs();
    if (!this.#read || now - this.#read.at > FRESH_MS) this.#read = { at: now, found: this.#ask() };
    return this.#read.found;
  }

  async #ask(): Promise<MemberState[]> {
    const addresses = await addressesOf(this.#address);
    // A member that the host name no longer lists has gone. If the name cannot be resolved, no member has gone.
    if (addresses === null) return this.#unreached();
    for (const known of this.#last.keys()) if (!addresses.includes(known)) this.#last.delete(known);
    return Promise.all(
      addresses.map(async (address) => {
        const pipelines = await pipelinesAt(address);
        if (pipelines) this.#last.set(address, pipelines);
        return { address, reached: pipelines !== null, pipelines: pipelines ?? this.#last.get(address) ?? [] };
      }),
    );
  }

  #unreached(): MemberState[] {
    if (this.#last.size === 0) return [{ address: this.#address.origin, reached: false, pipelines: [] }];
    return [...this.#last].map(([address, pipelines]) => ({ address, reached: false, pipelines }));
  }
}

/**
 * One address per process; null if the host name cannot be resolved. With https, the name is kept, because the
 * certificate must match it.
 */
async function addressesOf({ protocol, hostname, port, origin }: URL): Promise<string[] | null> {
  if (protocol === 'https:') return [origin];
  try {
    const found = await lookup(hostname.replaceAll(/[[\]]/g, ''), { all: true });
    const hosts = found.map(({ address, family }) => (family === 6 ? `[${address}]` : address));
    // A loopback name has both an IPv4 and an IPv6 address of the same process.
    if (hostname === 'localhost' || hosts.length < 2) return [origin];
    return hosts.slice(0, MOST_ADDRESSES).map((host) => `${protocol}//${host}${port === '' ? '' : `:${port}`}`);
  } catch {
    return null;
  }
}

/** Returns null if the member did not answer in time, or if its answer is invalid. */
async function pipelinesAt(origin: string): Promise<PipelineReport[] | null> {
  try {
    const { status, body } = await requestJson({
      method: 'GET',
      url: `${origin}/pipelines`,
      headers: {},
      tls: {},
      timeoutMs: TIMEOUT_MS,
      mostBytes: MOST_MEMBER_BYTES,
    });
    if (status < 200 || status > 299) return null;
    const { pipelines } = body as unknown as PipelineReports;
    return pipelines.filter(({ name, model }) => typeof name === 'string' && typeof model === 'string').slice(0, MOST_PIPELINES); // biome-ignore format: one line
  } catch {
    return null;
  }
}

/** Combines the members of one pipeline. Each partition belongs to one member, so the lags add up. */
function combined(group: { report: PipelineReport; member: MemberState }[]) {
  const reports = group.map(({ report }) => report);
  const first = reports[0]!;
  const sum = (of: (report: PipelineReport) => number) => reports.reduce((total, report) => total + of(report), 0);
  const ages = reports.flatMap(({ oldestSeconds }) => (oldestSeconds === null ? [] : [oldestSeconds]));
  const states = group.map(({ report, member }) => (member.reached ? report.state : ('unreachable' as const)));
  return {
    name: first.name,
    model: first.model,
    kind: first.lag === null ? ('files' as const) : ('topic' as const),
    source: first.source,
    sink: first.sink,
    state: worst(states),
    members: group.map(({ report, member }, i) => ({
      address: member.address,
      state: states[i]!,
      started: report.started,
      lag: report.lag,
      oldestSeconds: report.oldestSeconds,
    })),
    lag: first.lag === null ? null : sum(({ lag }) => lag ?? 0),
    oldestSeconds: ages.length === 0 ? null : Math.max(...ages),
    rows: sum(({ rows }) => rows),
    scored: sum(({ scored }) => scored),
    rejected: sum(({ rejected }) => rejected),
    rejectedByCode: sumOf(reports.map(({ rejectedByCode }) => rejectedByCode)),
    deadLetters: sumOf(reports.map(({ deadLetters }) => deadLetters)),
  };
}

/** Ordered from worst to best. */
const SEVERITY = ['unreachable', 'model_unavailable', 'paused', 'not_ready', 'running'] as const;

const worst = (states: readonly (typeof SEVERITY)[number][]) => SEVERITY.find((state) => states.includes(state))!;

function sumOf(all: readonly Record<string, number>[]): Record<string, number> {
  const total: Record<string, number> = {};
  for (const [code, n] of all.flatMap((counts) => Object.entries(counts ?? {}))) total[code] = (total[code] ?? 0) + n;
  return total;
}

const ofUploads = ({ name, spec }: UploadEntry) => ({
  name,
  model: spec.model,
  kind: 'upload' as const,
  state: 'accepts_uploads' as const,
  members: [],
  lag: null,
  oldestSeconds: null,
});
