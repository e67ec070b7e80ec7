// The report card of a package, as JSON and as Markdown for auditors.
// Contains the findings of the registration and the results of the training-data check.
import { SluiceError } from '../core/errors.ts';
import type { BatchInvariance } from '../inference/sandbox/sample-scorer.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { Deviation } from './expected.ts';

export interface Finding {
  /**
   * `info`: a fact was detected. `assumed`: a fact is unknown, so a default is used. `warning`: a person should review
   * it before the model is served.
   */
  level: 'info' | 'assumed' | 'warning';
  /** The affected column, if the finding concerns one. */
  column?: string;
  text: string;
}

export class Findings {
  readonly list: Finding[] = [];

  info(text: string, column?: string): void {
    this.#add('info', text, column);
  }
  assumed(text: string, column?: string): void {
    this.#add('assumed', text, column);
  }
  warn(text: string, column?: string): void {
    this.#add('warning', text, column);
  }

  #add(level: Finding['level'], text: string, column?: string): void {
    this.list.push({ level, ...(column === undefined ? {} : { column }), text });
  }
}

/** The error that ends a registration. Its message lists every reason. */
export const refusal = (text: string): SluiceError => new SluiceError('registration_refused', text);

/** Formats a count with its noun: `1 row`, `2 rows`. */
export const plural = (n: number, what: string): string => `${n.toLocaleString('en')} ${what}${n === 1 ? '' : 's'}`;

// The results of the training-data check: the fit of the model, and the swaps that were tested.

export interface Residual {
  readonly column: string;
  /** A category, true, false, `missing`, or a tenth of the numbers in ascending order, such as `part 3 of 10`. */
  readonly level: string;
  readonly rows: number;
  /** Mean of outcome − prediction. */
  readonly mean: number;
  /** The mean divided by its standard error. */
  readonly z: number;
}

export interface TrainingFit {
  readonly rows: number;
  /**
   * binary: AUC of the positive class. multiclass: mean AUC of each class against all other classes. regression: null.
   */
  readonly auc: number | null;
  /** Mean log loss of the uncorrected probabilities; null: regression. */
  readonly logLoss: number | null;
  /** Fraction of the variance of the outcome that the predicted values explain; null: the task is not a regression. */
  readonly explainedVariance: number | null;
  readonly brier: number | null;
  /**
   * Only for binary models: the expected calibration error, and the calibration line of the log-odds. Correct
   * probabilities have intercept 0 and slope 1.
   */
  readonly calibration: {
    readonly ece: number;
    readonly intercept: number | null;
    readonly slope: number | null;
  } | null;
  /** The largest residuals by |z| over all columns and levels, including missing values. */
  readonly residuals: readonly Residual[];
}

export interface WitnessReport {
  readonly fit: TrainingFit | null;
  readonly swaps: { readonly rows: number; readonly tried: number; readonly offered: number } | null;
  /** Contradictions with the table that the user overrode, with the reason; null: none were overridden. */
  readonly forced: { readonly reason: string; readonly contradictions: readonly string[] } | null;
}

const shown = (x: number | null, digits = 4): string =>
  x === null ? '–' : x.toLocaleString('en', { maximumFractionDigits: digits });

export function witnessLines({ fit, swaps, forced }: WitnessReport): string[] {
  return [
    ...(fit ? fitLines(fit) : ['Not compared with outcomes: see the assumptions.']),
    ...(swaps
      ? [
          `${plural(swaps.tried, 'other registration')} tried (order, codes, missing values, class) on up to ${plural(swaps.rows, 'row')}${swaps.tried < swaps.offered ? `, out of ${shown(swaps.offered)}` : ''}.`,
        ]
      : []),
    ...(forced
      ? [
          '',
          `**Registered with --force, although the table contradicts it:** ${forced.reason}`,
          '',
          ...forced.contradictions.map((c) => `- ${c}`),
        ]
      : []),
  ];
}

function fitLines({ rows, auc, logLoss, explainedVariance, brier, calibration, residuals }: TrainingFit): string[] {
  const numbers: [string, number | null][] = [
    ['AUC', auc],
    ['log loss', logLoss],
    ['Brier score', brier],
    ['explained variance', explainedVariance],
    ['calibration error', calibration?.ece ?? null],
    ['calibration slope', calibration?.slope ?? null],
    ['calibration intercept', calibration?.intercept ?? null],
  ];
  const known = numbers.filter(([, value]) => value !== null).map(([name, value]) => `${name} ${shown(value)}`);
  const [largest] = residuals;
  return [
    `Over ${plural(rows, 'row')}: ${known.join(', ')}.`,
    ...(largest ? [`Largest residual of a level: ${residualWords(largest)}.`] : []),
  ];
}

const residualWords = ({ column, level, rows, mean, z }: Residual): string =>
  `\`${column}\` ${level}, ${mean > 0 ? '+' : ''}${shown(mean, 4)} over ${plural(rows, 'row')}, z ${z.toFixed(1)}`;

export interface Report {
  model: string;
  sha256: string;
  /** Time of the check, ISO 8601. */
  checked: string;
  sluice: string;
  onnx: { producer: string; irVersion: number; opsets: Record<string, number>; bytes: number };
  task: Manifest['task'];
  /**
   * The version from which this version was made by changing the policy. undefined: this version was made from a model
   * file.
   */
  from?: { model: string; package_sha256: string; reason?: string };
  training: { file: string; rows: number; sha256: string | null } | null;
  /** Result of the comparison with the predictions of the training library; null: no predictions were supplied. */
  selfTest: (Deviation & { tolerance: number; passed: boolean; source: string }) | null;
  batchInvariance: BatchInvariance;
  speed: { rowsPerSecond: number; batchRows: number; loadMs: number; memoryBytes: number };
  /**
   * The interpretation method, and the reasons why better methods are not used; null: the method was not determined.
   */
  interpretation: { method: string; space: string; reasons: readonly string[] } | null;
  /** Result of the training-data check; null: no training table was supplied. */
  witness: WitnessReport | null;
  scores: { mean: number; min: number; max: number; outcomeRate: number | null } | null;
  findings: readonly Finding[];
}

const n = (x: number, digits = 0): string => x.toLocaleString('en', { maximumFractionDigits: digits });

/** Whether all batch sizes produced the same bits for whole groups of rows. */
export const isInvariant = (b: BatchInvariance): boolean => Object.values(b.different).every((d) => d === 0);

function invarianceText(b: BatchInvariance): string {
  if (b.single) return 'The graph takes one row at a time: a row cannot depend on its neighbours.';
  if (isInvariant(b)) {
    const bare = Object.values(b.differentBare).some((d) => d > 0)
      ? ' (without groups of rows, scores of the graph change with the batch size; Sluice evaluates whole groups)'
      : '';
    return `Scores are bit-identical in batches of ${b.sizes.join(', ')} rows${bare}.`;
  }
  const changed = Object.entries(b.different).filter(([, d]) => d > 0);
  return `Scores change with the batch size: ${changed.map(([s, d]) => `${plural(d, 'row')} at ${s}`).join(', ')}, by up to ${b.largest}.`;
}

export function selfTestText(s: Report['selfTest']): string {
  if (!s) return 'Not checked: no predictions of the training library were given (--expected).';
  const rejected =
    s.rejected > 0 ? ` ${plural(s.rejected, 'row')} of the expectation are rejected by the encoding rules.` : '';
  const largest = `the largest difference is ${s.largest.toExponential(1)}`;
  return s.passed
    ? `Passed: ${plural(s.rows, 'row')} agree with ${s.source} within ${s.tolerance.toExponential()}, ${largest}.${rejected}`
    : `Failed: ${plural(s.beyond, 'row')} of ${n(s.rows)} differ from ${s.source} by more than ${s.tolerance.toExponential()}, ${largest} (row ${s.worst + 1}).${rejected}`;
}

export function reportMarkdown(r: Report): string {
  const by = (level: Finding['level']) =>
    r.findings
      .filter((f) => f.level === level)
      .map((f) => `- ${f.column === undefined ? '' : `\`${f.column}\` `}${f.text}`);
  const section = (title: string, lines: string[]) => (lines.length === 0 ? [] : [`## ${title}`, '', ...lines, '']);
  const { speed, scores } = r;
  return [
    `# ${r.model}`,
    '',
    '| | |',
    '| --- | --- |',
    `| checked | ${r.checked} by Sluice ${r.sluice} |`,
    `| model file | ${n(r.onnx.bytes)} bytes, sha256 \`${r.sha256}\` |`,
    `| exported by | ${r.onnx.producer.split('\n')[0]} |`,
    `| task | ${r.task} |`,
    ...(r.from
      ? [
          `| made from | ${r.from.model}, with another policy${r.from.reason === undefined ? '' : ` (${r.from.reason})`}; package \`${r.from.package_sha256}\` |`,
        ]
      : []),
    ...(r.training ? [`| training table | ${r.training.file}, ${plural(r.training.rows, 'row')} |`] : []),
    ...(scores
      ? [
          `| scores of the sample | mean ${n(scores.mean, 4)}, from ${n(scores.min, 4)} to ${n(scores.max, 4)}${scores.outcomeRate === null ? '' : `; share of the positive class in the table ${n(scores.outcomeRate, 4)}`} |`,
        ]
      : []),
    ...(r.interpretation ? [`| interpretation | ${r.interpretation.method}, in ${r.interpretation.space} |`] : []),
    `| speed | ${n(speed.rowsPerSecond)} rows/s on one thread in batches of ${speed.batchRows} |`,
    `| memory | ${n(speed.memoryBytes / 1e6)} MB to load, in ${n(speed.loadMs)} ms |`,
    '',
    ...section('Against the training library', [selfTestText(r.selfTest)]),
    ...section('Against the training table', r.witness ? witnessLines(r.witness) : []),
    ...section('Batch invariance', [invarianceText(r.batchInvariance)]),
    ...section('Warnings', by('warning')),
    ...section('Assumed without evidence', by('assumed')),
    ...section('Found', by('info')),
  ].join('\n');
}
