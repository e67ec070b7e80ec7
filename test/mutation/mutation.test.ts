// Mutants are small changes of code that runs; a campaign tries a sample of them against the nearest tests.
import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import fc from '../support/seeded-fast-check.ts';
import { campaignTest, ONLY, SEED, times } from '../support/tiers.ts';
import { report, tryMutants } from './campaign.ts';
import { coveredBounds, isCovered, type Range, union } from './coverage-bounds.ts';
import { allMutants, canParse, folderOf, mutantsOf, mutated, sample } from './mutants.ts';
import { ReachingTests } from './reaching-tests.ts';

const MUTANTS = times('mutants', { quick: 0, check: 0, campaigns: 500 });

const changesOf = (source: string): string[] =>
  mutantsOf('f.ts', source).map(({ line, before, after }) => `${line}: ${before} → ${after}`);

test.each([
  ['a boundary', 'f(a < b);', ['1: f(a < b); → ;', '1: < → <=']],
  ['an equality, whose opposite is the negation of a condition, too', 'if (a === b) f = c;', ['1: === → !==']],
  ['a negation', 'if (!a) f = c;', ['1: !a → a']],
  ['a condition', 'x = a.b ? c : d;', ['1: a.b → !(a.b)']],
  ['the sum of numbers', 'x = a + b;', ['1: + → -']],
  ['no sum of texts', "x = a + 'b' + c;", []],
  ['a literal', 'x = [true, 7, 2n];', ['1: true → false', '1: 7 → 8', '1: 2n → 3n']],
  ['arguments', 'x = f(a, b.c);', ['1: a, b.c → b.c, a']],
  ['a call whose result is awaited', 'await f();', ['1: await f(); → ;']],
  ['an early return', 'const f = () => { if (a()) return; b = 1 };', ['1: if (a()) return; → ;', '1: a() → !(a())', '1: 1 → 2']],
  ['a block', 'for (const a of b) { c = d; e = f; }', ['1: { c = d; e = f; } → {}']],
  ['no type', 'const a: 1 | 2 = b as 2;\ninterface C { d: true }', []],
  ['no message and no text of an error', "log.info('a', 1); throw new E('b' + (c + 1)); refuse('d', 'e' + 1);", ["1: refuse('d', 'e' + 1); → ;"]],
  ['no size and no time', 'const WAIT_MS = 60_000;\nconst a = 1;', ['2: 1 → 2']],
])('%s', (_, source, changes) => {
  expect(changesOf(source)).toEqual(changes);
}); // biome-ignore format: a table

test('offsets are those of the source, behind types and other letters', () => {
  const source = "const a: Map<string, number> = b('ä€😀') as never;\nif (a < c) d();";
  const mutant = mutantsOf('f.ts', source).find(({ before }) => before === '<')!;
  expect(mutant.line).toBe(2);
  expect(mutated(source, mutant)).toBe(source.replace('a < c', 'a <= c'));
});

test('what Node cannot parse is recognised', () => {
  expect(canParse('x = a ?? (b || c);')).toBe(true);
  expect(canParse('x = a ?? b || c;')).toBe(false);
});

test('a seed decides a sample', () => {
  const all = allMutants(/^src\/(?:io|config|formats\/json)\//);
  const chosen = sample(all, { each: 2, seed: 3 });
  expect(sample(all, { each: 2, seed: 3 })).toEqual(chosen);
  expect(sample(all, { each: 2, seed: 4 })).not.toEqual(chosen);
  const folders = chosen.map(({ file }) => folderOf(file)).sort();
  expect(folders).toEqual(['config', 'formats/json', 'io/sink', 'io/source'].flatMap((f) => [f, f]));
  for (const mutant of chosen) expect(canParse(mutated(readFileSync(mutant.file, 'utf8'), mutant))).toBe(true);
});

test('the nearest tests come first', () => {
  const tests = new ReachingTests();
  const names = tests.of('src/runs/account.ts').map((one) => one.test);
  expect(names[0]).toBe('test/runs/account.test.ts');
  expect(names.every((name) => existsSync(name))).toBe(true);
  // Not the tests of API keys, which have a word of the name.
  expect(tests.of('src/doors/http/access/issuer-keys.ts')[0]!.test).toBe('test/doors/http/tokens.test.ts');
  expect(tests.reaches('test/oracle/first-difference.ts', 'src/formats/json/json-decoder.ts')).toBe(true);
  expect(tests.reaches('test/oracle/first-difference.ts', 'test/security/attacks.ts')).toBe(false);
});

test('the innermost range decides what is covered', () => {
  const LENGTH = 12;
  // Brackets that are well nested, as V8 reports them.
  const nested = fc.letrec<{ tree: Nested }>((tie) => ({
    tree: fc.record({
      count: fc.nat({ max: 1 }),
      cuts: fc.array(fc.nat({ max: LENGTH }), { maxLength: 4 }),
      children: fc.oneof({ depthSize: 'small' }, fc.constant<Nested[]>([]), fc.array(tie('tree'), { maxLength: 3 })),
    }),
  })).tree;
  fc.assert(
    fc.property(nested, nested, (a, b) => {
      const [first, second] = [a, b].map((tree) => rangesOf(tree, 0, LENGTH));
      const expected = [first!, second!].map((ranges) =>
        Array.from({ length: LENGTH }, (_, i) => innermost(ranges, i)),
      );
      const bounds = [coveredBounds(first!), coveredBounds(second!)];
      const both = union(bounds[0]!, bounds[1]!);
      for (let i = 0; i < LENGTH; i++) {
        expect(isCovered(bounds[0]!, i)).toBe(expected[0]![i]);
        expect(isCovered(both, i)).toBe(expected[0]![i] || expected[1]![i]);
      }
    }),
  );
});

interface Nested {
  count: number;
  cuts: number[];
  children: Nested[];
}

/** The range of a tree and those of its children, which lie side by side in it. */
function rangesOf({ count, cuts, children }: Nested, startOffset: number, endOffset: number): Range[] {
  const inside = cuts.map((cut) => startOffset + (cut % (endOffset - startOffset + 1))).sort((x, y) => x - y);
  const own = { startOffset, endOffset, count };
  return [
    own,
    ...children.flatMap((child, i) => (inside[i + 1]! > inside[i]! ? rangesOf(child, inside[i]!, inside[i + 1]!) : [])),
  ];
}

/** Whether the last range around an offset, which is the innermost, was run. */
const innermost = (ranges: readonly Range[], offset: number): boolean =>
  ranges.findLast(({ startOffset, endOffset }) => startOffset <= offset && offset < endOffset)!.count > 0;

/** Survivors are listed for people, who decide which of them are equivalent: they do not fail the campaign. */
campaignTest('mutants of a sample', async () => {
  const mutants = sample(allMutants(ONLY), { count: MUTANTS, seed: SEED });
  const results = await tryMutants(mutants, 'check', () => {});
  report(results);
  expect(results).toHaveLength(mutants.length);
});
