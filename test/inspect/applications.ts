// Applications from which the tests of `sluice inspect` make files.
import { isAscii } from 'node:buffer';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'csv-parse/sync';
import { loadPackage } from '../../src/model/package/load-package.ts';

const REFERENCE = path.resolve('test/fixtures/reference/applications.csv');

export type Kind = 'number' | 'boolean' | 'category' | 'text';

/** Applications as texts; an empty text is a missing value. */
export interface Applications {
  columns: readonly { name: string; kind: Kind }[];
  rows: readonly (readonly string[])[];
}

/** Applications of the reference file for a model package. */
export async function applicationsFor(folder: string, count: number): Promise<Applications> {
  const { manifest } = await loadPackage(folder);
  const [head = [], ...all] = parse(readFileSync(REFERENCE)) as string[][];
  // Every encoding has ASCII. A category that only lost its zeros is a question, which another test asks.
  const lostZeros = (row: readonly string[]) => /^\d{1,2}$/.test(row[head.indexOf('verificator_id')]!);
  const rows = all.filter((row) => isAscii(Buffer.from(row.join(''))) && !lostZeros(row)).slice(0, count);
  const columns = manifest.columns.map(({ name, kind }) => ({ name, kind }));
  return { columns, rows: rows.map((row) => columns.map(({ name }) => row[head.indexOf(name)]!)) };
}
