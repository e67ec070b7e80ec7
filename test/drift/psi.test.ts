// The population stability index is the one that Evidently has of the same bins.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { psi } from '../../src/drift/drift-report.ts';
import fc from '../support/seeded-fast-check.ts';
import { checkTestNeeding } from '../support/tools.ts';

interface Case {
  name: string;
  reference: number[];
  current: number[];
  psi: number;
}

const FOLDER = path.resolve('test/fixtures/drift');
const CASES = JSON.parse(readFileSync(path.join(FOLDER, 'evidently-psi.json'), 'utf8')) as Case[];
const CLOSE = 1e-9;

test.each(CASES)('$name: as Evidently has it', ({ reference, current, psi: wanted }) => {
  expect(Math.abs(psi(reference, current)! - wanted)).toBeLessThan(CLOSE);
  // Shares are as good as counts.
  const rows = reference.reduce((a, b) => a + b);
  const shares = reference.map((n) => n / rows);
  expect(Math.abs(psi(shares, current)! - wanted)).toBeLessThan(CLOSE);
});

test('there are cases with bins that are empty on either side, on both, and on none', () => {
  expect(CASES.length).toBeGreaterThan(60);
  const empty = CASES.flatMap(({ reference, current }) => reference.map((n, b) => `${n === 0} ${current[b] === 0}`));
  expect(new Set(empty).size).toBe(4);
});

checkTestNeeding(['Python 3 with evidently'], 'the expected numbers are those of the Evidently at hand', () => {
  const live = execFileSync('python3', ['evidently-psi.py'], { cwd: FOLDER, encoding: 'utf8' });
  const found = JSON.parse(live) as Case[];
  expect(found.map((c) => c.name)).toEqual(CASES.map((c) => c.name));
  for (const [i, { reference, psi: now }] of found.entries()) {
    expect(reference).toEqual(CASES[i]!.reference);
    expect(Math.abs(now - CASES[i]!.psi)).toBeLessThan(CLOSE);
  }
});

test('it is never negative, the same both ways round, and nothing where a side is empty', () => {
  const counts = fc.array(fc.tuple(fc.nat(1000), fc.nat(1000)), { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(counts, (pairs) => {
      const [reference, current] = [pairs.map((p) => p[0]), pairs.map((p) => p[1])];
      const found = psi(reference, current);
      if (reference.every((n) => n === 0) || current.every((n) => n === 0)) {
        expect(found).toBe(null);
        return;
      }
      // Only up to what empty bins are filled with, which does not add up to one.
      expect(found!).toBeGreaterThanOrEqual(0);
      expect(Math.abs(found! - psi(current, reference)!)).toBeLessThan(CLOSE);
    }),
  );
});
