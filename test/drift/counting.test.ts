// The same rows give the same counts, whatever decodes them, in whatever batches, by however many workers and through whatever door;
// and they are the counts that one gets by looking at each row on its own.
import { parse } from 'csv-parse/sync';
import { afterAll, describe, expect, test } from 'vitest';
import { generatePortfolio, type PlantedFault } from '../../src/demo/portfolio.ts';
import { DriftSum } from '../../src/drift/drift-counts.ts';
import { DriftPlan } from '../../src/drift/drift-plan.ts';
import { scoreChunks } from '../../src/engine/score-chunks.ts';
import { type PoolOptions, WorkerPool } from '../../src/engine/worker-pool.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import type { Manifest } from '../../src/model/package/manifest.ts';
import type { ModelPackage } from '../../src/model/package/model-package.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { inChunks } from '../support/blocks.ts';
import { CREDIT_COLUMNS, CREDIT_DEFAULT } from '../support/score.ts';
import { checkTest, testOfMany, times } from '../support/tiers.ts';

const REFERENCE = new URL('../support/reference-worker.ts', import.meta.url);
const RANKS = Array.from({ length: 41 }, (_, i) => i / 40);
const ROWS = times('drift rows', { quick: 4_000, check: 4_000, campaigns: 20_000 });

type Row = Record<string, string>;

const planted: PlantedFault[] = [];
/** Unseen categories in every column that has some; one with a line break is within the first rows of this seed. */
const CSV = Buffer.concat([
  ...generatePortfolio({ rows: ROWS, seed: 10, faults: ROWS / 20 }, (fault) => planted.push(fault)),
]);
const FAULTY = new Set(planted.map(({ row }) => row));
const RECORDS = parse(CSV, { columns: true, relax_column_count: true, relax_quotes: true }) as Row[];
/** Without the faults, and so in any format. */
const VALID = RECORDS.filter((_, i) => !FAULTY.has(i + 1));
const NDJSON = Buffer.from(VALID.map((row) => JSON.stringify(row)).join('\n'));

interface Counted {
  rows: number;
  cells: number[];
  quantiles: number[][];
}

const countedBy = (sum: DriftSum): Counted => ({
  rows: sum.rows,
  cells: [...sum.cells],
  quantiles: sum.sketches!.map((sketch) => sketch.quantiles(RANKS)),
});

const pools: WorkerPool[] = [];
afterAll(() => Promise.all(pools.map((pool) => pool.close())));

async function poolOf(model: ModelPackage, options: Partial<PoolOptions> = {}): Promise<WorkerPool> {
  const pool = await WorkerPool.start({ model, workers: 1, ...options });
  pools.push(pool);
  return pool;
}

async function count(
  pool: WorkerPool,
  model: ModelPackage,
  bytes = CSV,
  { json = false, blockBytes = 65_536, interpreted = false } = {},
): Promise<Counted> {
  const account = new RunAccount();
  const unit = account.unit();
  await scoreChunks({
    account: unit,
    model,
    pool,
    input: json ? { format: 'ndjson' } : { format: 'delimited', delimiter: ',' },
    chunks: inChunks(bytes, 65_536),
    blockBytes,
    output: { format: 'ndjson', delimiter: ',' },
    passthrough: [],
    interpretation: interpreted ? { effects: false, top: null, reasons: true, below: 0.05 } : null,
    write: async () => {},
  });
  unit.settle();
  return countedBy(account.drift.sum(model.ref, 'start')!.sum);
}

/** The package, with its manifest changed and a baseline to measure against. */
async function changed(folder: string, change: (manifest: Manifest) => void = () => {}): Promise<ModelPackage> {
  const model = await loadPackage(folder);
  const { baseline } = (await loadPackage(CREDIT_DEFAULT)).manifest;
  const manifest = structuredClone({ ...model.manifest, baseline: model.manifest.baseline ?? baseline! });
  change(manifest);
  return { ...model, manifest };
}

const columnOf = (manifest: Manifest, name: string) => manifest.columns.find((c) => c.name === name)!;

/** What the rows add up to for one who looks at each of them: cells of the columns, without those of the score. */
function lookedAt({ manifest }: ModelPackage): number[] {
  const plan = DriftPlan.of(manifest)!;
  const cells = new Array<number>(plan.cells).fill(0);
  cells[0] = VALID.length;
  for (const { name, binning, at, bins } of plan.columns) {
    if (name === null) continue;
    const { codes, values } = columnOf(manifest, name);
    const known = values ?? Object.keys(codes ?? {});
    for (const row of VALID) {
      const text = row[name]!;
      const binOf = (): number => {
        if (text === '') return bins;
        if (binning.by === 'edges') return binning.edges.filter((edge) => Math.fround(Number(text)) >= edge).length;
        if (binning.by === 'texts') return binning.bins.get(text) ?? binning.other ?? bins + 1;
        const code = known.length > 0 ? known.indexOf(text) : ['false', 'true'].indexOf(text);
        return code < 0 ? bins + 1 : binning.bins[code]!;
      };
      cells[at + binOf()]!++;
    }
  }
  return cells;
}

/** The cells of the columns: the score stands before them, decisions behind. */
const ofColumns = (cells: readonly number[], { manifest }: ModelPackage): number[] => {
  const { score, decisions } = DriftPlan.of(manifest)!;
  return [cells[0]!, ...cells.slice(score!.at + score!.bins + 2, decisions?.at)];
};

test('rows with and without faults, missing values and unseen categories of all sorts are among those counted', () => {
  expect(planted).toHaveLength(ROWS / 20);
  expect(VALID).toHaveLength(ROWS - planted.length);
  expect(VALID.some((row) => row.occupation_type!.includes('\n'))).toBe(true);
  expect(VALID.some((row) => row.partner_id === 'P9999')).toBe(true);
});

const MODELS: Record<string, () => Promise<ModelPackage>> = {
  'a matrix': () => changed(CREDIT_DEFAULT),
  'an input a column': () => changed(CREDIT_COLUMNS),
  'values that are the same number to the model': () =>
    changed(CREDIT_DEFAULT, (manifest) => {
      columnOf(manifest, 'income').missing = { values: [''], as: 'value', value: 20_000 };
      columnOf(manifest, 'term').missing = { values: [''], as: 'value', value: -1 };
      Object.assign(columnOf(manifest, 'source_type'), { unseen: 'missing' });
      Object.assign(columnOf(manifest, 'marital_status'), { unseen: 'value', unseen_value: 'MARRIED' });
      columnOf(manifest, 'occupation_type').missing = { values: [''], as: 'value', value: 'STUDENT' };
      columnOf(manifest, 'had_arrears').missing = { values: [''], as: 'value', value: 0 };
      columnOf(manifest, 'partner_id').codes!.P0001 = 1;
    }),
  'categories that the baseline counts together, or does not know': () =>
    changed(CREDIT_DEFAULT, (manifest) => {
      const { columns } = manifest.baseline!;
      columns.partner_id!.counts = { P0001: 5009, P0007: 2685, '(other)': 42_306 };
      columns.source_type!.counts = { AGENT: 7519, ONLINE: 20_060 };
      columns.remittance_type!.counts = { CARD: 22_431, GONE: 100 };
      delete columns.banned;
    }),
};

describe.each(Object.entries(MODELS).map(([name, open], i) => [name, open, testOfMany(i, 4)] as const))(
  '%s',
  (_, open, test) => {
    test('as one who looks at each row, in any batch, block, order of workers and format', async () => {
      const model = await open();
      const large = await poolOf(model);
      const wanted = await count(large, model);
      expect(ofColumns(wanted.cells, model)).toEqual(ofColumns(lookedAt(model), model));
      expect(wanted.rows).toBe(VALID.length);
      // Once more: the kernel is made after some rows.
      expect(await count(large, model)).toEqual(wanted);
      expect(await count(large, model, CSV, { blockBytes: 5000 })).toEqual(wanted);
      expect(await count(large, model, NDJSON, { json: true })).toEqual(wanted);
      const small = await poolOf(model, { workers: 2, batchRows: 7, inline: true });
      expect(await count(small, model, CSV, { blockBytes: 1000 })).toEqual(wanted);
      expect(await count(large, model, CSV, { interpreted: true })).toEqual(wanted);
      const reference = await poolOf(model, { entry: REFERENCE });
      expect(await count(reference, model)).toEqual(wanted);
    });
  },
);

test.each([
  ['a matrix', CREDIT_DEFAULT],
  ['an input a column', CREDIT_COLUMNS],
])('%s: decisions are counted as they are written, by the kernel and before there is one', async (_, folder) => {
  const model = await changed(folder, (manifest) => {
    // Two of one limit: the first is given. One that no float32 meets exactly. Nobody is below the last, some are.
    manifest.decisions = [
      { name: 'second', min_probability: 0.7 },
      { name: 'never', min_probability: 0.7 },
      { name: 'first', min_probability: 0.9000000001 },
      { name: 'third', min_probability: 0.3 },
    ];
  });
  const plan = DriftPlan.of(model.manifest)!;
  expect(plan.decisions!.limits.slice(1).map((limit) => limit >= 0.3 && Math.fround(limit) === limit)).not.toContain(
    false,
  );
  const pool = await poolOf(model);
  for (let again = 0; again < 2; again++) {
    const account = new RunAccount();
    const unit = account.unit();
    let text = '';
    await scoreChunks({
      account: unit,
      model,
      pool,
      input: { format: 'delimited', delimiter: ',' },
      chunks: inChunks(CSV, 65_536),
      output: { format: 'ndjson', delimiter: ',' },
      passthrough: [],
      write: async (bytes) => {
        text += Buffer.from(bytes).toString();
      },
    });
    unit.settle();
    const written = (decision: string): number => text.split(`"decision":"${decision}"`).length - 1;
    const { decisions, rows } = account.drift.report(model.ref, 'start')!;
    expect(decisions.map(({ decision }) => decision).slice(0, 4)).toEqual(['first', 'second', 'never', 'third']);
    for (const { decision, share } of decisions)
      expect([decision, Math.round(share * rows)]).toEqual([decision, written(decision)]);
    expect(written('first') * written('second') * written('third') * written('')).toBeGreaterThan(0);
  }
});

checkTest('sixteen shards, merged in any order, are one run', async () => {
  const model = await changed(CREDIT_DEFAULT);
  const pool = await poolOf(model);
  const [header, ...lines] = parse(CSV, { relax_column_count: true, relax_quotes: true, raw: true }).map(
    (record: unknown) => (record as { raw: string }).raw,
  ) as string[];
  expect(lines).toHaveLength(ROWS);
  const plan = DriftPlan.of(model.manifest)!;
  const sums: DriftSum[] = [];
  for (let shard = 0; shard < 16; shard++) {
    const own = lines.filter((_, i) => i % 16 === shard);
    const account = new RunAccount();
    const unit = account.unit();
    const bytes = Buffer.from(header + own.join(''), 'utf8');
    await scoreChunks({
      account: unit,
      model,
      pool,
      input: { format: 'delimited', delimiter: ',' },
      chunks: inChunks(bytes, 65_536),
      output: { format: 'ndjson', delimiter: ',' },
      passthrough: [],
      write: async () => {},
    });
    unit.settle();
    sums.push(account.drift.sum(model.ref, 'start')!.sum);
  }
  const whole = await count(pool, model, Buffer.from(header + lines.join(''), 'utf8'));
  for (const order of [sums, sums.toReversed(), sums.toSorted((a, b) => a.cells[20]! - b.cells[20]!)]) {
    const merged = new DriftSum(plan);
    for (const sum of order) merged.merge(sum);
    expect(countedBy(merged)).toEqual(whole);
  }
});

test('a package without a baseline measures nothing', async () => {
  const model = await changed(CREDIT_DEFAULT, (manifest) => {
    delete manifest.baseline;
  });
  const account = new RunAccount();
  const unit = account.unit();
  await scoreChunks({
    account: unit,
    model,
    pool: await poolOf(model),
    input: { format: 'delimited', delimiter: ',' },
    chunks: inChunks(CSV, 65_536),
    output: { format: 'ndjson', delimiter: ',' },
    passthrough: [],
    write: async () => {},
  });
  unit.settle();
  expect(account.drift.models()).toEqual([]);
});
