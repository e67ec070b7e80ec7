// Formats the scores of a run and the columns with the largest drift as lines for a terminal of limited width.
import { named } from '../core/log.ts';
import { type ColumnDigest, type DriftReport, driftDigest, PSI_LEVELS, percent } from './drift-report.ts';

/** Maximum number of listed columns. */
const LISTED = 5;
const HEIGHTS = '▁▂▃▄▅▆▇█';
const LABEL = 14;

/** Formats a report. No line is longer than `width`. */
export function terminalDrift(report: DriftReport, width: number): string[] {
  const { columns, scorePsi } = driftDigest(report);
  const lines = [...scoreLines(report, scorePsi, width), ...columnLines(columns, width)];
  return lines.map((line) => cut(line, width));
}

const cut = (text: string, width: number): string => (text.length > width ? `${text.slice(0, Math.max(0, width - 1))}…` : text); // biome-ignore format: one line

/** Two lines of bars, for the run and for the training data, with one bar per bin of the score in ascending order. */
function scoreLines({ score }: DriftReport, psi: number | null, width: number): string[] {
  if (!score?.now) return [];
  const { now, training, quantiles } = score;
  const most = Math.max(...now.bins, ...training.bins, 1e-9);
  const wide = Math.max(1, Math.min(4, Math.floor((width - LABEL) / now.bins.length)));
  const bars = (bins: readonly number[]): string => bins.map((share) => barOf(share / most).repeat(wide)).join('');
  const middle = quantiles ? `, median ${quantiles.p50.toFixed(3)}` : '';
  return [
    `scores from low to high${middle}${psi === null ? '' : `, PSI ${psi.toFixed(2)}`}:`,
    `  ${'this run'.padEnd(LABEL - 2)}${bars(now.bins)}`,
    `  ${'training'.padEnd(LABEL - 2)}${bars(training.bins)}`,
  ];
}

/** An empty bin has no bar. */
function barOf(share: number): string {
  return share === 0 ? ' ' : HEIGHTS[Math.min(HEIGHTS.length - 1, Math.floor(share * HEIGHTS.length))]!;
}

function columnLines(columns: readonly ColumnDigest[], width: number): string[] {
  const measured = columns.filter(({ psi }) => psi !== null).toSorted((a, b) => b.psi! - a.psi!);
  const [worst] = measured;
  if (!worst) return [];
  const moved = measured.filter(({ psi }) => psi! >= PSI_LEVELS.moved);
  if (moved.length === 0) return [`no column drifted (largest PSI ${worst.psi!.toFixed(2)}, ${named(worst.column)})`];
  const shown = moved.slice(0, LISTED);
  const name = Math.max(8, Math.min(Math.max(...shown.map(({ column }) => column.length)), Math.floor(width / 2)));
  const room = Math.max(0, Math.min(24, width - name - 12));
  const lines = shown.map((digest) => {
    const psi = digest.psi!;
    const bar = '█'.repeat(Math.max(1, Math.round((psi / worst.psi!) * room)));
    const head = `  ${cut(named(digest.column), name).padEnd(name)} ${psi.toFixed(2).padStart(5)}`;
    const line = room < 4 ? head : `${head}  ${bar.padEnd(room)}`;
    const why = whyOf(digest);
    return why !== '' && line.length + 2 + why.length <= width ? `${line}  ${why}` : line.trimEnd();
  });
  const more = moved.length > LISTED ? [`  and ${moved.length - LISTED} more`] : [];
  const strong = moved.filter(({ psi }) => psi! >= PSI_LEVELS.drifted).length;
  return [`columns that drifted from the training data (PSI; ${strong} of ${columns.length} strongly):`, ...lines, ...more]; // biome-ignore format: one line
}

/** The fraction that explains the drift of a column best; empty: no fraction differs. */
function whyOf({ missing, missingInTraining, unseen, outOfRange }: ColumnDigest): string {
  if (unseen >= 0.01) return `${percent(unseen)} unseen`;
  if (Math.abs(missing - missingInTraining) >= 0.01) return `${percent(missing)} missing, ${percent(missingInTraining)} in training`; // biome-ignore format: one line
  return (outOfRange ?? 0) >= 0.01 ? `${percent(outOfRange!)} out of range` : '';
}
