// The data of a run's report. The data is embedded in the page, so that the report of the next run can compare both
// runs.
import { VERSION } from '../core/version.ts';
import type { ColumnDigest, DecisionShare, Shares } from '../drift/drift-report.ts';
import { driftDigest } from '../drift/drift-report.ts';
import type { RunResult } from '../runs/context.ts';
import type { RunFindings } from '../runs/gate.ts';
import { exceededTable } from '../runs/gate.ts';
import type { RunSpec } from '../runs/spec.ts';

export const REPORT_ID = 'sluice-run-report';

/** The data of a run with published outputs, for comparison with a later run. */
interface ComparedRun {
  began: string;
  model: string;
  rows: number;
  /** Inner edges of the score bins. Absent: an earlier release wrote the report. */
  edges?: number[];
  score: Shares | null;
  decisions: DecisionShare[];
}

interface ReportedInput {
  input: string;
  rows: number;
  scored: number;
  rejected: number;
  rejectedByCode: Record<string, number>;
  /** The first rejected rows. A column is named only if it is a column of the model. */
  rejects: { row: number; code: string; column: string | null }[];
  verdict: 'passed' | 'stopped' | null;
  /** The limits that were exceeded, as a table with a header row. */
  exceeded: string[][];
}

export interface ReportData extends ComparedRun {
  name: string;
  sluice: string;
  node: string;
  modelSha256: string;
  evaluator: string | null;
  workers: number | null;
  seconds: number;
  exitCode: number;
  /** The error that ended the run; null if the run succeeded. */
  error: string | null;
  options: [name: string, value: string][];
  inputs: ReportedInput[];
  /** Inputs of a pattern that an earlier run had scored. The report does not cover them. */
  inputsDoneBefore: number;
  outputs: string[];
  rejectLists: string[];
  manifests: string[];
  edges: number[];
  training: Shares | null;
  scorePsi: number | null;
  columns: ColumnDigest[];
  /** Points of the throughput chart: seconds since the start, and rows read by then. */
  progress: [seconds: number, rows: number][];
  published: boolean;
  previous: ComparedRun | null;
}

export interface ReportedRun {
  name: string;
  spec: RunSpec;
  findings: RunFindings;
  /** Null if nothing was published. */
  result: RunResult | null;
  began: Date;
  seconds: number;
  exitCode: number;
  error: string | null;
  progress: [seconds: number, rows: number][];
  manifests: string[];
  previous: ComparedRun | null;
}

/** Returns null if the run ended before its model was resolved. */
export function reportData(run: ReportedRun): ReportData | null {
  const { spec, findings, result } = run;
  const { model } = findings;
  if (!model) return null;
  const report = findings.report();
  const digest = report && driftDigest(report);
  const known = new Set(model.manifest.columns.map(({ name }) => name));
  return {
    name: run.name,
    sluice: VERSION,
    node: process.version,
    began: run.began.toISOString(),
    seconds: run.seconds,
    exitCode: run.exitCode,
    error: run.error,
    model: model.ref,
    modelSha256: model.manifest.onnx.sha256,
    evaluator: result?.by?.evaluator ?? null,
    workers: result?.by?.workers ?? null,
    options: optionsOf(spec),
    inputs: findings.inputs.map(({ input, counts, gate }) => ({
      input,
      rows: counts.rows,
      scored: counts.scored,
      rejected: counts.rejected,
      rejectedByCode: counts.rejectedByCode,
      rejects: counts.details.flatMap(({ row, code, column }) =>
        row === undefined ? [] : [{ row, code, column: column !== undefined && known.has(column) ? column : null }],
      ),
      verdict: gate?.verdict ?? null,
      exceeded: gate && gate.exceeded.length > 0 ? exceededTable(gate.exceeded) : [],
    })),
    inputsDoneBefore: result?.inputsDoneBefore ?? 0,
    outputs: result?.outputs ?? [],
    rejectLists: result?.rejectLists ?? [],
    manifests: run.manifests,
    rows: report?.rows ?? 0,
    edges: model.manifest.baseline?.score?.edges ?? [],
    training: report?.score?.training ?? null,
    score: report?.score?.now ?? null,
    scorePsi: report?.score?.psi ?? null,
    decisions: report?.decisions ?? [],
    columns: digest?.columns ?? [],
    progress: run.progress,
    published: result !== null,
    previous: run.previous,
  };
}

/** The configured options, without secrets. */
function optionsOf({ score, on_invalid, allow_empty, deadline, gate }: RunSpec): [string, string][] {
  const said: Record<string, unknown> = { ...score, on_invalid, allow_empty, deadline, gate };
  return Object.entries(said).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, typeof value === 'string' ? value : JSON.stringify(value)]],
  );
}

/** The data as an element of the HTML page. */
export const embedded = (data: ReportData): string =>
  `<script type="application/json" id="${REPORT_ID}">${JSON.stringify(data).replaceAll('<', '\\u003c')}</script>`;

/**
 * The data with which the next run is compared: the data of the page's run if that run published scores, otherwise the
 * data with which the page compares its run. Undefined if the text is not a report.
 */
export function comparedIn(page: string): ComparedRun | null | undefined {
  const mark = `<script type="application/json" id="${REPORT_ID}">`;
  const from = page.indexOf(mark);
  if (from < 0) return undefined;
  try {
    const data = JSON.parse(page.slice(from + mark.length, page.indexOf('</script>', from))) as ReportData;
    // A run that found all inputs already scored has nothing to compare with either.
    if (!data.published || data.rows === 0) return data.previous;
    const { began, model, rows, edges, score, decisions } = data;
    return { began, model, rows, edges, score, decisions };
  } catch {
    return undefined;
  }
}
