// Generated applications with values of their types, as Parquet or JSON lines, for measurements without Python.
import { createWriteStream, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { finished } from 'node:stream/promises';
import { type ColumnSource, parquetWriteBuffer } from 'hyparquet-writer';
import { applications, type Program } from './prepare.ts';
import { say } from './run.ts';

const NUMBERS = new Set(['amount', 'term', 'income', 'monthly_payment', 'pt_income']);

type Value = number | boolean | string | null;

function typedValue(column: string, cell: string): Value {
  if (cell === '') return null;
  if (NUMBERS.has(column)) return Number(cell);
  return cell === 'true' || cell === 'false' ? cell === 'true' : cell;
}

/** The file of clean applications, made once. Their cells have no quotes. */
export async function typedApplications(program: Program, rows: number, format: 'parquet' | 'json'): Promise<string> {
  const csv = await applications(program, rows);
  const file = csv.replace(/\.csv$/, format === 'parquet' ? '-typed.parquet' : '-typed.ndjson');
  if (existsSync(file)) return file;
  say(`making ${rows} applications as ${format}`);
  const [header, ...lines] = readFileSync(csv, 'utf8').trimEnd().split('\n');
  const names = header!.split(',');
  const partial = `${file}.making`;
  if (format === 'parquet')
    writeFileSync(partial, Buffer.from(parquetWriteBuffer({ columnData: columnsOf(names, lines) })));
  else {
    const out = createWriteStream(partial);
    for (const line of lines) {
      const cells = line.split(',');
      out.write(`${JSON.stringify(Object.fromEntries(names.map((name, c) => [name, typedValue(name, cells[c]!)])))}\n`);
    }
    out.end();
    await finished(out);
  }
  renameSync(partial, file);
  return file;
}

function columnsOf(names: readonly string[], lines: readonly string[]): ColumnSource[] {
  const columns = names.map((name): { name: string; data: Value[] } => ({ name, data: [] }));
  for (const line of lines) {
    const cells = line.split(',');
    for (const [c, { name, data }] of columns.entries()) data.push(typedValue(name, cells[c]!));
  }
  return columns.map(({ name, data }) => ({ name, data, type: NUMBERS.has(name) ? 'DOUBLE' : typeof data.find((v) => v !== null) === 'boolean' ? 'BOOLEAN' : 'STRING' })); // biome-ignore format: one line
}
