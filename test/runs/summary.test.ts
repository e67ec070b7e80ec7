// The summary of a run, as an object and as lines: of a run that failed, that was resumed, and that left inputs as they were.
import { expect, test } from 'vitest';
import type { RunCounts } from '../../src/engine/counts.ts';
import { newCounts } from '../../src/runs/accumulator.ts';
import type { RunResult } from '../../src/runs/context.ts';
import type { RunSpec } from '../../src/runs/spec.ts';
import { equation, rate, summaryOf, summaryText } from '../../src/runs/summary.ts';

const spec = (change: object = {}): RunSpec =>
  ({
    file: '',
    model: 'credit:3',
    source: { type: 'file', path: 'in.csv' },
    sink: { type: 'file', path: 'out.csv' },
    score: {},
    ...change,
  }) as unknown as RunSpec;
const counts: RunCounts = {
  ...newCounts(),
  rows: 1500,
  scored: 1498,
  rejected: 2,
  rejectedByCode: { bad_number: 2 },
};
const resultOf = (change: object): RunResult =>
  ({
    counts,
    by: null,
    bytesRead: 10,
    bytesWritten: 20,
    resumedRows: 0,
    inputsDoneBefore: 0,
    rejectedBefore: 0,
    ...change,
  }) as unknown as RunResult;

test('of a run that failed it has the counts, and nothing of what did not happen', () => {
  const summary = summaryOf(spec(), counts, null, 2, {});
  expect(summary).toMatchObject({
    input: 'in.csv',
    output: 'out.csv',
    rejects: null,
    model: 'credit',
    modelVersion: '3',
    modelSha256: null,
    packageSha256: null,
    evaluator: null,
    workers: null,
    rows: 1500,
    scored: 1498,
    rejected: 2,
    skipped: 0,
    resumedRows: 0,
    inputsDoneBefore: 0,
    rejectedBefore: 0,
    rejectedByCode: { bad_number: 2 },
    bytesRead: 0,
    bytesWritten: 0,
    gate: null,
    seconds: 2,
    rowsPerSecond: 750,
  });
  expect(summary).not.toHaveProperty('pipeline');
  expect(summary.peakMemoryBytes).toBeGreaterThan(10 * 2 ** 20);
  expect(summaryOf(spec({ model: 'credit@champion', file: 'p.yaml' }), counts, null, 2, {})).toMatchObject({ pipeline: 'p.yaml', model: 'credit', modelVersion: null }); // biome-ignore format: one line
});

test('rows that an interrupted run wrote do not make it faster', () => {
  const resumed = resultOf({ resumedRows: 500, inputsDoneBefore: 2, rejectedBefore: 1200 });
  const summary = summaryOf(spec(), counts, resumed, 2, {});
  expect(summary).toMatchObject({ resumedRows: 500, inputsDoneBefore: 2, rejectedBefore: 1200, rejected: 2, rowsPerSecond: 500, bytesRead: 10, bytesWritten: 20 }); // biome-ignore format: one line
  const listed = spec({ dead_letter: { type: 'file', path: 'rejects.csv' } });
  expect(summaryText(listed, counts, resumed, 2, {}).split('\n')).toEqual([
    '1,500 rows read = 1,498 scored + 2 rejected, 2.0 s, 500 rows/s',
    '500 of these rows were processed by the interrupted run',
    '2 inputs were already scored by an identical run; their outputs are unchanged',
    'the earlier run rejected 1,200 of their rows',
    'rejected: bad_number 2; listed in rejects.csv',
    '',
  ]);
  const one = summaryText(spec(), { ...counts, rejected: 0 }, resultOf({ inputsDoneBefore: 1 }), 2, {});
  expect(one).toContain('1 input was already scored by an identical run; its output is unchanged\n');
  expect(one).not.toContain('interrupted');
  expect(one).not.toContain('rejected:');
});

test.each([
  ['a topic', { type: 'kafka', group: 'g', topic: 'a' }, 'a'],
  ['several topics', { type: 'kafka', group: 'g', topics: ['a', 'b'] }, 'a,b'],
  ['a pattern of topics', { type: 'kafka', group: 'g', topic_pattern: 'a.*' }, 'a.*'],
  ['a table', { type: 'postgres', table: 't' }, 't'],
  ['a query', { type: 'postgres', query: 'select 1' }, 'query'],
  ['standard input', { type: 'stdio' }, '-'],
])('its input is %s', (_, source, name) => {
  expect(summaryOf(spec({ source }), counts, null, 1, {}).input).toBe(name);
});

test('a rate of no time is no division by zero, and the equation has its separators', () => {
  expect([rate(0, 0), rate(7, 2), rate(1, 1e-9)]).toEqual([0, 4, 1e9]);
  expect(rate(3, 0.5)).toBe(6);
  expect(equation({ rows: 1_000_000, scored: 999_999, rejected: 1 })).toBe('1,000,000 rows read = 999,999 scored + 1 rejected'); // biome-ignore format: one line
});
