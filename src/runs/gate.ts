// The gate compares an input's drift and rejected rows with configured limits, after scoring and before the output is
// published.

import type { GateLimits } from '../config/options/gate-limits.ts';
import { STDIO } from '../connectors/stdio/stdio-connector.ts';
import { didYouMean } from '../core/did-you-mean.ts';
import { type ErrorCode, SluiceError } from '../core/errors.ts';
import type { DriftReports } from '../drift/drift-monitor.ts';
import { DriftPlan } from '../drift/drift-plan.ts';
import {
  type ColumnDrift,
  type DriftReport,
  driftReport,
  FEWEST_ROWS,
  percent,
  textTable,
} from '../drift/drift-report.ts';
import type { RunCounts } from '../engine/counts.ts';
import { isRevocable } from '../io/sink/file-sink.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { type RejectsByColumn, TallyAccumulator } from './accumulator.ts';
import type { RunSpec } from './spec.ts';

/** Limits that can be set for single columns. */
const OF_COLUMNS = ['max_missing', 'max_unseen', 'max_out_of_range', 'max_psi'] as const;
type ColumnLimit = (typeof OF_COLUMNS)[number];
/** Error code of the rows that count towards a limit. */
const REJECTED_WITH: Partial<Record<ColumnLimit, ErrorCode>> = {
  max_missing: 'missing_value',
  max_unseen: 'unseen_category',
  max_out_of_range: 'number_out_of_range',
};
const WHAT: Record<keyof GateLimits, string> = {
  max_rejects: 'rejected',
  min_rows: 'rows',
  max_score_psi: 'PSI',
  max_missing: 'missing',
  max_unseen: 'unseen',
  max_out_of_range: 'out of range',
  max_psi: 'PSI',
};
/** Maximum number of limits that a message lists. */
const TOLD = 20;
/** Maximum number of limits in a log line; the log cuts messages at 500 characters. */
const LOGGED = 5;

/** A limit that an input exceeds. */
interface ExceededLimit {
  limit: keyof GateLimits;
  /** Null if the limit applies to the whole input or to the score. */
  column: string | null;
  /** The measured share, PSI, or number of rows. */
  found: number;
  allowed: number;
  /** The same measure in the training data; null if unavailable. */
  training: number | null;
}

export interface GateVerdict {
  verdict: 'passed' | 'stopped';
  limits: GateLimits;
  /** Sorted by excess (measured value / limit), largest first. */
  exceeded: ExceededLimit[];
  /** A PSI limit was configured, but the input has too few rows to compute PSI. */
  tooFewRows: boolean;
}

/** Messages about data that the limits need but the package does not contain. */
export function gateFaults(limits: GateLimits, manifest: Manifest): string[] {
  const plan = DriftPlan.of(manifest);
  const said = (Object.keys(limits) as (keyof GateLimits)[]).filter(
    (key) => key !== 'max_rejects' && key !== 'min_rows',
  );
  if (said.length === 0) return [];
  if (!plan) return [`gate: ${said.join(', ')} need a baseline, but the package has none: register it with --training-data`]; // biome-ignore format: one line
  const faults =
    limits.max_score_psi !== undefined && !plan.score ? ['gate.max_score_psi: the baseline has no score'] : [];
  const names = manifest.columns.map(({ name }) => name);
  for (const key of OF_COLUMNS) {
    const measured = new Set(plan.columns.filter(measurable(key, manifest)).map(({ name }) => name));
    const limit = limits[key];
    for (const column of typeof limit === 'object' ? Object.keys(limit) : []) {
      if (column === '*' || measured.has(column)) continue;
      const known = names.includes(column);
      faults.push(`gate.${key}: ${known ? `${column} is not measured for it` : `the model has no column ${column}${didYouMean(column, names)}`}`); // biome-ignore format: one line
    }
  }
  return faults;
}

function measurable(key: ColumnLimit, manifest: Manifest): (column: DriftPlan['columns'][number]) => boolean {
  if (key === 'max_unseen') {
    // Numbers and booleans are valid or rejected, never unseen.
    return ({ column }) => ['category', 'text'].includes(manifest.columns[column]?.kind ?? '');
  }
  if (key !== 'max_out_of_range') return ({ column }) => column >= 0;
  const ranged = new Set(manifest.columns.flatMap(({ range }, i) => (range ? [i] : [])));
  return ({ column, binning, range, sketch }) =>
    column >= 0 && binning.by === 'edges' && ((range !== null && sketch >= 0) || ranged.has(column));
}

/** @throws SluiceError usage: the package does not contain the data that the limits need */
function refuseGate(limits: GateLimits, manifest: Manifest): void {
  const faults = gateFaults(limits, manifest);
  if (faults.length > 0) throw new SluiceError('usage', faults.join('\n'));
}

/**
 * Rejects outputs that cannot be withheld until the gate has judged them. A null is a topic.
 * @throws SluiceError usage
 */
export async function refuseVisible(outputs: readonly (string | null)[]): Promise<void> {
  for (const name of outputs) {
    if (name !== null && name !== STDIO && (name === '/dev/null' || (await isRevocable(name)))) continue;
    throw new SluiceError('usage', 'a gate needs a file as the output, because other outputs cannot be held back');
  }
}

/** Compares an input with the limits. `report`: null if no drift was measured. */
export function judgeGate(
  limits: GateLimits,
  counts: Readonly<RunCounts>,
  report: DriftReport | null,
  rejects: RejectsByColumn,
): GateVerdict {
  const exceeded = [...ofInput(limits, counts, report)];
  for (const column of report?.columns ?? []) {
    for (const key of OF_COLUMNS) {
      const allowed = limitOf(limits[key], column.column);
      if (allowed === null) continue;
      const found = foundIn(column, key, report!.rows, rejects.get(column.column) ?? {});
      if (found !== null && found > allowed) {
        exceeded.push({ limit: key, column: column.column, found, allowed, training: trainingOf(column, key) });
      }
    }
  }
  const psi = limits.max_psi !== undefined || limits.max_score_psi !== undefined;
  return {
    verdict: exceeded.length > 0 ? 'stopped' : 'passed',
    limits,
    exceeded: exceeded.sort((a, b) => excess(b) - excess(a)),
    tooFewRows: psi && report !== null && !report.enough,
  };
}

/** The measured value divided by its limit. */
const excess = ({ limit, found, allowed }: ExceededLimit): number =>
  limit === 'min_rows' ? Infinity : found / Math.max(allowed, 1e-4);

function* ofInput(
  { min_rows: least, max_rejects: most, max_score_psi: psi }: GateLimits,
  { rows, rejected }: Readonly<RunCounts>,
  report: DriftReport | null,
): Generator<ExceededLimit> {
  const ofWhole = { column: null, training: null };
  if (least !== undefined && rows < least) yield { limit: 'min_rows', found: rows, allowed: least, ...ofWhole };
  if (most !== undefined && rows > 0) {
    const found = most < 1 ? rejected / rows : rejected;
    if (found > most) yield { limit: 'max_rejects', found, allowed: most, ...ofWhole };
  }
  const score = report?.score?.psi ?? null;
  if (psi !== undefined && score !== null && score > psi) {
    yield { limit: 'max_score_psi', found: score, allowed: psi, ...ofWhole };
  }
}

function limitOf(limit: GateLimits[ColumnLimit], column: string): number | null {
  if (typeof limit !== 'object') return limit ?? null;
  if (Object.hasOwn(limit, column)) return limit[column]!;
  return limit['*'] ?? null;
}

/**
 * The share of affected rows among the scored rows and the rows rejected with the limit's error code. Null if the share
 * was not measured.
 */
function foundIn(
  { psi, now, outOfRange }: ColumnDrift,
  key: ColumnLimit,
  scored: number,
  rejects: Partial<Record<ErrorCode, number>>,
): number | null {
  if (key === 'max_psi') return psi;
  const rejected = rejects[REJECTED_WITH[key]!] ?? 0;
  const rows = scored + rejected;
  if (rows === 0) return null;
  const share = { max_missing: now?.missing, max_unseen: now?.unseen, max_out_of_range: outOfRange }[key] ?? 0;
  // The share of whole rows, so that an input with exactly the allowed share does not exceed the limit by rounding.
  return (Math.round(share * scored) + rejected) / rows;
}

function trainingOf({ training }: ColumnDrift, key: ColumnLimit): number | null {
  if (key === 'max_psi') return null;
  return { max_missing: training.missing, max_unseen: training.unseen, max_out_of_range: 0 }[key];
}

/** Formats a number of the gate for people. */
function gateNumber(n: number | null, limit: keyof GateLimits): string {
  if (n === null) return '';
  if (limit === 'max_psi' || limit === 'max_score_psi') return n.toFixed(2);
  if (limit === 'min_rows' || (limit === 'max_rejects' && n >= 1)) return n.toLocaleString('en-US');
  return percent(n);
}

/** The column that exceeds a limit; a placeholder if the limit applies to the whole input or to the score. */
const subjectOf = ({ column, limit }: ExceededLimit): string =>
  column ?? (limit === 'max_score_psi' ? '(score)' : '(input)');

/** The largest excesses on one line, such as `income PSI 0.71 (limit 0.25)`. */
function exceededLine(exceeded: readonly ExceededLimit[]): string {
  const listed = exceeded.slice(0, LOGGED).map((one) => {
    const { limit, found, allowed } = one;
    return `${subjectOf(one)} ${WHAT[limit]} ${gateNumber(found, limit)} (limit ${gateNumber(allowed, limit)})`;
  });
  const more = exceeded.length > LOGGED ? `, and ${exceeded.length - LOGGED} more` : '';
  return `${listed.join(', ')}${more}`;
}

/** The exceeded limits as table rows, with a header row. */
export function exceededTable(exceeded: readonly ExceededLimit[]): string[][] {
  const head = ['column', 'what', 'found', 'limit', 'training'];
  return [
    head,
    ...exceeded.map((one) => [
      subjectOf(one),
      WHAT[one.limit],
      gateNumber(one.found, one.limit),
      gateNumber(one.allowed, one.limit),
      gateNumber(one.training, one.limit),
    ]),
  ];
}

/** @throws SluiceError gate_stopped: names the exceeded limits and values */
export function refuseStopped(
  input: string,
  { verdict, exceeded }: GateVerdict,
  { rows, rejectedByCode }: Pick<RunCounts, 'rows' | 'rejectedByCode'>,
): void {
  if (verdict === 'passed') return;
  const limits = exceeded.length === 1 ? 'a limit is not' : `${exceeded.length} limits are not`;
  const more = exceeded.length > TOLD ? [`  and ${exceeded.length - TOLD} more`] : [];
  const codes = Object.entries(rejectedByCode).sort((a, b) => b[1] - a[1]);
  const read = `${rows.toLocaleString('en-US')} rows read${codes.length === 0 ? '' : `, rejected by code: ${codes.map(([code, n]) => `${code} ${n.toLocaleString('en-US')}`).join(', ')}`}`;
  const lines = [...textTable(exceededTable(exceeded.slice(0, TOLD))), ...more, read];
  throw new SluiceError(
    'gate_stopped',
    `the gate stopped ${input}, nothing was published: ${limits} met\n${lines.join('\n')}`,
    { logMessage: `the gate stopped ${input}, nothing was published: ${exceededLine(exceeded)}; ${read}` },
  );
}

/** Summary line of a passed gate. */
export function gateWords({ limits, tooFewRows }: GateVerdict): string {
  const few = tooFewRows ? `; PSI was not checked: fewer than ${FEWEST_ROWS.toLocaleString('en-US')} rows` : '';
  return `gate passed: ${Object.keys(limits).join(', ')}${few}`;
}

/** An input whose rows were all scored. The gate may still have stopped its publication. */
export interface InputFinding {
  input: string;
  counts: Readonly<RunCounts>;
  /** Null if the run has no gate. */
  gate: GateVerdict | null;
}

/** Maximum number of inputs whose rejected rows are retained for a report. */
const KEPT_DETAILS = 20;

/** Findings of a run about its inputs. Call `open` once, then `begin` and `judge` for each input. */
export class RunFindings {
  readonly inputs: InputFinding[] = [];
  readonly #reported: boolean;
  #limits: RunSpec['gate'];
  #model: ModelPackage | null = null;
  #plan: DriftPlan | null = null;
  /** Accumulated over all judged inputs, and over those that were published. */
  readonly #all = new TallyAccumulator();
  readonly #published = new TallyAccumulator();
  /** Accumulated over the inputs whose outputs are complete, but not published yet. */
  readonly #complete = new TallyAccumulator();
  #isPublished = false;
  /** The current input. */
  #current = new TallyAccumulator();

  /** `reported`: list the inputs even without a gate. */
  constructor(reported = false) {
    this.#reported = reported;
  }

  /** The input that is being scored. */
  get current(): TallyAccumulator {
    return this.#current;
  }

  /** @throws SluiceError usage: the package does not contain the data that the gate needs */
  open({ gate }: Pick<RunSpec, 'gate'>, model: ModelPackage): void {
    if (gate) refuseGate(gate, model.manifest);
    this.#limits = gate;
    this.#model = model;
    this.#plan = DriftPlan.of(model.manifest);
  }

  get model(): ModelPackage | null {
    return this.#model;
  }

  /** Rows of the inputs that were stopped. */
  get stoppedRows(): number {
    return this.inputs.reduce((sum, { gate, counts }) => sum + (gate?.verdict === 'stopped' ? counts.rows : 0), 0);
  }

  /** Begins an input; called again when the input is scored again. */
  begin(): void {
    this.#current = new TallyAccumulator();
  }

  /** Judges an input after its last row. @throws SluiceError gate_stopped */
  judge(input: string, counts: Readonly<RunCounts>): void {
    this.#all.restore(this.#current.save());
    const limits = this.#limits;
    if (!this.#reported && !limits) return;
    const gate = limits
      ? judgeGate(limits, counts, this.#driftOf(this.#current), this.#current.rejectedByColumn)
      : null;
    const details = this.inputs.length < KEPT_DETAILS ? counts.details : [];
    this.inputs.push({ input, counts: { ...counts, rejectedByCode: { ...counts.rejectedByCode }, details }, gate });
    if (gate) refuseStopped(input, gate, counts);
  }

  /** The output of the current input is complete. It is published later, maybe together with others. */
  complete(): void {
    this.#complete.restore(this.#current.save());
  }

  /** All complete outputs were published. */
  published(): void {
    this.#isPublished = true;
    this.#published.restore(this.#complete.take());
  }

  /** No complete output will be published. */
  discarded(): void {
    this.#complete.take();
  }

  /**
   * Drift of all published inputs together; if nothing was published, of all inputs that were scored to their end. Null
   * if no drift is measured.
   */
  report(): DriftReport | null {
    return this.#driftOf(this.#isPublished ? this.#published : this.#all);
  }

  /** `report()` by the reference of the model; empty if no row was measured. */
  reports(): DriftReports {
    const report = this.report();
    return report && report.rows > 0 ? { [this.#model!.ref]: report } : {};
  }

  #driftOf(tallies: TallyAccumulator): DriftReport | null {
    return this.#plan && driftReport(this.#plan, tallies.driftOf(this.#plan));
  }
}
