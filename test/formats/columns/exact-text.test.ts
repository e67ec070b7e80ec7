// Values of columns as texts without loss; expected texts are written by hand.
import { expect, test } from 'vitest';
import { checkScale, decimalText } from '../../../src/formats/columns/json-text.ts';

test.each([
  [0n, 0, '0'],
  [0n, 2, '0.00'],
  [5n, 0, '5'],
  [-5n, 1, '-0.5'],
  [5n, 3, '0.005'],
  [-12345n, 2, '-123.45'],
  [100n, 2, '1.00'],
  [7n, -3, '7000'],
  [-7n, -1, '-70'],
  [123n, 3, '0.123'],
  [10n ** 75n, 76, `0.1${'0'.repeat(75)}`],
])('%s with %s digits behind the point', (unscaled, scale, text) => {
  expect(decimalText(unscaled, scale)).toBe(text);
});

test.each([1001, -1001, 2 ** 31 - 1, -(2 ** 31), Number.NaN])(
  'a scale of %s is refused, whatever it would cost',
  (scale) => {
    expect(() => checkScale(scale)).toThrow('scale');
    expect(() => decimalText(0n, scale)).toThrow('scale');
  },
);

test.each([1000, -1000])('a scale of %s is not', (scale) => {
  expect(decimalText(1n, scale)).toHaveLength(scale > 0 ? 1002 : 1001);
});
