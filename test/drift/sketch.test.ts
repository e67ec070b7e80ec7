// Quantile sketches: within their error of the true quantiles, and merged in any order the sketch of all numbers.

import { expect, test } from 'vitest';
import { BUCKET_SHIFT, bucketsByBits, QUANTILE_ERROR, QuantileSketch } from '../../src/drift/sketch.ts';
import fc from '../support/seeded-fast-check.ts';

const BUCKETS = bucketsByBits();
const Q = [0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1];

const bucketOf = (value: number): number =>
  BUCKETS[new Uint32Array(Float32Array.of(value).buffer)[0]! >>> BUCKET_SHIFT]!;

function sketchOf(values: readonly number[]): QuantileSketch {
  const sketch = new QuantileSketch();
  for (const value of values) sketch.add(bucketOf(value), 1);
  return sketch;
}

/** Within the error of a value of that rank, whatever its sign. */
const close = (found: number, wanted: number): boolean =>
  Math.abs(found - wanted) <= QUANTILE_ERROR * 1.0001 * Math.abs(wanted);

const numbers = fc.array(
  fc.oneof(
    fc.constant(0),
    // A few broken values must not hide the others.
    fc.constantFrom(1e12, -1e12, 1e-5, -1e-5),
    fc.float({ min: 10, max: 500_000, noNaN: true }),
    fc.float({ min: -500_000, max: -10, noNaN: true }),
  ),
  { minLength: 1, maxLength: 400 },
);

test('quantiles are within their error of the value of that rank', () => {
  fc.assert(
    fc.property(numbers, (values) => {
      const sorted = values.map(Math.fround).sort((a, b) => a - b);
      const found = sketchOf(values).quantiles(Q);
      expect(found).toHaveLength(Q.length);
      for (const [i, q] of Q.entries()) {
        expect(close(found[i]!, sorted[Math.floor(q * (sorted.length - 1))]!), `${q}: ${found[i]}`).toBe(true);
      }
    }),
  );
});

test('what is outside of a range: nothing that is within, all that is outside by more than a sixteenth', () => {
  // Nearer to nothing it is nothing.
  const limit = fc.float({ min: -400_000, max: 400_000, noNaN: true }).map((v) => (Math.abs(v) < 2 ** -19 ? 0 : v));
  fc.assert(
    fc.property(numbers, limit, limit, (values, a, b) => {
      const [least, most] = [Math.fround(Math.min(a, b)), Math.fround(Math.max(a, b))];
      const found = sketchOf(values).outside(least, most);
      const floats = values.map(Math.fround);
      const far = (v: number): boolean => v < least - Math.abs(least) / 16 || v > most + Math.abs(most) / 16;
      expect(found).toBeLessThanOrEqual(floats.filter((v) => v < least || v > most).length);
      expect(found).toBeGreaterThanOrEqual(floats.filter(far).length);
    }),
  );
});

test('single huge numbers hide no other number', () => {
  const some = (value: number): number[] => Array.from({ length: 100 }, () => value);
  for (const huge of [1e9, 1e12, 1e30, Infinity, -1e9, -Infinity]) {
    const sketch = sketchOf([...some(20), ...some(-20), huge]);
    expect(sketch.outside(-60, 60)).toBe(1);
    expect(sketch.outside(30, 60)).toBe(201);
    expect(sketch.outside(-60, 10)).toBe(101);
    expect(sketch.quantiles([0.25, 0.75]).map((q) => Math.round(q))).toEqual([-20, 20]);
  }
  expect(sketchOf([2 ** 50, -(2 ** 50)]).outside(-(2 ** 45), 2 ** 45)).toBe(0);
});

test('merged in any order and any parts it is the same sketch', () => {
  const wide = fc.array(fc.float({ min: Math.fround(-1e12), max: Math.fround(1e12), noNaN: true }), { maxLength: 300 });
  fc.assert(
    fc.property(wide, fc.integer({ min: 1, max: 16 }), fc.boolean(), (values, shards, backwards) => {
      const parts = Array.from({ length: shards }, (_, s) => sketchOf(values.filter((_, i) => i % shards === s)));
      const merged = new QuantileSketch();
      for (const part of backwards ? parts.reverse() : parts) merged.merge(part);
      const ranks = Array.from({ length: 101 }, (_, i) => i / 100);
      expect(merged.count).toBe(values.length);
      expect(merged.quantiles(ranks)).toEqual(sketchOf(values).quantiles(ranks));
    }),
  );
});

test('what is no number is in no bucket, and nothing has no quantiles', () => {
  const sketch = sketchOf([NaN, -NaN]);
  expect(sketch.count).toBe(0);
  expect(sketch.quantiles(Q)).toEqual([]);
  expect(sketchOf([1e-30, 1e30]).quantiles([0, 1])[0]).toBe(0);
  expect(sketchOf([Infinity, -Infinity]).count).toBe(2);
});
