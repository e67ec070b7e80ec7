// Mutants are small changes of code that runs; a campaign tries a sample of them against the nearest tests.
import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { campaignTest, ONLY, SEED, times } from '../support/tiers.ts';
import { report, tryMutants } from './campaign.ts';
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

/** Survivors are listed for people, who decide which of them are equivalent: they do not fail the campaign. */
campaignTest('mutants of a sample', async () => {
  const mutants = sample(allMutants(ONLY), { count: MUTANTS, seed: SEED });
  const results = await tryMutants(mutants, 'check', () => {});
  report(results);
  expect(results).toHaveLength(mutants.length);
});
