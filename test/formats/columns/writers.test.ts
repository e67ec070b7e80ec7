// The tables that are kept beside the tests, written anew by the writers themselves: the same lines are read from both.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { openArrow } from '../../../src/formats/arrow/arrow-table.ts';
import { ColumnLines } from '../../../src/formats/columns/column-table.ts';
import { openParquet, openRandomAccess } from '../../../src/formats/parquet/parquet-file.ts';
import { scratch } from '../../support/cli.ts';
import { pythonWith } from '../../support/python-environment.ts';
import { campaignTest } from '../../support/tiers.ts';

const FIXTURES = path.join(import.meta.dirname, 'fixtures');

async function textOf(lines: ColumnLines): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of lines) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString();
}

/** The lines of a table, or why it has none. */
async function linesOf(name: string): Promise<string> {
  const ignored = (column: string) => column === 'list';
  if (!name.endsWith('.parquet')) {
    const whole = async function* () {
      yield readFileSync(name);
    };
    return textOf(new ColumnLines(await openArrow(whole(), { ignored })));
  }
  const file = await openRandomAccess(name);
  return openParquet(file, { ignored })
    .then((table) => textOf(new ColumnLines(table)))
    .finally(() => file.close());
}

campaignTest('pyarrow, polars, DuckDB, pandas and fastparquet write what is kept', async () => {
  const found = await pythonWith('test/formats/columns/fixtures/requirements.txt');
  if ('missing' in found) throw new Error(`this needs ${found.missing}`);
  const folder = scratch();
  await promisify(execFile)(found.python, [path.join(FIXTURES, 'make.py'), folder]);
  const kept = readdirSync(FIXTURES).filter((name) => /\.(parquet|arrows?|feather)$/.test(name));
  expect(readdirSync(folder).sort()).toEqual(kept.sort());
  for (const name of kept) {
    const lines = await linesOf(path.join(folder, name));
    expect(lines === (await linesOf(path.join(FIXTURES, name))), name).toBe(true);
    expect([name, lines.length > 0]).toEqual([name, !name.includes('empty')]);
  }
});
