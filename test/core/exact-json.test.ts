// Numbers keep their text when a double would change it, at any depth; all other JSON is parsed as JSON.parse does.

import { expect, test } from 'vitest';
import { ExactNumber, parseExact } from '../../src/core/exact-json.ts';
import fc from '../support/seeded-fast-check.ts';

const parse = (text: string) => parseExact(Buffer.from(text));

test.each([
  '0.10',
  '1.0',
  '1E2',
  '1e2',
  '-0',
  '-0.0',
  '9007199254740993',
  '0.12345678901234567',
  '100000000000000000000000',
  '1.5e-7',
  '0.1000',
  '12345678.1234567891',
  '-1234567.12345678901',
  '0.0000001',
  '-0.00000012',
])('%s keeps its text, in an object, a list and a nested object', (number) => {
  // biome-ignore format: one line
  const text = `{"a":${number},"list":[${number},1],"nested":{"b":${number}}}`;
  const parsed = parse(text);
  expect(JSON.stringify(parsed)).toBe(text);
  expect(String(parsed.a)).toBe(number);
});

test.each(['0', '1', '-1', '0.1', '0.5', '-0.25', '123456789', '10', '100'])('%s is a number', (number) => {
  expect(parse(`{"a":${number}}`)).toEqual({ a: Number(number) });
});

test('texts that look like numbers stay texts', () => {
  const object = { a: '0.10', b: '9007199254740993', c: ['1e5', '-0'], '1.0': 'x' };
  expect(parse(JSON.stringify(object))).toEqual(object);
});

/** JSON with numbers in the given spellings, compared with JSON.parse after every exact number became a double. */
test('any JSON has the values of JSON.parse and, written again, its own text', () => {
  const token = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
    fc.bigInt().map(String),
    fc.tuple(fc.integer(), fc.nat(999), fc.nat(3)).map(([a, b, z]) => `${a}.${b}${'0'.repeat(z)}`),
    // Long numbers whose digits are on both sides of the point, and small ones.
    fc.tuple(fc.maxSafeInteger(), fc.maxSafeNat()).map(([a, b]) => `${a}.${b}`),
    fc.tuple(fc.nat(12), fc.nat(10 ** 6)).map(([zeros, digits]) => `0.${'0'.repeat(zeros)}${digits}`),
    fc
      .tuple(fc.nat(9), fc.constantFrom('e', 'E'), fc.constantFrom('', '+', '-'), fc.nat(20))
      .map((parts) => parts.join('')),
    fc.string().map((s) => JSON.stringify(s)),
    fc.constantFrom('true', 'false', 'null'),
  );
  const json = fc.letrec((tie) => ({
    value: fc.oneof({ maxDepth: 3 }, token, tie('list'), tie('object')),
    list: fc.array(tie('value'), { maxLength: 4 }).map((items) => `[${items.join(',')}]`),
    object: fc
      .uniqueArray(fc.tuple(fc.string(), tie('value')), { maxLength: 4, selector: ([key]) => key })
      .map((members) => `{${members.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`),
  })).object as fc.Arbitrary<string>;
  const asDoubles = (value: unknown): unknown => {
    if (value instanceof ExactNumber) return Number(value.text);
    if (Array.isArray(value)) return value.map(asDoubles);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, asDoubles(member)]));
  };
  fc.assert(
    fc.property(json, (text) => {
      const parsed = parse(text);
      expect(asDoubles(parsed)).toEqual(JSON.parse(text));
      // Members named like array indices move to the front of an object.
      if (!/"\d+":/.test(text)) expect(JSON.stringify(parsed)).toBe(text);
    }),
    { numRuns: 500 },
  );
});
