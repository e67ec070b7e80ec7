// The examples with frames of others: what they print are the predictions of `score`.
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { describe, expect } from 'vitest';
import { MAIN, scratch, sluice } from '../support/cli.ts';
import { pythonWith } from '../support/python-environment.ts';
import { campaignTest } from '../support/tiers.ts';

const run = promisify(execFile);
const COMMAND = [process.execPath, MAIN];
const ROWS = 3_000;

type Prediction = Record<string, unknown>;

async function portfolio(key?: string): Promise<{ folder: string; file: string; wanted: Prediction[] }> {
  const folder = scratch();
  const file = path.join(folder, 'portfolio.csv');
  await sluice(['generate', ...(key ? ['--ids'] : []), '--clean', '--rows', String(ROWS), '-o', file]);
  const { code, stdout } = await sluice(['score', file, '-m', 'credit-default', '--format', 'ndjson', ...(key ? ['--passthrough', key] : []), '--quiet']); // biome-ignore format: one line
  expect(code).toBe(0);
  const wanted = lines(stdout);
  expect(wanted).toHaveLength(ROWS);
  return { folder, file, wanted };
}

const lines = (text: string): Prediction[] => text.split('\n').filter(Boolean).map((line) => JSON.parse(line)); // biome-ignore format: one line

/** What a frame does not leave out of the lines of JSON. */
const same = (rows: readonly Prediction[]) =>
  rows.map(({ prediction, probability, points, decision }) => ({ prediction, probability, points, decision }));

async function python(): Promise<string> {
  const found = await pythonWith('test/examples/requirements.txt');
  if ('missing' in found) throw new Error(`this needs ${found.missing}`);
  return found.python;
}

describe('frames', () => {
  for (const name of ['pandas', 'polars', 'duckdb']) {
    campaignTest(`of ${name}`, async () => {
      const { file, wanted } = await portfolio();
      const args = [path.resolve(`examples/frames/with_${name}.py`), file, 'credit-default', ...COMMAND];
      const { stdout } = await run(await python(), args, { maxBuffer: 1 << 26 });
      expect(same(lines(stdout))).toEqual(same(wanted));
    });
  }
});

campaignTest(
  'a DataFrame of Spark, in as many processes as it has partitions, and a failure that is not passed over',
  async () => {
    const { folder, file, wanted } = await portfolio('application_id');
    const interpreter = await python();
    const script = path.resolve('examples/spark/score_frame.py');
    const [source, target] = [path.join(folder, 'in'), path.join(folder, 'out')];
    const made = `from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
frame = spark.read.csv(${JSON.stringify(file)}, header=True)
# One of the partitions is empty.
frame.repartitionByRange(3, "application_id").write.parquet(${JSON.stringify(source)})
import sys; sys.path.insert(0, ${JSON.stringify(path.dirname(script))})
from score_frame import main
main(${[source, target, 'credit-default', ...COMMAND].map((a) => JSON.stringify(a)).join(', ')})
# Nothing but rejected rows in a partition.
from score_frame import PREDICTION, scorer
from pyspark.sql.functions import lit
few = frame.drop("application_id").limit(2).withColumn("amount", lit("x")).repartition(2)
scored = few.mapInArrow(scorer("credit-default", command=${JSON.stringify(COMMAND)}), PREDICTION).collect()
assert [row.error_code for row in scored] == ["bad_number"] * 2, scored
try:
    main(${[source, `${target}2`, 'no-such-model', ...COMMAND].map((a) => JSON.stringify(a)).join(', ')})
except Exception as error:
    assert "sluice ended with" in str(error) and "no-such-model" in str(error), str(error)
    print("REFUSED")
`;
    const env = { ...process.env, PYSPARK_PYTHON: interpreter, PYSPARK_DRIVER_PYTHON: interpreter };
    const { stdout } = await run(interpreter, ['-c', made], { env, cwd: folder, maxBuffer: 1 << 26 });
    expect(stdout).toContain('REFUSED');
    const { stdout: read } = await run(interpreter, ['-c', `import pyarrow.parquet as p, sys; sys.stdout.write(p.read_table(${JSON.stringify(target)}).to_pandas().to_json(orient="records", lines=True, double_precision=15))`], { maxBuffer: 1 << 26 }); // biome-ignore format: one line
    const byKey = new Map(lines(read).map((row) => [String(row.application_id), row]));
    expect(byKey.size).toBe(ROWS);
    expect(same(wanted.map((row) => byKey.get(String(row.application_id))!))).toEqual(same(wanted));
  },
);
