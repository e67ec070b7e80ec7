// The same table as data frames of twelve kinds, a column kind at a time with the types its library gives by default: at every typed entry
// point the scores are those of the CSV, bit for bit, or the column at fault is refused by name. Nothing in between.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { tableFromIPC } from '@uwdata/flechette';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import { scratch, sluice, sluiceHere } from '../support/cli.ts';
import { fileFolder } from '../support/file-folder.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { type Service, startService } from '../support/service.ts';

const FIXTURES = path.join(import.meta.dirname, 'fixtures');
const PACKAGES = path.join(import.meta.dirname, 'packages');
const KINDS = [
  'polars-defaults', 'polars-compat-oldest', 'polars-categorical', 'polars-enum', 'polars-zstd', 'polars-lz4',
  'large-string', 'string-view', 'pandas-2', 'pandas-3', 'duckdb', 'pyarrow-csv',
]; // biome-ignore format: a list
const COLUMNS = ['none', 'number', 'boolean', 'category', 'text'];
const REGISTRY = new FolderRegistry([PACKAGES]);
const MODEL = 'typed-columns';
const PREDICT = `/api/v1/scoring/predict`;

/** By file and column, the type as pyarrow calls it. */
const TYPES = JSON.parse(readFileSync(path.join(FIXTURES, 'types.json'), 'utf8')) as Record<
  string,
  Record<string, string>
>;

/** The columns that are not the text they have to be; none: the scores of the file are those of the CSV. */
const faultsOf = (file: string): string[] =>
  ['product', 'purpose'].filter((column) => !TYPES[file]![column]!.includes('string'));

type Line = { id: unknown; row: number; prediction: boolean; probability: number };

/** A score as its bits, with the id that identifies the application. */
const bitsOf = ({ id, row, prediction, probability }: Line): string =>
  [String(id), row, prediction, Buffer.from(Float64Array.of(probability).buffer).toString('hex')].join(' ');

const linesOf = (text: string): Line[] => text.split('\n').filter(Boolean).map((line) => JSON.parse(line)); // biome-ignore format: one line

const files = (ending: string) => readdirSync(FIXTURES).filter((name) => name.endsWith(ending));

let wanted: string[] = [];

beforeAll(async () => {
  const { code, stdout } = await score([path.join(FIXTURES, 'table.csv'), '--format', 'ndjson']);
  expect(code).toBe(0);
  wanted = linesOf(stdout).map(bitsOf);
  expect(new Set(wanted.map((line) => line.split(' ')[3])).size).toBeGreaterThan(20);
}, PATIENCE_MS);

const score = (args: string[], stdin?: Buffer) => {
  const all = ['score', ...args, '--model', MODEL, '--registry', PACKAGES, '--passthrough', 'id', '--quiet'];
  return stdin ? sluice(all, { stdin }) : sluiceHere(all);
};

test('there is a file of every kind of frame with each kind of column in its default type', () => {
  const arrows = KINDS.flatMap((kind) => COLUMNS.map((column) => `${kind}.${column}.arrows`));
  expect(files('.arrows').sort()).toEqual(arrows.sort());
  // The format has no text types of its own, so that two kinds of frame make one file.
  expect(files('.parquet').length).toBe((KINDS.length - 1) * COLUMNS.length);
});

test.each(['.arrows', '.parquet'])('sluice score *%s: each file is right or refused', async (ending) => {
  const out = path.join(scratch(), 'out');
  mkdirSync(out);
  const { code, stderr } = await score([path.join(FIXTURES, `*${ending}`), '-o', path.join(out, '{name}.ndjson')]);
  let [right, refused] = [0, 0];
  for (const name of files(ending)) {
    const faults = faultsOf(name);
    const output = `${name.slice(0, -ending.length)}.ndjson`;
    const published = readdirSync(out).includes(output);
    if (faults.length === 0) {
      expect(linesOf(readFileSync(path.join(out, output), 'utf8')).map(bitsOf), name).toEqual(wanted);
      right++;
    } else {
      expect(published, name).toBe(false);
      const lines = stderr.split('\n').filter((line) => line.includes(name));
      for (const column of faults) expect(lines.join('\n'), name).toContain(`column ${column} contains`);
      refused++;
    }
  }
  expect(code).toBe(1);
  expect([right, refused].every((n) => n >= 20)).toBe(true);
});

let s: Service;
beforeAll(async () => {
  s = await startService([], fileFolder(), { registry: REGISTRY, keep: true });
}, PATIENCE_MS);
afterAll(async () => {
  await s?.running.stop();
});

test.each(['predict', 'predict/interpretation'])('%s.arrow: each frame is right or refused', async (operation) => {
  const url = `/api/v1/scoring/${operation}.arrow?modelId=${MODEL}&passthrough=id`;
  if (operation !== 'predict') {
    // The package has no background: nothing but the refusal of the request is to be seen here.
    const answer = await s.call('POST', url, { body: readFileSync(path.join(FIXTURES, 'duckdb.none.arrows')) });
    expect(answer.json.code).toBe('interpretation_unavailable');
    return;
  }
  let [right, refused] = [0, 0];
  for (const name of files('.arrows')) {
    const body = readFileSync(path.join(FIXTURES, name));
    const faults = faultsOf(name);
    const answer = await s.call('POST', url, { body });
    if (faults.length === 0) {
      expect(answer.status, `${name} ${answer.text}`).toBe(200);
      const rows = tableFromIPC(new Uint8Array(answer.bytes)).toArray() as unknown as Line[];
      expect(rows.map(bitsOf), name).toEqual(wanted);
      right++;
    } else {
      expect([answer.status, answer.json.code], name).toEqual([400, 'bad_type']);
      const columns = (answer.json.errors as { column: string }[]).map(({ column }) => column);
      expect(columns, name).toEqual(faults);
      refused++;
    }
  }
  expect([right, refused].every((n) => n >= 20)).toBe(true);
});

// Every kind is read from files above; a stream differs in its length, which is not known, and in the compression of its batches.
test('standard input: frames with and without compression', async () => {
  for (const kind of ['polars-zstd', 'pandas-3']) {
    const body = readFileSync(path.join(FIXTURES, `${kind}.none.arrows`));
    const { code, stdout, stderr } = await score(['-', '--input-format', 'arrow', '--format', 'ndjson'], body);
    expect(code, stderr).toBe(0);
    expect(linesOf(stdout).map(bitsOf), kind).toEqual(wanted);
  }
});

/** The rows of the CSV, cells as text. */
function cells(): Record<string, string>[] {
  const [header, ...rows] = readFileSync(path.join(FIXTURES, 'table.csv'), 'utf8').trimEnd().split('\n').map((line) => line.split(',')); // biome-ignore format: one line
  return rows.map((row) => Object.fromEntries(header!.map((name, i) => [name, row[i]!])));
}

/** The value that a reader with default types makes of a cell. */
const native = (text: string): unknown =>
  text === '' ? null : text === 'true' ? true : text === 'false' ? false : Number(text);

test.each(['json', 'ndjson'])(
  'predict.%s: native values of a column are right or refused in each row',
  async (suffix) => {
    for (const column of ['amount', 'banned', 'product', 'purpose', null]) {
      const rows = cells().map((row) => (column === null ? row : { ...row, [column]: native(row[column]!) }));
      const body = suffix === 'json' ? JSON.stringify(rows) : rows.map((row) => `${JSON.stringify(row)}\n`).join('');
      const answer = await s.call('POST', `${PREDICT}.${suffix}?modelId=${MODEL}&passthrough=id`, { body });
      if (column === 'product' || column === 'purpose') {
        expect([answer.status, answer.json.code]).toEqual([400, 'nothing_scored']);
        const errors = answer.json.errors as { code: string; column: string }[];
        expect(new Set(errors.map((e) => `${e.code} ${e.column}`))).toEqual(new Set([`bad_type ${column}`]));
      } else {
        const lines = suffix === 'json' ? (answer.json.predictions as Line[]) : linesOf(answer.text);
        expect(lines.map(bitsOf), `${column}`).toEqual(wanted);
      }
    }
  },
);

test('GET /models lists for each column the types that it accepts', async () => {
  const { json } = await s.call('GET', `/api/v1/models/${MODEL}`);
  const columns = json.columns as { name: string; accepts: string[] }[];
  expect(columns.map(({ name, accepts }) => [name, ...accepts])).toEqual([
    ['amount', 'string', 'number'],
    ['banned', 'string', 'number', 'boolean'],
    ['product', 'string'],
    ['purpose', 'string'],
  ]);
});

test('tensors: a datatype that cannot be the column is refused once, by its name', async () => {
  const rows = cells();
  const tensor = (name: string, datatype: string, data: unknown[]) => ({ name, shape: [rows.length], datatype, data });
  const text = (name: string) => tensor(name, 'BYTES', rows.map((row) => row[name])); // biome-ignore format: one line
  const typed = (name: string, datatype: string) => tensor(name, datatype, rows.map((row) => native(row[name]!))); // biome-ignore format: one line
  const infer = (inputs: object[]) => s.call('POST', `/v2/models/${MODEL}/infer`, { body: JSON.stringify({ inputs }) });
  const good = await infer([typed('amount', 'FP64'), typed('banned', 'BOOL'), text('product'), text('purpose')]);
  expect(good.status, good.text).toBe(200);
  const outputs = good.json.outputs as { name: string; data: number[] }[];
  const probabilities = outputs.find(({ name }) => name === 'probability')!.data;
  expect(probabilities.map((p) => Buffer.from(Float64Array.of(p).buffer).toString('hex'))).toEqual(
    wanted.map((line) => line.split(' ')[3]),
  );
  for (const [column, datatype] of [
    ['product', 'INT64'],
    ['product', 'FP32'],
    ['purpose', 'INT32'],
  ] as const) {
    const inputs = ['amount', 'banned', 'product', 'purpose'].map((name) =>
      name === column ? typed(name, datatype) : text(name),
    );
    const bad = await infer(inputs);
    expect(bad.status).toBe(400);
    expect(bad.text).toContain(`column ${column} contains numbers`);
  }
});
