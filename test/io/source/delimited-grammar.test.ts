// All four readers of delimited text against the one table: every short text of its byte classes, and long ones at any cut.

import { expect, onTestFinished, test, vi } from 'vitest';
import { CR, LF } from '../../../src/core/ascii.ts';
import { newBatch } from '../../../src/core/batch.ts';
import { RECORD_MALFORMED, RECORD_OK, RECORD_TOO_LONG } from '../../../src/core/block.ts';
import { createDecoder, type DecoderChoice } from '../../../src/formats/choose-decoder.ts';
import type { RecordSlice } from '../../../src/formats/decode/decoder.ts';
import { RowKernel } from '../../../src/formats/decode/row-kernel.ts';
import { columnCountMessage } from '../../../src/formats/delimited/csv-parse-decoder.ts';
import {
  GRAMMAR,
  type GrammarRecord,
  grammarFields,
  grammarRecords,
} from '../../../src/io/source/delimited-grammar.ts';
import { DelimitedScanner } from '../../../src/io/source/delimited-scanner.ts';
import { LINE_SCRATCH, LineKernel } from '../../../src/io/source/line-kernel.ts';
import { RecordList } from '../../../src/io/source/record-scanner.ts';
import { cutAll } from '../../support/blocks.ts';
import fc from '../../support/seeded-fast-check.ts';
import { TIER } from '../../support/tiers.ts';

const DELIMITER = 44;
/** One byte of each class of the table. */
const ALPHABET = [...Buffer.from('a,"\r\n')];
/** Length of the longest texts; each byte more takes five times as long. */
const LONGEST = TIER === 'campaigns' ? 8 : 7;
const PATIENCE = 60_000 * 5 ** Math.max(0, LONGEST - 7);

/** Every text of the alphabet of up to `longest` bytes; the same buffer is used for all of a length. */
function* texts(longest: number): Generator<Buffer> {
  for (let n = 0; n <= longest; n++) {
    const text = Buffer.alloc(n);
    for (let k = 0; k < ALPHABET.length ** n; k++) {
      for (let i = 0, rest = k; i < n; i++, rest = Math.floor(rest / ALPHABET.length)) {
        text[i] = ALPHABET[rest % ALPHABET.length]!;
      }
      yield text;
    }
  }
}

const show = (records: readonly GrammarRecord[], text: Buffer): string =>
  `${records
    .map(
      (r) =>
        `${r.start}-${r.end}${['', '!', '>'][[RECORD_OK, RECORD_MALFORMED, RECORD_TOO_LONG].indexOf(r.fault)]}@${r.line}`,
    )
    .join(' ')} of ${JSON.stringify(text.toString('latin1'))}`;

/** What the scanner finds when the text comes in two pieces. */
function scanned(text: Buffer, cut: number, maxRecordBytes: number): GrammarRecord[] {
  const scanner = new DelimitedScanner(DELIMITER, maxRecordBytes, undefined, Infinity);
  const list = new RecordList();
  if (cut > 0) scanner.scan(text, cut, false, list);
  scanner.scan(text, text.length, true, list);
  return Array.from({ length: list.count }, (_, i) => ({
    start: list.spans[i * 2]!,
    end: list.spans[i * 2 + 1]!,
    fault: list.faults[i]!,
    line: list.lines[i]!,
  }));
}

test('the table has a step for every state and byte class, and every state is reached', () => {
  const steps = Object.values(GRAMMAR).flat();
  for (const row of Object.values(GRAMMAR)) expect(row.length).toBe(6);
  // Only a limit leads to a dropped line.
  const reached = new Set(['start', 'drop', ...steps.map((s) => s.split(' ').at(-1)!)]);
  expect([...reached].sort()).toEqual(Object.keys(GRAMMAR).sort());
});

test('what the table says of some texts, in words', () => {
  const records = (text: string, most?: number) =>
    grammarRecords(Buffer.from(text), DELIMITER, most).map((r) => [text.slice(r.start, r.end), r.fault, r.line]);
  expect(records('a,b\r\n\r\n"c\nd",""""\re')).toEqual([['a,b', RECORD_OK, 1], ['"c\nd",""""', RECORD_OK, 3], ['e', RECORD_OK, 5]]); // biome-ignore format: one line
  expect(records('"a"b,"\nc')).toEqual([['"a"b,"', RECORD_MALFORMED, 1], ['c', RECORD_OK, 2]]); // biome-ignore format: one line
  expect(records('"a\nb\nc')).toEqual([['"a', RECORD_MALFORMED, 1], ['b', RECORD_OK, 2], ['c', RECORD_OK, 3]]); // biome-ignore format: one line
  expect(records('aaaa\nb', 3)).toEqual([['aaa', RECORD_TOO_LONG, 1], ['b', RECORD_OK, 2]]); // biome-ignore format: one line
  expect(grammarFields(Buffer.from('a"b,"c,""d""",,""'), DELIMITER)).toEqual(['a"b', 'c,"d"', '', '']);
});

test.each([Infinity, 3])('the scanner, at every cut, records of up to %d bytes', { timeout: PATIENCE }, (most) => {
  let cuts = 0;
  for (const text of texts(most === 3 ? LONGEST - 1 : LONGEST)) {
    const wanted = show(grammarRecords(text, DELIMITER, most), text);
    for (let cut = 0; cut <= text.length; cut++) {
      const found = show(scanned(text, cut, most), text);
      if (found !== wanted) expect(found, `cut at ${cut}`).toBe(wanted);
      cuts++;
    }
  }
  expect(cuts).toBeGreaterThan(100_000);
});

test('the line kernel lists records of the table, from the first on, and no other', { timeout: PATIENCE }, () => {
  const memory = new WebAssembly.Memory({ initial: 2, maximum: 65_536, shared: true });
  const kernel = new LineKernel(memory, 0, DELIMITER);
  const bytes = Buffer.from(memory.buffer);
  const at = Math.ceil(LINE_SCRATCH / 64) * 64 + 64;
  let listed = 0;
  let possible = 0;
  // What stands before and behind must not matter.
  for (const around of [...ALPHABET]) {
    bytes.fill(around, at - 64, at + 256);
    for (const text of texts(LONGEST - 1)) {
      bytes.set(text, at);
      const count = kernel.find(0, text.length, at, 1 << 20);
      const records = grammarRecords(text, DELIMITER);
      const first = records.slice(0, count);
      const found = Array.from({ length: count }, (_, i) => `${kernel.spans[i * 2]}-${kernel.spans[i * 2 + 1]}`);
      const wanted = first.map((r) => (r.fault === RECORD_OK ? `${r.start}-${r.end}` : 'none'));
      if (String(found) !== String(wanted)) expect(found, JSON.stringify(text.toString())).toEqual(wanted);
      // It goes on at the beginning of a line.
      const { next } = kernel;
      const before = text[next - 1];
      if (next > 0 && before !== LF) expect.unreachable(`${JSON.stringify(text.toString())} goes on at ${next}`);
      listed += count;
      for (const r of records) if (r.fault === RECORD_OK && (text[r.end] === LF || text[r.end + 1] === LF)) possible++;
      bytes.fill(around, at, at + text.length);
    }
  }
  // It is there to take what is common.
  expect(listed / possible).toBeGreaterThan(0.3);
});

/** Every record of the texts that is not malformed, once. */
function soundRecords(longest: number): Buffer[] {
  const known = new Map<string, Buffer>();
  for (const text of texts(longest)) {
    for (const { start, end, fault } of grammarRecords(text, DELIMITER)) {
      const key = text.toString('latin1', start, end);
      if (fault === RECORD_OK && !known.has(key)) known.set(key, Buffer.from(text.subarray(start, end)));
    }
  }
  return [...known.values()];
}

function blockOf(records: readonly Buffer[]): RecordSlice {
  const slab = new SharedArrayBuffer(records.reduce((n, r) => n + r.length + 1, 64));
  const bytes = Buffer.from(slab);
  const spans = new Int32Array(records.length * 2);
  let at = 0;
  for (const [i, record] of records.entries()) {
    bytes.set(record, at);
    spans.set([at, at + record.length], i * 2);
    bytes[at + record.length] = LF;
    at += record.length + 1;
  }
  return { slab, spans, faults: new Uint8Array(records.length) };
}

/** Fields of every record as a decoder gives them, for a header of so many. */
function decoded(
  choice: DecoderChoice,
  block: RecordSlice,
  fields: number,
): { texts: (string | null)[]; message: string | null }[] {
  const passthrough = Array.from({ length: fields }, (_, i) => i);
  const layout = { delimiter: ',', fields, columns: [], passthrough };
  const decoder = createDecoder([], { format: 'delimited', layout }, choice);
  const rows: { texts: (string | null)[]; message: string | null }[] = [];
  const capacity = 512;
  const batch = newBatch([], capacity, fields);
  for (let from = 0; from < block.faults.length; from += capacity) {
    const to = Math.min(block.faults.length, from + capacity);
    decoder.decode(block, from, to, batch);
    const messages = new Map(batch.rejections.map((r) => [r.index, r.message]));
    for (let r = 0; r < to - from; r++) {
      rows.push({ texts: batch.passthrough.map((p) => p[r] ?? null), message: messages.get(r) ?? null });
    }
  }
  return rows;
}

test.each(['reference', 'fast', 'eager', 'quoting'] as const)(
  'the fields of every record: %s decoder',
  { timeout: PATIENCE },
  (choice) => {
    const records = soundRecords(LONGEST);
    expect(records.length).toBeGreaterThan(3 ** (LONGEST - 1));
    // In an order in which neither short nor long ones are together.
    const mixed = records.map((r, i) => [(i * 7919) % records.length, r] as const).sort((a, b) => a[0] - b[0]);
    const block = blockOf(mixed.map(([, r]) => r));
    const run = vi.spyOn(RowKernel.prototype, 'run');
    onTestFinished(() => run.mockRestore());
    for (const fields of [1, 2, 3, 5]) {
      const rows = decoded(choice, block, fields);
      for (const [i, [, record]] of mixed.entries()) {
        const own = grammarFields(record, DELIMITER);
        const wanted = {
          texts: Array.from({ length: fields }, (_, f) => own[f] ?? null),
          message: own.length === fields ? null : columnCountMessage(own.length, fields),
        };
        if (JSON.stringify(rows[i]) !== JSON.stringify(wanted)) {
          expect(rows[i], JSON.stringify(record.toString('latin1'))).toEqual(wanted);
        }
      }
    }
    // Rows that the kernel has read itself.
    const read = run.mock.calls.reduce((n, [rows], i) => n + rows - (run.mock.results[i]!.value as number), 0);
    if (choice !== 'reference') expect(read).toBeGreaterThan(choice === 'fast' ? 0 : 300);
    else expect(read).toBe(0);
  },
);

test.each(['reference', 'fast'] as const)(
  'the fields of all records of a text at once: %s decoder',
  { timeout: PATIENCE },
  (choice) => {
    const layout = { delimiter: ',', fields: 4, columns: [], passthrough: [0, 1, 2, 3] };
    const decoder = createDecoder([], { format: 'delimited', layout }, choice);
    const batch = newBatch([], 16, 4);
    let compared = 0;
    for (const text of texts(LONGEST - 1)) {
      const records = grammarRecords(text, DELIMITER);
      if (records.length === 0) continue;
      const slab = new SharedArrayBuffer(16);
      Buffer.from(slab).set(text);
      const spans = Int32Array.from(records.flatMap((r) => [r.start, r.end]));
      const faults = Uint8Array.from(records, (r) => r.fault);
      decoder.decode({ slab, spans, faults }, 0, records.length, batch);
      const found = records.map((_, r) => batch.passthrough.map((p) => p[r] ?? null));
      const wanted = records.map(({ start, end, fault }) => {
        const fields = fault === RECORD_OK ? grammarFields(text.subarray(start, end), DELIMITER) : [];
        return Array.from({ length: 4 }, (_, f) => fields[f] ?? null);
      });
      if (JSON.stringify(found) !== JSON.stringify(wanted))
        expect(found, JSON.stringify(text.toString())).toEqual(wanted);
      compared++;
    }
    expect(compared).toBeGreaterThan(10_000);
  },
);

const soup = fc.array(
  fc.constantFrom(
    'a',
    'bc',
    ',',
    '"',
    '""',
    '\n',
    '\r',
    '\r\n',
    'é',
    ' ',
    ',"',
    '",',
    '"\n',
    'abcdefghijklmnopq',
    '"a\nb"',
  ),
  { maxLength: 60 },
);

test('longer texts through the cutter, with and without the kernel, at every size of chunk and slab', async () => {
  await fc.assert(
    fc.asyncProperty(
      soup,
      fc.constantFrom('', '\ufeff'),
      fc.integer({ min: 1, max: 40 }),
      fc.integer({ min: 4, max: 60 }),
      fc.constantFrom(10, 48, 1 << 20),
      async (parts, mark, chunk, slab, maxRecordBytes) => {
        const text = Buffer.from(mark + parts.join(''));
        const wanted = grammarRecords(text, DELIMITER, maxRecordBytes);
        const { records } = await cutAll(text, { chunk, slab, maxRecordBytes });
        const found = records.map((r) => ({
          start: r.byte,
          end: r.byte + r.text.length,
          fault: r.fault,
          line: r.line,
        }));
        expect(show(found, text)).toBe(show(wanted, text));
      },
    ),
    { numRuns: 3_000 },
  );
});

test('a malformed record never takes more than its first physical line along', () => {
  fc.assert(
    fc.property(soup, (parts) => {
      const text = Buffer.from(parts.join(''));
      for (const { start, end, fault } of grammarRecords(text, DELIMITER)) {
        const inside = text.subarray(start, end);
        if (fault !== RECORD_OK) expect(inside.includes(LF) || inside.includes(CR)).toBe(false);
      }
    }),
    { numRuns: 2_000 },
  );
});
