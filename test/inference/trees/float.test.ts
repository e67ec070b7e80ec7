// Neighbours of floating-point numbers: nothing lies between a number and the next one.

import { expect, test } from 'vitest';
import { above, below } from '../../../src/inference/trees/float.ts';
import fc from '../../support/seeded-fast-check.ts';

for (const double of [false, true]) {
  const type = double ? 'float64' : 'float32';
  const numbers = double ? fc.double({ noNaN: true }) : fc.float({ noNaN: true });
  const round = double ? (x: number) => x : Math.fround;

  test(`${type}: the neighbours of a number are of the type, and nothing of it lies between`, () => {
    fc.assert(
      fc.property(numbers, (x) => {
        const [low, high] = [below(x, double), above(x, double)];
        if (x === -Infinity) expect(low).toBe(x);
        else {
          expect(low).toBeLessThan(x);
          expect(round(low)).toBe(low);
          // The middle of two neighbours is rounded to one of them.
          if (Number.isFinite(low)) expect([low, x]).toContain(round(low / 2 + x / 2) + 0);
        }
        if (x === Infinity) expect(high).toBe(x);
        else {
          expect(high).toBeGreaterThan(x);
          expect(below(high, double)).toBe(x + 0);
        }
      }),
    );
  });

  test(`${type}: around zero and at the ends`, () => {
    const least = double ? Number.MIN_VALUE : 2 ** -149;
    const most = double ? Number.MAX_VALUE : (2 - 2 ** -23) * 2 ** 127;
    for (const zero of [0, -0]) expect([below(zero, double), above(zero, double)]).toEqual([-least, least]);
    expect([below(least, double), above(-least, double)]).toEqual([0, -0]);
    expect([below(Infinity, double), above(most, double), below(-most, double)]).toEqual([most, Infinity, -Infinity]);
    expect([below(-Infinity, double), above(Infinity, double)]).toEqual([-Infinity, Infinity]);
    expect([below(Number.NaN, double), above(Number.NaN, double)]).toEqual([Number.NaN, Number.NaN]);
    expect(below(1, double)).toBe(1 - 2 ** (double ? -53 : -24));
    expect(below(-1, double)).toBe(-1 - 2 ** (double ? -52 : -23));
  });
}
