// Options of a file run that change no prediction, crossed with everything that does, and runs of several inputs.
//
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { scoreStream } from '../../src/index.ts';
import fc from '../support/seeded-fast-check.ts';
import { SEED, times } from '../support/tiers.ts';
import { combinations, MODELS, type ModelName } from './combinations.ts';
import { folderOf, World } from './entries.ts';
import { OracleModel } from './oracle.ts';
import { allowed, runOptionDifferences, runOptions } from './run-options.ts';

const COUNT = times('crossings', { quick: 300, check: 500, campaigns: 200_000 });
const RUNS = Math.max(15, Math.round(COUNT * 0.08));

const models = new Map<string, OracleModel>();
const effects = new Map<string, string>();
let folder: string;

beforeAll(async () => {
  for (const name of Object.keys(MODELS) as ModelName[]) {
    models.set(name, await OracleModel.open(path.join(folderOf(name), name, '1')));
  }
  folder = mkdtempSync(path.join(tmpdir(), 'sluice-run-options-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('options of a run', async () => {
  if (COUNT > 10_000) console.log(`${RUNS} combinations of run options, seed ${SEED}`);
  const cases = combinations({ entries: ['command'], models: ['trees', 'classes', 'value'] });
  await fc.assert(
    fc.asyncProperty(cases, runOptions(), async (c, o) => {
      const run = path.join(folder, 'run');
      rmSync(run, { recursive: true, force: true });
      mkdirSync(run);
      const found = await runOptionDifferences(c, o, { folder: run, models, effects });
      expect(
        found,
        `seed ${SEED}\n${found.join('\n')}\n${JSON.stringify(allowed(c, o))}\n${JSON.stringify(c)}`,
      ).toEqual([]);
    }),
    { numRuns: RUNS, seed: SEED, interruptAfterTimeLimit: 3_600_000 },
  );
});

test('an application is rejected from one byte beyond maxRowBytes on, however the input is cut', async () => {
  const world = new World(folder);
  const model = await world.model('trees');
  const header = 'amount,term,banned,product,region,id';
  const records = {
    csv: (id: string) => `100,12,true,0230,1,${id}`,
    ndjson: (id: string) => JSON.stringify({ amount: 100, term: 12, banned: true, product: '0230', region: '1', id }),
  };
  const cases = fc.record({
    format: fc.constantFrom('csv' as const, 'ndjson' as const),
    sizes: fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 2, maxLength: 8 }),
    end: fc.constantFrom('\n', '\r\n'),
    /** The limit is the length of the first record and so many bytes. */
    beyond: fc.integer({ min: -1, max: 2 }),
    step: fc.constantFrom(1, 7, 100_000),
    quoted: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(cases, async ({ format, sizes, end, beyond, step, quoted }) => {
      const ids = sizes.map((size) => 'ü'.repeat(size));
      const texts = ids.map((id) => records[format](format === 'csv' && quoted ? `"${id}"` : id));
      const lengths = texts.map((text) => Buffer.byteLength(text));
      const maxRowBytes = Math.max(header.length, lengths[0]! + beyond);
      const lines = format === 'csv' ? [header, ...texts] : texts;
      const bytes = Buffer.from(lines.join(end) + end);
      const pieces = (async function* () {
        for (let at = 0; at < bytes.length; at += step) yield bytes.subarray(at, at + step);
      })();
      let output = '';
      const stream = scoreStream(model, pieces, { format, output: 'ndjson', passthrough: ['id'], maxRowBytes });
      for await (const chunk of stream) output += Buffer.from(chunk).toString();
      const found = output.trimEnd().split('\n').map((line) => JSON.parse(line)); // biome-ignore format: one line
      const wanted = lengths.map((length) => (length > maxRowBytes ? 'record_too_long' : 'scored'));
      expect(found.map(({ error }) => error?.code ?? 'scored')).toEqual(wanted);
      expect(found.map(({ error, id }) => (error ? null : id))).toEqual(
        ids.map((id, i) => (lengths[i]! > maxRowBytes ? null : id)),
      );
    }),
    { numRuns: Math.max(50, Math.min(5_000, RUNS)), seed: SEED },
  );
  await world.close();
});
