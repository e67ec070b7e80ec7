// The exponential is the C library's, and neighbours are neighbours.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { above, below, expf, logistic } from '../../../src/inference/trees/float.ts';

// expf of glibc 2.36 on x86-64.
test.each([
  [0, 1.0],
  [1, 2.7182817459106445],
  [-1, 0.3678794503211975],
  [0.5, 1.6487212181091309],
  [-0.1, 0.904837429523468],
  [-2.3, 0.10025884956121445],
  [10.25, 28282.541015625],
  [-17.3, 3.066943676799383e-8],
  [-40.5, 2.57675715040399e-18],
  [-86.9, 1.818900120327488e-38],
  [-95.0, 5.521115949439779e-42],
  [-103.0, 1.401298464324817e-45],
  [-104.0, 0.0],
  [88.7, 3.325976864406685e38],
  [1e-5, 1.0000100135803223],
  [-0.0003, 0.9997000694274902],
  [-4.759293, 0.008571666665375233],
  [-10.884585, 1.8744964108918793e-5],
  [-7.399103, 0.0006118012242950499],
  [-12.078401, 5.680901722371345e-6],
  [-12.514406, 3.673351102406741e-6],
  [-1.310577, 0.2696644067764282],
])('expf(%d) is %d', (x, y) => {
  expect(expf(Math.fround(x))).toBe(Math.fround(y));
});

test('the exponential stays within a unit in the last place', () => {
  fc.assert(
    fc.property(fc.float({ min: -87, max: 88, noNaN: true }), (x) => {
      const exact = Math.exp(x);
      expect(Math.abs(expf(x) - exact)).toBeLessThanOrEqual(exact * 6.1e-8);
    }),
  );
});

test('below and above are inverse, and nothing lies between', () => {
  fc.assert(
    fc.property(fc.float({ noNaN: true, min: -(2 ** 100), max: 2 ** 100 }), (x) => {
      const lower = below(x, false);
      expect(lower).toBeLessThan(x);
      expect(above(lower, false) + 0).toBe(x + 0);
      expect(Math.fround((lower + x) / 2) === lower || Math.fround((lower + x) / 2) === x).toBe(true);
    }),
  );
  expect(below(0, false)).toBe(-1.401298464324817e-45);
  expect(below(0, true)).toBe(-5e-324);
  expect(below(1, true)).toBe(1 - Number.EPSILON / 2);
});

test('the logistic of both signs adds up to one', () => {
  for (const x of [0, 0.25, 3, 17, 90]) expect(logistic(x) + logistic(-x)).toBe(1);
});
