// The law of the cutter: the same records, whatever the cuts; a bad record costs its own line and nothing else.
import { parse } from 'csv-parse/sync';
import { describe, expect, test } from 'vitest';
import { RECORD_MALFORMED, RECORD_OK, RECORD_TOO_LONG } from '../../../src/core/block.ts';
import { cutWhole } from '../../../src/io/source/block-cutter.ts';
import { DelimitedScanner } from '../../../src/io/source/delimited-scanner.ts';
import { cutAll } from '../../support/blocks.ts';
import fc from '../../support/seeded-fast-check.ts';

const texts = async (input: string | Uint8Array, chunk = 1 << 16, slab = 1 << 16) =>
  (await cutAll(input, { chunk, slab })).records.map((r) => r.text);

describe('records', () => {
  test('LF, CRLF and CR, mixed, with blank lines and without a last line end', async () => {
    expect(await texts('a,b\nc,d\r\ne,f\rg,h\n\n\r\n\ri,j')).toEqual(['a,b', 'c,d', 'e,f', 'g,h', 'i,j']);
  });

  test('line ends and delimiters inside quotes belong to the field', async () => {
    expect(await texts('a,"b\r\nc\rd\ne,""x"""\nf,g\n')).toEqual(['a,"b\r\nc\rd\ne,""x"""', 'f,g']);
  });

  test('a quote in the middle of an unquoted field is text', async () => {
    expect(await texts('a,5" pipe\nb,c"d"e\n')).toEqual(['a,5" pipe', 'b,c"d"e']);
  });

  test('a byte order mark is dropped, its bytes are counted', async () => {
    const { records } = await cutAll('\ufeffa,b\nc,d\n', { chunk: 1, slab: 16 });
    expect(records.map((r) => [r.text, r.byte])).toEqual([
      ['a,b', 3],
      ['c,d', 7],
    ]);
  });

  test('UTF-16 is refused by name', async () => {
    await expect(cutAll(Buffer.from('\ufeffa,b\n', 'utf16le'), { chunk: 64, slab: 64 })).rejects.toMatchObject({
      code: 'invalid_encoding',
    });
  });

  test('the header is handed over and is no record', async () => {
    const { records, header } = await cutAll('\r\nx,"y\nz"\r\n1,2\n', { chunk: 3, slab: 16, header: true });
    expect(header).toBe('x,"y\nz"');
    expect(records).toEqual([{ text: '1,2', fault: RECORD_OK, line: 4, byte: 11, row: 1 }]);
  });
});

describe('bad records', () => {
  const one = async (input: string, maxRecordBytes = 64) => {
    const reference = await cutAll(input, { chunk: 1 << 16, slab: 1 << 16, maxRecordBytes });
    for (const chunk of [1, 2, 3, 7]) {
      for (const slab of [16, 33, 256]) {
        expect((await cutAll(input, { chunk, slab, maxRecordBytes })).records).toEqual(reference.records);
      }
    }
    return reference.records.map((r) => [r.text, r.fault, r.line]);
  };

  test('text after a closing quote', async () => {
    expect(await one('a,"b"c,d\ne,f\n')).toEqual([
      ['a,"b"c,d', RECORD_MALFORMED, 1],
      ['e,f', RECORD_OK, 2],
    ]);
  });

  test('an unclosed quote that a later quote seems to close costs one line', async () => {
    expect(await one('a,"b\nc,d\ne,"f"\ng,h\n')).toEqual([
      ['a,"b', RECORD_MALFORMED, 1],
      ['c,d', RECORD_OK, 2],
      ['e,"f"', RECORD_OK, 3],
      ['g,h', RECORD_OK, 4],
    ]);
  });

  test('an unclosed quote up to the end of the input costs one line', async () => {
    expect(await one('a,"b\r\nc,d\r\ne,f')).toEqual([
      ['a,"b', RECORD_MALFORMED, 1],
      ['c,d', RECORD_OK, 2],
      ['e,f', RECORD_OK, 3],
    ]);
  });

  test('an unclosed quote beyond the limit of a row costs one line', async () => {
    const rows = Array.from({ length: 40 }, (_, i) => `r${i},x`);
    const got = await one(`a,"b\n${rows.join('\n')}\n`, 64);
    expect(got[0]).toEqual(['a,"b', RECORD_MALFORMED, 1]);
    expect(got.slice(1)).toEqual(rows.map((r, i) => [r, RECORD_OK, i + 2]));
  });

  test('a line beyond the limit is cut and the next one is whole', async () => {
    expect(await one(`a,b\n${'x'.repeat(200)}\nc,d\n"${'y'.repeat(200)}"\ne,f`, 64)).toEqual([
      ['a,b', RECORD_OK, 1],
      ['x'.repeat(64), RECORD_TOO_LONG, 2],
      ['c,d', RECORD_OK, 3],
      [`"${'y'.repeat(63)}`, RECORD_TOO_LONG, 4],
      ['e,f', RECORD_OK, 5],
    ]);
  });
});

const soup = fc.array(fc.constantFrom('a', 'bc', ',', '"', '""', '\n', '\r', '\r\n', 'é', ' ', ',"', '",', '"\n'), {
  maxLength: 80,
});

test('any soup of quotes and line ends gives the same records at every cut', async () => {
  await fc.assert(
    fc.asyncProperty(
      soup,
      fc.integer({ min: 1, max: 40 }),
      fc.integer({ min: 4, max: 60 }),
      async (parts, chunk, slab) => {
        const input = Buffer.from(parts.join(''));
        const whole = await cutAll(input, { chunk: 1 << 16, slab: 1 << 16, maxRecordBytes: 48 });
        const cut = await cutAll(input, { chunk, slab, maxRecordBytes: 48 });
        expect(cut.records).toEqual(whole.records);
        for (const r of whole.records) {
          expect(input.toString('latin1', r.byte, r.byte + r.text.length)).toBe(r.text);
          const before = input.toString('latin1', 0, r.byte);
          expect(r.line).toBe((before.match(/\r\n|\n|\r/g) ?? []).length + 1);
        }
      },
    ),
    { numRuns: 3000 },
  );
});

test('well-formed CSV gives the records that csv-parse finds', async () => {
  const field = fc.array(fc.constantFrom('a', 'é', ',', '"', '\n', '\r\n', ' ', '1'), { maxLength: 5 });
  const quoted = (f: string[]) => {
    const text = f.join('');
    return /[",\r\n]/.test(text) || text === '' ? `"${text.replaceAll('"', '""')}"` : text;
  };
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.array(field, { minLength: 1, maxLength: 4 }), fc.constantFrom('\n', '\r\n', '\r')), {
        minLength: 1,
        maxLength: 12,
      }),
      fc.integer({ min: 1, max: 20 }),
      async (rows, chunk) => {
        const input = rows.map(([fields, eol]) => fields.map(quoted).join(',') + eol).join('');
        const want = parse(input, { relax_column_count: true, record_delimiter: ['\r\n', '\n', '\r'] }) as string[][];
        const { records } = await cutAll(input, { chunk, slab: 32 });
        const got = records.map((r) => (parse(Buffer.from(r.text, 'latin1')) as string[][])[0]);
        expect(got).toEqual(want);
      },
    ),
    { numRuns: 1000 },
  );
});

/** CPU seconds of finding the records of a text that is there as a whole. */
function cpuOf(text: string): number {
  const bytes = Buffer.from(text);
  const before = process.cpuUsage();
  cutWhole(bytes, { scanner: new DelimitedScanner(44, 1 << 20) });
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

test.each([
  ['each line leaves a quote open that the next one does not close', 'a","b\n'],
  ['the same with CRLF', 'a","b\r\n'],
  ['every other line has no quote', 'a","b\nplain\n'],
  ['text follows the closing quote far behind', 'a","b\nplain\n', '"x\n'],
])('a megabyte is not read once a line: %s', (_, line, end = '') => {
  const good = cpuOf('a,"b",c\n'.repeat(100_000));
  // Read once a line it takes minutes.
  expect(cpuOf(line.repeat(1e6 / line.length) + end)).toBeLessThan(100 * good + 0.5);
});
