// What readers of others find in Parquet and Arrow that a run writes: value by value what its lines of JSON say.
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { scratch, sluice } from '../support/cli.ts';
import { pythonWith } from '../support/python-environment.ts';
import { campaignTest } from '../support/tiers.ts';

const run = promisify(execFile);
const ROWS = 60_000;

const READ = `
import json, sys
import duckdb, polars, pyarrow.ipc, pyarrow.parquet
folder = sys.argv[1]
lines = [json.loads(line) for line in open(folder + "/out.ndjson", encoding="utf-8")]
table = pyarrow.parquet.read_table(folder + "/out.parquet")
names = table.schema.names
def cell(line, name):
    return (line.get("error") or {}).get(name[6:]) if name.startswith("error_") else line.get(name)
wanted = [tuple(cell(line, name) for name in names) for line in lines]
values = lambda table: [tuple(row[name] for name in names) for row in table.to_pylist()]
table.validate(full=True)
stream = pyarrow.ipc.open_stream(folder + "/out.arrows").read_all()
stream.validate(full=True)
found = {
    "pyarrow, Parquet": values(table),
    "pyarrow, stream": values(stream),
    "pyarrow, file": values(pyarrow.ipc.open_file(folder + "/out.arrow").read_all()),
    "polars, Parquet": polars.read_parquet(folder + "/out.parquet").rows(),
    "polars, Arrow": polars.read_ipc(folder + "/out.arrow").rows(),
    "DuckDB, Parquet": duckdb.sql(f"select * from '{folder}/out.parquet'").fetchall(),
    # Statistics leave out row groups: none that has such a row.
    "DuckDB, some": duckdb.sql(f"select * from '{folder}/out.parquet' where probability > 0.9 and id >= 'K-5'").fetchall(),
}
at = {name: i for i, name in enumerate(names)}
some = [row for row in wanted if (row[at["probability"]] or 0) > 0.9 and (row[at["id"]] or "") >= "K-5"]
print(json.dumps({"rows": len(wanted), "some": len(some), **{name: rows == (some if name.endswith("some") else wanted) for name, rows in found.items()}}))
`;

campaignTest('pyarrow, polars and DuckDB find in Parquet and Arrow what NDJSON says', async () => {
  const found = await pythonWith('test/examples/requirements.txt');
  if ('missing' in found) throw new Error(`this needs ${found.missing}`);
  const folder = scratch();
  const made = path.join(folder, 'made.csv');
  await sluice(['generate', '--clean', '--rows', String(ROWS), '-o', made]);
  const [header, ...rows] = readFileSync(made, 'utf8').trimEnd().split('\n');
  const withId = rows.map((row, i) => `${i % 7 === 0 ? '' : `K-${i} "é"`.replace(/.*/, (id) => `"${id.replaceAll('"', '""')}"`)},${i % 97 === 0 ? row.replace(/^[^,]*/, 'none') : row}`); // biome-ignore format: one line
  writeFileSync(path.join(folder, 'in.csv'), `id,${header}\n${withId.join('\n')}\n`);
  for (const ending of ['ndjson', 'parquet', 'arrow', 'arrows']) {
    const { code } = await sluice(['score', 'in.csv', '-m', 'credit-default', '-o', `out.${ending}`, '--passthrough', 'id', '--quiet'], { cwd: folder }); // biome-ignore format: one line
    expect([ending, code]).toEqual([ending, 3]);
  }
  const { stdout } = await run(found.python, ['-c', READ, folder], { maxBuffer: 1 << 26 });
  const { rows: read, some, ...same } = JSON.parse(stdout) as Record<string, unknown>;
  expect(read).toBe(ROWS);
  expect(some).toBeGreaterThan(100);
  expect(new Set(Object.values(same))).toEqual(new Set([true]));
  expect(Object.keys(same)).toHaveLength(7);
});
