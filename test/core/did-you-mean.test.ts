// A suggestion is found where somebody mistyped, and costs little whatever is asked.
import { expect, test } from 'vitest';
import { didYouMean } from '../../src/core/did-you-mean.ts';

test.each([
  ['applicant_aeg', ['applicant_age', 'income'], ' (did you mean applicant_age?)'],
  ['INCOME', ['applicant_age', 'income'], ' (did you mean income?)'],
  ['x', ['abcdef'], ''],
  ['a'.repeat(65), ['a'.repeat(64)], ''],
  ['a'.repeat(40), ['a'.repeat(10_000), 'a'.repeat(39)], ` (did you mean ${'a'.repeat(39)}?)`],
])('%s of %j', (word, known, said) => {
  expect(didYouMean(word, known)).toBe(said);
});

test('a thousand names of any length cost no more than milliseconds', () => {
  const names = Array.from({ length: 1000 }, (_, i) => `${'n'.repeat(i % 3 === 0 ? 1_000_000 : 60)}${i}`);
  const before = process.cpuUsage();
  for (let i = 0; i < 20; i++) didYouMean(`${'m'.repeat(60)}${i}`, names);
  const { user, system } = process.cpuUsage(before);
  // Word by word it would be 20,000 tables of 4,000 cells, and of 60 million where a name is long.
  expect(user + system).toBeLessThan(1_000_000);
});
