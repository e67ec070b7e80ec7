// Elements of a JSON array at any cut; JSON.parse is the judge.

import { describe, expect, test } from 'vitest';
import { RECORD_OK, RECORD_TOO_DEEP } from '../../../src/core/block.ts';
import { SluiceError } from '../../../src/core/errors.ts';
import { JsonScanner } from '../../../src/io/source/json-scanner.ts';
import { cutAll } from '../../support/blocks.ts';
import fc from '../../support/seeded-fast-check.ts';

const cut = async (input: string, chunk = 1 << 16, slab = 1 << 16, maxRecordBytes = 1 << 20) =>
  (await cutAll(input, { chunk, slab, scanner: (kernelBytes) => new JsonScanner(maxRecordBytes, 4, kernelBytes) }))
    .records;
const texts = async (input: string, chunk?: number, slab?: number) =>
  (await cut(input, chunk, slab)).map((r) => r.text);
const refused = (input: string, max?: number) =>
  cut(input, 3, 16, max).then(
    () => 'taken',
    (e: { code: string }) => e.code,
  );

test('elements of every kind, a single object, and nothing', async () => {
  expect(await texts(' [ {"a":"x,]}\\""} ,\n{"b":[1,{"c":2}]},3, null ,"s", true]\n')).toEqual([
    '{"a":"x,]}\\""}',
    '{"b":[1,{"c":2}]}',
    '3',
    'null',
    '"s"',
    'true',
  ]);
  expect(await texts(' {"a":1} ')).toEqual(['{"a":1}']);
  expect(await texts('[]')).toEqual([]);
});

test('a malformed element is handed on as long as it closes', async () => {
  expect(await texts('[{"a":1 "b"},{"c":2}]')).toEqual(['{"a":1 "b"}', '{"c":2}']);
});

test('too deep an element is marked, the next one is not', async () => {
  const records = await cut('[{"a":[[[[1]]]]},{"a":1}]');
  expect(records.map((r) => r.fault)).toEqual([RECORD_TOO_DEEP, RECORD_OK]);
});

describe('refused', () => {
  test.each([
    ['', 'malformed_json'],
    ['   ', 'malformed_json'],
    ['3', 'malformed_json'],
    ['"x"', 'malformed_json'],
    ['[{"a":1}', 'truncated_input'],
    ['[{"a":1', 'truncated_input'],
    ['[{"a":1},', 'truncated_input'],
    ['[', 'truncated_input'],
    ['{"a":"x', 'truncated_input'],
    ['[{"a":1},]', 'malformed_json'],
    ['[,{"a":1}]', 'malformed_json'],
    ['[{"a":1}{"b":2}]', 'malformed_json'],
    ['[{"a":1}] x', 'malformed_json'],
    ['[{"a":1}],[', 'malformed_json'],
    ['{"a":1}{"b":2}', 'malformed_json'],
  ])('%j', async (input, code) => {
    expect(await refused(input)).toBe(code);
  });

  // Numbers are not plain elements, which the kernel lists, so both ways of reading alternate.
  test.each([
    ['[{"a":1},3,{"a":2},{"a":3},4,{"b":5} x', 'the JSON text is malformed: after element 6, line 1'],
    ['[{"a":1},\n3,{"a":2},\n5,{"b":5}', 'the JSON text ends in the middle of element 6'],
    [`[{"a":1},3,{"a":2},{"a":"${'x'.repeat(100)}"}]`, 'element 4 is longer than 64 bytes'],
    ['[{"a":1},[{"b":1},{"b":2}],{"a":2}],', 'the JSON text is malformed: after element 3, line 1'],
  ])('%s: names the element', async (input, message) => {
    for (const chunk of [1, 3, 1 << 16]) {
      for (const slab of [16, 1 << 16]) {
        const error = await cut(input, chunk, slab, 64).catch((e: unknown) => e);
        expect(error).toMatchObject({ name: 'SluiceError', message });
      }
    }
  });

  test('an element beyond the limit of a row', async () => {
    expect(await refused(`[{"a":"${'x'.repeat(100)}"}]`, 64)).toBe('limit_exceeded');
  });
});

test('any array of JSON values gives its elements, at every cut, with their lines', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.jsonValue({ maxDepth: 3 }), { maxLength: 8 }),
      fc.constantFrom(undefined, 1, '\t'),
      fc.integer({ min: 1, max: 30 }),
      fc.integer({ min: 4, max: 50 }),
      async (values, indent, chunk, slab) => {
        const input = JSON.stringify(values, null, indent);
        const bytes = Buffer.from(input);
        const records = await cut(input, chunk, slab);
        expect(records.map((r) => JSON.parse(Buffer.from(r.text, 'latin1').toString()))).toEqual(JSON.parse(input));
        for (const r of records) {
          expect(bytes.toString('latin1', r.byte, r.byte + r.text.length)).toBe(r.text);
          expect(r.line).toBe(bytes.toString('latin1', 0, r.byte).split('\n').length);
        }
      },
    ),
    { numRuns: 2000 },
  );
});

test('any text gives the same elements or the same error with the kernel, at every cut', async () => {
  const part = fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom('{"a":1}', ',', ',\n ', ', ', '{"b":"x\\"}"}', '{"c":[{"d":"\\\\"}]}') },
    { weight: 2, arbitrary: fc.nat(130).map((n) => `{"${'\\'.repeat(n)}":"${'é'.repeat(n)}\n"}`) },
    { weight: 2, arbitrary: fc.nat(130).map((n) => ' '.repeat(n)) },
    {
      weight: 1,
      arbitrary: fc.constantFrom('[', ']', '{', '}', '"', '\\', '\\"', '3', '"s"', '\n', '[[[[[]]]]]', ':', '\x00'),
    },
  );
  const element = part.map((p) => [p, ',']);
  const array = fc.array(fc.oneof({ weight: 6, arbitrary: element }, { weight: 1, arbitrary: part.map((p) => [p]) }));
  await fc.assert(
    fc.asyncProperty(
      array.map((parts) => `[${parts.flat().join('')}{}]`),
      fc.constantFrom(1, 7, 64, 300, 1 << 16),
      fc.constantFrom(8, 100, 1 << 16),
      fc.constantFrom(100, 1 << 20),
      async (input, chunk, slab, limit) => {
        // A difference between the two is an AssertionError.
        await cut(input, chunk, slab, limit).catch((e: unknown) => expect(e).toBeInstanceOf(SluiceError));
      },
    ),
    { numRuns: 1000 },
  );
});

test('more elements than the kernel lists at once, of every length', async () => {
  const values = Array.from({ length: 5000 }, (_, i) => ({
    n: i,
    s: `\\"}${'x'.repeat(i === 99 ? 600_000 : i % 150)}`,
  }));
  const input = `[${values.map((v) => JSON.stringify(v)).join(',\n')}]`;
  const records = await cut(input, 1 << 19, 1 << 20);
  expect(records.map((r) => JSON.parse(r.text))).toEqual(values);
  expect(records.map((r) => r.line)).toEqual(values.map((_, i) => i + 1));
});
