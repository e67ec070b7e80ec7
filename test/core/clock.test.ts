// The clock of the process, and the one that tests control.
import { expect, test } from 'vitest';
import { epochMs, monotonicMs, sleep, startInterval, startTimer, stopTimer } from '../../src/core/clock.ts';
import { controlClock } from '../support/controlled-clock.ts';

test('a stopped clock shows the same time until it is moved', async () => {
  const clock = controlClock();
  const before = [epochMs(), monotonicMs()];
  await new Promise((resolve) => setImmediate(resolve));
  expect([epochMs(), monotonicMs()]).toEqual(before);
  await clock.advance(3_600_000);
  expect([epochMs() - before[0]!, monotonicMs() - before[1]!]).toEqual([3_600_000, 3_600_000]);
});

test.each([false, true])(
  'timers, intervals and sleeps fire in the order in which they are due (running: %s)',
  async (runs) => {
    const clock = controlClock({ runs });
    const fired: string[] = [];
    startTimer(() => fired.push('timer'), 25_000);
    const interval = startInterval(() => fired.push('interval'), 10_000);
    const nested = sleep(5_000).then(async () => {
      fired.push('slept');
      await sleep(9_000);
      fired.push('slept again');
    });
    stopTimer(startTimer(() => fired.push('stopped'), 1_000));
    await clock.advance(30_500);
    await nested;
    expect(fired).toEqual(['slept', 'interval', 'slept again', 'interval', 'timer', 'interval']);
    stopTimer(interval);
    expect(clock.timers).toBe(0);
  },
);

test('an aborted sleep rejects at once and leaves no timer', async () => {
  const clock = controlClock();
  const stop = new AbortController();
  const asleep = sleep(1_000, { signal: stop.signal });
  stop.abort();
  await expect(asleep).rejects.toThrow(expect.objectContaining({ name: 'AbortError' }));
  await expect(sleep(1_000, { signal: stop.signal })).rejects.toThrow();
  expect(clock.timers).toBe(0);
});

test('a released clock runs', async () => {
  const clock = controlClock();
  const asleep = sleep(5);
  clock.release();
  await expect(asleep).resolves.toBeUndefined();
});

test('the system clock fires, stops and aborts too', async () => {
  const before = monotonicMs();
  const { promise, resolve } = Promise.withResolvers<void>();
  stopTimer(startTimer(() => expect.unreachable(), 1));
  const interval = startInterval(resolve, 1);
  await promise;
  stopTimer(interval);
  stopTimer(undefined);
  expect(monotonicMs()).toBeGreaterThan(before);
  expect(Math.abs(epochMs() - Date.now())).toBeLessThan(60_000);
  await expect(sleep(60_000, { signal: AbortSignal.abort() })).rejects.toThrow(
    expect.objectContaining({ name: 'AbortError' }),
  );
});
