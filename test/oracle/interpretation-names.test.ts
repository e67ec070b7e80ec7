// Interpretations belong to their columns, whatever the columns are called: a package with other names gives the same values under these names, in every format.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { tableFromIPC } from '@uwdata/flechette';
import { parse } from 'csv-parse/sync';
import { parquetMetadata, parquetRead } from 'hyparquet';
import { afterAll, expect, test } from 'vitest';
import YAML from 'yaml';
import { type ScoreOptions, score } from '../../src/doors/commands/score.ts';
import fc from '../support/seeded-fast-check.ts';
import { SEED, times } from '../support/tiers.ts';
import { PACKAGES } from './entries.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-interpretation-names-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const NAMES = ['toString', 'constructor', 'row', 'prediction', 'base', 'reasons', 'effect.x', 'x', 'interaction.1.effect', 'a.b', 'a"b', 'a,b', 'tab\there', 'new\nline', '1', '01', 'error', 'error_code', 'Zürich', 'e\u0301', 'é', 'A', 'a', ' ', 'null', '=1+1', '@x', '😀']; // biome-ignore format: one line
const CELLS: Record<string, string[]> = {
  amount: ['100', '1500.25', '', 'abc'],
  term: ['12', '600', '', '601'],
  banned: ['true', 'false', ''],
  product: ['0230', 'A7', 'Zürich', '', 'new'],
  region: ['1', '2', '30', ''],
};
const BACKGROUNDS: Record<string, string> = { classes: 'product,amount,banned\n0230,100,false\nA7,,true\n' };

const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;
const csvOf = (rows: readonly string[][]): string => rows.map((row) => `${row.map(quoted).join()}\n`).join('');

/** A copy of a package whose columns have other names. Two of its reasons have no code, so that their column is told. */
function renamedPackage(base: string, id: string, named: (column: string) => string): string[] {
  const from = path.join(PACKAGES[0]!, base, '1');
  const to = path.join(folder, id, '1');
  rmSync(to, { recursive: true, force: true });
  mkdirSync(to, { recursive: true });
  cpSync(path.join(from, 'model.onnx'), path.join(to, 'model.onnx'));
  const manifest = YAML.parse(readFileSync(path.join(from, 'model.yaml'), 'utf8'));
  const columns: string[] = manifest.columns.map((column: { name: string }) => column.name);
  for (const column of manifest.columns) column.name = named(column.name);
  for (const input of manifest.inputs) input.columns = input.columns.map(named);
  const reasons = { [named('amount')]: { code: 'A1', text: 'the amount' } };
  const [header, ...rows] = parse(BACKGROUNDS[base] ?? readFileSync(path.join(from, 'background.csv'))) as string[][];
  writeFileSync(path.join(to, 'background.csv'), csvOf([header!.map(named), ...rows]));
  const explain = { background: 'background.csv' };
  writeFileSync(path.join(to, 'model.yaml'), YAML.stringify({ ...manifest, id, explain, reasons: base === 'trees' ? reasons : undefined })); // biome-ignore format: one line
  return columns;
}

interface Explained {
  base: number | null;
  effects: [column: string, effect: number][];
  reasons: string[];
  pairs: [first: string, second: string, effect: number][];
}

function ofJson(line: string): Explained {
  const { base = null, effects = [], reasons = [], interactions = [] } = JSON.parse(line).interpretation ?? {};
  return {
    base,
    effects: effects.map((e: { column: string; effect: number }) => [e.column, e.effect]),
    reasons: reasons.map((reason: { code: string }) => reason.code),
    pairs: interactions.map((i: { columns: string[]; effect: number }) => [...i.columns, i.effect]),
  };
}

/** Reads by position: reading by name would need the names to be correct. `plain`: removes what protects spreadsheets. */
function ofCells(names: readonly string[], cells: readonly unknown[], plain: (text: string) => string): Explained {
  const isNone = (cell: unknown) => cell === '' || cell === null || cell === undefined;
  const at = names.indexOf('base', names.indexOf('error_code'));
  const found: Explained = { base: isNone(cells[at]) ? null : Number(cells[at]), effects: [], reasons: [], pairs: [] };
  for (let i = at + 1; i < names.length; i++) {
    const name = names[i]!;
    if (isNone(cells[i])) continue;
    if (name === 'reasons') found.reasons = plain(String(cells[i])).split(';');
    else if (/^interaction\.\d+\.effect$/.test(name))
      found.pairs.push([plain(String(cells[i - 2])), plain(String(cells[i - 1])), Number(cells[i])]); // biome-ignore format: one line
    else if (name.startsWith('effect.')) found.effects.push([name.slice('effect.'.length), Number(cells[i])]);
  }
  return found;
}

const FORMULA = /^'(?=[=@])/;
async function read(file: string): Promise<Explained[]> {
  const bytes = readFileSync(file);
  const format = path.extname(file).slice(1);
  if (format === 'ndjson') return bytes.toString().trimEnd().split('\n').map(ofJson);
  if (format === 'json') return (JSON.parse(bytes.toString()).predictions as object[]).map((p) => ofJson(JSON.stringify(p))); // biome-ignore format: one line
  if (format === 'csv' || format === 'tsv') {
    const [names, ...rows] = parse(bytes, { delimiter: format === 'csv' ? ',' : '\t' }) as string[][];
    return rows.map((row) => ofCells(names!, row, (text) => text.replace(FORMULA, '')));
  }
  if (format === 'arrow') {
    const table = tableFromIPC(new Uint8Array(bytes));
    const names = table.schema.fields.map(({ name }) => name);
    return Array.from({ length: table.numRows }, (_, r) => ofCells(names, names.map((_, c) => table.getChildAt(c)!.at(r)), String)); // biome-ignore format: one line
  }
  const buffer = Uint8Array.from(bytes).buffer;
  const names = parquetMetadata(buffer).schema.slice(1).map(({ name }) => name); // biome-ignore format: one line
  const rows: unknown[][] = [];
  await parquetRead({ file: buffer, onComplete: (found) => rows.push(...(found as unknown[][])) });
  return rows.map((row) => ofCells(names, row, String));
}

const FORMATS = ['csv', 'tsv', 'json', 'ndjson', 'parquet', 'arrow'] as const;
const RUNS = Math.max(3, Math.min(500, Math.round(times('crossings', { quick: 3, check: 6, campaigns: 200_000 }) / 2)));

const cases = fc.record({
  base: fc.constantFrom('trees', 'classes'),
  names: fc.shuffledSubarray(NAMES, { minLength: NAMES.length }),
  rows: fc.array(fc.record(Object.fromEntries(Object.entries(CELLS).map(([name, cells]) => [name, fc.constantFrom(...cells)]))), { minLength: 4, maxLength: 9 }),
  interactions: fc.constantFrom(1, 3, 500),
  batchRows: fc.constantFrom(1, 2, 4096),
  blockBytes: fc.constantFrom(16, 100, 524_288),
}); // biome-ignore format: a table

test('columns of any name have their own effects, reasons and interactions', async () => {
  await fc.assert(
    fc.asyncProperty(cases, async ({ base, names, rows, interactions, batchRows, blockBytes }) => {
      const columns = renamedPackage(base, 'plain', (name) => name);
      // A column without a reason code has the name that is most easily taken for a member of an object.
      const others = columns.filter((column) => column !== 'product');
      const unique = new Map([['product', '__proto__'], ...others.map((column, i) => [column, names[i]!] as const)]);
      renamedPackage(base, 'renamed', (column) => unique.get(column)!);
      const at = (name: string) => path.join(folder, name);
      const cells = rows.map((row) => columns.map((column) => row[column]!));
      const run = async (model: string, header: string[], output: string, more: Partial<ScoreOptions>) => {
        writeFileSync(at('in.csv'), csvOf([header, ...cells]));
        await score(at('in.csv'), { model, registry: folder, output: at(output), interpretation: true, interactions, onInvalid: 'report', allowEmpty: true, quiet: true, workers: 1, ...more }); // biome-ignore format: one line
        return read(at(output));
      };
      const rename = (column: string) => unique.get(column) ?? column;
      const bySize = <T extends [...string[], number]>(list: T[]): T[] => list.toSorted((a, b) => (a[0]! < b[0]! ? -1 : 1)); // biome-ignore format: one line
      const wanted = (await run('plain', columns, 'plain.ndjson', {})).map(({ base: of, effects, reasons, pairs }) => ({
        base: of,
        effects: bySize(effects.map(([column, effect]): [string, number] => [rename(column), effect])),
        reasons: reasons.map(rename),
        pairs: pairs.map(([first, second, effect]) => [rename(first), rename(second), effect]),
      }));
      for (const format of FORMATS) {
        const found = await run('renamed', columns.map(rename), `out.${format}`, { batchRows, blockBytes });
        expect(found.map((row) => ({ ...row, effects: bySize(row.effects) })), `seed ${SEED}, ${format}`).toEqual(wanted); // biome-ignore format: one line
      }
    }),
    { numRuns: RUNS, seed: SEED },
  );
});
