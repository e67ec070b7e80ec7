// What `npx sluice` starts: in a checkout right after `npm ci`, in a packed package, and by a Node that is too old.
import { execFile, spawn } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { zstdCompressSync } from 'node:zlib';
import { parse } from 'acorn';
import { expect, onTestFinished, test } from 'vitest';
import { OLDEST_NODE, VERSION } from '../../../src/core/version.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { isSource } from '../../support/bundled-models.ts';
import { scratch } from '../../support/cli.ts';
import { checkTest } from '../../support/tiers.ts';

const run = promisify(execFile);
/** What `import`s make Node say it is an old one: the launcher looks at nothing else. */
const asNode = (version: string) =>
  preload(`Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } })`);
const preload = (code: string) => `--import=data:text/javascript,${encodeURIComponent(code)}`;
const AS_OLD_NODE = asNode('20.1.0');
const WITHOUT_ZSTD = preload(
  'import z from "node:zlib"; for (const n of Object.keys(z)) if (/zstd/i.test(n)) delete z[n]',
);

/** A folder with the launcher and nothing else of the repository. */
function withLauncher(): string {
  const folder = scratch();
  for (const name of ['bin', 'package.json']) cpSync(name, path.join(folder, name), { recursive: true });
  return folder;
}

function checkout(): string {
  const folder = withLauncher();
  cpSync('src', path.join(folder, 'src'), { recursive: true, filter: isSource });
  symlinkSync(path.resolve('node_modules'), path.join(folder, 'node_modules'));
  return folder;
}

checkTest('npx in a fresh checkout, which nobody has built; an old build beside it is not asked', async () => {
  const cwd = checkout();
  expect((await run('npx', ['sluice', '--version'], { cwd })).stdout).toBe(`${VERSION}\n`);
  mkdirSync(path.join(cwd, 'dist'));
  writeFileSync(path.join(cwd, 'dist', 'main.js'), 'console.log("an old build");\n');
  writeFileSync(path.join(cwd, 'p.csv'), Buffer.concat([...generatePortfolio({ rows: 20, seed: 8, oddness: 'none' })]));
  await run(process.execPath, ['bin/sluice.js', 'score', 'p.csv', '-m', 'credit-default', '-o', 'scored.csv'], { cwd });
  expect(readFileSync(path.join(cwd, 'scored.csv'), 'utf8').trimEnd().split('\n')).toHaveLength(21);
});

test('a packed package has only its build', async () => {
  const folder = withLauncher();
  const launch = () => run(process.execPath, [path.join(folder, 'bin/sluice.js'), 'a', '--b']);
  await expect(launch()).rejects.toMatchObject({ code: 1, stderr: /neither src\/main\.ts nor dist\/main\.js/ });
  mkdirSync(path.join(folder, 'dist'));
  writeFileSync(path.join(folder, 'dist', 'main.js'), 'console.log(JSON.stringify(process.argv.slice(2)));\n');
  expect((await launch()).stdout).toBe('["a","--b"]\n');
});

test('a Node that is too old hands over to the installed one: exit code, streams and signals', async () => {
  const cwd = checkout();
  const launcher = [AS_OLD_NODE, path.join(cwd, 'bin/sluice.js')];
  expect((await run(process.execPath, [...launcher, '--version'])).stdout).toBe(`${VERSION}\n`);
  await expect(run(process.execPath, [...launcher, 'score'])).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining('sluice score --help'),
  });
  const serving = spawn(process.execPath, [...launcher, 'serve', '--dev', '--port', '0'], { cwd });
  onTestFinished(() => void serving.kill('SIGKILL'));
  const exit = new Promise((resolve) => serving.once('exit', (code, signal) => resolve({ code, signal })));
  let words = '';
  for await (const chunk of serving.stderr) {
    words += chunk;
    if (words.includes('key of this run')) break;
  }
  serving.kill('SIGTERM');
  expect(await exit).toEqual({ code: 0, signal: null });
});

test('the launcher is JavaScript that Node 6 parses, and asks for no module by a name that older ones do not know', () => {
  const source = readFileSync('bin/sluice.js', 'utf8');
  expect(() => parse(source, { ecmaVersion: 2015, sourceType: 'script', allowHashBang: true })).not.toThrow();
  expect(source.match(/require\('[^']+'\)/g)).toEqual(
    ['child_process', 'fs', 'path', 'tty', 'module', './start.js'].map((name) => `require('${name}')`),
  );
  expect(source).toContain(`built: [${OLDEST_NODE.split('.').slice(0, 2).join(', ')}]`);
  expect(JSON.parse(readFileSync('package.json', 'utf8')).scripts.prepack).toContain(`engines.node=>=${OLDEST_NODE}`);
});

test.each([
  ['22.11.0', /^sluice: Node 22\.12 or newer is needed, and this is v[\d.]+: install one from [^\n]*\n$/],
  ['18.0.0', /^sluice: Node 22\.12 or newer is needed, and this is v[\d.]+: install one from [^\n]*\n$/],
])('Node %s that is too old for a package, and no other: said in one sentence', async (version, sentence) => {
  const folder = withLauncher();
  mkdirSync(path.join(folder, 'dist'));
  writeFileSync(path.join(folder, 'dist', 'main.js'), '');
  const child = spawn(process.execPath, [asNode(version), path.join(folder, 'bin/sluice.js'), '--version']);
  const code = new Promise((resolve) => child.once('exit', resolve));
  expect(await text(child.stderr)).toMatch(sentence);
  expect(await code).toBe(1);
});

test('a Node without zstd scores, and says so where zstd is asked for', async () => {
  const folder = scratch();
  const [input, packed] = ['p.csv', 'p.csv.zst'].map((name) => path.join(folder, name)) as [string, string];
  const rows = Buffer.concat([...generatePortfolio({ rows: 20, seed: 8, oddness: 'none' })]);
  writeFileSync(input, rows);
  writeFileSync(packed, zstdCompressSync(rows));
  const score = (from: string, to: string) =>
    run(process.execPath, [
      WITHOUT_ZSTD,
      'src/main.ts',
      'score',
      from,
      '-m',
      'credit-default',
      '-o',
      path.join(folder, to),
    ]);
  await score(input, 'scored.csv');
  for (const [from, to] of [
    [input, 'packed.csv.zst'],
    [packed, 'unpacked.csv'],
  ] as const) {
    await expect(score(from, to)).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/zstd needs Node 22\.15 or newer, and this is v[\d.]+: use gzip \[usage\]/),
    });
  }
  expect(readdirSync(folder).sort()).toEqual(['p.csv', 'p.csv.zst', 'scored.csv', 'scored.csv.manifest.json']);
});
