// What `npx sluice` starts: in a checkout right after `npm ci`, in a packed package, and by a Node that is too old.
import { execFile, spawn } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { VERSION } from '../../../src/core/version.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { scratch } from '../../support/cli.ts';
import { checkTest } from '../../support/tiers.ts';

const run = promisify(execFile);
/** What `import`s make Node say it is an old one: the launcher looks at nothing else. */
const AS_OLD_NODE = `--import=data:text/javascript,${encodeURIComponent(
  'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.1.0" } })',
)}`;

/** A folder with the launcher and nothing else of the repository. */
function withLauncher(): string {
  const folder = scratch();
  for (const name of ['bin', 'package.json']) cpSync(name, path.join(folder, name), { recursive: true });
  return folder;
}

function checkout(): string {
  const folder = withLauncher();
  cpSync('src', path.join(folder, 'src'), { recursive: true });
  symlinkSync(path.resolve('node_modules'), path.join(folder, 'node_modules'));
  return folder;
}

checkTest('npx in a fresh checkout, which nobody has built; an old build beside it is not asked', async () => {
  const cwd = checkout();
  expect((await run('npx', ['sluice', '--version'], { cwd })).stdout).toBe(`${VERSION}\n`);
  mkdirSync(path.join(cwd, 'dist'));
  writeFileSync(path.join(cwd, 'dist', 'main.js'), 'console.log("an old build");\n');
  writeFileSync(path.join(cwd, 'p.csv'), Buffer.concat([...generatePortfolio({ rows: 20, seed: 8, dirty: false })]));
  await run('npx', ['sluice', 'score', 'p.csv', '-m', 'credit-default', '-o', 'scored.csv'], { cwd });
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

test('a Node that is too old and no other: said in words', async () => {
  const folder = withLauncher();
  mkdirSync(path.join(folder, 'dist'));
  writeFileSync(path.join(folder, 'dist', 'main.js'), '');
  const child = spawn(process.execPath, [AS_OLD_NODE, path.join(folder, 'bin/sluice.js'), '--version']);
  const code = new Promise((resolve) => child.once('exit', resolve));
  expect(await text(child.stderr)).toMatch(/^sluice: Node 24 or newer is needed, and this is v.*\n {2}in a checkout/);
  expect(await code).toBe(1);
});
