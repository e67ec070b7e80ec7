// Three sums over the lines of a block name what was done to it: every kind, every place.
import { expect, test } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { lineHash, linesOf, sumHashes } from '../../src/proof/line-sums.ts';
import { locateDamage } from '../../src/proof/locate-damage.ts';

const random = new Random();
const below = (n: number): number => Math.floor(random.uniform() * n);
const lineOf = (i: number): Buffer => Buffer.from(`${i},true,0.${below(1e7)},${below(900)},approve\n`);
const hashesOf = (lines: readonly Uint8Array[]): BigUint64Array =>
  BigUint64Array.from([...linesOf(Buffer.concat(lines))], lineHash);

/** A block, what is done to it, and what has to be said. */
function trial(kind: string): { before: Buffer[]; after: Buffer[]; said: object[] } {
  const before = Array.from({ length: 4 + below(60) }, (_, i) => lineOf(i));
  const after = [...before];
  const at = below(before.length - 1);
  const line = at + 1;
  switch (kind) {
    case 'changed': {
      const changed = Buffer.from(before[at]!);
      changed[below(changed.length - 1)]! ^= 1;
      after[at] = changed;
      return { before, after, said: [{ kind, line }] };
    }
    case 'two changed': {
      const other = (at + 1 + below(before.length - 1)) % before.length;
      const [i, j] = [Math.min(at, other), Math.max(at, other)];
      for (const k of [i, j]) after[k] = Buffer.from(`x${before[k]}`);
      return {
        before,
        after,
        said: [
          { kind: 'changed', line: i + 1 },
          { kind: 'changed', line: j + 1 },
        ],
      };
    }
    case 'swapped': {
      const other = at + 1 + below(before.length - at - 1);
      [after[at], after[other]] = [after[other]!, after[at]!];
      return { before, after, said: [{ kind, line, with: other + 1 }] };
    }
    case 'deleted':
      after.splice(at, 1);
      return { before, after, said: [{ kind, line }] };
    case 'doubled':
      after.splice(at, 0, before[at]!);
      return { before, after, said: [{ kind }] };
    case 'inserted':
      after.splice(at, 0, lineOf(999));
      return { before, after, said: [{ kind, line }] };
    case 'joined':
      after[at] = before[at]!.subarray(0, -1);
      return { before, after, said: [{ kind, line }] };
    default: {
      const split = Buffer.from(before[at]!);
      split[2 + below(split.length - 4)] = 0x0a;
      after[at] = split;
      return { before, after, said: [{ kind, line }] };
    }
  }
}

test.each(['changed', 'two changed', 'swapped', 'deleted', 'doubled', 'inserted', 'joined', 'split'])('%s', (kind) => {
  for (let seed = 0; seed < 150; seed++) {
    random.seed(seed, 1);
    const { before, after, said } = trial(kind);
    const found = locateDamage(sumHashes(hashesOf(before)), hashesOf(after));
    expect(found, `seed ${seed}`).toMatchObject(said);
    expect(found).toHaveLength(said.length);
  }
});

test('what was not changed has no damage, and what no single damage explains has no name', () => {
  random.seed(7, 7);
  const lines = Array.from({ length: 50 }, (_, i) => lineOf(i));
  const sums = sumHashes(hashesOf(lines));
  expect(locateDamage(sums, hashesOf(lines))).toEqual([]);
  expect(locateDamage(sums, hashesOf(lines.map((line, i) => (i % 10 === 0 ? lineOf(i) : line))))).toBeNull();
  expect(locateDamage(sums, hashesOf(lines.slice(3)))).toBeNull();
});
