// A suggestion is found where somebody mistyped, and costs little whatever is asked.
import { expect, test } from 'vitest';
import { didYouMean, nearest } from '../../src/core/did-you-mean.ts';

test.each([
  ['applicant_aeg', ['applicant_age', 'income'], ' (did you mean applicant_age?)'],
  ['INCOME', ['applicant_age', 'income'], ' (did you mean income?)'],
  ['x', ['abcdef'], ''],
  ['income', ['inXoXe'], ' (did you mean inXoXe?)'],
  ['income', ['inXXXe'], ''],
  ['applicant', ['applXXXnt'], ' (did you mean applXXXnt?)'],
  ['applicant', ['appXXXXnt'], ''],
  ['a'.repeat(64), ['a'.repeat(63)], ` (did you mean ${'a'.repeat(63)}?)`],
  ['a'.repeat(65), ['a'.repeat(64)], ''],
  ['a'.repeat(40), ['a'.repeat(10_000), 'a'.repeat(39)], ` (did you mean ${'a'.repeat(39)}?)`],
])('%s of %j', (word, known, said) => {
  expect(didYouMean(word, known)).toBe(said);
});

test.each([
  ['another letter', 'abcd', 'abXd', 1],
  ['a letter too many', 'abcd', 'abXcd', 1],
  ['a letter too few', 'abcd', 'abd', 1],
  ['two letters that changed places', 'abcd', 'acbd', 2],
  ['upper case', 'abcd', 'ABCD', 0],
  ['all letters', 'abcd', 'wxyz', 4],
])('%s: so many edits, and no fewer', (_, word, known, edits) => {
  expect(nearest(word, [known], edits)).toBe(known);
  expect(nearest(word, [known], edits - 1)).toBe(null);
});

test('the first of the nearest names', () => {
  expect(nearest('abcd', ['abXX', 'abcX', 'Xbcd', 'abcd'], 3)).toBe('abcd');
  expect(nearest('abcd', ['abXX', 'abcX', 'Xbcd'], 3)).toBe('abcX');
});

test('a thousand names of any length cost no more than milliseconds', () => {
  const names = Array.from({ length: 1000 }, (_, i) => `${'n'.repeat(i % 3 === 0 ? 1_000_000 : 60)}${i}`);
  const before = process.cpuUsage();
  for (let i = 0; i < 20; i++) didYouMean(`${'m'.repeat(60)}${i}`, names);
  const { user, system } = process.cpuUsage(before);
  // Word by word it would be 20,000 tables of 4,000 cells, and of 60 million where a name is long.
  expect(user + system).toBeLessThan(1_000_000);
});
