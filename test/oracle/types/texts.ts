// Values of formats without types: cells of CSV, and tokens of JSON.
import type { Value } from './rule.ts';

const TEXTS = ['', 'A', 'NULL', '36.0', ' 36 ', '36', '3.6e1', '+36', '036', 'Zürich', '€ “x”', '“', '007', '0230', '230', '230,0', '1e2', 'true', 'false', 'True', 'FALSE', '1', '0', '-0', '1.50', '1.5', '1,5', '-7', '-7.0', '-999', '-999.0', '-9.99e2', 'NA', 'NaN', 'nan', 'Infinity', '-Infinity', '1e400', '1e-400', '9007199254740991', '9007199254740993', '18446744073709551615', '0.1', '36.6', '36.60', '1.234', '1.234,5', '1234', '1234.0', '12 345', "12'345", '.5', '5.', '0x10', '1_000', '９', '"', 'two\nlines', '日本 😀', 'long '.repeat(40), '2024-02-29', 'Y', 'N', ' Y', '1e+22', '1e22', '-0.05', '600', '600.5', '601', 'null', '[]']; // biome-ignore format: a list
export const CELLS: readonly { t: string }[] = TEXTS.map((t) => ({ t }));

export const jsonOf = (text: string, row: number): string => JSON.stringify({ row, x: text });

const NUMBERS = ['0', '-0', '1', '36', '36.0', '3.6e1', '3600e-2', '100', '1e2', '230', '230.0', '7', '-7', '-7.00', '127', '1.5', '1.50', '0.1', '36.6', '36.60', '1.234', '1234', '1234.0', '-999', '-999.0', '-9.99e2', '601', '600.5', '-0.05', '9007199254740991', '9007199254740993', '-9007199254740993', '9223372036854775807', '18446744073709551615', '1e22', '12345678901234567890.5', '5e-324', '1e-400', '1e300', '3.5e38']; // biome-ignore format: a list
/** Tokens of JSON with their values. Objects and lists are none that a column takes. */
export const TOKENS: readonly (readonly [token: string, value: Value])[] = [
  ['null', null],
  ['true', { b: true }],
  ['false', { b: false }],
  ['{}', { o: {} }],
  ['[36]', { o: [36] }],
  ['{"a": {"b": [1]}}', { o: {} }],
  ...NUMBERS.map((n) => [n, { n }] as const),
];
