// The rows of the training table for the training-data check.
// Contains their outcomes as classes of the model, and their scores according to the registration.
import type { Manifest } from '../model/package/manifest.ts';
import { areForeign, assignLabels, isGoodWord, outcomeLabels } from './classes.ts';
import type { Draft } from './draft.ts';
import { fitLosses, type PairedGain, pairedGain } from './fit-loss.ts';
import { SwapScorer } from './swap-scorer.ts';
import { booleanWord } from './training-table.ts';

/** Maximum number of rows for the check. */
const WITNESS_ROWS = 20_000;
/** Minimum number of rows for a significant result. `FEWEST_OF_A_CLASS`: minimum number of rows per class. */
const FEWEST_ROWS = 100;
const FEWEST_OF_A_CLASS = 20;
/** Minimum advantage of the scores over a constant for them to be informative about the outcome, in standard errors. */
const KNOWS = 2;
/** Minimum advantage of one interpretation of the labels over another, in standard errors. */
const SURE = 4;

export interface WitnessRows {
  readonly task: 'binary' | 'multiclass' | 'regression';
  readonly rows: readonly (readonly string[])[];
  /**
   * The outcome of each row. binary: 1 for the positive class, else 0. multiclass: index of the class. regression: the
   * value.
   */
  readonly truth: Float64Array;
  /** The scorer, which contains the predictions for the same rows. */
  readonly scorer: SwapScorer;
}

interface WitnessFound {
  /** null: the table cannot be used for the check. */
  readonly witness: WitnessRows | null;
  /** Why the table cannot be used; empty if it can. */
  readonly why: string;
  /** Contradictions between the outcome and the registration. */
  readonly contradictions: readonly string[];
}

/** Selects the rows for the check. @throws SluiceError model_failed if the model fails on a row */
export async function findWitness(draft: Draft, manifest: Manifest): Promise<WitnessFound> {
  const { task, outcome } = manifest;
  const none = (why: string, ...contradictions: string[]): WitnessFound => ({ witness: null, why, contradictions });
  if (outcome === undefined || task === 'score') return none('no outcome column is named, or the task is score');
  const field = draft.table.header.indexOf(outcome);
  const known = draft.table.sample.filter(({ fields }) => fields[field]!.trim() !== '').slice(0, WITNESS_ROWS);
  if (known.length < FEWEST_ROWS) return none(`fewer than ${FEWEST_ROWS} rows have an outcome in ${outcome}`);
  const opened = await SwapScorer.open(
    draft,
    manifest,
    known.map((k) => k.fields),
  );
  const rows = opened.kept.map((r) => known[r]!.fields);
  const { scorer } = opened;
  const read = task === 'regression' ? valuesOf(rows, field) : classesOf(draft, manifest, scorer, rows.map((r) => r[field]!)); // biome-ignore format: one line
  if (typeof read === 'string') return none(read, read);
  if (!tells(task, read)) return none(`the rows have too few different values in ${outcome}`);
  const gain = gainOverConstant({ task, rows, truth: read, scorer });
  if (gain.z >= KNOWS) return { witness: { task, rows, truth: read, scorer }, why: '', contradictions: [] };
  const text = `the scores do not predict ${outcome}: a constant fits the table as well (${gain.z.toFixed(1)} standard errors). The model was trained on another outcome (--outcome) or table, or with another column order or codes`;
  return { witness: { task, rows, truth: read, scorer }, why: '', contradictions: [text] };
}

/** The outcomes as numbers (true and false become 1 and 0), or a text that describes the error. */
function valuesOf(rows: readonly (readonly string[])[], field: number): Float64Array | string {
  const values = Float64Array.from(rows, (row) => Number(booleanWord(row[field]!) ?? row[field]!));
  return values.every(Number.isFinite) ? values : 'the outcome of some rows is not a number';
}

/**
 * For each row, whether it is in the positive class, or the index of its class. A text describes an error in the
 * outcome.
 */
function classesOf(
  draft: Draft,
  manifest: Manifest,
  scorer: SwapScorer,
  cells: readonly string[],
): Float64Array | string {
  const { outcome, classes = [], task } = manifest;
  const labels = outcomeLabels(manifest, cells);
  const positive = classes.indexOf(manifest.positive_class!);
  const truthBy = (classOf: ReadonlyMap<string, number>) =>
    Float64Array.from(cells, (cell) =>
      task === 'binary' ? Number(classOf.get(cell) === positive) : classOf.get(cell)!,
    );
  const found = areForeign(labels) || task === 'binary' ? assignLabels(manifest, cells, scorer.given) : null;
  if (!areForeign(labels)) {
    const turned =
      found !== null && found.lead.z >= SURE && [...found.classOf].some(([cell, c]) => labels.classOf.get(cell) !== c);
    if (!turned || !turnedOnPurpose(draft, manifest)) return truthBy(withoutForeign(labels.classOf, cells));
    draft.findings.assumed(
      `class ${manifest.positive_class} of the model corresponds to ${outcome} = ${[...found.classOf].find(([, c]) => c === positive)?.[0]} in the table: the model was trained on the inverted outcome, as --positive-class declares`,
    );
    return truthBy(found.classOf);
  }
  const share = `${(100 * labels.foreign).toFixed(0)} % of the rows have an outcome in ${outcome} that is not a class of the model (${classes.join(', ')})`;
  if (!found) return `${share}: the model was trained on another outcome (--outcome)`;
  const words = [...found.classOf].sort((a, b) => a[1] - b[1]).map(([cell, c]) => `${cell} is class ${classes[c]}`);
  draft.findings.assumed(
    `${share}; its values are assigned to classes by the scores: ${words.join(', ')}${found.lead.z >= SURE ? ` (${found.lead.z.toFixed(0)} standard errors better than any other assignment)` : ', although another assignment fits nearly as well'}`,
  );
  return truthBy(found.classOf);
}

/** Assigns unknown cells to class 0. They are few, so they are not treated as a separate class. */
const withoutForeign = (classOf: ReadonlyMap<string, number>, cells: readonly string[]): ReadonlyMap<string, number> =>
  new Map([...new Set(cells)].map((cell) => [cell, classOf.get(cell) ?? 0]));

/** Whether the user chose a positive class whose label does not name the good class. */
const turnedOnPurpose = ({ options }: Draft, { positive_class }: Manifest): boolean =>
  options.positiveClass !== undefined && !isGoodWord(String(positive_class)) && String(positive_class) !== '1';

function tells(task: WitnessRows['task'], truth: Float64Array): boolean {
  if (truth.length < FEWEST_ROWS) return false;
  if (task === 'regression') return truth.some((t) => t !== truth[0]);
  const counts = Map.groupBy(truth, (t) => t);
  return [...counts.values()].filter((rows) => rows.length >= FEWEST_OF_A_CLASS).length >= 2;
}

/** The advantage of the scores over a constant. Reversed scores are treated as equally informative. */
function gainOverConstant({ task, truth, scorer: { given } }: WitnessRows): PairedGain {
  const level = fitLosses(task, { values: given.values.map(() => 0.5), width: given.width }, truth);
  const gains = [given.values, ...(task === 'binary' ? [given.values.map((p) => 1 - p)] : [])].map((values) =>
    pairedGain(level, fitLosses(task, { values, width: given.width }, truth)),
  );
  return gains.reduce((a, b) => (b.z > a.z ? b : a));
}
