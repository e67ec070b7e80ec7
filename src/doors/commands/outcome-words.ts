// Formats the report of `sluice outcomes` as tables for a terminal.
import { count } from '../../monitor/progress.ts';
import type { OutcomeGroup, OutcomeReport } from '../../outcomes/outcome-report.ts';

/** The text that precedes the tables. */
export function joinWords({ labels, predictions: p }: OutcomeReport): string {
  const many = p.sources === 1 ? 'one input' : `${p.sources} inputs`;
  return [
    `labels: ${count(labels.rows)} rows, ${count(labels.keys)} keys, ${count(labels.unknown)} of them without an outcome yet; ` +
      `${count(labels.matched)} were predicted`,
    `predictions: ${count(p.rows)} rows of ${many} = ${count(p.matched)} matched + ${count(p.repeated)} repeated + ${count(p.withdrawn)} withdrawn + ` +
      `${count(p.unlabelled)} without a label + ${count(p.withoutProbability)} rejected + ${count(p.withoutKey)} without a key`,
  ].join('\n');
}

/** The tables: performance by model and month, outcomes by decision, and calibration by model. */
export function outcomeTables({ groups, totals }: OutcomeReport): string {
  const all = [...groups, ...totals].sort((a, b) => (a.model < b.model ? -1 : a.model > b.model ? 1 : 0));
  // Deciles by month appear only in the JSON, because they would fill the terminal.
  const whole = all.filter((g) => g.month === null || !totals.some((t) => t.model === g.model));
  return [
    alignedTable(
      ['model', 'month', 'rows', 'bad', 'bad %', 'AUC', 'Gini', 'KS', 'Brier', 'ECE', 'intercept', 'slope'],
      all.map((g) => [
        g.model,
        monthOf(g),
        count(g.rows),
        count(g.negatives),
        percent(g.negatives / g.rows),
        ...[g.auc, g.gini, g.ks, g.brier, g.calibration?.ece, g.calibration?.intercept, g.calibration?.slope].map(
          figure,
        ),
      ]),
    ),
    alignedTable(
      ['model', 'month', 'decision', 'rows', 'share', 'bad', 'bad %'],
      all.flatMap((g) =>
        g.decisions.map((d) => [
          g.model,
          monthOf(g),
          d.decision ?? '-',
          count(d.rows),
          percent(d.rows / g.rows),
          count(d.bad),
          percent(d.badRatio),
        ]),
      ),
    ),
    alignedTable(
      ['model', 'decile', 'rows', 'predicted', 'observed'],
      whole.flatMap((g) =>
        (g.calibration?.deciles ?? []).map((bin, i) => [
          g.model,
          String(i + 1),
          count(bin.rows),
          figure(bin.meanProbability),
          figure(bin.observedRate),
        ]),
      ),
    ),
    ...oneClassWords(all),
  ].join('\n\n');
}

function oneClassWords(groups: readonly OutcomeGroup[]): string[] {
  const one = groups.filter((g) => g.auc === null).map((g) => `${g.model} ${monthOf(g)}`);
  return one.length === 0 ? [] : [`only one outcome, so AUC, KS and slope are undefined: ${one.join(', ')}`];
}

export const monthOf = ({ month }: OutcomeGroup): string => month ?? 'all';
const percent = (ratio: number): string => `${(ratio * 100).toFixed(2)} %`;
export const figure = (x: number | null | undefined): string => (x === null || x === undefined ? '-' : x.toFixed(4));

/** Formats a table. Columns of text are left-aligned, columns of numbers right-aligned. */
export function alignedTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((name, c) => Math.max(name.length, ...rows.map((row) => row[c]!.length)));
  const left = head.map((_, c) => rows.every((row) => !/^[\d-]/.test(row[c]!)) || head[c] === 'month');
  return [head, ...rows]
    .map((row) =>
      row
        .map((cell, c) => (left[c] ? cell.padEnd(widths[c]!) : cell.padStart(widths[c]!)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
