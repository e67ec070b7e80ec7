// The readers of formats that strangers may send, each fed with changed files: an answer, or an error with a code, and nothing else.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { columnFromArray, dictionary, float64, int32, tableFromColumns, tableToIPC, utf8 } from '@uwdata/flechette';
import avro from 'avsc';
import protobuf from 'protobufjs';
import { parseYaml } from '../../src/config/yaml-document.ts';
import { SluiceError } from '../../src/core/errors.ts';
import { openArrow } from '../../src/formats/arrow/arrow-table.ts';
import { readAvro } from '../../src/formats/avro/avro-values.ts';
import { ColumnLines, ColumnTable } from '../../src/formats/columns/column-table.ts';
import type { ColumnSource } from '../../src/formats/columns/line-batch.ts';
import { TableBudget } from '../../src/formats/columns/table-limits.ts';
import { openParquet } from '../../src/formats/parquet/parquet-file.ts';
import { readProtobuf } from '../../src/formats/protobuf/protobuf-values.ts';
import type { WriteJson } from '../../src/formats/schemas/value-codec.ts';
import { readOnnx } from '../../src/inference/onnx/graph.ts';
import { servable } from '../../src/inference/onnx/servable.ts';
import { traceModel } from '../../src/inference/onnx/trace.ts';
import { ManifestSchema } from '../../src/model/package/manifest.ts';
import { type Dice, mutate, mutateText } from './mutate.ts';

/** Reads one changed file; throws what the product would report as something else than an error with a code. */
export type Attempt = (dice: Dice) => Promise<void>;

const ROOT = path.resolve(import.meta.dirname, '../..');
const TABLES = path.join(ROOT, 'test/formats/columns/fixtures');
const filesOf = (folder: string, ending: RegExp): Buffer[] =>
  readdirSync(folder)
    .filter((name) => ending.test(name))
    .map((name) => readFileSync(path.join(folder, name)));

/** Rows that are read of a table: its end may be far away, with no byte in between. */
const MOST_ROWS = 200_000;
/** The same for its lines. */
const MOST_TEXT_BYTES = 16 * 1024 * 1024;
const LIMITS = { rows: 1_000_000, columns: 2000, recordBytes: 100_000, expandedBytes: 64 * 1024 * 1024 };

async function drain(source: ColumnSource, budget: TableBudget, dice: Dice): Promise<void> {
  source.readForModel(new Set(source.names.filter(() => dice.below(2) === 0)), new Set());
  if (dice.below(4) === 0) {
    const lines = new ColumnLines(source);
    const target = Buffer.alloc(64 * 1024);
    for (let read = 0, n = 1; n > 0 && read < MOST_TEXT_BYTES; read += n) n = await lines.readInto(target);
    return;
  }
  const table = new ColumnTable(source, budget);
  for (let read = 0; read < MOST_ROWS; ) {
    const rows = await table.next();
    if (rows === null) return;
    read += rows.run.rows;
    for (const _ of rows.longer(1000)) break;
    rows.release();
  }
}

/** An error with a code is an answer. */
async function coded(read: () => Promise<unknown>): Promise<void> {
  try {
    await read();
  } catch (error) {
    if (!(error instanceof SluiceError) || error.code === 'internal_error') throw error;
  }
}

function pick<T>(from: readonly T[], dice: Dice): T {
  return from[dice.below(from.length)]!;
}

/** Arrow of this library, too: words of a dictionary, and texts that are all different. */
function ownArrow(): Buffer {
  const rows = Array.from({ length: 300 }, (_, i) => i);
  const table = tableFromColumns({
    number: columnFromArray(
      rows.map((i) => (i % 7 === 0 ? null : i / 3)),
      float64(),
    ),
    word: columnFromArray(
      rows.map((i) => `word ${i % 5}`),
      dictionary(utf8(), int32()),
    ),
    text: columnFromArray(
      rows.map((i) => `text ${i}`),
      utf8(),
    ),
  });
  return Buffer.from(tableToIPC(table, { format: 'stream' })!);
}

async function* piecesOf(bytes: Uint8Array, dice: Dice): AsyncGenerator<Uint8Array> {
  const size = 1 + dice.below(bytes.length + 1);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

function arrow(): Attempt {
  const files = [...filesOf(TABLES, /\.(arrows?|feather)$/), ownArrow()];
  return async (dice) => {
    const bytes = mutate(pick(files, dice), files, dice);
    await coded(async () => {
      const budget = new TableBudget(LIMITS);
      const table = await openArrow(piecesOf(bytes, dice), { budget, batchBytes: 64 * 1024 * 1024 });
      await drain(table, budget, dice);
    });
  };
}

function parquet(): Attempt {
  const files = filesOf(TABLES, /\.parquet$/);
  return async (dice) => {
    const bytes = mutate(pick(files, dice), files, dice);
    const file = {
      name: 'x.parquet',
      byteLength: bytes.length,
      read: async (target: Uint8Array, position: number) => {
        if (position < 0 || position + target.length > bytes.length) throw new RangeError('read outside the file');
        target.set(bytes.subarray(position, position + target.length));
      },
    };
    await coded(async () => {
      const budget = new TableBudget(LIMITS);
      await drain(await openParquet(file, { budget }), budget, dice);
    });
  };
}

const AVRO_SCHEMA = {
  type: 'record',
  name: 'Application',
  fields: [
    { name: 'income', type: ['null', 'double'] },
    { name: 'branch', type: 'string' },
    { name: 'items', type: { type: 'array', items: 'null' } },
    { name: 'notes', type: { type: 'array', items: 'string' } },
    { name: 'map', type: { type: 'map', values: 'long' } },
    { name: 'kind', type: { type: 'enum', name: 'Kind', symbols: ['A', 'B'] } },
    { name: 'hash', type: { type: 'fixed', name: 'Hash', size: 8 } },
    { name: 'amount', type: { type: 'bytes', logicalType: 'decimal', precision: 20, scale: 2 } },
    { name: 'at', type: { type: 'long', logicalType: 'timestamp-millis' } },
    { name: 'inner', type: ['null', 'Application'] },
  ],
} as const;

/** Whatever a value throws is a record that is rejected; what must not happen is that it takes memory or time. */
async function rejected(read: () => unknown): Promise<void> {
  try {
    read();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
  }
}

function avroValues(): Attempt {
  const text = JSON.stringify(AVRO_SCHEMA);
  const type = avro.Type.forSchema(JSON.parse(text), { wrapUnions: true });
  const value = (inner: unknown): object => ({
    income: { double: 1.5 },
    branch: 'north',
    items: [null, null],
    notes: ['a', 'b'],
    map: { a: 1, b: 2 },
    kind: 'A',
    hash: Buffer.alloc(8),
    amount: Buffer.from([1, 2, 3]),
    at: 1_700_000_000_000,
    inner,
  });
  const files = [value(null), value({ Application: value(null) })].map((one) => type.toBuffer(one));
  const read = readAvro({ type: 'AVRO', text, references: [] }, null);
  return async (dice) => {
    if (dice.below(10) > 0) return rejected(() => written(read(mutate(pick(files, dice), files, dice))));
    const schema = mutateText(JSON.stringify(AVRO_SCHEMA, null, 1), dice);
    return rejected(() => written(readAvro({ type: 'AVRO', text: schema, references: [] }, null)(pick(files, dice))));
  };
}

/** Writes a value as if the model read each of its fields. */
const written = (write: WriteJson): Buffer => write({ has: () => true } as unknown as ReadonlySet<string>);

const PROTO = `syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
message Application {
  double income = 1;
  string branch = 2;
  repeated int64 history = 3;
  repeated Application others = 4;
  map<string, string> map = 5;
  google.protobuf.Timestamp at = 6;
  google.protobuf.Value any = 7;
  optional uint64 number = 8;
  bytes hash = 9;
  repeated Empty none = 10;
  message Empty { string a = 1; string b = 2; string c = 3; }
}`;

function protobufValues(): Attempt {
  const root = protobuf.parse(PROTO, { keepCase: true }).root;
  for (const name of ['timestamp', 'struct'])
    root.addJSON(protobuf.common.get(`google/protobuf/${name}.proto`)!.nested!);
  const type = root.lookupType('Application');
  const own = {
    income: 1.5,
    branch: 'north',
    history: [1, 2, 3, 2 ** 40],
    map: { a: 'b' },
    at: { seconds: 1_700_000_000, nanos: 5 },
    any: { structValue: { fields: { a: { numberValue: 1 } } } },
    number: 5,
    hash: Buffer.from('abc'),
    none: [{}, { a: 'x' }],
  };
  const files = [own, { ...own, others: [own, { others: [own] }] }].map((one) =>
    Buffer.concat([Buffer.from([0]), type.encode(type.fromObject(one)).finish()]),
  );
  const read = readProtobuf({ type: 'PROTOBUF', text: PROTO, references: [] });
  return async (dice) => {
    if (dice.below(10) > 0) return rejected(() => written(read(mutate(pick(files, dice), files, dice))));
    const text = mutateText(PROTO, dice);
    return rejected(() => written(readProtobuf({ type: 'PROTOBUF', text, references: [] })(pick(files, dice))));
  };
}

function onnx(): Attempt {
  const exports = path.join(ROOT, 'test/fixtures/exports');
  const files = readdirSync(exports, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.onnx'))
    .map((name) => readFileSync(path.join(exports, name)))
    .filter(({ length }) => length < 200_000);
  return async (dice) => {
    const bytes = mutate(pick(files, dice), files, dice);
    await coded(async () => {
      const model = readOnnx(bytes);
      const { outputs } = servable(model);
      for (const name of outputs.slice(0, 2)) traceModel(model, name);
    });
  };
}

function yaml(): Attempt {
  const text = readFileSync(path.join(ROOT, 'src/bundled/credit-default/1/model.yaml'), 'utf8').slice(0, 20_000);
  return async (dice) => {
    const changed = mutateText(text.slice(0, 1 + dice.below(text.length)), dice);
    await coded(async () => {
      parseYaml('model.yaml', changed, ManifestSchema);
    });
  };
}

export const READERS: Readonly<Record<string, () => Attempt>> = {
  arrow,
  parquet,
  avro: avroValues,
  protobuf: protobufValues,
  onnx,
  yaml,
};
