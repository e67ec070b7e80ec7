// Measures decoding and formatting of generated applications, ours against the references: node bench/decode.ts [rows]
import path from 'node:path';
import { newBatch, newColumns } from '../src/core/batch.ts';
import { ODDNESS, type Oddness } from '../src/demo/oddness.ts';
import { COLUMNS, generatePortfolio } from '../src/demo/portfolio.ts';
import { createDecoder, type DecoderInput } from '../src/formats/choose-decoder.ts';
import { createFormatter } from '../src/formats/choose-formatter.ts';
import type { Decoder, RecordSlice } from '../src/formats/decode/decoder.ts';
import { ByteWriter } from '../src/formats/write/byte-writer.ts';
import type { OutputFormat } from '../src/formats/write/formatter.ts';
import { columnReaders } from '../src/inference/encode/column-reader.ts';
import { Encoder } from '../src/inference/encode/encoder.ts';
import { DelimitedScanner } from '../src/io/source/delimited-scanner.ts';
import { RecordList } from '../src/io/source/record-scanner.ts';
import { loadPackage } from '../src/model/package/load-package.ts';

const CAPACITY = 512;
const ROUNDS = 5;
const rows = Number(process.argv[2] ?? 100_000);
const { manifest } = await loadPackage(path.join(import.meta.dirname, '../src/bundled/credit-default/1'));
const readers = columnReaders(manifest);
const kinds = readers.map((r) => r.kind);
const batch = newBatch(newColumns(kinds, CAPACITY), CAPACITY);

function recordsOf(bytes: Buffer, scanner: DelimitedScanner): RecordSlice {
  const slab = new SharedArrayBuffer(bytes.length);
  const view = Buffer.from(slab);
  view.set(bytes);
  const records = new RecordList();
  scanner.scan(view, bytes.length, true, records);
  return { slab, spans: records.spans.slice(0, records.count * 2), faults: records.faults.slice(0, records.count) };
}

/** CPU nanoseconds a row of the fastest of some rounds. */
function measure(name: string, count: number, work: () => void): void {
  let best = Infinity;
  for (let round = 0; round < ROUNDS; round++) {
    const began = process.cpuUsage();
    work();
    const used = process.cpuUsage(began);
    best = Math.min(best, ((used.user + used.system) * 1000) / count);
  }
  console.log(`${name.padEnd(40)} ${best.toFixed(0).padStart(7)} ns a row`);
}

const decodeAll = (decoder: Decoder, block: RecordSlice) => () => {
  const n = block.faults.length;
  for (let from = 0; from < n; from += CAPACITY) decoder.decode(block, from, Math.min(n, from + CAPACITY), batch);
};

const csvOf = (oddness: Oddness): Buffer => Buffer.concat([...generatePortfolio({ rows, seed: 7, oddness })]);
const blockOf = (text: Buffer): RecordSlice =>
  recordsOf(text.subarray(text.indexOf(10) + 1), new DelimitedScanner(44, 1 << 20));
const csv = csvOf('light');
const delimited = blockOf(csv);
const toJson = (strings: boolean) => {
  const lines = csv.toString().split('\n').slice(1, -1);
  const text = lines.map((line) => {
    const cells = line.split(',');
    const members = COLUMNS.map((name, c) => {
      const v = cells[c] ?? '';
      const bare = kinds[manifest.columns.findIndex((m) => m.name === name)] !== 'category' && !strings;
      return [name, v === '' ? null : !bare ? v : v === 'true' || v === 'false' ? v === 'true' : Number(v)];
    });
    return JSON.stringify(Object.fromEntries(members));
  });
  return recordsOf(Buffer.from(text.join('\n')), new DelimitedScanner(-1, 1 << 20, -1));
};
const csvInput: DecoderInput = {
  format: 'delimited',
  layout: {
    delimiter: ',',
    fields: COLUMNS.length,
    columns: manifest.columns.map((c) => COLUMNS.indexOf(c.name)),
    passthrough: [],
  },
};
const jsonInput: DecoderInput = {
  format: 'json',
  layout: { passthrough: [], reserved: [], outcome: null, maxColumns: 1000 },
};

console.log(`${rows} rows of ${COLUMNS.length} columns, micro-batches of ${CAPACITY}`);
measure('find records, delimited', delimited.faults.length, () => {
  const records = new RecordList();
  new DelimitedScanner(44, 1 << 20).scan(Buffer.from(delimited.slab), delimited.slab.byteLength, true, records);
});
const encoder = new Encoder(manifest, kinds, CAPACITY);
for (const [name, block, input] of [
  ['delimited', delimited, csvInput],
  ['json, native values', toJson(false), jsonInput],
  ['json, strings', toJson(true), jsonInput],
] as const) {
  for (const choice of ['fast', 'reference'] as const) {
    measure(`decode ${name}, ${choice}`, block.faults.length, decodeAll(createDecoder(readers, input, choice), block));
  }
}
for (const oddness of ODDNESS) {
  const block = blockOf(csvOf(oddness));
  const decoder = createDecoder(readers, csvInput, 'fast', encoder);
  measure(`decode and encode ${oddness} rows`, block.faults.length, () => {
    for (let from = 0; from < block.faults.length; from += CAPACITY) {
      decoder.decode(block, from, Math.min(block.faults.length, from + CAPACITY), batch);
      encoder.encode(batch);
    }
  });
}
createDecoder(readers, csvInput, 'fast').decode(delimited, 0, CAPACITY, batch);
measure('encode', rows, () => {
  for (let r = 0; r < rows; r += CAPACITY) encoder.encode(batch);
});
const scores = {
  values: Float32Array.from({ length: CAPACITY * 2 }, (_, i) => (i % 2 ? 1 / (1 + i) : 1 - 1 / (2 + i))),
  width: 2,
};
for (const [name, value] of [
  ['probabilities', (i: number) => ((i * 0.6180339887) % 1) ** 2],
  ['small probabilities', (i: number) => ((i * 0.6180339887) % 1) ** 12],
] as const) {
  for (let r = 0; r < CAPACITY; r++) {
    scores.values[r * 2 + 1] = value(r);
    scores.values[r * 2] = 1 - scores.values[r * 2 + 1]!;
  }
  for (const format of ['ndjson', 'csv'] as OutputFormat[]) {
    const spec = { format, delimiter: ',', passthrough: [], passthroughIsJson: false, interpretation: null };
    const formatter = createFormatter(spec, manifest);
    const out = new ByteWriter();
    measure(`format ${format}, ${name}`, rows, () => {
      for (let r = 0; r < rows; r += CAPACITY) {
        out.length = 0;
        formatter.write(out, batch, scores, r + 1, null);
      }
    });
  }
}
