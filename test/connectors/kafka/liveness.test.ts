// /readyz of a pipeline that reads a topic: whether it gets on.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { LogThrottle } from '../../../src/connectors/kafka/kafka-error-messages.ts';
import { Liveness } from '../../../src/connectors/kafka/liveness.ts';
import type { KafkaObserver, TransactionReport } from '../../../src/connectors/kafka/observer.ts';
import { type Word, words } from '../../../src/core/log.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const written = (partition: number): TransactionReport => ({
  partitions: [{ partition, records: 1, rejected: 0, oversized: 0, next: 1n }],
  retimed: new Map(),
  bytes: 1,
  ms: 1,
});

function watched(): { liveness: Liveness; events: KafkaObserver; told: string[] } {
  const liveness = new Liveness();
  const told: string[] = [];
  const events = liveness.beside({
    onAssigned: ({ partitions }) => told.push(`assigned ${partitions}`),
    onLag: ({ lag }) => told.push(`lag ${lag}`),
    onRestart: () => told.push('restart'),
    onTransaction: () => told.push('written'),
  });
  return { liveness, events, told };
}

test('a place in the group, and every partition empty or answered a short while ago', () => {
  const { liveness, events, told } = watched();
  expect(liveness.ready).toBe(false);
  events.onAssigned!({ partitions: [0, 1] });
  expect(liveness.ready).toBe(true);
  vi.advanceTimersByTime(600_000);
  expect(liveness.ready).toBe(true);
  // Records come after ten quiet minutes: they have their time from now.
  events.onLag!({ partition: 1, lag: 5, oldest: 0 });
  expect(liveness.ready).toBe(true);
  vi.advanceTimersByTime(29_000);
  expect(liveness.ready).toBe(true);
  vi.advanceTimersByTime(2_000);
  expect(liveness.ready).toBe(false);
  events.onLag!({ partition: 1, lag: 9, oldest: 0 });
  expect(liveness.ready).toBe(false);
  events.onTransaction!(written(1));
  expect(liveness.ready).toBe(true);
  vi.advanceTimersByTime(31_000);
  events.onLag!({ partition: 1, lag: 8, oldest: 0 });
  expect(liveness.ready).toBe(true);
  events.onRestart!({ reason: words`gone` });
  expect(liveness.ready).toBe(false);
  // Others of the group have all partitions.
  events.onAssigned!({ partitions: [] });
  expect(liveness.ready).toBe(true);
  expect(told).toEqual(['assigned 0,1', 'lag 5', 'lag 9', 'written', 'lag 8', 'restart', 'assigned ']);
});

test('what waits on purpose does not stand still, and what is due does', () => {
  const liveness = new Liveness(600_000);
  const events = liveness.beside({});
  events.onAssigned!({ partitions: [0] });
  const put = Date.now();
  events.onLag!({ partition: 0, lag: 3, oldest: put });
  vi.advanceTimersByTime(500_000);
  expect(liveness.ready).toBe(true);
  // Due for half a minute, and not tried again.
  events.onLag!({ partition: 0, lag: 3, oldest: put - 640_000 });
  expect(liveness.ready).toBe(false);
  events.onTransaction!(written(0));
  expect(liveness.ready).toBe(true);
});

test('the same words come once in half a minute, with how often they were left out', () => {
  const lines: string[] = [];
  const throttled = new LogThrottle((_level, _event, says) => lines.push(says));
  const tell = (about: string, says: Word) => throttled.write(about, ['info', 'topic_notice', says]);
  for (let i = 0; i < 100; i++) {
    tell('a', words`a ${i}`);
    if (i % 50 === 0) tell('b', words`b ${i}`);
    vi.advanceTimersByTime(500);
  }
  expect(lines).toEqual(['a 0', 'b 0', 'a 60 (59 times more since this line was last logged)']);
  throttled.forget('a');
  tell('a', words`again`);
  expect(lines.at(-1)).toBe('again');
});
