// What the rows have in common whose predictions do not come out as the training library's: a level of a column, or another
// registration that reproduces them.
import type { Manifest } from '../model/package/manifest.ts';
import type { Draft, DraftColumn, Expectation } from './draft.ts';
import type { Predictions } from './fit-loss.ts';
import { binning } from './portfolio-change.ts';
import { SwapScorer } from './swap-scorer.ts';
import { swapsOf } from './swap-test.ts';

/** Share of the wrong rows that a level has to hold, and by how much more of its rows have to be wrong than of the others. */
const HOLDS = 0.8;
const MORE = 0.3;
/** A level with fewer wrong rows says nothing. */
const FEWEST = 3;
/** Rows that swaps are tried on, wrong ones first. */
const TRIED_ROWS = 400;
/** What is left of the difference where a swap explains it. */
const EXPLAINED = 0.1;

/** `wrong[i]`: row i of the test differs. In words; null: they have nothing in common. */
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
  return `the rows that differ share ${best.words}: ${percent(best.inside / best.of)} of those rows differ, ${percent(best.outside)} of the others`;
}

/** A category is named where the package names it, too. */
function levelWords({ spec, known }: DraftColumn, level: string): string {
  if (level === 'missing') return `a missing ${spec.name}`;
  if (spec.kind === 'number') return `${spec.name} in ${level}, from the lowest numbers up`;
  const named = spec.kind === 'boolean' || Object.hasOwn(spec.codes ?? {}, level) || known?.values.includes(level);
  return named ? `${spec.name} = ${level}` : `one value of ${spec.name}`;
}

/** The swap with which the predictions come out, in words; null: there is none. @throws SluiceError model_failed */
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
    const found = await scorer.rescore(swap.apply(manifest));
    const left = found ? misfit(manifest, found, wanted, test.expected) : given;
    if (left < best.left) best = { left, words: `with ${swap.words} they come out: ${swap.mend}` };
  }
  return best.words;
}

/** Sum of the differences from the predictions, each up to 1. */
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
