// A run in shards whose processes share nothing but a folder: whatever their order, and whoever is killed, it is one run.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { momentOf } from '../../src/core/time-of-day.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { MAIN, scratch, sluiceHere } from '../support/cli.ts';
import { checkTest, times } from '../support/tiers.ts';

const ROUNDS = times('shard kills', { quick: 1, check: 1, campaigns: 40 });
const MODEL = ['-m', 'credit-default', '--workers', '1', '--quiet', '--passthrough', 'application_id'];

/** Two inputs and what one run makes of them. */
async function night(rows = 3000) {
  const folder = scratch();
  for (const name of ['in', 'one', 'out']) mkdirSync(path.join(folder, name));
  for (const [name, of] of [
    ['a', rows],
    ['b', rows / 10],
  ] as const) {
    const text = Buffer.concat([...generatePortfolio({ rows: of, seed: of, faults: of / 100, ids: true })]);
    writeFileSync(path.join(folder, 'in', `${name}.csv`), text);
  }
  const one = await sluiceHere(['score', 'in/*.csv', ...MODEL, '-o', 'one/{name}.csv'], { cwd: folder });
  expect(one.code, one.stderr).toBe(3);
  const args = (shards: number, more: string[] = []) => [
    ...['shards', 'in/*.csv', '--shards', String(shards), '--work', 'work', ...MODEL, '-o', 'out/{name}.csv'],
    ...more,
  ];
  const shard = (index: number, shards: number, more: readonly string[] = []) =>
    sluiceHere(args(shards, ['--shard', String(index), ...more]), { cwd: folder });
  const asOne = () => {
    for (const name of ['a.csv', 'a.csv.rejects.csv', 'b.csv', 'b.csv.rejects.csv']) {
      expect(
        readFileSync(path.join(folder, 'out', name)).equals(readFileSync(path.join(folder, 'one', name))),
        name,
      ).toBe(true);
    }
  };
  return { folder, args, shard, asOne };
}

test('one after the other: the last merges, parts are gone, and whoever comes again has nothing to do', async () => {
  const { folder, shard, asOne } = await night();
  for (const index of [0, 2, 1]) {
    expect(existsSync(path.join(folder, 'out/a.csv'))).toBe(false);
    const { code, stderr } = await shard(index, 3);
    expect([0, 3], stderr).toContain(code);
  }
  asOne();
  expect(readdirSync(path.join(folder, 'work/parts'))).toEqual([]);
  expect(readdirSync(path.join(folder, 'work')).sort()).toEqual([
    'merge.json',
    'merged.json',
    'parts',
    'plan.json',
    'run.json',
  ]);
  const verified = await sluiceHere(['verify', 'out/a.csv', '--input', 'in/a.csv'], { cwd: folder });
  expect(verified.code, verified.stderr).toBe(0);
  const again = await shard(1, 3);
  expect([again.code, again.stdout], again.stderr).toEqual([0, '']);
});

checkTest(
  'the folder of another run is refused, whatever is other; a part that is there is not scored again',
  async () => {
    const { folder, shard, args } = await night(300);
    expect((await shard(0, 2, ['--keep-parts'])).code).toBe(3);
    const part = path.join(folder, 'work/parts/a.0.csv');
    const made = readFileSync(part);
    utimesSync(part, 1, 1);
    expect((await shard(0, 2)).code).toBe(0);
    expect(statSync(part).mtimeMs).toBe(1000);
    expect(readFileSync(part).equals(made)).toBe(true);
    const refused = async (words: string[], says: string) => {
      const { code, stderr } = await sluiceHere(words, { cwd: folder });
      expect([code, stderr]).toEqual([2, expect.stringContaining(says)]);
    };
    await refused(args(3, ['--shard', '1']), 'another number of shards');
    await refused([...args(2, ['--shard', '1']), '-m', 'credit-default:1'], 'another model');
    await refused(args(2, ['--shard', '2']), 'shards are numbered 0 to 1');
    await refused([...args(2, ['--shard', '1']), '-o', 'out/{name}.parquet'], 'csv, tsv or ndjson');
    utimesSync(path.join(folder, 'in/b.csv'), 7, 7);
    await refused(args(2, ['--shard', '1']), 'another inputs');
    expect(existsSync(path.join(folder, 'out/a.csv'))).toBe(false);
  },
);

const OTHER_OPTIONS: readonly (readonly [flag: string, ...value: string[]])[] = [
  ['--interpretation'],
  ['--passthrough', '*'],
  ['--top', '3'],
  ['--interactions', '2'],
  ['--interpret-below', '0.5'],
  ['--max-evaluations', '99'],
  ['--evaluator', 'onnxruntime'],
  ['--max-columns', '99'],
  ['--input-format', 'csv'],
  ['--input-compression', 'none'],
  ['--delimiter', 'semicolon'],
  ['--max-row-bytes', '999999'],
  ['--block-bytes', '99999'],
  ['-o', 'out/{name}.ndjson'],
];

test('results of other options are never merged', async () => {
  const { folder, shard } = await night(100);
  for (const index of [0, 1]) await shard(index, 2, ['--max-rejects', '0']);
  for (const flags of OTHER_OPTIONS) {
    const differs = flags[0] === '-o' ? 'output format' : flags[0];
    const { code, stderr } = await shard(1, 2, flags);
    expect([code, stderr], differs).toEqual([2, expect.stringContaining(`another ${differs}:`)]);
  }
  expect(readdirSync(path.join(folder, 'out'))).toEqual([]);
});

test('a shard that starts after the deadline of its run is late, instead of a day early', async () => {
  const { folder, shard } = await night(300);
  const runFile = path.join(folder, 'work/run.json');
  const slack = async (index: number, ...more: string[]) => {
    const metrics = path.join(folder, `${index}.prom`);
    const { code, stderr } = await shard(index, 3, ['--metrics-file', metrics, ...more]);
    expect([0, 3], stderr).toContain(code);
    return Number(/^sluice_run_deadline_slack_seconds\S* (\S+)$/m.exec(readFileSync(metrics, 'utf8'))![1]);
  };
  expect(await slack(0, '--deadline', '06:00')).toBeGreaterThan(0);
  const run = JSON.parse(readFileSync(runFile, 'utf8'));
  expect(Date.parse(run.deadline.at)).toBe(momentOf('06:00', Date.parse(run.deadline.at) - 1));
  // As if the run had started yesterday.
  run.deadline.at = '2020-01-01T06:00:00Z';
  writeFileSync(runFile, JSON.stringify(run));
  expect(await slack(1, '--deadline', '06:00')).toBeLessThan(-86_400);
  expect(await slack(2, '--deadline', '2100-01-01T06:00')).toBeGreaterThan(86_400);
});

test('a merged run is not reported as done for another output', async () => {
  const { shard } = await night(100);
  for (const index of [0, 1]) expect((await shard(index, 2)).code).toBe(3);
  expect((await shard(1, 2)).code).toBe(0);
  const { code, stderr } = await shard(1, 2, ['-o', 'other/{name}.csv']);
  expect([code, stderr]).toEqual([2, expect.stringContaining('merged into out/{name}.csv')]);
});

test('without the first shard there is no plan, and waiting for it ends', async () => {
  const { shard } = await night(100);
  const { code, stderr } = await shard(1, 2, ['--plan-wait', '0']);
  expect([code, stderr]).toEqual([1, expect.stringContaining('the process of shard 0 creates it')]);
});

test('a gate that stops lets nothing out, and the same shard may try again', async () => {
  const { folder, shard, asOne } = await night(600);
  expect((await shard(0, 2)).code).toBe(3);
  expect((await shard(1, 2, ['--max-rejects', '0'])).code).toBe(4);
  expect(readdirSync(path.join(folder, 'out'))).toEqual([]);
  // Whoever is not the one that merges leaves it alone.
  expect((await shard(0, 2)).code).toBe(0);
  expect(readdirSync(path.join(folder, 'out'))).toEqual([]);
  expect((await shard(1, 2)).code).toBe(3);
  asOne();
});

test(`all at once, ${ROUNDS} rounds of kills: each is started again until it ends, and it is one run`, async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const { folder, args, asOne } = await night(6000);
    const shards = 3;
    let kills = 2 * shards;
    const untilDone = async (index: number): Promise<void> => {
      for (;;) {
        const child = spawn(process.execPath, [MAIN, ...args(shards, ['--shard', String(index)])], {
          cwd: folder,
          stdio: 'ignore',
        });
        const ended = once(child, 'exit');
        if (kills-- > 0) inTime(child, 300 + Math.random() * 900);
        const [code] = await ended;
        if (code === 0 || code === 3) return;
        expect(code, 'nothing but a kill ends it').toBe(null);
      }
    };
    const inTime = async (child: { kill(signal: 'SIGKILL'): boolean }, ms: number) => {
      // Varies the moment of the kill.
      await sleep(ms);
      child.kill('SIGKILL');
    };
    await Promise.all(Array.from({ length: shards }, (_, index) => untilDone(index)));
    asOne();
  }
});
