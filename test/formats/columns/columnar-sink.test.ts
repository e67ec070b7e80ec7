// Parquet and Arrow made of frames of columns are byte for byte those made of lines of JSON, however the rows come; and what other
// libraries read in them, and in CSV, are the values of the lines.
import { tableFromIPC } from '@uwdata/flechette';
import { parse } from 'csv-parse/sync';
import { parquetMetadata, parquetReadObjects } from 'hyparquet';
import { ByteWriter as ParquetBytes, parquetWriteBuffer } from 'hyparquet-writer';
import { expect, test } from 'vitest';
import { type ColumnBatch, newBatch } from '../../../src/core/batch.ts';
import { arrowSink } from '../../../src/formats/arrow/arrow-sink.ts';
import { createFormatter } from '../../../src/formats/choose-formatter.ts';
import { columnFrames, FrameWriter, layoutOf } from '../../../src/formats/columns/column-frames.ts';
import type { ColumnarSinkOptions } from '../../../src/formats/columns/columnar-sink.ts';
import { beginningOf, HeldColumn, HeldTable, type OutputColumn } from '../../../src/formats/columns/held-table.ts';
import { plainField } from '../../../src/formats/delimited/delimited-formatter.ts';
import { writeChunk } from '../../../src/formats/parquet/parquet-chunk.ts';
import { parquetSink } from '../../../src/formats/parquet/parquet-sink.ts';
import { ByteWriter } from '../../../src/formats/write/byte-writer.ts';
import type { OutputSpec } from '../../../src/formats/write/formatter.ts';
import { outputColumns, type PredictionJson } from '../../../src/formats/write/prediction-fields.ts';
import type { Scores } from '../../../src/inference/evaluate/evaluator.ts';
import { type Explainer, FAILED, INEXACT, NOT_ASKED } from '../../../src/inference/explain/explainer.ts';
import type { BatchInterpretation, InterpretationSpec } from '../../../src/inference/explain/interpretation.ts';
import type { StrongestPairs } from '../../../src/inference/explain/strongest-pairs.ts';
import type { ByteSink } from '../../../src/io/sink/byte-sink.ts';
import type { ColumnSpec, Manifest } from '../../../src/model/package/manifest.ts';
import fc from '../../support/seeded-fast-check.ts';
import { times } from '../../support/tiers.ts';

const column = (name: string): ColumnSpec => ({ name, kind: 'number' }) as ColumnSpec;
const base = { id: 'm', version: 1, onnx: { file: 'm.onnx', sha256: '0'.repeat(64) }, inputs: [] };
const columns = [column('a'), column('größe'), column('-c')];
const decisions = [
  { name: 'yes', min_probability: 0.8 },
  { name: 'Prüfung', min_probability: 0.3 },
  { name: 'yes', min_probability: 0.1 },
];
const scorecard = { base_points: 600, base_odds: 20, points_to_double_odds: 40 };
const binary: Manifest = { ...base, columns, task: 'binary', classes: [0, 1], positive_class: 1 };
const MODELS: readonly { manifest: Manifest; width: number }[] = [
  { manifest: binary, width: 1 },
  { manifest: { ...binary, scorecard, decisions }, width: 2 },
  { manifest: { ...binary, decisions }, width: 1 },
  { manifest: { ...base, columns, task: 'multiclass', classes: ['a,b', 'größe', ''] }, width: 3 },
  { manifest: { ...base, columns, task: 'multiclass', classes: [1, 2.5] }, width: 2 },
  { manifest: { ...base, columns, task: 'regression' }, width: 1 },
];

/** One record: what was read of it and what came out. */
interface Row {
  rejected: boolean;
  at: number;
  scores: number[];
  echoed: (string | null)[];
  effects: number[];
  /** How many of the pairs of columns make something. */
  pairs: number;
}

const text = fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('', 'same', 'null', '7', '😀\ud800'));
const token = fc.oneof(
  text.map((t) => JSON.stringify(t)),
  fc.jsonValue({ depthSize: 'small' }).map((value) => JSON.stringify(value)),
  fc.constantFrom(
    '9007199254740993',
    '-123456789012345678901234567890',
    '1.50',
    '-0',
    '1e3',
    'null',
    'true',
    '"\\u00e9"',
    '{\n "a": [1,\r\n "x\\n"]\n}',
  ),
);
const score = fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(0, 0.5, 0.8, 1, -0));
const effect = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constantFrom(0, -0, 0.1));
const NOTHING_ASKED = [null, { effects: true, reasons: true }, { effects: true, reasons: false }, { effects: false, reasons: true }] as const; // biome-ignore format: one line

const cases = fc
  .record({
    model: fc.constantFrom(...MODELS),
    json: fc.boolean(),
    single: fc.boolean(),
    asked: fc.constantFrom(...NOTHING_ASKED),
    top: fc.constantFrom(null, 1),
    interactions: fc.constantFrom(undefined, 1, 2, 500),
    batch: fc.integer({ min: 1, max: 40 }),
  })
  .chain(({ model, json, single, asked, top, interactions, batch }) => {
    const interpretation: InterpretationSpec | null = asked && {
      ...asked,
      top,
      below: null,
      ...(interactions && { interactions }),
    };
    const row: fc.Arbitrary<Row> = fc.record({
      rejected: fc.boolean(),
      at: fc.constantFrom(NOT_ASKED, INEXACT, FAILED, 0, 0),
      scores: fc.array(score, { minLength: model.width, maxLength: model.width }),
      echoed: fc.array(fc.option(json ? token : text), { minLength: 2, maxLength: 2 }),
      effects: fc.array(effect, { minLength: 3 * model.width, maxLength: 3 * model.width }),
      pairs: fc.integer({ min: 0, max: 3 }),
    });
    const rows = fc.array(row, { maxLength: 120 });
    return rows.map((rows) => ({ ...model, json, single, interpretation, batch, rows }));
  });
type Case = typeof cases extends fc.Arbitrary<infer T> ? T : never;

const ECHOED = ['id', 'prüf'];

function interpreted(rows: readonly Row[], spec: InterpretationSpec, width: number): BatchInterpretation {
  const outputs = width === 3 || width === 2 ? width : 1;
  const own = { method: 'path', space: 'probability', outputs, questions: 0, base: Float64Array.of(0.25, -0, 1e-9) };
  const explainer = { ...own, explain: () => Promise.reject(new Error('asked')) } as unknown as Explainer;
  return {
    explainer,
    spec,
    at: Int32Array.from(rows, ({ rejected, at }, i) => (rejected ? NOT_ASKED : at < 0 ? at : i)),
    effects: Float64Array.from(rows.flatMap(({ effects }) => effects.slice(0, 3 * outputs))),
    errors: null,
    reasons: rows.map((_, i) => [{ code: 'ä1', column: 'a', text: 't' }, { code: 'b', column: 'a', text: 't' }].slice(i % 3)), // biome-ignore format: one line
    pairs: spec.interactions === undefined || rows.every(({ rejected, at }) => rejected || at < 0) ? null : pairsOf(rows, spec.interactions, outputs), // biome-ignore format: one line
    explained: 0,
    inexact: rows.filter(({ rejected, at }) => !rejected && (at === INEXACT || at === FAILED)).length,
    evaluations: 0,
  };
}

/** Of each row and output the first of all three pairs, and other numbers. */
function pairsOf(rows: readonly Row[], interactions: number, outputs: number): StrongestPairs {
  const most = Math.min(interactions, 3);
  const each = <T>(make: (row: Row, output: number) => T): T[] =>
    rows.flatMap((row) => Array.from({ length: outputs }, (_, o) => make(row, o)));
  return {
    most,
    counts: Int32Array.from(each(({ pairs }, o) => Math.min(most, (pairs + o) % 4))),
    first: Int32Array.from(each(() => [0, 0, 1].slice(0, most)).flat()),
    second: Int32Array.from(each(() => [1, 2, 2].slice(0, most)).flat()),
    effects: Float64Array.from(each(({ effects }, o) => effects.slice(3 * o, 3 * o + most).map((v) => v || 0.1)).flat()), // biome-ignore format: one line
  };
}

/** The bytes that a worker makes, an array for each micro-batch. */
function formatted(c: Case, format: 'ndjson' | 'columns' | 'csv', delimiter = ','): Buffer[] {
  const { manifest, json, interpretation } = c;
  const cells = format === 'ndjson';
  const spec: OutputSpec = {
    format,
    delimiter,
    cells,
    passthrough: ECHOED,
    passthroughIsJson: json,
    interpretation,
  };
  const formatter = createFormatter(spec, manifest);
  const parts: Buffer[] = [];
  for (let from = 0; from < c.rows.length; from += c.batch) {
    const rows = c.rows.slice(from, from + c.batch);
    const batch: ColumnBatch = {
      ...newBatch([], c.batch),
      rows: rows.length,
      columns: columns.map(() => ({ kind: 'number', numbers: new Float64Array(c.batch), codes: new Int32Array(0), texts: [], unseenRows: [] })), // biome-ignore format: one line
      rejected: Uint8Array.from(rows, ({ rejected }) => Number(rejected)),
      rejections: rows.flatMap(
        ({ rejected }, index) =>
        rejected ? [{ index, code: 'bad_number' as const, column: index % 2 ? null : 'größe', message: 'not "a" number' }] : [], // biome-ignore format: one line
      ),
      passthrough: ECHOED.map((_, i) => rows.map(({ echoed }) => echoed[i] ?? null)),
    };
    const all = rows.flatMap(({ scores }) => scores);
    const values = c.single ? Float32Array.from(all) : Float64Array.from(all);
    const valid = rows.some(({ rejected }) => !rejected);
    const scores: Scores | null = valid ? { values, width: c.width } : null;
    const x = interpretation && scores ? interpreted(rows, interpretation, c.width) : null;
    const out = new ByteWriter(1);
    formatter.write(out, batch, scores, from + 1, x);
    parts.push(Buffer.from(out.view()));
  }
  return parts;
}

const SINKS: Record<string, (inner: ByteSink, options: ColumnarSinkOptions) => ByteSink> = {
  parquet: parquetSink,
  stream: (inner, options) => arrowSink(inner, options, false),
  file: (inner, options) => arrowSink(inner, options, true),
};

async function written(c: Case, kind: string, lines: boolean, parts: readonly Buffer[]): Promise<Buffer> {
  const { manifest, interpretation } = c;
  const chunks: Buffer[] = [];
  const inner = {
    revocable: true,
    bytesWritten: 0,
    write: async (bytes: Uint8Array) => {
      chunks.push(Buffer.from(bytes));
    },
    commit: async () => {},
    abort: async () => {},
  };
  const sink = SINKS[kind]!(inner, { manifest, passthrough: ECHOED, interpretation, lines });
  for (const part of parts) await sink.write(part);
  await sink.commit();
  return Buffer.concat(chunks);
}

/** What the lines say, by column. */
function expectedOf(
  { manifest, interpretation, json, rows }: Case,
  lines: readonly Buffer[],
): Record<string, unknown[]> {
  const all = Buffer.concat(lines).toString().split('\n').slice(0, -1).map((line) => JSON.parse(line) as PredictionJson); // biome-ignore format: one line
  const table: Record<string, unknown[]> = {};
  for (const { name, kind, of } of outputColumns(manifest, ECHOED, interpretation)) {
    table[name] = all.map((line) => {
      const value = of(line) ?? null;
      if (kind === 'text' && typeof value === 'string') return value.toWellFormed();
      return kind === 'number' && value !== null ? (value as number) + 0 : value;
    });
  }
  if (!json) return table;
  // What is passed through from JSON stays as it was written: 1.50 and -0 are no other texts.
  ECHOED.forEach((name, p) => {
    table[name] = rows.map(({ echoed }) => {
      const token = echoed[p] ?? 'null';
      return token === 'null' ? null : token.startsWith('"') ? (JSON.parse(token) as string).toWellFormed() : token;
    });
  });
  return table;
}

async function readParquet(bytes: Buffer): Promise<Record<string, unknown[]>> {
  const file = { byteLength: bytes.length, slice: (from: number, to?: number) => Uint8Array.from(bytes.subarray(from, to)).buffer }; // biome-ignore format: one line
  const rows = await parquetReadObjects({ file });
  const names = parquetMetadata(await file.slice(0))
    .schema.slice(1)
    .map((element) => element.name);
  return Object.fromEntries(names.map((name) => [name, rows.map((row) => row[name] ?? null)]));
}

const readArrow = (bytes: Buffer): Record<string, unknown[]> => {
  const table = tableFromIPC(new Uint8Array(bytes));
  return Object.fromEntries(table.names.map((name) => [name, [...table.getChild(name)]]));
};

test('frames and lines give the same bytes, and other readers the values of the lines', async () => {
  await fc.assert(
    fc.asyncProperty(cases, async (c) => {
      const [frames, lines] = [formatted(c, 'columns'), formatted(c, 'ndjson')];
      const expected = Object.entries(expectedOf(c, lines));
      for (const kind of Object.keys(SINKS)) {
        const bytes = await written(c, kind, false, frames);
        expect(bytes.equals(await written(c, kind, true, lines)), kind).toBe(true);
        // All micro-batches of a part are written at once.
        expect(bytes.equals(await written(c, kind, false, [Buffer.concat(frames)])), kind).toBe(true);
        const read = kind === 'parquet' ? await readParquet(bytes) : readArrow(bytes);
        expect(Object.entries(read)).toEqual(expected);
      }
    }),
    { numRuns: times('columnar runs', { quick: 60, check: 100, campaigns: 5_000 }) },
  );
});

test('the fields of CSV are the values of the lines, interpretations that failed included', async () => {
  await fc.assert(
    fc.asyncProperty(
      cases.filter(({ json }) => !json),
      fc.constantFrom(',', ';', '\t'),
      async (c, delimiter) => {
        const expected = expectedOf(c, formatted(c, 'ndjson'));
        const columns = outputColumns(c.manifest, ECHOED, c.interpretation);
        const rows = parse(Buffer.concat(formatted(c, 'csv', delimiter)), { delimiter, record_delimiter: '\n' });
        expect(rows.length).toBe(c.rows.length);
        for (const [i, { name, kind }] of columns.entries()) {
          const fields = rows.map((fields) => plainField(fields[i]!));
          const values = kind === 'number' ? fields.map((f) => (f === '' ? null : Number(f) + 0)) : fields;
          const wanted = expected[name]!.map((v) => (kind === 'number' ? v : v === null ? '' : String(v)));
          expect([name, ...values]).toEqual([name, ...wanted]);
        }
        expect(new Set(rows.map(({ length }) => length))).toEqual(new Set(rows.length > 0 ? [columns.length] : []));
      },
    ),
    { numRuns: times('delimited runs', { quick: 40, check: 100, campaigns: 5_000 }) },
  );
});

test('schema and statistics of Parquet are those that hyparquet-writer makes of the same values', async () => {
  const types = { integer: 'INT32', number: 'DOUBLE', text: 'STRING', boolean: 'BOOLEAN' } as const;
  await fc.assert(
    fc.asyncProperty(
      cases.filter(({ rows }) => rows.length > 0),
      async (c) => {
        const expected = expectedOf(c, formatted(c, 'ndjson'));
        const columnData = outputColumns(c.manifest, ECHOED, c.interpretation).map(({ name, kind }) => ({ name, type: types[kind], data: expected[name]!, nullable: true })); // biome-ignore format: one line
        const theirs = parquetMetadata(parquetWriteBuffer({ columnData, rowGroupSize: 1000 }));
        const bytes = await written(c, 'parquet', false, formatted(c, 'columns'));
        const ours = parquetMetadata(Uint8Array.from(bytes).buffer);
        expect([ours.schema, ours.num_rows, ours.row_groups.length]).toEqual([theirs.schema, theirs.num_rows, 1]);
        for (const [i, chunk] of ours.row_groups[0]!.columns.entries()) {
          const { statistics, num_values, type } = theirs.row_groups[0]!.columns[i]!.meta_data!;
          expect(chunk.meta_data).toMatchObject({ statistics, num_values, type });
        }
      },
    ),
    { numRuns: times('columnar statistics runs', { quick: 30, check: 50, campaigns: 2_000 }) },
  );
});

const table: OutputColumn[] = [
  { name: 'row', kind: 'integer' },
  { name: 'id', kind: 'text' },
  { name: 'decision', kind: 'text', words: ['yes', 'no'] },
];

/** A frame of rows `from`..`to - 1`, each with so many bytes of text. */
function frameOf(from: number, to: number, text: string): Uint8Array {
  const out = new ByteWriter(1);
  const rows = to - from;
  const layout = layoutOf([table[1]!, table[0]!, table[2]!]);
  const frame = new FrameWriter(out, rows, layout, new Int32Array(rows));
  frame.texts((r) => ((from + r) % 5 === 0 ? null : `${text}${from + r}`));
  frame.cells(
    Int32Array.from({ length: rows }, (_, r) => from + r),
    null,
  );
  frame.cells(
    Int32Array.from({ length: rows }, (_, r) => (from + r) % 2),
    null,
  );
  frame.end();
  return Uint8Array.from(out.view());
}

test.each([
  ['rows', 7_000, '', [3_000, 3_000, 1_000]],
  ['bytes of text', 2_500, 'x'.repeat(16_000), [1_312, 1_188]],
])('a group ends by its %s, wherever frames end', (_, total, text, groups) => {
  for (const size of [1, 999, 3_000, total]) {
    const [id, row, decision] = [table[1]!, table[0]!, table[2]!];
    const held = new HeldTable([id, row, decision], 3_000);
    const ended: number[] = [];
    const seen: number[] = [];
    const end = () => {
      if (held.rows === 0) return;
      ended.push(held.rows);
      const [texts, rows, words] = held.columns as [HeldColumn, HeldColumn, HeldColumn];
      for (let r = 0, from = 0; r < held.rows; r++) {
        const n = rows.cells[r]!;
        seen.push(n);
        const own = texts.text.toString('utf8', from, texts.cells[r]);
        from = texts.cells[r]!;
        if (texts.valid[r] !== (n % 5 === 0 ? 0 : 1) || own !== (n % 5 === 0 ? '' : `${text}${n}`) || words.cells[r] !== n % 2) throw new Error(`row ${n}`); // biome-ignore format: one line
      }
      held.clear();
    };
    for (let from = 0; from < total; from += size) {
      for (const frame of columnFrames(frameOf(from, Math.min(total, from + size), text), [id, row, decision])) {
        for (let at = beginningOf(frame); at.row < frame.rows; ) {
          at = held.take(frame, at);
          if (held.full) end();
        }
      }
    }
    end();
    expect(ended, `${size}`).toEqual(groups);
    expect(seen).toEqual(Array.from({ length: total }, (_, i) => i));
  }
});

/** The encodings of a column of `rows` values, `different` of them distinct. */
function chunkOf(rows: number, different: number, kind: 'number' | 'text'): string[] {
  const held = new HeldColumn({ name: 'x', kind });
  held.rows = rows;
  held.valid = new Uint8Array(rows).fill(1);
  const values = Array.from({ length: rows }, (_, r) => r % different);
  if (kind === 'number') held.cells = Float64Array.from(values, (v) => v + 0.5);
  else {
    held.text = Buffer.from(values.map((v) => String(v).padStart(4, '0')).join(''));
    held.textBytes = held.text.length;
    held.cells = Int32Array.from(values, (_, r) => (r + 1) * 4);
  }
  const { encodings, encoding_stats: pages } = writeChunk(new ParquetBytes(), held).meta_data!;
  // The pages of both kinds are those that are named.
  const data = { page_type: 'DATA_PAGE_V2', encoding: encodings.at(-1), count: 1 };
  const dictionary = { page_type: 'DICTIONARY_PAGE', encoding: 'PLAIN', count: 1 };
  expect(pages).toEqual(encodings.includes('RLE_DICTIONARY') ? [dictionary, data] : [data]);
  return encodings;
}

// A thousand values of eight bytes, and codes of nine bits: 2 · (8 · 359 + 1125) is 7994, and 2 · (8 · 360 + 1125) is 8010. Texts of four
// bytes have their length in front of them and take the same.
test.each(['number', 'text'] as const)('%s: a dictionary exactly where it saves half of the bytes', (kind) => {
  expect(chunkOf(1000, 1, kind)).toContain('RLE_DICTIONARY');
  expect(chunkOf(1000, 359, kind)).toContain('RLE_DICTIONARY');
  expect(chunkOf(1000, 360, kind)).not.toContain('RLE_DICTIONARY');
  expect(chunkOf(1000, 1000, kind)).not.toContain('RLE_DICTIONARY');
});
