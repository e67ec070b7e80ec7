// The in-flight share of a partition: paused at its share, resumed at half of it, once each.
import { expect, test } from 'vitest';
import { InFlight } from '../../../src/connectors/kafka/partition-buffer.ts';

function recorded(maxBytes: number) {
  const calls: string[] = [];
  const inFlight = new InFlight({
    maxBytes,
    pause: (p) => calls.push(`pause ${p}`),
    resume: (p) => calls.push(`resume ${p}`),
  });
  return { inFlight, calls };
}

test('a partition is paused at its share and resumed when half of it is free', () => {
  const { inFlight, calls } = recorded(400);
  for (const bytes of [199, 200, 300, 101, 100, 0, 200]) inFlight.update(7, bytes, 2);
  expect(calls).toEqual(['pause 7', 'resume 7', 'pause 7']);
  expect(inFlight.isFull(7)).toBe(true);
});

test('shares grow when partitions are lost', () => {
  const { inFlight, calls } = recorded(400);
  inFlight.update(0, 200, 2);
  inFlight.update(0, 200, 1);
  expect(calls).toEqual(['pause 0', 'resume 0']);
});

test('what starts over is neither paused nor resumed', () => {
  const { inFlight, calls } = recorded(100);
  inFlight.update(0, 100, 1);
  inFlight.update(1, 100, 1);
  inFlight.forget(0);
  inFlight.update(0, 0, 1);
  expect([inFlight.isFull(0), inFlight.isFull(1)]).toEqual([false, true]);
  inFlight.clear();
  inFlight.update(1, 0, 1);
  expect(calls).toEqual(['pause 0', 'pause 1']);
});
