// The accumulator of a run: saved states add up, whatever the parts and wherever they were counted.

import { expect, test } from 'vitest';
import type { ErrorCode } from '../../src/core/errors.ts';
import { DriftSum } from '../../src/drift/drift-counts.ts';
import type { Tally } from '../../src/engine/counts.ts';
import { MAX_DETAILS } from '../../src/engine/protocol.ts';
import { type SavedTally, TallyAccumulator, tallyOfSaved } from '../../src/runs/accumulator.ts';
import fc from '../support/seeded-fast-check.ts';

const CELLS = 7;
const code = fc.constantFrom<ErrorCode>('bad_number', 'unseen_category', 'missing_value');
const some = fc.nat({ max: 2 ** 31 - 1 });

const part: fc.Arbitrary<Tally> = fc
  .record({
    scored: some,
    rejected: some,
    byCode: fc.dictionary(code, some),
    interpreted: some,
    inexact: some,
    details: fc.array(fc.record({ row: some, code, message: fc.string({ maxLength: 5 }) }), { maxLength: 3 }),
    byColumn: fc.option(fc.array(fc.record({ column: fc.string(), code, rows: some }), { maxLength: 4 }), {
      nil: undefined,
    }),
    drift: fc.option(
      fc.record({
        cells: fc.array(some, { minLength: CELLS, maxLength: CELLS }),
        numbers: fc.array(fc.tuple(fc.nat({ max: 5000 }), fc.integer({ min: 1, max: 2 ** 31 - 1 })), { maxLength: 6 }),
      }),
    ),
  })
  .map(({ byCode, byColumn, drift, ...counts }) => ({
    ...counts,
    rows: counts.scored + counts.rejected,
    rejectedByCode: byCode,
    ...(byColumn ? { rejectedByColumn: byColumn } : {}),
    workMs: 1,
    drift: drift && { cells: Uint32Array.from(drift.cells), numbers: Uint32Array.from(drift.numbers.flat()) },
  }));

function sumOf(parts: readonly Tally[]): TallyAccumulator {
  const sum = new TallyAccumulator();
  for (const one of parts) sum.add(one);
  return sum;
}

/** Order-independent: columns by name, and no details, of which only the first ones are kept. */
const numbersOf = ({ details: _, rejectedByColumn, ...saved }: SavedTally) => ({
  ...saved,
  rejectedByColumn: [...rejectedByColumn].sort((a, b) => (`${a.column} ${a.code}` < `${b.column} ${b.code}` ? -1 : 1)),
});

test('restore(a) and restore(b) is a + b, in any order, through JSON', () => {
  fc.assert(
    fc.property(fc.array(part, { maxLength: 6 }), fc.array(part, { maxLength: 6 }), (first, second) => {
      const [a, b] = [sumOf(first).save(), sumOf(second).save()];
      const together = sumOf([...first, ...second]).save();
      const restored = new TallyAccumulator();
      for (const saved of [a, b]) restored.restore(JSON.parse(JSON.stringify(saved)));
      expect(restored.save()).toEqual(together);
      const swapped = new TallyAccumulator();
      for (const saved of [b, a]) swapped.restore(saved);
      expect(numbersOf(swapped.save())).toEqual(numbersOf(together));
      expect(together.details).toEqual([...first, ...second].flatMap((one) => one.details).slice(0, MAX_DETAILS));
    }),
  );
});

test('states taken one after the other add up to all parts', () => {
  fc.assert(
    fc.property(fc.array(fc.array(part, { maxLength: 3 }), { maxLength: 4 }), (groups) => {
      const [running, all] = [new TallyAccumulator(), new TallyAccumulator()];
      for (const group of groups) {
        for (const one of group) running.add(one);
        all.restore(running.take());
      }
      expect(numbersOf(all.save())).toEqual(numbersOf(sumOf(groups.flat()).save()));
      expect(running.save()).toMatchObject({ rows: 0, rejectedByCode: {}, rejectedByColumn: [], details: [] });
    }),
  );
});

test('more than 2^32 rows of a cell are counted, and drift is what adding every part gives', () => {
  const cells = Uint32Array.from({ length: CELLS }, () => 2 ** 32 - 1);
  const big: Tally = { ...sumOf([]).save(), workMs: 0, drift: { cells, numbers: Uint32Array.of(3, 2 ** 32 - 1) } };
  const plan = { cells: CELLS, sketches: 1 } as ConstructorParameters<typeof DriftSum>[0];
  const manifest = {} as Parameters<typeof tallyOfSaved>[1];
  const merged = new TallyAccumulator();
  for (let i = 0; i < 3; i++) merged.add(tallyOfSaved(sumOf([big]).save(), manifest));
  expect(merged.driftOf(plan).cells).toEqual(Float64Array.from(cells, (n) => 3 * n));
  const expected = new DriftSum(plan);
  for (let i = 0; i < 3; i++) expected.add(big.drift!);
  expect(merged.driftOf(plan)).toEqual(expected);
  expect(tallyOfSaved(sumOf([big]).save(), null).drift).toBeNull();
});
