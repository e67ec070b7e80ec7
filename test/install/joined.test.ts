// The built program, whose modules are joined: it does what the sources do, and loads little for it.
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { build } from '../../tools/pack/build.ts';
import { scratch, sluice } from '../support/cli.ts';
import { cycle, graphOf } from '../support/import-graph.ts';
import { checkTest, TIER } from '../support/tiers.ts';

const run = promisify(execFile);
/** Beside node_modules, where the program finds its packages. */
const DIST = path.resolve('.cache', `joined-${process.pid}`);
/** Rows of an input that is scored by worker threads, not in passing. */
const FOR_WORKERS = 3000;

beforeAll(async () => {
  if (TIER !== 'quick') await build(process.cwd(), DIST);
});
afterAll(() => rmSync(DIST, { recursive: true, force: true }));

/** Without templates and the script of the console, which a browser runs. */
const programFiles = (): string[] =>
  readdirSync(DIST, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.js') && !file.startsWith('project') && !file.startsWith('doors'),
  );

checkTest('no part waits for one that waits for it, and all that they import is there', () => {
  const files = programFiles();
  expect(files).toEqual(expect.arrayContaining(['main.js', 'index.js', path.join('parts', 'score.js')]));
  const pairs = files.flatMap((file) => {
    const text = readFileSync(path.join(DIST, file), 'utf8');
    const said = text.matchAll(/^(?:import|export)\b[^;"]*?from "(\.[^"]+)"|^import "(\.[^"]+)"/gm);
    return [...said].map((m) => [file, path.join(path.dirname(file), (m[1] ?? m[2])!)] as const);
  });
  expect(pairs.length).toBeGreaterThan(files.length);
  expect(pairs.filter(([, to]) => !files.includes(to))).toEqual([]);
  expect(cycle(graphOf(pairs))).toBe(null);
});

checkTest('what is left of the single modules are their declarations', () => {
  expect(
    programFiles()
      .filter((file) => !file.startsWith('parts'))
      .sort(),
  ).toEqual([
    'engine/worker-entry.js',
    'index.js',
    'inference/evaluate/reference-entry.js',
    'inference/sandbox/probe-entry.js',
    'main.js',
    'model/package/model-yaml-entry.js',
    'onboarding/trial-entry.js',
    'wasm/print-wat.js',
  ]);
  expect(existsSync(path.join(DIST, 'runs', 'file-run.d.ts'))).toBe(true);
});

checkTest('it exports what the sources export', async () => {
  const [built, sources] = await Promise.all([
    import(pathToFileURL(path.join(DIST, 'index.js')).href),
    import('../../src/index.ts'),
  ]);
  expect(Object.keys(built).sort()).toEqual(Object.keys(sources).sort());
});

checkTest(
  'a run of a file loads a few files of the program, in both threads; its answers are those of the sources',
  async () => {
    const folder = scratch();
    const input = path.join(folder, 'in.csv');
    writeFileSync(input, Buffer.concat([...generatePortfolio({ rows: FOR_WORKERS, seed: 23, faults: 3 })]));
    const hook = path.join(folder, 'loads.mjs');
    writeFileSync(
      hook,
      `import { registerHooks } from 'node:module';
import { appendFileSync } from 'node:fs';
registerHooks({ load(url, of, next) {
  if (url.startsWith(${JSON.stringify(pathToFileURL(DIST).href)})) appendFileSync(process.env.LOADED, url.slice(${pathToFileURL(DIST).href.length + 1}) + '\\n');
  return next(url, of);
} });`,
    );
    const args = (out: string) => ['score', input, '-m', 'credit-default', '-o', path.join(folder, out), '--evaluator', 'native', '--no-manifest']; // biome-ignore format: one line
    const first = await sluice(args('sources.ndjson'));
    const env = { ...process.env, LOADED: path.join(folder, 'loaded'), NODE_OPTIONS: `--import=${hook}` };
    const built = () =>
      run(process.execPath, [path.join(DIST, 'main.js'), ...args('built.ndjson')], { env }).catch((error) => error);
    // The first time it finds out what is kept for the second time.
    await built();
    rmSync(env.LOADED);
    const said = await built();
    expect([said.code, first.code]).toEqual([3, 3]);
    const [joined, single] = ['built', 'sources'].map((name) => readFileSync(path.join(folder, `${name}.ndjson`)));
    expect(joined!.equals(single!)).toBe(true);
    const loaded = readFileSync(env.LOADED, 'utf8').trimEnd().split('\n');
    expect(loaded).toEqual(expect.arrayContaining(['parts/score.js', 'engine/worker-entry.js']));
    expect(loaded.length, loaded.join()).toBeLessThan(30);
  },
);
