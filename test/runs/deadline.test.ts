// A run that will be late says so in time, and only when what is foreseen changes.
import { expect, test } from 'vitest';
import { localTime } from '../../src/core/time-of-day.ts';
import { DeadlineWatch } from '../../src/runs/deadline.ts';

const MINUTE = 60_000;

test('the end is foreseen from the bytes that are read', () => {
  const told: string[] = [];
  const watch = new DeadlineWatch({ deadline: 60 * MINUTE, began: 0, log: (_level, _event, says) => told.push(says) });
  const at = (minutes: number, part: number) =>
    watch.look({ bytesRead: part * 1000, totalBytes: 1000 }, minutes * MINUTE) / 60;
  // Nothing is read yet: it could end at once.
  expect(at(0, 0)).toBe(60);
  expect(at(10, 0.25)).toBe(20);
  expect(at(20, 0.25)).toBe(-20);
  expect(at(30, 0.4)).toBeCloseTo(-15);
  expect(told).toEqual([`the run will be late: estimated end 20:00 after its deadline, ${localTime(60 * MINUTE)}`]);
  expect(at(36, 0.9)).toBeCloseTo(20);
  expect(told[1]).toBe(
    `the run is on schedule again: estimated end 20:00 before its deadline, ${localTime(60 * MINUTE)}`,
  );
  expect(watch.end(59 * MINUTE)).toBe(60);
  expect(told).toHaveLength(2);
  expect(watch.end(61 * MINUTE)).toBe(-60);
  expect(told[2]).toBe(`the run was late: it ended 1:00 after its deadline, ${localTime(60 * MINUTE)}`);
});

test.each([
  ['of an input without an end that is known', { bytesRead: 5, totalBytes: null }],
  ['of an empty input', { bytesRead: 0, totalBytes: 0 }],
])('%s, it is late when the deadline is over', (_what, progress) => {
  const told: string[] = [];
  const watch = new DeadlineWatch({ deadline: MINUTE, began: 0, log: (_level, _event, says) => told.push(says) });
  expect(watch.look(progress, MINUTE - 1000)).toBe(1);
  expect(watch.look(progress, MINUTE + 1000)).toBe(-1);
  expect(told).toHaveLength(1);
});

test('a few bytes of the first seconds foresee nothing', () => {
  const watch = new DeadlineWatch({ deadline: MINUTE, began: 0, log: () => undefined });
  expect(watch.look({ bytesRead: 1, totalBytes: 1000 }, 1)).toBeCloseTo(59.999);
});
