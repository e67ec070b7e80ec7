// Interpretations equal brute force over every subset of columns, and are the same through every entry point and format.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { tableFromIPC } from '@uwdata/flechette';
import { parse } from 'csv-parse/sync';
import { parquetReadObjects } from 'hyparquet';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { FileFormat } from '../../src/core/file-format.ts';
import { score } from '../../src/doors/commands/score.ts';
import { scoreStream } from '../../src/index.ts';
import fc from '../support/seeded-fast-check.ts';
import { SEED, times } from '../support/tiers.ts';
import { PACKAGES, World } from './entries.ts';
import { answerCsv, InterpretationOracle } from './interpretation-oracle.ts';
import { OracleModel } from './oracle.ts';

const COUNT = times('crossings', { quick: 300, check: 500, campaigns: 200_000 });
const RUNS = Math.max(20, Math.min(2_000, Math.round(COUNT * 0.05)));
const FOLDER = path.join(PACKAGES[0]!, 'trees', '1');
/** A probability has 24 bits: its log-odds are as exact as this. */
const TOLERANCE = 1e-4;

let world: World;
let brute: InterpretationOracle;
let model: OracleModel;

beforeAll(async () => {
  world = new World(mkdtempSync(path.join(tmpdir(), 'sluice-interpretation-')));
  brute = await InterpretationOracle.open(FOLDER);
  model = await OracleModel.open(FOLDER);
});
afterAll(async () => {
  await world.close();
  rmSync(world.folder, { recursive: true, force: true });
});

interface Interpretation {
  base: number;
  effects: Map<string, number>;
  interactions: [string, number][];
  reasons: string[];
}

const POOLS = {
  amount: ['100', '-5', '0', '1500.25', '99.5', '2500', '', 'abc'],
  term: ['12', '24', '36', '600', '', '-1'],
  banned: ['true', 'false', ''],
  product: ['0230', '230', 'A7', 'Zürich', '', 'new'],
  region: ['1', '2', '30'],
} as const;
const COLUMNS = Object.keys(POOLS) as (keyof typeof POOLS)[];

const tables = fc.record({
  entry: fc.constantFrom('command', 'library', 'http'),
  output: fc.constantFrom<FileFormat>('csv', 'tsv', 'json', 'ndjson', 'parquet', 'arrow'),
  rows: fc.array(fc.tuple(...COLUMNS.map((name) => fc.constantFrom(...POOLS[name]))), { minLength: 1, maxLength: 6 }),
  order: fc.shuffledSubarray(COLUMNS, { minLength: COLUMNS.length }),
  interactions: fc.option(fc.constantFrom(1, 3, 10, 500)),
  top: fc.option(fc.constantFrom(1, 3, 50)),
  batchRows: fc.constantFrom(1, 2, 4096),
});
type Table = typeof tables extends fc.Arbitrary<infer T> ? T : never;

const csvOf = ({ rows, order }: Table): Buffer => {
  const lines = rows.map((row) => order.map((name) => row[COLUMNS.indexOf(name)]).join(','));
  return Buffer.from(`${[order.join(','), ...lines].join('\n')}\n`);
};

/** null: the row has no interpretation. */
type Found = (Interpretation | null)[];

interface JsonPrediction {
  interpretation?: {
    base: number;
    effects: { column: string; effect: number }[];
    interactions?: { columns: string[]; effect: number }[];
    reasons: { code: string }[];
  };
}

function ofJson(prediction: JsonPrediction): Interpretation | null {
  const found = prediction.interpretation;
  if (!found) return null;
  return {
    base: found.base,
    effects: new Map(found.effects.map(({ column, effect }) => [column, effect])),
    interactions: (found.interactions ?? []).map(({ columns, effect }) => [columns.join(' '), effect]),
    reasons: found.reasons.map(({ code }) => code),
  };
}

function ofCells(row: Record<string, unknown>): Interpretation | null {
  const isNone = (cell: unknown) => cell === '' || cell === null || cell === undefined;
  if (isNone(row.base)) return null;
  const effects = new Map<string, number>();
  const interactions: [string, number][] = [];
  for (const [name, cell] of Object.entries(row)) {
    if (isNone(cell)) continue;
    if (name.startsWith('effect.')) effects.set(name.slice('effect.'.length), Number(cell));
    const rank = /^interaction\.(\d+)\.effect$/.exec(name)?.[1];
    if (rank)
      interactions.push([`${row[`interaction.${rank}.first`]} ${row[`interaction.${rank}.second`]}`, Number(cell)]);
  }
  const reasons = isNone(row.reasons) ? [] : String(row.reasons).split(';');
  return { base: Number(row.base), effects, interactions, reasons };
}

async function read(format: FileFormat, bytes: Buffer): Promise<Found> {
  switch (format) {
    case 'json':
      return JSON.parse(bytes.toString()).predictions.map(ofJson);
    case 'ndjson':
      return bytes.toString().trimEnd().split('\n').map((line) => ofJson(JSON.parse(line))); // biome-ignore format: one line
    case 'parquet': {
      const file = { byteLength: bytes.length, slice: (from: number, to?: number) => Uint8Array.from(bytes.subarray(from, to)).buffer }; // biome-ignore format: one line
      return (await parquetReadObjects({ file })).map(ofCells);
    }
    case 'arrow':
      return tableFromIPC(new Uint8Array(bytes)).toArray().map((row) => ofCells(row as Record<string, unknown>)); // biome-ignore format: one line
    default:
      return (parse(bytes, { columns: true, delimiter: format === 'tsv' ? '\t' : ',' }) as Record<string, unknown>[]).map(ofCells); // biome-ignore format: one line
  }
}

async function byCommand(t: Table): Promise<Buffer> {
  const folder = world.empty();
  const output = path.join(folder, `out.${t.output}`);
  const file = path.join(folder, 'in.csv');
  writeFileSync(file, csvOf(t));
  const asked = {
    ...(t.interactions === null ? {} : { interactions: t.interactions }),
    ...(t.top === null ? {} : { top: t.top }),
  };
  const flags = { model: 'trees', registry: PACKAGES[0]!, output, interpretation: true, onInvalid: 'report', allowEmpty: true, quiet: true, workers: 1, batchRows: t.batchRows, ...asked } as const; // biome-ignore format: one line
  await score(file, flags);
  return readFileSync(output);
}

async function byLibrary(t: Table): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const options = { format: 'csv', output: t.output as 'csv', interpretation: 'effects', ...(t.interactions === null ? {} : { interactions: t.interactions }) } as const; // biome-ignore format: one line
  const bytes = (async function* () {
    yield csvOf(t);
  })();
  for await (const chunk of scoreStream(await world.model('trees'), bytes, options)) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

async function byRequest(t: Table): Promise<Buffer> {
  const query = new URLSearchParams({ modelId: 'trees', delimiter: 'comma' });
  if (t.interactions !== null) query.set('interactions', String(t.interactions));
  if (t.top !== null) query.set('top_effects', String(t.top));
  const { call } = await world.service();
  const reply = await call('POST', `/api/v1/scoring/predict/interpretation.csv?${query}`, { body: csvOf(t) });
  if (reply.status !== 200) throw new Error(reply.text);
  return reply.bytes;
}

/** Runs one table; gives what was found and the applications it is about. */
async function run(generated: Table) {
  const isTable = generated.output === 'parquet' || generated.output === 'arrow';
  const t: Table =
    generated.entry === 'http'
      ? { ...generated, output: 'csv' }
      : generated.entry === 'library'
        ? { ...generated, top: null, output: isTable ? 'ndjson' : generated.output }
        : generated;
  const verdict = await answerCsv(model, csvOf(t));
  if ('refused' in verdict) throw new Error(`refused: ${verdict.refused.join(', ')}`);
  const isRejected = verdict.rows.every(({ score: scored }) => scored === null);
  if (t.entry === 'http' && isRejected) return { t, found: [], rows: [] };
  const bytes = await (t.entry === 'command' ? byCommand(t) : t.entry === 'library' ? byLibrary(t) : byRequest(t));
  return { t, found: await read(t.output, bytes), rows: verdict.rows };
}

const near = (a: number, b: number) => Math.abs(a - b) <= TOLERANCE * Math.max(1, Math.abs(b));

function pairDifferences(asked: number | null, found: [string, number][], wanted: Map<string, number>): string[] {
  if (asked === null) return found.length > 0 ? ['interactions were not requested'] : [];
  const problems: string[] = [];
  for (const [pair, effect] of found) {
    if (!near(effect, wanted.get(pair) ?? Number.NaN)) problems.push(`${pair} is ${effect} instead of ${wanted.get(pair)}`); // biome-ignore format: one line
  }
  const sizes = found.map(([, effect]) => Math.abs(effect));
  if (sizes.some((size, i) => i > 0 && size > sizes[i - 1]!)) problems.push('interactions are not in order');
  const smallest = found.length < asked ? TOLERANCE : (sizes.at(-1) ?? 0) + TOLERANCE;
  const listed = new Set(found.map(([pair]) => pair));
  for (const [pair, effect] of wanted) {
    if (!listed.has(pair) && Math.abs(effect) > smallest) problems.push(`${pair} (${effect}) is missing`);
  }
  return problems;
}

test('base, effects and interactions equal brute force', async () => {
  await fc.assert(
    fc.asyncProperty(tables, async (generated) => {
      const { t, found, rows } = await run(generated);
      expect(found.length).toBe(rows.length);
      for (const [i, { features }] of rows.entries()) {
        if (features === null) {
          expect(found[i]).toBeNull();
          continue;
        }
        const wanted = await brute.of(features);
        const { base, effects, interactions } = found[i]!;
        const count = Math.min(t.top ?? COLUMNS.length, COLUMNS.length);
        expect([near(base, wanted.base), effects.size], `seed ${SEED}, row ${i + 1}`).toEqual([true, count]);
        for (const [name, effect] of effects) {
          expect(near(effect, wanted.effects[COLUMNS.indexOf(name as 'amount')]!), `seed ${SEED}, ${name}: ${effect}`).toBe(true); // biome-ignore format: one line
        }
        const left = COLUMNS.filter((name) => !effects.has(name)).map((name) => Math.abs(wanted.effects[COLUMNS.indexOf(name)]!)); // biome-ignore format: one line
        const least = Math.min(...[...effects.values()].map(Math.abs));
        expect(
          left.every((size) => size <= least + TOLERANCE),
          `seed ${SEED}: a larger effect is left out`,
        ).toBe(true);
        expect(pairDifferences(t.interactions, interactions, wanted.interactions), `seed ${SEED}`).toEqual([]);
      }
    }),
    { numRuns: RUNS, seed: SEED },
  );
});

test('reasons are the columns whose typical value, as documented, raises the score', async () => {
  await fc.assert(
    fc.asyncProperty(tables, async (generated) => {
      const { found, rows } = await run(generated);
      for (const [i, { features }] of rows.entries()) {
        if (features === null) continue;
        const { reasons } = await brute.of(features);
        if (reasons !== null) expect(found[i]!.reasons).toEqual(reasons);
      }
    }),
    { numRuns: RUNS, seed: SEED, endOnFailure: true },
  );
});
