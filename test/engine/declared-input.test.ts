// An input with declarations is scored as the clean one: the same bytes out, whatever it is called, encoded and written like.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EncodingName, InputDeclaration, TextRules } from '../../src/core/input-declaration.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scoreChunks } from '../../src/engine/score-chunks.ts';
import type { InputFormat } from '../../src/engine/stream-spec.ts';
import { WorkerPool } from '../../src/engine/worker-pool.ts';
import type { Chunks } from '../../src/io/source/byte-source.ts';
import { transcoded } from '../../src/io/source/transcoded.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import type { ModelPackage } from '../../src/model/package/model-package.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { inChunks } from '../support/blocks.ts';
import { Draw } from '../support/decoding.ts';
import { encoded } from '../support/encodings.ts';
import { localNumber, padded, RULES } from '../support/local-texts.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { checkTest, times } from '../support/tiers.ts';

const INPUTS = times('declared', { quick: 9, check: 45, campaigns: 5_000 });
const REFERENCE = new URL('../support/reference-worker.ts', import.meta.url);
/** Of the model, the same in all rows of every table here. */
const SAME: Record<string, string> = { amount: '3500', had_arrears: 'false' };
const ECHOED = ['application_id', 'name'];
const ENCODINGS: readonly EncodingName[] = [
  'utf-8',
  'latin1',
  'windows-1251',
  'windows-1252',
  'utf-16',
  'utf-16le',
  'utf-16be',
];
const NAMES: Record<EncodingName, readonly string[]> = {
  'utf-8': ['Zoë', '東京', '😀', ''],
  latin1: ['Zoë', 'Ñandú', 'ÿ ¿'],
  'windows-1251': ['Ёлка', '№ 5', 'Ґанок'],
  'windows-1252': ['€ 5', 'Œuvre', '„Zoë“'],
  'utf-16': ['東京', '😀', 'Zoë'],
  'utf-16le': ['😀😀', 'a'],
  'utf-16be': ['東', '€'],
};

let model: ModelPackage;
let fast: WorkerPool;
let reference: WorkerPool;
beforeAll(async () => {
  model = await loadPackage(CREDIT_DEFAULT);
  fast = await WorkerPool.start({ model, workers: 1, batchRows: 64 });
  reference = await WorkerPool.start({ model, workers: 1, entry: REFERENCE, batchRows: 64 });
});
afterAll(() => Promise.all([fast.close(), reference.close()]));

type Row = Record<string, string>;

interface Dialect {
  format: 'delimited' | 'ndjson';
  delimiter: string;
  rules: TextRules;
  encoding: EncodingName;
  header: boolean;
  rename: Record<string, string>;
  ignored: readonly string[];
  ignoresRest: boolean;
  constants: Record<string, string>;
}

/** Rows of the model, some without a value here and there, some with one that is none. */
function rowsOf(draw: Draw, count: number, encoding: EncodingName): Row[] {
  const text = Buffer.concat([
    ...generatePortfolio({ rows: count, seed: draw.below(1e6), oddness: 'none' }),
  ]).toString();
  const [header, ...lines] = text
    .trimEnd()
    .split('\n')
    .map((line) => line.split(','));
  return lines.map((line, i) => {
    const row: Row = Object.fromEntries(header!.map((name, c) => [name, line[c]!]));
    const bad = draw.chance(0.1) ? draw.of(header!) : null;
    if (bad !== null) row[bad] = draw.of(['', 'Jane Doe', '1e5', '-0.50', '99999999']);
    return { ...row, ...SAME, application_id: `A${i}`, name: draw.of(NAMES[encoding]) };
  });
}

function dialectOf(draw: Draw): Dialect {
  const some = (names: readonly string[], chance: number) => names.filter(() => draw.chance(chance));
  const columns = model.manifest.columns.map((c) => c.name);
  const constants = Object.fromEntries(some(Object.keys(SAME), 0.5).map((name) => [name, SAME[name]!]));
  const renamed = some([...columns, ...ECHOED], draw.of([0, 0.3, 1])).filter((name) => !Object.hasOwn(constants, name));
  const format = draw.of(['delimited', 'delimited', 'ndjson'] as const);
  return {
    format,
    delimiter: draw.of([',', ';', '\t', '|']),
    rules: draw.of(RULES),
    encoding: draw.of(ENCODINGS),
    header: format === 'ndjson' || draw.chance(0.7),
    rename: Object.fromEntries(renamed.map((name, i) => [name, `${draw.of(['SPALTE', 'a b', 'x'])}_${i}`])),
    ignored: some(['FILLER', 'ok', 'Bemerkung'], 0.5),
    ignoresRest: draw.chance(0.3),
    constants,
  };
}

const PLAIN: Dialect = {
  format: 'delimited',
  delimiter: ',',
  rules: { decimal: 'point', thousands: null, trim: false, nullValues: [] },
  encoding: 'utf-8',
  header: true,
  rename: {},
  ignored: [],
  ignoresRest: false,
  constants: {},
};

/** The rows as their owner writes them. */
function written(draw: Draw, rows: readonly Row[], dialect: Dialect): { bytes: Buffer; names: string[] } {
  const { rules, rename, delimiter } = dialect;
  const numbers = new Set(model.manifest.columns.flatMap(({ name, kind }) => (kind === 'number' ? [name] : [])));
  const inModel = new Set(model.manifest.columns.map(({ name }) => name));
  const own = [...model.manifest.columns.map(({ name }) => name), ...ECHOED].filter((n) => !Object.hasOwn(dialect.constants, n)); // biome-ignore format: one line
  const fields = [...own];
  for (const name of dialect.ignored) fields.splice(draw.below(fields.length + 1), 0, name);
  const textOf = (row: Row, field: string): string => {
    if (dialect.ignored.includes(field)) return draw.of(['', '1', 'x']);
    const plain = row[field]!;
    if (!inModel.has(field)) return plain;
    if (plain === '') return rules.nullValues.length > 0 && draw.chance(0.7) ? draw.of(rules.nullValues) : '';
    return padded(draw, numbers.has(field) ? localNumber(draw, plain, rules) : plain, rules);
  };
  const names = fields.map((field) => rename[field] ?? field);
  const quoted = (text: string) =>
    text.includes(delimiter) || /["\r\n]/.test(text) || draw.chance(0.02) ? `"${text.replaceAll('"', '""')}"` : text;
  const lines =
    dialect.format === 'ndjson'
      ? rows.map((row) => JSON.stringify(Object.fromEntries(fields.map((field, i) => [names[i], textOf(row, field)]))))
      : rows.map((row) => fields.map((field) => quoted(textOf(row, field))).join(delimiter));
  const head = dialect.format === 'ndjson' || !dialect.header ? [] : [names.map((n) => quoted(padded(draw, n, rules))).join(delimiter)]; // biome-ignore format: one line
  // Some marks of thousands are in few encodings only.
  const text = [...head, ...lines].join('\n');
  const single = ['latin1', 'windows-1251', 'windows-1252'].includes(dialect.encoding);
  const typed = single ? text.replaceAll('\u202f', '\u00a0') : text;
  return { bytes: encoded(dialect.encoding === 'latin1' ? typed.replaceAll('\u2019', "'") : typed, dialect.encoding), names }; // biome-ignore format: one line
}

function declarationOf(dialect: Dialect, names: string[]): InputDeclaration {
  const { rename, constants, rules } = dialect;
  return {
    columns: {
      names: dialect.header ? null : names,
      rename,
      ignore: dialect.ignoresRest ? '*' : dialect.ignored,
      constants,
    },
    texts: rules,
    encoding: dialect.encoding === 'utf-8' ? null : dialect.encoding,
  };
}

interface Asked {
  pool: WorkerPool;
  chunks: Chunks;
  input: InputFormat;
  interpretation: boolean;
  blockBytes: number;
}

async function answerOf({ pool, chunks, input, interpretation, blockBytes }: Asked): Promise<string> {
  const out: Buffer[] = [];
  await scoreChunks({
    account: new RunAccount().unit(),
    model,
    pool,
    chunks,
    input,
    output: { format: 'csv', delimiter: ',' },
    passthrough: ECHOED,
    interpretation: interpretation ? { effects: true, reasons: true, top: null, below: null } : null,
    blockBytes,
    write: async (bytes) => void out.push(Buffer.from(bytes)),
  });
  return Buffer.concat(out).toString();
}

async function compare(seed: number, count: number, blockBytes: number): Promise<number> {
  const draw = new Draw(seed);
  const dialect = dialectOf(draw);
  const rows = rowsOf(draw, count, dialect.encoding);
  const interpretation = count < 50 && draw.chance(0.3);
  const clean = written(draw, rows, { ...PLAIN, format: dialect.format });
  const { bytes, names } = written(draw, rows, dialect);
  const input = ({ format, delimiter }: Dialect): InputFormat =>
    format === 'ndjson' ? { format } : { format, delimiter };
  const want = await answerOf({ pool: fast, chunks: inChunks(clean.bytes, 65_536), input: input({ ...PLAIN, format: dialect.format }), interpretation, blockBytes: 1 << 18 }); // biome-ignore format: one line
  const declared = declarationOf(dialect, names);
  for (const pool of [fast, reference]) {
    const cut = inChunks(bytes, draw.of([1, 2, 3, 7, 100, 65_536]));
    const chunks = declared.encoding === null ? cut : transcoded(cut, declared.encoding);
    const got = await answerOf({ pool, chunks, input: { ...input(dialect), declared }, interpretation, blockBytes });
    expect(got, `seed ${seed}: ${JSON.stringify(dialect)}`).toBe(want);
  }
  return want.split('\n').filter((line) => /,(?:bad_|unseen|number_|missing_)/.test(line)).length;
}

test('any dialect of a table is scored as its plain form, by both readers, however it is cut', async () => {
  let rejected = 0;
  for (let seed = 1; seed <= INPUTS; seed++)
    rejected += await compare(seed, 1 + (seed % 12), [300, 2_000, 1 << 18][seed % 3]!);
  expect(rejected).toBeGreaterThan(INPUTS / 10);
});

checkTest('the same where there are rows enough for a kernel', async () => {
  for (let seed = 0; seed < Math.max(2, INPUTS / 45); seed++) await compare(1_000_000 + seed, 2_500, 1 << 18);
});
