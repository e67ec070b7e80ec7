// Which successes have a line: those that have one stand for all of them, at any load.

import { expect, test } from 'vitest';
import { Sampler } from '../../src/core/tracing.ts';
import fc from '../support/seeded-fast-check.ts';

test('lines and those they stand for add up, and a second has no more than its share', () => {
  fc.assert(
    fc.property(
      fc.nat(5),
      fc.integer({ min: 1, max: 20 }),
      fc.array(fc.nat(300), { maxLength: 400 }),
      (perSecond, oneIn, gaps) => {
        let now = 0;
        const sampler = new Sampler(perSecond, oneIn, () => now);
        const seconds = new Map<number, { asked: number; lines: number }>();
        let stoodFor = 0;
        let waiting = 0;
        for (const gap of gaps) {
          now += gap;
          const second = Math.floor(now / 1000);
          const counts = seconds.get(second) ?? { asked: 0, lines: 0 };
          seconds.set(second, counts);
          counts.asked++;
          const n = sampler.take();
          waiting++;
          if (n === 0) continue;
          expect(n).toBe(waiting);
          stoodFor += n;
          waiting = 0;
          counts.lines++;
        }
        expect(stoodFor + waiting).toBe(gaps.length);
        expect(waiting).toBeLessThan(oneIn);
        for (const { asked, lines } of seconds.values()) {
          expect(lines).toBeGreaterThanOrEqual(Math.min(asked, perSecond));
          expect(lines).toBeLessThanOrEqual(perSecond + Math.ceil(asked / oneIn));
        }
      },
    ),
  );
});
