// `npm run pack:offline`: one tarball with everything that runs on one platform, for machines that reach no registry. What is in
// it is what package-lock.json names; it is installed by `npm install -g` alone, which finds nothing left to fetch or to run.
//
//   npm run pack:offline -- [--platform linux-x64] [--into FOLDER]
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { OLDEST_NODE } from '../../src/core/version.ts';
import { type Platform, platformOf, slimModules } from './slim-modules.ts';

const ROOT = path.resolve(import.meta.dirname, '..', '..');
/** What `npm ci` reads. */
const LOCKED = ['package.json', 'package-lock.json', '.npmrc', 'tools/no-download'];
const SHIPPED = ['bin', 'dist', 'README.md', 'LICENSE'];

interface OwnManifest {
  name: string;
  version: string;
  dependencies: Record<string, string>;
  [field: string]: unknown;
}

/** Fields that belong to a checkout. */
const OF_A_CHECKOUT = ['scripts', 'devDependencies', 'allowScripts'];

/** `root`: the checkout, whose `dist` has to be there. @returns the tarball. @throws Error of npm, which has told why */
export function packOffline(root: string, of: Platform, into: string): string {
  const work = mkdtempSync(path.join(tmpdir(), 'sluice-pack-'));
  try {
    for (const file of LOCKED) cpSync(path.join(root, file), path.join(work, file), { recursive: true });
    const [os, cpu] = of.split('-') as [string, string];
    const platform = [`--os=${os}`, `--cpu=${cpu}`, ...(os === 'linux' ? ['--libc=glibc'] : [])];
    npm(work, ['ci', '--omit=dev', '--ignore-scripts', '--prefer-offline', '--loglevel=error', ...platform]);
    slimModules(path.join(work, 'node_modules'), of);
    for (const file of SHIPPED) cpSync(path.join(root, file), path.join(work, file), { recursive: true });
    const manifest = JSON.parse(readFileSync(path.join(work, 'package.json'), 'utf8')) as OwnManifest;
    for (const field of OF_A_CHECKOUT) delete manifest[field];
    const whole = {
      ...manifest,
      engines: { node: `>=${OLDEST_NODE}` },
      os: [os],
      cpu: [cpu],
      ...(os === 'linux' ? { libc: ['glibc'] } : {}),
      bundleDependencies: Object.keys(manifest.dependencies),
    };
    writeFileSync(path.join(work, 'package.json'), `${JSON.stringify(whole, null, 2)}\n`);
    npm(work, ['pack', '--ignore-scripts', '--loglevel=error']);
    mkdirSync(into, { recursive: true });
    const tarball = path.join(into, `${manifest.name}-${manifest.version}-${of}.tgz`);
    cpSync(path.join(work, `${manifest.name}-${manifest.version}.tgz`), tarball);
    return tarball;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function npm(cwd: string, args: readonly string[]): void {
  // Settings of the npm that started this one would be taken for its own.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^npm_(?!config_(?:cache|registry|userconfig)$)/i.test(name)),
  );
  execFileSync('npm', args, { cwd, env, stdio: ['ignore', 'ignore', 'inherit'], shell: process.platform === 'win32' });
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { platform: { type: 'string' }, into: { type: 'string', default: '.' } } });
  const tarball = packOffline(ROOT, platformOf(values.platform), values.into);
  process.stdout.write(`${tarball}, ${(statSync(tarball).size / 1e6).toFixed(1)} MB\n`);
}
