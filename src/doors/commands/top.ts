// `sluice top URL`: shows the current activity of a service or a pipeline, from its metrics alone.
import type { Command } from 'commander';
import { epochMs, monotonicMs, sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { requestText } from '../../core/http-json.ts';
import { named } from '../../core/log.ts';
import { addFlags } from './flags/command-spec.ts';
import { SERVICE_COMMANDS, type TopFlags } from './flags/service-flags.ts';
import { readText } from './model-states.ts';
import { alignedTable } from './outcome-words.ts';
import { signalled } from './signals.ts';

const TIMEOUT_MS = 10_000;
/** Maximum number of models, of codes and of pipelines to show. */
const SHOWN = 5;
/** Routes that monitor the service. Requests to these routes are not counted. */
const WATCHING = new Set(['/metrics', '/metrics/columns', '/livez', '/readyz']);

interface Series {
  labels: Readonly<Record<string, string>>;
  value: number;
}

export interface Scrape {
  /** Monotonic time in ms. */
  at: number;
  series: ReadonlyMap<string, readonly Series[]>;
}

export function addTopCommand(program: Command): void {
  addFlags(program.command('top'), SERVICE_COMMANDS.top).action(top);
}

async function top(address: string, flags: TopFlags): Promise<void> {
  const read = await reader(address, flags.ca);
  const { signal, dispose } = signalled();
  const once = flags.once ?? false;
  const screen = process.stdout.isTTY && !once;
  try {
    let before = await read();
    for (;;) {
      await sleep(flags.interval * 1000, { signal });
      const now = await read().catch((error: unknown) => {
        if (once || !(error instanceof SluiceError)) throw error;
        return error;
      });
      const lines = now instanceof SluiceError ? [`${now.message} [${now.code}]`] : topLines(before, now);
      const head = `${named(new URL(address).host)}, ${new Date(epochMs()).toISOString().slice(0, 19)}Z`;
      process.stdout.write(screen ? frame([head, '', ...lines]) : `${[head, ...lines].join('\n')}\n`);
      if (once) return;
      if (!(now instanceof SluiceError)) before = now;
    }
  } catch (error) {
    // No error after Ctrl-C, which is the usual way to end this command.
    if (!signal.aborted) throw error;
  } finally {
    dispose();
  }
}

/** Replaces the screen without flicker: clears each line to its end, then the screen below the last line. */
function frame(lines: readonly string[]): string {
  const { columns = 80, rows = 24 } = process.stdout;
  const visible = lines.slice(0, rows - 1).map((line) => `${line.slice(0, columns)}\x1b[K\n`);
  return `\x1b[H${visible.join('')}\x1b[J`;
}

/** @throws SluiceError usage: the address or the CA file is invalid */
async function reader(address: string, ca: string | undefined): Promise<() => Promise<Scrape>> {
  const parsed = URL.canParse(address) ? new URL(address) : null;
  if (!parsed || !['http:', 'https:'].includes(parsed.protocol) || parsed.username !== '' || parsed.password !== '') {
    throw new SluiceError('usage', 'URL must be an address such as https://scores.bank.example or http://localhost:9464, without a password'); // biome-ignore format: one line
  }
  const path = parsed.pathname.replace(/\/$/, '');
  const url = `${parsed.origin}${path.endsWith('/metrics') ? path : `${path}/metrics`}`;
  const key = process.env.SLUICE_API_KEY;
  // The key must not be sent unencrypted.
  const headers: Record<string, string> =
    key && parsed.protocol === 'https:' ? { authorization: `API-Key ${key}` } : {};
  const tls = ca === undefined ? {} : { ca: await readText(ca) };
  return async () => {
    const answer = await requestText({ method: 'GET', url, headers, tls, timeoutMs: TIMEOUT_MS }).catch(
      (error: unknown) => {
        throw new SluiceError('metrics_unavailable', `cannot read ${named(url)}: ${networkFault(error)}`, { cause: error }); // biome-ignore format: one line
      },
    );
    const fault = answerFault(answer.status, answer.text, 'authorization' in headers);
    if (fault !== null) throw new SluiceError('metrics_unavailable', `cannot read ${named(url)}: ${fault}`);
    return { at: monotonicMs(), series: parseMetrics(answer.text) };
  };
}

const UNTRUSTED = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]);

function networkFault(error: unknown): string {
  const { code, name } = error as NodeJS.ErrnoException;
  if (name === 'TimeoutError' || name === 'AbortError') return `no response within ${TIMEOUT_MS / 1000} s`;
  if (code === undefined) return 'the connection failed';
  return UNTRUSTED.has(code) ? `${code}: the certificate is not trusted (use --ca FILE)` : code;
}

/** Why the response has no metrics of Sluice; null if it has. */
function answerFault(status: number, text: string, keySent: boolean): string | null {
  if (status === 401 || status === 403) {
    return keySent
      ? `status ${status}: the key in SLUICE_API_KEY needs the scope metrics`
      : `status ${status}: set SLUICE_API_KEY to a key with the scope metrics, and use https`;
  }
  if (status !== 200) return `status ${status}`;
  return text.includes('\nsluice_') || text.startsWith('sluice_') ? null : 'the response contains no metrics of Sluice';
}

/** Parses the Prometheus text format. Lines that are not samples are ignored. */
export function parseMetrics(text: string): Map<string, Series[]> {
  const found = new Map<string, Series[]>();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const brace = line.indexOf('{');
    const space = line.indexOf(' ');
    const labelled = brace >= 0 && (space < 0 || brace < space);
    const name = line.slice(0, labelled ? brace : space);
    const { labels, end } = labelled ? parseLabels(line, brace + 1) : { labels: {}, end: space };
    const value = Number(line.slice(end).trim().split(' ')[0]!.replace('Inf', 'Infinity'));
    if (name === '' || end < 0 || Number.isNaN(value)) continue;
    const all = found.get(name) ?? [];
    all.push({ labels, value });
    found.set(name, all);
  }
  return found;
}

/** Parses `a="b",c="d"}` from a position on. `end`: position after the brace, or -1 if the brace is missing. */
function parseLabels(line: string, from: number): { labels: Record<string, string>; end: number } {
  const labels: Record<string, string> = Object.create(null);
  let at = from;
  while (at < line.length && line[at] !== '}') {
    const equals = line.indexOf('="', at);
    if (equals < 0) return { labels, end: -1 };
    let value = '';
    let i = equals + 2;
    for (; i < line.length && line[i] !== '"'; i++) {
      if (line[i] === '\\') value += line[++i] === 'n' ? '\n' : (line[i] ?? '');
      else value += line[i];
    }
    labels[line.slice(at, equals).trim()] = value;
    at = line[i + 1] === ',' ? i + 2 : i + 1;
  }
  return { labels, end: line[at] === '}' ? at + 1 : -1 };
}

// Figures computed from two scrapes.

const sum = (all: readonly Series[]): number => all.reduce((total, { value }) => total + value, 0);
const of = ({ series }: Scrape, name: string): readonly Series[] => series.get(name) ?? [];
const keyOf = (labels: Series['labels'], names: readonly string[]): string =>
  names.map((n) => labels[n] ?? '').join(' ');

function sumBy(all: readonly Series[], names: readonly string[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const { labels, value } of all) sums.set(keyOf(labels, names), (sums.get(keyOf(labels, names)) ?? 0) + value);
  return sums;
}

/** Increase of counters between two scrapes, by labels. A counter that decreased was reset to 0 in between. */
function increases(
  before: Scrape,
  now: Scrape,
  name: string,
  names: readonly string[],
  keep: (s: Series) => boolean = () => true,
): Map<string, number> {
  // biome-ignore format: one line
  const was = sumBy(of(before, name).filter(keep), names);
  const increase = ([key, value]: [string, number]): [string, number] => {
    const old = was.get(key) ?? 0;
    return [key, value >= old ? value - old : value];
  };
  return new Map([...sumBy(of(now, name).filter(keep), names)].map(increase));
}

const total = (increase: ReadonlyMap<string, number>): number => [...increase.values()].reduce((a, b) => a + b, 0);

/**
 * Quantile of a histogram in seconds, interpolated within its bucket; null without observations. `buckets`: cumulative
 * counts by upper bound.
 */
export function quantileOf(buckets: ReadonlyMap<string, number>, share: number): number | null {
  const bounds = [...buckets].map(([le, n]): [number, number] => [Number(le.replace('Inf', 'Infinity')), n]).sort((a, b) => a[0] - b[0]); // biome-ignore format: one line
  const all = bounds.at(-1)?.[1] ?? 0;
  if (all <= 0) return null;
  let [lower, below] = [0, 0];
  for (const [upper, n] of bounds) {
    if (n >= share * all) {
      if (upper === Infinity) return lower;
      return lower + ((upper - lower) * (share * all - below)) / Math.max(n - below, 1e-9);
    }
    [lower, below] = [upper, n];
  }
  return lower;
}

const whole = (n: number): string => Math.round(n).toLocaleString('en-US');
const perSecond = (n: number): string => (n !== 0 && n < 10 ? n.toFixed(1) : whole(n));
const millis = (seconds: number | null): string => (seconds === null ? '-' : `${(seconds * 1000).toPrecision(3)} ms`);
const megabytes = (bytes: number): string => `${whole(bytes / 2 ** 20)} MB`;
const largest = <T>(all: readonly T[], by: (one: T) => number): T[] => all.toSorted((a, b) => by(b) - by(a)).slice(0, SHOWN); // biome-ignore format: one line

/** The figures for the time between two scrapes, as lines. */
export function topLines(before: Scrape, now: Scrape): string[] {
  const seconds = Math.max(1e-3, (now.at - before.at) / 1000);
  const rate = (name: string, keep?: (s: Series) => boolean): number => total(increases(before, now, name, [], keep)) / seconds; // biome-ignore format: one line
  const served = ({ labels }: Series): boolean => !WATCHING.has(labels.route ?? '');
  const buckets = increases(before, now, 'sluice_http_request_seconds_bucket', ['le'], served);
  const has = (name: string): boolean => now.series.has(name);
  const figures: [string, string][] = [
    ['ready', sum(of(now, 'sluice_ready')) > 0 ? 'yes' : 'NO'],
    ['rows/s', perSecond(rate('sluice_rows_total'))],
    ['rejects/s', perSecond(rate('sluice_rows_rejected_total'))],
  ];
  if (has('sluice_http_requests_queued')) {
    figures.push(
      ['requests/s', perSecond(rate('sluice_http_request_seconds_count', served))],
      ['errors/s', perSecond(rate('sluice_http_errors_total'))],
      ['latency p50, p95', `${millis(quantileOf(buckets, 0.5))}, ${millis(quantileOf(buckets, 0.95))}`],
      ['requests waiting', whole(sum(of(now, 'sluice_http_requests_queued')))],
    );
  }
  const jobs = sumBy(of(now, 'sluice_jobs'), ['state']);
  if (jobs.size > 0) figures.push(['jobs', `${whole(jobs.get('running') ?? 0)} running, ${whole(jobs.get('queued') ?? 0)} queued, ${whole(jobs.get('failed') ?? 0)} failed`]); // biome-ignore format: one line
  const workers = sum(of(now, 'sluice_workers'));
  if (workers > 0) {
    const busy = rate('sluice_worker_busy_seconds_total') / workers;
    figures.push(['workers', `${whole(workers)}, ${whole(100 * Math.min(1, busy))} % busy`]);
  }
  figures.push(
    ['CPU', `${rate('process_cpu_seconds_total').toFixed(2)} cores`],
    ['memory', megabytes(sum(of(now, 'process_resident_memory_bytes')))],
  );
  const lines = figures.map(([name, value]) => `  ${name.padEnd(18)}${value}`);
  return [...lines, ...pipelineLines(before, now, seconds), ...modelLines(before, now, seconds), ...codeLines(before, now)]; // biome-ignore format: one line
}

const indented = (head: readonly string[], rows: readonly (readonly string[])[]): string[] =>
  alignedTable(head, rows).split('\n').map((line) => `  ${line}`); // biome-ignore format: one line

function pipelineLines(before: Scrape, now: Scrape, seconds: number): string[] {
  const lag = sumBy(of(now, 'sluice_kafka_lag_records'), ['pipeline']);
  if (lag.size === 0) return [];
  const dead = increases(before, now, 'sluice_dead_letters_total', ['pipeline']);
  const rows = largest([...lag], ([, records]) => records).map(([pipeline, records]) => {
    const ages = of(now, 'sluice_kafka_lag_seconds').filter(({ labels }) => labels.pipeline === pipeline);
    const age = Math.max(0, ...ages.map(({ value }) => value));
    return [named(pipeline), whole(records), `${perSecond(age)} s`, perSecond((dead.get(pipeline) ?? 0) / seconds)];
  });
  return ['', ...indented(['pipeline', 'lag', 'oldest', 'dead letters/s'], rows)];
}

function modelLines(before: Scrape, now: Scrape, seconds: number): string[] {
  const rows = increases(before, now, 'sluice_rows_total', ['model']);
  const all = sumBy(of(now, 'sluice_rows_total'), ['model']);
  const lines = largest([...all], ([model, n]) => (rows.get(model) ?? 0) * 1e12 + n).map(([model, n]) => [named(model), perSecond((rows.get(model) ?? 0) / seconds), whole(n)]); // biome-ignore format: one line
  return lines.length === 0 ? [] : ['', ...indented(['model', 'rows/s', 'rows'], lines)];
}

/** Rejected rows and failed requests by error code. */
function codeLines(before: Scrape, now: Scrape): string[] {
  const tables = [
    ['rows rejected by code', 'sluice_rows_rejected_total'],
    ['requests failed by code', 'sluice_http_errors_total'],
  ] as const;
  return tables.flatMap(([title, name]) => {
    const all = sumBy(of(now, name), ['code']);
    const recent = increases(before, now, name, ['code']);
    const lines = largest([...all].filter(([, n]) => n > 0), ([, n]) => n).map(([code, n]) => [named(code), whole(recent.get(code) ?? 0), whole(n)]); // biome-ignore format: one line
    return lines.length === 0 ? [] : ['', ...indented([title, 'now', 'total'], lines)];
  });
}
