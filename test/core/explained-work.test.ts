// How long the interpretations of a run take, from what was done of them: with a clock of its own, so that no machine decides.
import { expect, test } from 'vitest';
import { ExplainedWork } from '../../src/core/explained-work.ts';
import { estimateText } from '../../src/doors/commands/run-progress.ts';
import { progressLine } from '../../src/monitor/progress.ts';

const work = (...done: [at: number, rows: number, evaluations: number][]): ExplainedWork => {
  const all = new ExplainedWork();
  all.rowsIn = 1000;
  for (const [at, rows, evaluations] of done) all.add({ rows, evaluations }, at);
  return all;
};

test('nothing is foretold of an input of unknown length, before the first rows, or of too short a time', () => {
  expect(work().progress(1)).toBeNull();
  expect(work([0, 1, 10]).progress(null)).toBeNull();
  expect(work([0, 1, 10], [2000, 5, 50], [4000, 4, 40]).progress(1)).toMatchObject({
    rows: 10,
    totalRows: 1000,
    seconds: null,
  });
});

test('the time is that of the rows behind the first, for all rows of the input', () => {
  // The first take the start of everything along; behind them 10 rows a second.
  const all = work([50_000, 1, 100], [52_000, 1, 100], [57_000, 50, 5000]);
  expect(all.progress(1)).toMatchObject({ rows: 52, share: 0.052, seconds: 2 + 99.8, evaluations: 5200 });
  expect(all.progress(1)!.secondsLeft).toBeCloseTo(94.8, 9);
  // A quarter of the input was read: there are four times as many rows.
  expect(all.progress(0.25)).toMatchObject({ totalRows: 4000, seconds: 2 + 399.8 });
  expect(estimateText(all.progress(1)!)).toBe(
    'interpreting 1,000 rows takes about 1:42 (100 evaluations per row, limited by max_evaluations)',
  );
});

test('what a dead worker had done is done again', () => {
  const all = work([0, 0.5, 50], [2000, 2, 200], [6000, -2, -200]);
  expect(all.done).toEqual({ rows: 0.5, evaluations: 50 });
  expect(all.progress(1)).toMatchObject({ seconds: null });
});

test('the line of a terminal', () => {
  const explained = work([0, 0.5, 50], [2000, 0.5, 50], [7000, 50.4, 5040]).progress(1);
  const line = progressLine({ rows: 0, rejected: 2, bytesRead: 10, totalBytes: 10, explained }, 6);
  expect(line).toBe('51 of 1,000 rows explained, 8.6 rows/s, 100 evaluations/row, 2 rejected, 5 %, 1:34 left');
});
