// Finds why a model does not reproduce the predictions of the training library.
// Sources: evidence in the predictions, and common properties of the affected rows.
import type { Scores } from '../inference/evaluate/evaluator.ts';
import { Interpreter } from '../inference/evaluate/prediction.ts';
import { looksIsotonic } from '../inference/onnx/labels.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { Draft, DraftColumn, Expectation } from './draft.ts';
import type { Predictions } from './fit-loss.ts';
import { binning } from './portfolio-change.ts';
import { SwapScorer } from './swap-scorer.ts';
import { swapsOf } from './swap-test.ts';

export const LINKS: readonly (readonly [words: string, undo: (v: number) => number])[] = [
  ['its logarithm (some exporters of Poisson, gamma and Tweedie models leave the exponential out)', Math.exp],
  ['its log1p', Math.expm1],
  ['its square root (LightGBM reg_sqrt)', (v) => v * v],
  ['its log-odds (XGBoost reg:logistic is exported without the sigmoid)', (v) => 1 / (1 + Math.exp(-v))],
];

// The functions below find common properties of the affected rows: a level of a column, or a swap of two columns that
// explains the differences.

/**
 * Minimum fraction of the differing rows that have the level. `MORE`: minimum excess of the fraction of differing rows
 * among the rows with the level.
 */
const HOLDS = 0.8;
const MORE = 0.3;
/** Minimum number of differing rows with the level. */
const FEWEST = 3;
/** Number of rows on which swaps are tried, starting with the differing rows. */
const TRIED_ROWS = 400;
/** Maximum remaining difference, relative to the original one, for a swap to be an explanation. */
const EXPLAINED = 0.1;

/**
 * The level that the differing rows have in common; null: there is none. `wrong[i]`: whether row i of the test differs.
 */
export function sharedLevel(
  { columns }: Draft,
  { rows, fields }: Expectation,
  wrong: readonly boolean[],
): string | null {
  const all = wrong.filter(Boolean).length;
  const found = columns.flatMap((column, c) => {
    const binOf = binning(
      column,
      rows.map((row) => row[fields[c]!]!),
    );
    const groups = Map.groupBy(rows.keys(), (r) => binOf(rows[r]![fields[c]!]!));
    return [...groups].flatMap(([level, of]) => {
      const inside = of.filter((r) => wrong[r]).length;
      const outside = (all - inside) / Math.max(1, rows.length - of.length);
      const more = inside / of.length - outside;
      if (inside < FEWEST || inside < HOLDS * all || more < MORE) return [];
      return [{ words: levelWords(column, level), inside, of: of.length, more, outside }];
    });
  });
  const [best] = found.sort((a, b) => b.more - a.more);
  if (!best) return null;
  const percent = (share: number) => `${(100 * share).toFixed(0)} %`;
  return `most differing rows have ${best.words}: ${percent(best.inside / best.of)} of the rows with this value differ, but only ${percent(best.outside)} of the other rows`;
}

/** Describes a level. A category is named only if the package contains it too. */
function levelWords({ spec, known }: DraftColumn, level: string): string {
  if (level === 'missing') return `a missing ${spec.name}`;
  if (spec.kind === 'number') return `${spec.name} in ${level}, from the lowest numbers up`;
  const named = spec.kind === 'boolean' || Object.hasOwn(spec.codes ?? {}, level) || known?.values.includes(level);
  return named ? `${spec.name} = ${level}` : `one value of ${spec.name}`;
}

/** The swap that reproduces the predictions; null: there is none. @throws SluiceError model_failed */
export async function reproducingSwap(
  draft: Draft,
  manifest: Manifest,
  test: Expectation,
  wrong: readonly boolean[],
): Promise<string | null> {
  const order = [...test.rows.keys()].sort((a, b) => Number(wrong[b]) - Number(wrong[a]));
  const asked = order.slice(0, TRIED_ROWS);
  const { scorer, kept } = await SwapScorer.open(
    { ...draft, fields: test.fields },
    manifest,
    asked.map((r) => test.rows[r]!),
  );
  const wanted = kept.map((k) => test.rowOf[asked[k]!]!);
  const given = misfit(manifest, scorer.given, wanted, test.expected);
  let best = { left: given * EXPLAINED, words: null as string | null };
  for (const swap of swapsOf(draft)) {
    const found = await scorer.rescore(swap);
    const left = found ? misfit(manifest, found, wanted, test.expected) : given;
    if (left < best.left)
      best = { left, words: `with ${swap.words} the model reproduces the predictions: ${swap.mend}` };
  }
  return best.words;
}

/** Sum of the differences from the predictions, each limited to 1. */
function misfit(
  { task }: Manifest,
  { values, width }: Predictions,
  rows: readonly number[],
  expected: Expectation['expected'],
): number {
  const { classes } = expected;
  let sum = 0;
  for (const [i, row] of rows.entries()) {
    for (const [j, c] of classes.entries()) {
      const want = expected.values[row * classes.length + j]!;
      if (Number.isNaN(want)) continue;
      const scale = task === 'binary' || c >= 0 ? 1 : Math.max(1, Math.abs(want));
      sum += Math.min(1, Math.abs(values[i * width + Math.max(0, c)]! - want) / scale);
    }
  }
  return sum;
}

type Tested = Pick<Expectation, 'expected' | 'rowOf'> & { readonly scores: Scores };

/** The probable causes in order of relevance. `known`: findings about the differing rows, which come first. */
export function likelyCauses(
  { model, columns }: Draft,
  manifest: Manifest,
  tested: Tested,
  known: readonly string[],
): string {
  const causes = [...known, ...tellingPredictions(manifest, tested)];
  if (looksIsotonic(model.graph)) {
    causes.push('isotonic calibration is exported wrongly by up to 0.05: calibrate with method="sigmoid"');
  }
  const inexact = columns.filter(
    (c) => c.spec.kind === 'number' && c.input.type === 'float32' && c.profile.inexact > 0,
  );
  if (inexact.length > 0 && model.graph.nodes.some((n) => n.op.startsWith('TreeEnsemble'))) {
    causes.push(
      `the trees were trained on float64 values that float32 cannot represent (${inexact.map((c) => c.spec.name).join(', ')}), so decisions flip near thresholds: train on X.astype("float32")`,
    );
  }
  causes.push('a setting of the training library that its exporter leaves out (docs/models.md lists the known ones)');
  causes.push(
    'the encoding differs from training: order of columns, codes, replacements of missing values (--encoding)',
  );
  causes.push('the predictions belong to another model, other rows or another class (--positive-class)');
  return `Likely causes:\n${causes.map((c) => `  - ${c}`).join('\n')}\nA larger --tolerance accepts the difference and records it.`;
}

/**
 * Causes that are visible in the predictions: another class, labels instead of probabilities, a missing link function,
 * or rounding.
 */
function tellingPredictions(manifest: Manifest, { expected, rowOf, scores }: Tested): string[] {
  if (expected.classes.length !== 1 || expected.classes[0] !== -1) return [];
  const want = rowOf.map((r) => expected.values[r]!);
  const known = want.map((_, i) => i).filter((i) => Number.isFinite(want[i]!));
  const interpreter = new Interpreter(manifest);
  const binary = manifest.task === 'binary';
  const got = (i: number) => (binary ? interpreter.probability(scores, i) : interpreter.value(scores, i));
  const within = (f: (v: number) => number, d: number) =>
    known.every((i) => Math.abs(f(got(i)) - want[i]!) <= d * Math.max(1, Math.abs(want[i]!)));
  if (binary) {
    const [other] = manifest.classes!.filter((c) => c !== manifest.positive_class);
    if (within((v) => 1 - v, 1e-5)) return [`the predictions belong to class ${other}: use --positive-class ${other}`];
    if (known.every((i) => want[i] === 0 || want[i] === 1))
      return ['the predictions are classes instead of probabilities: save predict_proba'];
  }
  for (const [words, undo] of LINKS)
    if (within(undo, 1e-4)) return [`the model returns ${words} instead of the prediction of the library`];
  const digits = known.reduce((n, i) => Math.max(n, (String(want[i]).split('.')[1] ?? '').length), 0);
  if (digits <= 5 && within((v) => v, 0.6 * 10 ** -digits))
    return [
      `the predictions are rounded to ${digits} digits: save them unrounded, or use --tolerance ${10 ** -digits}`,
    ];
  return [];
}
