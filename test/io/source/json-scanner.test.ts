// Elements of a JSON array at any cut; JSON.parse is the judge.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RECORD_OK, RECORD_TOO_DEEP } from '../../../src/core/block.ts';
import { JsonScanner } from '../../../src/io/source/json-scanner.ts';
import { cutAll } from '../../support/blocks.ts';

const cut = async (input: string, chunk = 1 << 16, slab = 1 << 16, maxRecordBytes = 1 << 20) =>
  (await cutAll(input, { chunk, slab, scanner: new JsonScanner(maxRecordBytes, 4) })).records;
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
