// Checks whether the training table and the rows of the predictions come from the same portfolio.
// Drift is measured against the table, but the predictions were verified on the rows.
import type { Draft, DraftColumn } from './draft.ts';
import { someNames } from './swaps.ts';

/**
 * A column has changed if its population stability index exceeds this plus `BY_CHANCE` times the index expected for two
 * samples of the same portfolio.
 */
const MOVED = 0.25;
const BY_CHANCE = 3;
const FEWEST_ROWS = 100;
const PARTS = 10;
/** Number of rows assumed for an empty bin. */
const EMPTY = 0.5;

/** Warns if the rows of the predictions do not look like a sample of the table. */
export function comparePortfolios({ columns, fields, sample, test, options, findings }: Draft): void {
  if (!test || test.rows.length < FEWEST_ROWS || sample.length < FEWEST_ROWS) return;
  const moved = columns.flatMap((column, i) => {
    const table = sample.map((s) => s.fields[fields[i]!]!);
    const given = test.rows.map((row) => row[test.fields[i]!]!);
    const { psi, chance } = stability(column, table, given);
    return psi > MOVED + BY_CHANCE * chance ? [{ name: column.spec.name, psi }] : [];
  });
  if (moved.length === 0) return;
  moved.sort((a, b) => b.psi - a.psi);
  const names = moved.map((m) => `${m.name} (PSI ${m.psi.toFixed(2)})`);
  const background = options.background ? '' : ' and the background of effects (--background)';
  findings.warn(
    `the rows of --expected come from another portfolio than the training table: ${someNames(names)}. The training table determines the baseline for drift${background}: register the model with a table of the portfolio that you will score`,
  );
}

/** The stability index, and its expected value for two samples of the same portfolio. */
function stability(
  column: DraftColumn,
  table: readonly string[],
  given: readonly string[],
): { psi: number; chance: number } {
  const binOf = binning(column, table);
  const count = (cells: readonly string[]) => Map.groupBy(cells, binOf);
  const [a, b] = [count(table), count(given)];
  const bins = new Set([...a.keys(), ...b.keys()]);
  let psi = 0;
  for (const bin of bins) {
    const p = Math.max(EMPTY, a.get(bin)?.length ?? 0) / table.length;
    const q = Math.max(EMPTY, b.get(bin)?.length ?? 0) / given.length;
    psi += (q - p) * Math.log(q / p);
  }
  return { psi, chance: (bins.size - 1) * (1 / table.length + 1 / given.length) };
}

/**
 * Returns a function that gives the bin of a cell: missing, a category, or an interval between deciles of the table.
 */
export function binning({ spec }: DraftColumn, table: readonly string[]): (cell: string) => string {
  const absent = new Set(spec.missing?.values ?? ['']);
  if (spec.kind !== 'number') return (cell) => (absent.has(cell) ? 'missing' : cell);
  const numbers = table
    .filter((cell) => !absent.has(cell))
    .map(Number)
    .sort((x, y) => x - y);
  const edges = Array.from({ length: PARTS - 1 }, (_, k) => numbers[Math.floor(((k + 1) * numbers.length) / PARTS)]!);
  return (cell) =>
    absent.has(cell) ? 'missing' : `part ${1 + edges.filter((edge) => Number(cell) >= edge).length} of ${PARTS}`;
}
