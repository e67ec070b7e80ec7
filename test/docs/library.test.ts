// The public interface as others install it: built, with its declarations, and the example of its page run as it stands there.
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { openModel, type ScoredStream, type ScoreStreamOptions, scoreStream } from '../../src/index.ts';
import { inChunks } from '../support/blocks.ts';
import { scratch } from '../support/cli.ts';
import { scoreText } from '../support/score.ts';
import { campaignTest, checkTest } from '../support/tiers.ts';

const run = promisify(execFile);
const portfolio = (rows: number, faults = 0): Buffer =>
  Buffer.concat([...generatePortfolio({ rows, seed: 31, faults, ids: true })]);
const EXAMPLE = [...readFileSync('docs/library.md', 'utf8').matchAll(/```ts\n([\s\S]*?)```/g)][0]![1]!;

/** A project that has the built package among its modules. */
async function project(): Promise<string> {
  const folder = scratch();
  const installed = path.join(folder, 'node_modules', 'sluice');
  mkdirSync(installed, { recursive: true });
  await run(process.execPath, ['tools/pack/build.ts', path.join(installed, 'dist')]);
  writeFileSync(path.join(installed, 'package.json'), readFileSync('package.json'));
  symlinkSync(path.resolve('node_modules'), path.join(installed, 'node_modules'));
  symlinkSync(path.resolve('node_modules/@types'), path.join(folder, 'node_modules', '@types'));
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }');
  writeFileSync(path.join(folder, 'example.ts'), EXAMPLE);
  return folder;
}

/** Runs the example in a folder with its imports; compares its output and the files it writes. */
async function runExample(folder: string): Promise<void> {
  const text = portfolio(3000, 4);
  writeFileSync(path.join(folder, 'portfolio.csv'), text);
  const { stdout } = await run(process.execPath, ['example.ts'], { cwd: folder });
  expect(stdout).toBe('credit-default:1: 3000 rows = 2996 scored + 4 rejected\n');
  const { output } = await scoreText(text, { output: { format: 'ndjson', delimiter: ',' }, passthrough: ['application_id'] }); // biome-ignore format: one line
  expect(readFileSync(path.join(folder, 'scored.ndjson'), 'utf8')).toBe(output);
}

checkTest('the example does what it says', async () => {
  const folder = scratch();
  expect(EXAMPLE).toContain("from 'sluice'");
  writeFileSync(path.join(folder, 'example.ts'), EXAMPLE.replace("'sluice'", `'${path.resolve('src/index.ts')}'`));
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }');
  await runExample(folder);
});

campaignTest('the example compiles against the declarations of a built package and does what it says', async () => {
  const folder = await project();
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', '--lib', 'es2024,esnext.disposable', '--types', 'node', 'example.ts']; // biome-ignore format: one line
  const tsc = path.resolve('node_modules/typescript/bin/tsc');
  await run(process.execPath, [tsc, ...options], { cwd: folder }).catch((e: { stdout: string }) =>
    expect.fail(e.stdout),
  );
  await runExample(folder);
});

let model: Awaited<ReturnType<typeof openModel>>;
beforeAll(async () => {
  model = await openModel('credit-default', { workers: 1 });
  return () => model.close();
});

const all = async (stream: ScoredStream): Promise<string> => {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
};
const csv = (bytes: Buffer, options: Partial<ScoreStreamOptions> = {}) =>
  scoreStream(model, inChunks(bytes, 1000), { format: 'csv', passthrough: '*', ...options });

test('streams at the same time have each their own predictions and counts', async () => {
  const inputs = [500, 900, 1300].map((rows) => portfolio(rows, 2));
  const streams = inputs.map((bytes) => csv(bytes));
  const outputs = await Promise.all(streams.map(all));
  for (const [i, bytes] of inputs.entries()) {
    expect(outputs[i]).toBe((await scoreText(bytes, { passthrough: '*' })).output);
    expect(await streams[i]!.counts).toMatchObject({ rejected: 2, interpreted: 0 });
  }
});

test('nothing is read ahead of a reader that waits, and a break ends the source', async () => {
  let given = 0;
  let closed = false;
  const endless = (async function* () {
    try {
      const [header, ...rows] = portfolio(1000).toString().split('\n');
      yield Buffer.from(`${header}\n`);
      for (;;) {
        given++;
        yield Buffer.from(rows.slice(0, 1000).join('\n'));
        yield Buffer.from('\n');
      }
    } finally {
      closed = true;
    }
  })();
  const stream = scoreStream(model, endless, { format: 'csv', passthrough: ['application_id'] });
  let taken = 0;
  for await (const chunk of stream) {
    taken += chunk.length;
    if (taken > 2_000_000) break;
  }
  expect(closed).toBe(true);
  await expect(stream.counts).rejects.toMatchObject({ code: 'cancelled' });
  // What was read is what was taken and the blocks in the making, not what there is.
  expect(given).toBeLessThan(200);
});

test.each([
  ['a header that does not fit', 'a,b\n1,2\n', {}, 'header_mismatch'],
  [
    'an invalid row where they end the stream',
    portfolio(50, 1).toString(),
    { onInvalid: 'fail' as const },
    'invalid_row',
  ],
  ['a signal', portfolio(50).toString(), { signal: AbortSignal.abort() }, 'cancelled'],
])('%s is thrown where it is iterated, with its code', async (_, text, options, code) => {
  const stream = csv(Buffer.from(text), options);
  await expect(all(stream)).rejects.toMatchObject({ name: 'SluiceError', code });
  await expect(stream.counts).rejects.toMatchObject({ code });
});

test('what the source throws is thrown', async () => {
  const broken = (async function* () {
    yield portfolio(20).subarray(0, 300);
    throw new Error('the disk is gone');
  })();
  await expect(all(scoreStream(model, broken, { format: 'csv', passthrough: '*' }))).rejects.toThrow(
    'the disk is gone',
  );
});

test.each([
  [{ workers: 0 }, 'workers'],
  [{ workers: 1.5 }, 'workers'],
  [{ wokers: 1 }, 'unknown key wokers'],
  [{ evaluator: 'fast' }, 'evaluator'],
])('openModel rejects %j', async (options, named) => {
  const opened = openModel('credit-default', options as never);
  await expect(opened).rejects.toMatchObject({ code: 'usage', message: expect.stringContaining(named) });
});

test.each([
  [{ format: 'xml' }, 'format'],
  [{ output: 'parquet' }, 'output'],
  [{ delimiter: ';' }, 'delimiter'],
  [{ passthrough: 'application_id' }, 'passthrough'],
  [{ interpretation: 'all' }, 'interpretation'],
  [{ interpretation: 'effects', interactions: 0 }, 'interactions'],
  [{ onInvalid: 'skip' }, 'onInvalid'],
  [{ maxRowBytes: -1 }, 'maxRowBytes'],
  [{ passThrough: '*' }, 'unknown key passThrough (did'],
])('scoreStream rejects %j', async (options, named) => {
  const scored = all(csv(portfolio(3), options as never));
  await expect(scored).rejects.toMatchObject({ code: 'usage', message: expect.stringContaining(named) });
});

test('options that are undefined count as absent', async () => {
  expect(await all(csv(portfolio(3), { delimiter: undefined as never, signal: undefined as never }))).toMatch(
    /^application_id,/,
  );
});
