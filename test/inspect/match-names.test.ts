// Names of a file are matched with the columns of a model only where one candidate is left.
import { expect, test } from 'vitest';
import { matchNames } from '../../src/inspect/match-names.ts';

const COLUMNS = ['loan_amount', 'term', 'income', 'income_1', 'income_2'];
const found = (columns: readonly string[], names: readonly string[]) =>
  matchNames(columns, names).map(({ at, match, candidates }) => (at === null ? [match, ...candidates] : [match, at]));

test.each<[what: string, columns: string[], names: string[], expected: (string | number)[][]]>([
  ['the same names, in another order', ['a', 'b'], ['b', 'x', 'a'], [['exact', 2], ['exact', 0]]],
  ['spaces around a name', ['term', 'income'], [' term', 'income\u00a0'], [['spaces', 0], ['spaces', 1]]],
  ['other styles', ['loan_amount', 'pt_income'], ['LoanAmount', 'PT-Income'], [['style', 0], ['style', 1]]],
  ['brackets and accents', ['montant', 'term'], ['[Montánt]', '"Term"'], [['style', 0], ['style', 1]]],
  ['an exact name wins over another style', ['term'], ['TERM', 'term'], [['exact', 1]]],
  ['two styles of one name', ['loan_amount'], ['LoanAmount', 'LOAN_AMOUNT'], [['open', 0, 1]]],
  ['the same name twice', ['term'], ['term', 'x', 'term'], [['open', 0, 2]]],
  ['a common prefix', ['amount', 'term', 'income'], ['cust_amount', 'cust_term', 'cust_income'], [['affix', 0], ['affix', 1], ['affix', 2]]],
  ['a common suffix', ['amount', 'term', 'income'], ['Amount EUR', 'Term EUR', 'Income EUR'], [['affix', 0], ['affix', 1], ['affix', 2]]],
  ['a prefix of two columns only', ['amount', 'term'], ['old_amount', 'old_term'], [['missing'], ['missing']]],
  ['a typing error', ['occupation'], ['ocupation'], [['spelling', 0]]],
  ['two similar names for one column', ['occupation'], ['ocupation', 'occupaton'], [['open', 0, 1]]],
  ['one similar name for two columns', ['incomes', 'incomer'], ['incomex'], [['open', 0], ['open', 0]]],
  ['names that differ in a digit', ['income_1'], ['income_2'], [['missing']]],
  ['a short name has no typing errors', ['age'], ['ago'], [['missing']]],
  ['an empty name', ['term'], [''], [['missing']]],
])('%s', (_, columns, names, expected) => {
  expect(found(columns, names)).toEqual(expected);
}); // biome-ignore format: one line each

test('every column gets another input column, and none is used twice', () => {
  const matches = matchNames(COLUMNS, ['Income2', 'INCOME', 'LOAN AMOUNT', 'income_1', 'Term']);
  expect(matches.map(({ at }) => at)).toEqual([2, 4, 1, 3, 0]);
});

test('thousands of names take no noticeable time, however similar they are', () => {
  const columns = Array.from({ length: 2000 }, (_, i) => `${'column_name_'.repeat(4)}${i}`);
  const names = columns.map((name) => `${name.replace('column', 'colum')}x`);
  const matches = matchNames(columns, names);
  expect(matches).toHaveLength(2000);
  expect(matches.every(({ match }) => match !== 'exact')).toBe(true);
});
