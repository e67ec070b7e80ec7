// The estimated time for the rest of an input decides whether a run uses more threads.
import { expect, test } from 'vitest';
import { RemainingTime } from '../../src/runs/remaining-time.ts';
import { controlClock } from '../support/controlled-clock.ts';

/** The estimates after each step, in ms. A step: so many ms later, so many bytes have been read in total. */
async function estimates(steps: string, totalBytes: number | null = 1000): Promise<number[]> {
  const clock = controlClock();
  let read = 0;
  const time = new RemainingTime({ totalBytes, bytesRead: () => read });
  const answers: number[] = [];
  for (const step of steps.split(', ')) {
    const [ms, bytes] = step.split(' ms: ').map(Number) as [number, number];
    await clock.advance(ms);
    read = bytes;
    answers.push(time.ms());
  }
  return answers;
}

test.each([
  {
    rule: 'slow first bytes do not count',
    steps: '1000 ms: 10, 149 ms: 159, 1 ms: 160, 100 ms: 260',
    want: [0, 0, 840, 740],
  },
  { rule: 'nothing read since the first call: the average speed', steps: '300 ms: 100, 200 ms: 100', want: [0, 4500] },
  { rule: 'nothing read at all', steps: '300 ms: 0, 200 ms: 0', want: [0, Infinity] },
  { rule: 'everything read', steps: '300 ms: 500, 200 ms: 1000', want: [0, 0] },
])('remaining time: $rule', async ({ steps, want }) => {
  expect(await estimates(steps)).toEqual(want);
});

test('remaining time: infinite if the size of the input is unknown', async () => {
  expect(await estimates('300 ms: 100', null)).toEqual([Infinity]);
});
