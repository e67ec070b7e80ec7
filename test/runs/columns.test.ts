// The same table as CSV, NDJSON, Parquet and Arrow, in groups of any size, gives the same answers byte for byte.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { bool, columnFromArray, dictionary, float64, tableFromColumns, tableToIPC, utf8 } from '@uwdata/flechette';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { expect } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { MAIN, scratch, sluice, sluiceHere } from '../support/cli.ts';
import { asNative, asObjects } from '../support/service.ts';
import { checkTest } from '../support/tiers.ts';

type Row = Record<string, unknown>;
const ROWS = 200;

/** Applications of which some have no value or one that no column takes, with an id that is passed through. */
function applications(): Row[] {
  const text = Buffer.concat([...generatePortfolio({ rows: ROWS, seed: 9, faults: 0, oddness: 'none' })]).toString();
  return asNative(asObjects(text)).map((row, i) => ({
    id: i % 5 === 0 ? null : `Kr-${i % 50} "ü"`,
    ...row,
    ...(i % 11 === 0 ? { income: null, source_type: null, banned: null } : {}),
    ...(i % 13 === 0 ? { marital_status: 'NOBODY KNOWS' } : {}),
    ...(i % 97 === 0 ? { amount: -1e300 } : {}),
  }));
}

const columnsOf = (rows: readonly Row[]) =>
  Object.keys(rows[0]!).map((name) => {
    const data = rows.map((row) => row[name] ?? null);
    const kind = typeof data.find((value) => value !== null);
    return { name, data, kind: kind as 'string' | 'number' | 'boolean' };
  });

function parquet(rows: readonly Row[], rowGroupSize: number): Buffer {
  const types = { string: 'STRING', number: 'DOUBLE', boolean: 'BOOLEAN' } as const;
  const columnData = columnsOf(rows).map(({ name, data, kind }) => ({ name, data, type: types[kind], nullable: true }));
  return Buffer.from(parquetWriteBuffer({ columnData, rowGroupSize }));
}

function arrow(rows: readonly Row[], words: boolean, format: 'file' | 'stream'): Buffer {
  const types = { string: () => (words ? dictionary(utf8()) : utf8()), number: float64, boolean: bool };
  const columns = columnsOf(rows).map(({ name, data, kind }) => [name, columnFromArray(data, types[kind]())] as const);
  return Buffer.from(tableToIPC(tableFromColumns(columns as never), { format })!);
}

checkTest('CSV, NDJSON, Parquet and Arrow', async () => {
  const folder = scratch();
  const rows = applications();
  const cell = (value: unknown) => (value === null ? '' : `"${String(value).replaceAll('"', '""')}"`);
  const files: Record<string, Buffer> = {
    'a.csv': Buffer.from([Object.keys(rows[0]!).join(), ...rows.map((r) => Object.values(r).map(cell).join())].join('\n')), // biome-ignore format: one line
    'b.ndjson': Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join('')),
    'c.parquet': parquet(rows, ROWS),
    'd.parquet': parquet(rows, 1),
    'e.parquet': parquet(rows, 80),
    'f.arrow': arrow(rows, false, 'file'),
    'g.arrows': arrow(rows, true, 'stream'),
  };
  const answers = new Map<string, string>();
  for (const [name, bytes] of Object.entries(files)) {
    writeFileSync(path.join(folder, name), bytes);
    const args = ['score', name, '-m', 'credit-default', '-o', `${name}.out.csv`, '--passthrough', 'id', '--quiet'];
    const { code, stderr } = await sluiceHere([...args, '--workers', '2'], { cwd: folder });
    expect([name, code, stderr]).toEqual([name, 3, '']);
    answers.set(name, readFileSync(path.join(folder, `${name}.out.csv`), 'utf8'));
    const at = readFileSync(path.join(folder, `${name}.out.csv.rejects.csv`), 'utf8')
      .split('\n')[1]!
      .split(',');
    expect([name, at[3]]).toEqual([name, expect.stringMatching(/parquet|arrow/.test(name) ? /^$/ : /^[0-9]+$/)]);
    const slow = await sluice(['score', name, '-m', 'credit-default', '-o', 'slow.csv', '--passthrough', 'id', '--quiet', '--no-manifest'], { cwd: folder, env: { SLUICE_DECODER: 'reference' } }); // biome-ignore format: one line
    expect([name, slow.code]).toEqual([name, 3]);
    for (const [list, output] of ['', '.rejects.csv'].map(
      (end) => [`slow.csv${end}`, `${name}.out.csv${end}`] as const,
    )) {
      expect(
        readFileSync(path.join(folder, list), 'utf8') === readFileSync(path.join(folder, output), 'utf8'),
        list,
      ).toBe(true);
    }
    const verified = await sluiceHere(['verify', `${name}.out.csv`], { cwd: folder });
    expect([name, verified.code]).toEqual([name, 0]);
  }
  expect(answers.get('a.csv')!.split('\n')).toHaveLength(ROWS + 2);
  for (const [name, text] of answers) expect(text === answers.get('a.csv'), name).toBe(true);
  const piped = await sluice(['score', '-', '--input-format', 'arrow', '--format', 'csv', '-m', 'credit-default', '--passthrough', 'id', '--quiet'], { cwd: folder, stdin: files['g.arrows']! }); // biome-ignore format: one line
  expect([piped.code, piped.stdout.toString() === answers.get('a.csv')]).toEqual([3, true]);
  const pipeline = 'model: credit-default\nscore: { passthrough: [id] }\nsource: { type: stdio, format: arrow }\n';
  for (const [format, like] of Object.entries({
    csv: 'g.arrows.out.csv',
    arrow: 'like.arrows',
    parquet: 'like.parquet',
  })) {
    if (format !== 'csv')
      await sluiceHere(['score', 'g.arrows', '-m', 'credit-default', '-o', like, '--passthrough', 'id', '--quiet'], { cwd: folder }); // biome-ignore format: one line
    writeFileSync(path.join(folder, 'p.yaml'), `${pipeline}sink: { type: stdio, format: ${format} }\n`);
    const run = spawnSync(process.execPath, [MAIN, 'run', 'p.yaml'], { cwd: folder, input: files['g.arrows'] });
    expect([format, run.status]).toEqual([format, 3]);
    expect(run.stdout.equals(readFileSync(path.join(folder, like))), format).toBe(true);
  }
});

checkTest('bytes that are no text reject no row if their column is ignored, in any position', async () => {
  const folder = scratch();
  const rows = applications().slice(0, 60);
  const columns = columnsOf(rows).map(({ name, data, kind }) => {
    const types = { string: 'STRING', number: 'DOUBLE', boolean: 'BOOLEAN' } as const;
    return { name, data, type: types[kind], nullable: true };
  });
  const bytes = rows.map((_, i) => Uint8Array.of(0xff, i % 3 === 0 ? i : 0, 0xc3));
  // Bytes without an annotation count as text.
  const secret = { name: 'secret', data: bytes, type: 'BYTE_ARRAY', nullable: true } as const;
  const texts = new Map<string, string>();
  for (const [file, columnData] of Object.entries({
    'plain.parquet': columns,
    'first.parquet': [secret, ...columns],
    'last.parquet': [...columns, secret],
  })) {
    writeFileSync(path.join(folder, file), Buffer.from(parquetWriteBuffer({ columnData, rowGroupSize: 25 })));
    for (const [i, flags] of [
      ['--ignore', 'secret', '--passthrough', 'id'],
      ['--ignore', '*', '--passthrough', 'id'],
      ['--ignore', 'secret', '--passthrough', '*'],
      // Blocks with effects are cut into pieces of text.
      ['--ignore', '*', '--passthrough', 'id', '--interpretation'],
    ].entries()) {
      const args = ['score', file, '-m', 'credit-default', '-o', '-', '--format', 'ndjson', '--quiet', ...flags];
      const { code, stdout } = await sluiceHere(args, { cwd: folder });
      expect([file, flags, code]).toEqual([file, flags, 3]);
      if (file === 'plain.parquet') texts.set(`${i}`, stdout);
      else expect(stdout === texts.get(`${i}`), `${file} ${flags}`).toBe(true);
    }
  }
});
