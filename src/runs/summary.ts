// The summary of a finished run: a few lines for people, and one object for programs. Lines and object use the counts
// of the run's account.

import { connectorOf } from '../connectors/connectors.ts';
import type { End } from '../connectors/contract/connector.ts';
import { type DriftReports, digestsOf, driftReports } from '../drift/drift-monitor.ts';
import { type DriftDigest, driftWords } from '../drift/drift-report.ts';
import { terminalDrift } from '../drift/terminal-drift.ts';
import type { RunCounts } from '../engine/counts.ts';
import { workerProcessUsage } from '../engine/worker-link.ts';
import { count } from '../monitor/progress.ts';
import type { RunAccount } from './account.ts';
import type { RunResult } from './context.ts';
import type { InputFinding } from './gate.ts';
import { type GateVerdict, gateWords, type RunFindings } from './gate.ts';
import type { RunSpec } from './spec.ts';

export interface Summary {
  /** File of the pipeline; absent if the run did not come from a pipeline file. */
  pipeline?: string;
  input: string;
  output: string;
  /** Path of the rejects file; null if none is configured or no row was rejected. */
  rejects: string | null;
  model: string;
  modelVersion: string | null;
  modelSha256: string | null;
  /** Hash of the whole package. */
  packageSha256: string | null;
  evaluator: string | null;
  workers: number | null;
  rows: number;
  scored: number;
  rejected: number;
  skipped: number;
  /** Rows whose predictions an interrupted run had already written; included in `rows`. */
  resumedRows: number;
  /** Inputs of a pattern that an earlier run had scored, and whose outputs stay unchanged. */
  inputsDoneBefore: number;
  /** Rows of these inputs that the earlier run rejected; not part of `rejected`. */
  rejectedBefore: number;
  rejectedByCode: RunCounts['rejectedByCode'];
  interpreted: number;
  inexact: number;
  bytesRead: number;
  bytesWritten: number;
  /** Drift of the scored rows against the training data, by model reference. Models without a baseline are omitted. */
  drift: Record<string, DriftDigest>;
  /** Verdicts of the gate, by input; null if no gate is configured. */
  gate: GateSummary | null;
  seconds: number;
  rowsPerSecond: number;
  cpuSeconds: number;
  peakMemoryBytes: number;
}

export interface GateSummary {
  /** `stopped`: the gate stopped at least one input, which is not published. */
  verdict: GateVerdict['verdict'];
  limits: GateVerdict['limits'];
  inputs: (Pick<GateVerdict, 'verdict' | 'exceeded' | 'tooFewRows'> & {
    input: string;
    rows: number;
    scored: number;
    rejected: number;
  })[];
}

export function gateSummary(limits: RunSpec['gate'], found: readonly InputFinding[]): GateSummary | null {
  if (!limits) return null;
  const inputs = found.flatMap(
    ({ input, counts: { rows, scored, rejected }, gate }) =>
    gate ? [{ input, rows, scored, rejected, verdict: gate.verdict, exceeded: gate.exceeded, tooFewRows: gate.tooFewRows }] : [], // biome-ignore format: one line
  );
  return { verdict: inputs.some(({ verdict }) => verdict === 'stopped') ? 'stopped' : 'passed', limits, inputs };
}

/** Drift for a summary. The account also measures rows that were not published. Only runs of files have findings. */
export const driftOfRun = (account: RunAccount, findings: RunFindings): DriftReports =>
  findings.model === null ? driftReports(account.drift) : findings.reports();

/**
 * `result`: null if nothing was published. The counts cover only published inputs. `drift`: reports by the reference of
 * the model.
 */
export function summaryOf(
  spec: RunSpec,
  counts: Readonly<RunCounts>,
  result: RunResult | null,
  seconds: number,
  drift: DriftReports,
  found: readonly InputFinding[] = [],
): Summary {
  const usage = programUsage();
  const manifest = result?.by?.model.manifest;
  const [id, version] = spec.model.split(/[:@]/);
  return {
    ...(spec.file === '' ? {} : { pipeline: spec.file }),
    input: placeOf(spec.source),
    output: placeOf(spec.sink),
    rejects: listOf(spec, counts),
    model: manifest?.id ?? id!,
    modelVersion: manifest ? String(manifest.version) : spec.model.includes(':') ? version! : null,
    modelSha256: manifest?.onnx.sha256 ?? null,
    packageSha256: result?.by?.packageSha256 ?? null,
    evaluator: result?.by?.evaluator ?? null,
    workers: result?.by?.workers ?? null,
    rows: counts.rows,
    scored: counts.scored,
    rejected: counts.rejected,
    skipped: counts.skipped ?? 0,
    resumedRows: result?.resumedRows ?? 0,
    inputsDoneBefore: result?.inputsDoneBefore ?? 0,
    rejectedBefore: result?.rejectedBefore ?? 0,
    rejectedByCode: counts.rejectedByCode,
    interpreted: counts.interpreted,
    inexact: counts.inexact,
    bytesRead: result?.bytesRead ?? 0,
    bytesWritten: result?.bytesWritten ?? 0,
    drift: digestsOf(drift),
    gate: gateSummary(spec.gate, found),
    seconds: round(seconds),
    rowsPerSecond: rate(counts.rows - (result?.resumedRows ?? 0), seconds),
    cpuSeconds: round(usage.cpuSeconds),
    peakMemoryBytes: usage.peakBytes,
  };
}

/** CPU time and peak memory of this process and its worker processes. */
function programUsage(): { cpuSeconds: number; peakBytes: number } {
  const own = process.resourceUsage();
  const workers = workerProcessUsage();
  return {
    cpuSeconds: (own.userCPUTime + own.systemCPUTime) / 1e6 + workers.cpuSeconds,
    peakBytes: own.maxRSS * 1024 + workers.peakBytes,
  };
}

/** Summary lines for standard error. `width`: columns of the terminal; null if the output is not a terminal. */
export function summaryText(
  spec: RunSpec,
  counts: Readonly<RunCounts>,
  result: RunResult | null,
  seconds: number,
  drift: DriftReports,
  found: readonly InputFinding[] = [],
  width: number | null = null,
): string {
  const by = result?.by;
  const resumed = result?.resumedRows ?? 0;
  const speed = `${seconds.toFixed(1)} s, ${count(rate(counts.rows - resumed, seconds))} rows/s`;
  const lines = [`${equation(counts)}, ${speed}`];
  if (resumed > 0) lines.push(`${count(resumed)} of these rows were processed by the interrupted run`);
  const before = result?.inputsDoneBefore ?? 0;
  if (before === 1) lines.push('1 input was already scored by an identical run; its output is unchanged');
  if (before > 1)
    lines.push(`${count(before)} inputs were already scored by an identical run; their outputs are unchanged`);
  const rejectedBefore = result?.rejectedBefore ?? 0;
  if (rejectedBefore > 0)
    lines.push(`the earlier run rejected ${count(rejectedBefore)} of ${before === 1 ? 'its' : 'their'} rows`);
  if (by) {
    lines.push(
      `model ${by.model.ref}, sha256 ${by.model.manifest.onnx.sha256.slice(0, 12)}…, ${by.evaluator}, ` +
        `${by.workers} worker${by.workers === 1 ? '' : 's'}, peak memory ${Math.round(programUsage().peakBytes / 2 ** 20)} MB`,
    );
  }
  if (counts.rejected > 0) {
    const codes = Object.entries(counts.rejectedByCode).map(([code, n]) => `${code} ${count(n)}`);
    const list = listOf(spec, counts);
    lines.push(`rejected: ${codes.join(', ')}${list === null ? '' : `; listed in ${list}`}`);
  }
  if (width === null) lines.push(...Object.values(digestsOf(drift)).flatMap((digest) => driftWords(digest) ?? []));
  else lines.push(...Object.values(drift).flatMap((report) => terminalDrift(report, width)));
  // The verdict on a stopped input is not listed here, because the run's error reports it.
  const passed = found.flatMap(({ gate }) => (gate?.verdict === 'passed' ? [gate] : []));
  if (passed.length > 0) lines.push(gateWords(passed.find(({ tooFewRows }) => tooFewRows) ?? passed[0]!));
  return `${lines.join('\n')}\n`;
}

/** Row counts as an equation: `1,000 rows read = 998 scored + 2 rejected` */
export const equation = ({ rows, scored, rejected, skipped = 0 }: CountsOfRows): string =>
  `${count(rows)} rows read = ${count(scored)} scored + ${count(rejected)} rejected` +
  (skipped > 0 ? ` + ${count(skipped)} skipped` : '');

type CountsOfRows = Pick<RunCounts, 'rows' | 'scored' | 'rejected' | 'skipped'>;

/** Rows per second. */
export const rate = (rows: number, seconds: number): number => Math.round(rows / Math.max(seconds, 1e-9));

const listOf = (spec: RunSpec, counts: Readonly<RunCounts>): string | null =>
  counts.rejected > 0 && spec.dead_letter?.type === 'file' ? spec.dead_letter.path : null;

const placeOf = (end: End): string => connectorOf(end).nameOf(end);

const round = (n: number): number => Number(n.toFixed(3));
