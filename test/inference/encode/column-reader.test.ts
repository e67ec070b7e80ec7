// The encoding rules: native types and strings mean the same, and nothing is guessed.
import { describe, expect, test } from 'vitest';
import { type ColumnData, MISSING, UNSEEN } from '../../../src/core/batch.ts';
import { ColumnReader } from '../../../src/inference/encode/column-reader.ts';
import type { ColumnSpec, InputSpec } from '../../../src/model/package/manifest.ts';

const cell = (): ColumnData => ({
  kind: 'number',
  numbers: new Float64Array(1),
  codes: new Int32Array(1),
  texts: [null],
  unseenRows: [],
});

/** What the column makes of a JSON value: the value held, or the code of the fault. */
function read(spec: ColumnSpec, value: unknown, type: InputSpec['type'] = 'float32'): unknown {
  const reader = new ColumnReader(spec, [{ name: 'x', type, column: spec.name }]);
  const out = cell();
  const fault = reader.readNative(value, out, 0);
  if (fault) return fault.code;
  return reader.kind === 'number' ? out.numbers[0] : reader.kind === 'text' ? out.texts[0] : out.codes[0];
}

const number: ColumnSpec = { name: 'n', kind: 'number' };
const boolean: ColumnSpec = { name: 'b', kind: 'boolean' };
const category: ColumnSpec = { name: 'c', kind: 'category', codes: { A: 0, '007': 1, 7: 2, true: 3 } };

describe('numbers', () => {
  test.each([
    ['12.5', 12.5],
    [12.5, 12.5],
    ['-0.5e-3', -0.0005],
    ['+7', 7],
    ['.5', 0.5],
    ['5.', 5],
    ['007', 7],
    ['', Number.NaN],
    [null, Number.NaN],
    [undefined, Number.NaN],
    ['1e400', 'number_out_of_range'],
    ['3.5e38', 'number_out_of_range'],
    [' 5', 'bad_number'],
    ['5 ', 'bad_number'],
    ['1 000', 'bad_number'],
    ['1,000', 'bad_number'],
    ['0x10', 'bad_number'],
    ['Infinity', 'bad_number'],
    ['NaN', 'bad_number'],
    ['1_000', 'bad_number'],
    ['１２', 'bad_number'],
    [true, 'bad_type'],
    [[1], 'bad_type'],
    [{}, 'bad_type'],
  ])('%j is %j', (value, want) => {
    expect(read(number, value)).toEqual(want);
  });

  test('float64 takes what float32 cannot', () => {
    expect(read(number, '3.5e38', 'float64')).toBe(3.5e38);
  });

  test('whole numbers only for integer inputs', () => {
    expect(read({ ...number, missing: { as: 'value', value: 0 } }, '5.5', 'int64')).toBe('bad_number');
    expect(read({ ...number, missing: { as: 'value', value: 0 } }, '5', 'int64')).toBe(5);
  });

  test('a range refuses what lies outside', () => {
    expect(read({ ...number, range: [0, 10] }, 11)).toBe('number_out_of_range');
    expect(read({ ...number, range: { min: 0 } }, -1)).toBe('number_out_of_range');
    expect(read({ ...number, range: { min: 0 } }, 0)).toBe(0);
  });

  test('missing texts are those of the package, and may be refused', () => {
    expect(read({ ...number, missing: { values: ['', 'NA'] } }, 'NA')).toBeNaN();
    expect(read({ ...number, missing: { as: 'error' } }, null)).toBe('missing_value');
  });
});

describe('booleans', () => {
  test.each([
    [true, 1],
    ['true', 1],
    ['True', 1],
    ['1', 1],
    [1, 1],
    [false, 0],
    ['FALSE', 0],
    [0, 0],
    [null, MISSING],
    ['', MISSING],
    ['yes', 'bad_boolean'],
    [2, 'bad_boolean'],
    [' true', 'bad_boolean'],
  ])('%j is %j', (value, want) => {
    expect(read(boolean, value)).toBe(want);
  });
});

describe('categories', () => {
  const at = (value: string) => Object.keys(category.codes!).indexOf(value);
  test.each([
    ['A', at('A')],
    ['007', at('007')],
    ['7', at('7')],
    // The zeros of 007 would be gone: a number is none of these words.
    [7, 'bad_type'],
    [true, 'bad_type'],
    ['', MISSING],
    ['a', 'unseen_category'],
    ['constructor', 'unseen_category'],
    ['__proto__', 'unseen_category'],
    ['A\0', 'invalid_character'],
    [2 ** 60, 'bad_type'],
  ])('%j is %j', (value, want) => {
    expect(read(category, value)).toBe(want);
  });

  test('unseen as the package says', () => {
    expect(read({ ...category, unseen: 'missing' }, 'x')).toBe(UNSEEN);
    expect(read({ ...category, unseen: 'missing', missing: { as: 'error' } }, 'x')).toBe('missing_value');
    expect(read({ ...category, unseen: 'value', unseen_value: -1 }, 'x')).toBe(UNSEEN);
  });

  test.each<[ColumnSpec['codes'], unknown, unknown]>([
    [{ 7: 0, 12: 1 }, 12, 1],
    [{ 7: 0, 12: 1 }, '12', 1],
    [{ 7: 0, 12: 1 }, 13, 'unseen_category'],
    [{ '-1': 0, '1.5': 1 }, 1.5, 1],
    [{ '-1': 0, '1.50': 1 }, -1, 'bad_type'],
    [{ 7: 0, '1e3': 1 }, 7, 'bad_type'],
    [{ 7: 0, Infinity: 1 }, 7, 'bad_type'],
    [{ 7: 0 }, true, 'bad_type'],
    [{ true: 0, false: 1 }, true, 0],
    [{ true: 0, False: 1 }, true, 'bad_type'],
  ])('numbers and booleans count only where no known value lost anything: %j, %j', (codes, value, want) => {
    expect(read({ name: 'c', kind: 'category', codes: codes! }, value)).toBe(want);
  });

  test('a package may take any number', () => {
    const reader = new ColumnReader(category, [], null, { anyNumbers: true });
    const out = cell();
    expect(reader.readNative(7, out, 0)).toBe(null);
    expect(out.codes[0]).toBe(at('7'));
  });

  test('without a list the text itself is held', () => {
    const open: ColumnSpec = { name: 'o', kind: 'category' };
    expect(read(open, 'x', 'string')).toBe('x');
    expect(read(open, null, 'string')).toBe(null);
    expect(read(open, 5, 'string')).toBe('bad_type');
    expect(read(open, 'x\0y', 'string')).toBe('invalid_character');
  });
});

test.each([
  ['1.234', 1.234],
  ['51234.00', 51234],
  ['-0.05', -0.05],
  ['9999.00', Number.NaN],
])('the decimal %s of a typed table is a number, whatever was declared for texts', (text, value) => {
  const rules = { decimal: 'comma', thousands: 'point', trim: true, nullValues: ['9999'] } as const;
  const reader = new ColumnReader({ name: 'amount', kind: 'number' }, [], rules, { fromDecimals: true });
  const out = cell();
  expect(reader.readNative(text, out, 0)).toBeNull();
  expect(out.numbers[0]).toBe(value);
});
