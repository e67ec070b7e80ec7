// Models that cannot be traced, explained row by row in bulk: no worker dies, memory stays flat, and the work is what was foretold.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { encodeRows } from '../../src/inference/encode/encode-rows.ts';
import { backgroundRowsOf, pairsWithin } from '../../src/inference/explain/budget.ts';
import { differs } from '../../src/inference/explain/coalitions.ts';
import { placesOf } from '../../src/inference/explain/scored-background.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { checkTest, times } from '../support/tiers.ts';

const FIXTURES = path.resolve('test/fixtures/asked');
const ROWS = times('explained rows', { quick: 0, check: 30, campaigns: 5000 });
const LIMIT = 2000;

const tableOf = (text: string): string[][] =>
  text
    .trimEnd()
    .split('\n')
    .map((l) => l.split(','));

/** Applications of cells that occur in training, each column for itself. */
function applications(rows: number, [header, ...known]: string[][]): string[][] {
  const random = new Random();
  random.seed(21, rows);
  const cell = (column: number) => known[Math.floor(random.uniform() * known.length)]![column]!;
  return [header!.slice(0, 8), ...Array.from({ length: rows }, () => Array.from({ length: 8 }, (_, c) => cell(c)))];
}

/** Registers a model; the table it was trained on is without `ok` where nothing is to be predicted. */
async function registered(name: string, outcome: boolean) {
  const folder = scratch();
  const table = tableOf(readFileSync(path.join(FIXTURES, 'train.csv'), 'utf8'));
  const file = (n: string, rows: string[][]) => {
    writeFileSync(path.join(folder, n), `${rows.map((r) => r.join(',')).join('\n')}\n`);
    return path.join(folder, n);
  };
  const train = file('train.csv', outcome ? table : table.map((r) => r.slice(0, 8)));
  const registry = path.join(folder, 'registry');
  const more = outcome ? ['--outcome', 'ok'] : [];
  const onnx = path.join(FIXTURES, `${name}.onnx`);
  const added = await sluiceHere([
    'model',
    'add',
    onnx,
    '--training-data',
    train,
    '--id',
    name,
    ...more,
    '--registry',
    registry,
  ]);
  expect(added.code, added.stderr).toBe(0);
  return { folder, file, table, registry };
}

/** The evaluations of sampled effects, counted from the cells alone. */
async function foretold(packageFolder: string, rows: readonly string[][]): Promise<number> {
  const { manifest } = await loadPackage(packageFolder);
  const [header, ...others] = tableOf(readFileSync(path.join(packageFolder, 'background.csv'), 'utf8'));
  const encode = (names: string[], cells: readonly string[][]) =>
    encodeRows(
      manifest,
      cells as string[][],
      manifest.columns.map((c) => names.indexOf(c.name)),
    );
  const background = { ...encode(header!, others), scores: { values: new Float32Array(0), width: 1 } };
  const own = encode(rows[0]!, rows.slice(1));
  const places = placesOf(manifest.columns, manifest.inputs);
  const pairs = pairsWithin(LIMIT, places.length, Infinity, background.rows);
  let evaluations = 0;
  for (let x = 0; x < rows.length - 1; x++) {
    evaluations++;
    for (const z of backgroundRowsOf(pairs, background.rows)) {
      const differing = places.filter((list) => differs(list, own.inputs, x, background, z)).length;
      evaluations += Math.ceil(pairs / background.rows) * 2 * Math.max(0, differing - 1);
    }
  }
  return evaluations;
}

describe.each([
  ['isolation', false],
  ['calibrated-svm', true],
] as const)('%s', (name, outcome) => {
  checkTest(`${ROWS} rows with interpretation: no death, flat memory, the work foretold`, async () => {
    const { folder, file, table, registry } = await registered(name, outcome);
    const explain = async (rows: string[][], more: string[] = []) => {
      const metrics = path.join(folder, 'metrics.prom');
      const args = [
        '-m',
        name,
        '--registry',
        registry,
        '--interpretation',
        '--max-evaluations',
        String(LIMIT),
        '--workers',
        '2',
      ];
      const out = path.join(folder, 'out.ndjson');
      const input = file('in.csv', rows);
      const run = await sluiceHere(['score', input, ...args, '-o', out, '--json', '--metrics-file', metrics, ...more]);
      expect(run.code, run.stderr).toBe(0);
      const told = readFileSync(metrics, 'utf8');
      const value = (metric: string) => Number(told.match(new RegExp(`^${metric}(?:{[^}]*})? (\\S+)$`, 'm'))?.[1] ?? 0);
      const lines = readFileSync(out, 'utf8').trimEnd().split('\n');
      return { summary: JSON.parse(run.stdout), value, lines: lines.map((l) => JSON.parse(l)) };
    };
    const few = await explain(applications(4, table));
    const rows = applications(ROWS, table);
    const { summary, value, lines } = await explain(rows);
    expect(summary).toMatchObject({ rows: ROWS, scored: ROWS, interpreted: ROWS });
    expect(value('sluice_worker_deaths_total')).toBe(0);
    expect(value('sluice_interpretation_evaluations_total')).toBe(await foretold(path.join(registry, name, '1'), rows));
    expect(summary.peakMemoryBytes).toBeLessThan(few.summary.peakMemoryBytes + 150 * 2 ** 20);
    for (const { interpretation } of lines) {
      expect(interpretation).toMatchObject({ method: 'sampling', standard_error: expect.any(Number) });
    }
  });
});

checkTest('a limit that nothing fits is refused before a row is read, at every door that has it', async () => {
  const { file, table, registry } = await registered('calibrated-svm', true);
  const args = ['-m', 'calibrated-svm', '--registry', registry, '--interpretation', '-o', '-'];
  const input = file('in.csv', applications(2, table));
  const refused = await sluiceHere(['score', input, ...args, '--max-evaluations', '28']);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain(
    'an interpretation needs at least 29 evaluations per row [interpretation_over_budget]',
  );
  const without = await sluiceHere(['score', input, ...args.slice(0, 4), '-o', '-', '--max-evaluations', '29']);
  expect(without.stderr).toContain('need --interpretation');
});
