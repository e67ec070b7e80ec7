// A row of every output format, from every input format, is scored again to the same bits; a row of another run is not.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { bool, columnFromArray, dictionary, float64, tableFromColumns, tableToIPC, utf8 } from '@uwdata/flechette';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { type ScoreOptions, score } from '../../src/doors/commands/score.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { type Replayed, replayRow } from '../../src/runs/checks/replay-row.ts';
import { readManifest } from '../../src/runs/checks/verify-output.ts';
import { scratch } from '../support/cli.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { asNative, asObjects } from '../support/service.ts';
import { campaignTest, checkTest } from '../support/tiers.ts';

type Row = Record<string, unknown>;
const ROWS = 60;
const REJECTED = 17;

const text = Buffer.concat([...generatePortfolio({ rows: ROWS, seed: 4, faults: 0, oddness: 'none' })]).toString();
/** Ids that are null, hold quotes, and look like the number of the row; a row without an amount, and one that is rejected. */
const rows: Row[] = asNative(asObjects(text)).map((row, i) => ({
  'ref "id"': i % 5 === 0 ? null : `{"row":${i},"ü"}`,
  ...row,
  ...(i % 7 === 0 ? { income: null } : {}),
  ...(i === REJECTED - 1 ? { amount: 'many' } : {}),
}));
const numeric = rows.map((row, i) => (i === REJECTED - 1 ? { ...row, amount: Number.POSITIVE_INFINITY } : row));

const columnsOf = (of: readonly Row[]) =>
  Object.keys(of[0]!).map((name) => {
    const data = of.map((row) => row[name] ?? null);
    return { name, data, kind: typeof data.find((value) => value !== null) as 'string' | 'number' | 'boolean' };
  });

function parquet(): Buffer {
  const types = { string: 'STRING', number: 'DOUBLE', boolean: 'BOOLEAN' } as const;
  const columnData = columnsOf(numeric).map(({ name, data, kind }) => ({ name, data, type: types[kind], nullable: true })); // biome-ignore format: one line
  return Buffer.from(parquetWriteBuffer({ columnData, rowGroupSize: 25 }));
}

function arrow(words: boolean): Buffer {
  const types = { string: () => (words ? dictionary(utf8()) : utf8()), number: float64, boolean: bool };
  const columns = columnsOf(numeric).map(
    ({ name, data, kind }) => [name, columnFromArray(data, types[kind]())] as const,
  );
  return Buffer.from(tableToIPC(tableFromColumns(columns as never), { format: words ? 'stream' : 'file' })!);
}

const cell = (value: unknown) => (value === null ? '' : `"${String(value).replaceAll('"', '""')}"`);
const INPUTS: Record<string, () => Buffer | string> = {
  'in.csv': () =>
    [Object.keys(rows[0]!).map(cell).join(), ...rows.map((r) => Object.values(r).map(cell).join())].join('\n'),
  'in.ndjson': () => rows.map((row) => `${JSON.stringify(row)}\n`).join(''),
  'in.json': () => JSON.stringify(rows, null, 2),
  'in.parquet': parquet,
  'in.arrow': () => arrow(false),
  'in.arrows': () => arrow(true),
};
const OUTPUTS = ['out.csv', 'out.tsv.gz', 'out.ndjson', 'out.parquet', 'out.arrow', 'out.arrows.zst'];

async function scored(folder: string, input: string, output: string, more: Partial<ScoreOptions> = {}) {
  const at = (name: string) => path.join(folder, name);
  writeFileSync(at(input), INPUTS[input]!());
  const code = await score(at(input), {
    model: 'credit-default',
    onInvalid: 'report',
    passthrough: 'ref "id"',
    quiet: true,
    output: at(output),
    workers: 1,
    ...more,
  });
  expect(code).toBe(3);
  const { predicate } = await readManifest(at(output), null);
  const model = await loadPackage(CREDIT_DEFAULT);
  return (row: number): Promise<Replayed> => replayRow({ output: at(output), predicate, model, row, input: null });
}

for (const [i, input] of Object.keys(INPUTS).entries()) {
  for (const [j, output] of OUTPUTS.entries()) {
    // Each input and each output once; in campaigns with all others.
    const either = (i + j) % 6 === 0 ? (i === 0 ? test : checkTest) : campaignTest;
    either(`${input} → ${output}`, async () => {
      const replay = await scored(scratch(), input, output, i === j ? { interpretation: true } : {});
      for (const row of [2, REJECTED, ROWS]) {
        const { same, written, again } = await replay(row);
        expect(again, `row ${row}`).toBe(written);
        expect(same).toBe(true);
        expect(written).toMatch(row === REJECTED ? /bad_number/ : /0\.\d+/);
      }
      await expect(replay(ROWS + 1)).rejects.toMatchObject({ code: 'usage' });
    });
  }
}

for (const [i, output] of OUTPUTS.entries())
  (i === 0 ? checkTest : campaignTest)(`a row of another run is not the same: ${output}`, async () => {
    const folder = scratch();
    const replay = await scored(folder, 'in.csv', output);
    const other = scratch();
    const swapped = await scored(other, 'in.ndjson', output, { interpretation: true });
    expect(await swapped(3)).toMatchObject({ same: true });
    renameSync(path.join(other, output), path.join(folder, output));
    const { same, written, again } = await replay(3);
    expect([same, written === again]).toEqual([false, false]);
  });

const q = (text: string) => `"${text.replaceAll('"', '""')}"`;
for (const [output, delimiter] of [
  ['out.csv', ','],
  ['out.tsv', '\t'],
] as const) {
  for (const passthrough of ['*', 'listed'] as const) {
    const either = (passthrough === '*') === (output === 'out.csv') ? checkTest : campaignTest;
    either(`columns whose names need quotes, ${passthrough}: ${output}`, async () => {
      // A pattern of names cannot be listed in a flag if they contain commas.
      const names = [...(passthrough === '*' ? ['a,b', 'x\ty'] : []), 'two\nlines', 'say "hi"', "'=1"];
      const folder = scratch();
      const table = rows.filter((_, i) => i !== REJECTED - 1).map(({ 'ref "id"': _, ...row }, i) => ({ ...Object.fromEntries(names.map((name) => [name, `${i},"`])), ...row })); // biome-ignore format: one line
      const lines = [Object.keys(table[0]!).map(q), ...table.map((row) => Object.values(row).map(cell))];
      writeFileSync(path.join(folder, 'in.csv'), lines.join('\n'));
      const at = path.join(folder, output);
      await score(path.join(folder, 'in.csv'), { model: 'credit-default', onInvalid: 'report', passthrough: passthrough === '*' ? '*' : names.join(','), quiet: true, output: at, workers: 1 }); // biome-ignore format: one line
      const { predicate } = await readManifest(at, null);
      const model = await loadPackage(CREDIT_DEFAULT);
      const replay = (row: number) => replayRow({ output: at, predicate, model, row, input: null });
      for (const row of [1, 2, ROWS - 1]) expect(await replay(row)).toMatchObject({ same: true });
      const whole = readFileSync(at, 'utf8');
      const d = delimiter;
      const other = { true: 'false', false: 'true' };
      const damaged = [
        whole.replaceAll(RegExp(`${d}(\\d+)${d}(true|false)${d}`, 'g'), (_, row, is: 'true') => `${d}${row}${d}${other[is]}${d}`),
        whole.replace(`${d}prediction${d}probability${d}`, `${d}probability${d}prediction${d}`),
        whole.replaceAll(/$(?=\n\d+,|\n"\d+,)/gm, ' '),
      ]; // biome-ignore format: a list
      for (const text of damaged) {
        expect(text).not.toBe(whole);
        writeFileSync(at, text);
        for (const row of [1, 2]) expect((await replay(row)).same).toBe(false);
      }
    });
  }
}
