// What a pipeline waits for: of a topic every moment counts once, whatever begins and ends beside it.

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Flow } from '../../src/core/flow.ts';
import fc from '../support/seeded-fast-check.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const steps = fc.array(fc.tuple(fc.constantFrom('workers', 'sink'), fc.boolean(), fc.nat(1000)), { maxLength: 40 });

test('the seconds of a topic add up to the time that went by, each to what it waited for then', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const flow = new Flow();
      const want = { source: 0, workers: 0, sink: 0 };
      const busy = { workers: 0, sink: 0 };
      flow.open();
      for (const [what, begins, ms] of all) {
        const name = what as 'workers' | 'sink';
        if (begins) flow.begin(name);
        else if (busy[name] > 0) flow.end(name);
        busy[name] = Math.max(0, busy[name] + (begins ? 1 : -1));
        vi.advanceTimersByTime(ms);
        want[busy.workers > 0 ? 'workers' : busy.sink > 0 ? 'sink' : 'source'] += ms;
      }
      for (const [name, ms] of Object.entries(want)) {
        expect(flow.waits[name as keyof typeof want]).toBeCloseTo(ms, 6);
      }
    }),
    { numRuns: 200 },
  );
});

test('bytes are those of whoever holds some now', () => {
  const flow = new Flow();
  const first = { bytes: 1, budget: 10 };
  const release = flow.hold(() => first);
  flow.hold(() => ({ bytes: 2, budget: 20 }));
  expect(flow.held).toEqual({ bytes: 3, budget: 30 });
  first.bytes = 5;
  expect(flow.held).toEqual({ bytes: 7, budget: 30 });
  release();
  expect(flow.held).toEqual({ bytes: 2, budget: 20 });
});
