// `npm install -g` of what is packed: what is in it, and that it scores and serves where there is neither a checkout nor a network.
import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { OLDEST_NODE } from '../../src/core/version.ts';
import { packOffline } from '../../tools/pack/offline.ts';
import { platformOf } from '../../tools/pack/slim-modules.ts';
import { scratch } from '../support/cli.ts';
import { campaignTest, TIER } from '../support/tiers.ts';
import { builtCheckout, installWithoutNetwork, pathWith, runInstalled, scoreAndServe, visitor } from './packed.ts';

const run = promisify(execFile);
const MB = 1e6;

let root = '';
beforeAll(async () => {
  if (TIER === 'campaigns') root = await builtCheckout();
});
afterAll(() => root !== '' && rmSync(root, { recursive: true, force: true }));

/** Bytes on the disk, links not followed. */
function bytesOnDisk(folder: string): number {
  let bytes = 0;
  for (const file of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (file.isFile()) bytes += statSync(path.join(file.parentPath, file.name)).blocks * 512;
  }
  return bytes;
}

const manifestOf = (folder: string) => JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));

/** Folders of all packages below, also of those inside others. */
function packagesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((f) => f.name === 'package.json' && /node_modules\/(?:@[^/]+\/)?[^/]+$/.test(f.parentPath))
    .map((f) => f.parentPath);
}

/** Compiles a program that imports the unpacked package, and checks the declarations of the package as well. */
async function compileConsumer(into: string): Promise<void> {
  const consumer = path.join(into, 'consumer');
  const modules = path.join(consumer, 'node_modules');
  mkdirSync(modules, { recursive: true });
  symlinkSync(path.join(into, 'package'), path.join(modules, 'sluice'));
  for (const name of ['@types', 'undici-types', 'typebox'])
    for (const place of [modules, path.join(into, 'node_modules')]) {
      mkdirSync(place, { recursive: true });
      symlinkSync(path.resolve('node_modules', name), path.join(place, name));
    }
  writeFileSync(path.join(consumer, 'package.json'), '{"type": "module"}');
  writeFileSync(
    path.join(consumer, 'use.ts'),
    "import { openModel } from 'sluice';\nawait using model = await openModel('credit');\nconsole.log(model.ref);\n",
  );
  const compilerOptions = { module: 'nodenext', target: 'es2024', strict: true, noEmit: true, skipLibCheck: false, types: ['node'] }; // biome-ignore format: a list
  writeFileSync(path.join(consumer, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['use.ts'] }));
  await run(path.resolve('node_modules/.bin/tsc'), ['-p', consumer]);
}

describe('the tarball for those who have a registry', () => {
  campaignTest('holds the program, its types and its licence, in less than 2.5 MB', async () => {
    const into = scratch();
    const before = manifestOf(root);
    await run('npm', ['pack', '--pack-destination', into], {
      cwd: root,
      env: { ...process.env, PATH: pathWith(process.execPath) },
    });
    expect(manifestOf(root)).toEqual(before);
    const tarball = path.join(into, readdirSync(into)[0]!);
    expect(statSync(tarball).size).toBeLessThan(2.5 * MB);
    await run('tar', ['-xzf', tarball, '-C', into]);
    const packed = path.join(into, 'package');
    expect(manifestOf(packed).engines).toEqual({ node: `>=${OLDEST_NODE}` });
    const files = readdirSync(packed, { recursive: true, withFileTypes: true })
      .filter((file) => file.isFile())
      .map((file) => path.relative(packed, path.join(file.parentPath, file.name)));
    expect(files).toEqual(expect.arrayContaining(['bin/sluice.js', 'dist/main.js', 'dist/index.d.ts', 'LICENSE']));
    const expected =
      /^(?:package\.json|README\.md|LICENSE|bin\/(?:sluice\.js|start\.js|package\.json)|dist\/.*\.(?:js|d\.ts)|dist\/(?:bundled|project\/templates)\/.*)$/;
    expect(files.filter((file) => !expected.test(file))).toEqual([]);
    await compileConsumer(into);
  });

  campaignTest('installs from a registry without install scripts, and then from the cache of npm alone', async () => {
    const home = scratch();
    await run('npm', ['pack', '--ignore-scripts', '--pack-destination', home], { cwd: root });
    const [tarball] = readdirSync(home);
    const cache = path.join(home, 'npm-cache');
    for (const [name, flags] of [
      ['online', []],
      ['offline', ['--offline']],
    ] as const) {
      const prefix = path.join(home, name);
      const npm = ['install', '--global', '--ignore-scripts', '--prefix', prefix, '--cache', cache, ...flags];
      await run('npm', [...npm, path.join(home, tarball!)], {
        cwd: home,
        env: { ...process.env, PATH: pathWith(process.execPath) },
      });
      const folder = path.join(prefix, 'lib', 'node_modules', 'sluice');
      const there = mkdirSync(path.join(home, `work-${name}`), { recursive: true })!;
      await scoreAndServe(process.execPath, folder, there);
    }
  });
});

describe('the tarball for those who have none', () => {
  let tarball = '';
  let folder = '';
  const home = mkdtempSync(path.join(tmpdir(), 'sluice-installed-'));
  beforeAll(async () => {
    if (TIER !== 'campaigns') return;
    tarball = packOffline(root, platformOf(), path.join(home, 'packed'));
    folder = await installWithoutNetwork(tarball, path.join(home, 'user'));
  });
  afterAll(() => rmSync(home, { recursive: true, force: true }));

  campaignTest(
    'is installed without a network: 120 MB at most, no install script, nothing of other platforms',
    async () => {
      expect(bytesOnDisk(folder)).toBeLessThan(120 * MB);
      expect(manifestOf(folder).engines).toEqual({ node: `>=${OLDEST_NODE}` });
      const packages = packagesBelow(folder);
      expect(packages.length).toBeGreaterThan(100);
      for (const inside of packages) expect(manifestOf(inside).scripts, inside).toBeUndefined();
      const binaries = path.join(folder, 'node_modules/onnxruntime-node/bin/napi-v6');
      expect(readdirSync(binaries)).toEqual([process.platform]);
      expect(readdirSync(path.join(binaries, process.platform))).toEqual([process.arch]);
      for (const gone of ['vitest', 'typescript', 'node', 'global-agent', 'adm-zip']) {
        expect(existsSync(path.join(folder, 'node_modules', gone)), gone).toBe(false);
      }
      const licensed = packages.filter((inside) => readdirSync(inside).some((f) => /^licen[cs]e/i.test(f)));
      expect(licensed.length).toBeGreaterThan(packages.length * 0.8);
    },
  );

  campaignTest('has every package that the program imports, each of which loads', async () => {
    const names = Object.keys(manifestOf('.').dependencies);
    expect(manifestOf(folder).bundleDependencies).toEqual(names);
    const imports = names.map((name) => `await import(${JSON.stringify(name)});`).join('\n');
    await run(process.execPath, ['--input-type=module', '--eval', imports], { cwd: folder });
  });

  campaignTest('scores a file, serves, predicts the same and keeps a job', async () => {
    await scoreAndServe(process.execPath, folder, scratch());
    const cwd = scratch();
    const doctor = await runInstalled(process.execPath, folder, ['doctor'], cwd);
    expect(doctor.stdout).toMatch(/^ok +evaluator: ONNX Runtime loads/m);
    expect(doctor.stdout).not.toContain('WRONG');
    const project = await runInstalled(process.execPath, folder, ['init', 'project'], cwd);
    expect(project.stdout.split('\n')).toEqual(
      expect.arrayContaining(['project/monitoring/rules.yaml', 'project/.gitignore']),
    );
    expect(readFileSync(path.join(cwd, 'project/systemd/sluice.service'), 'utf8')).toContain(
      `"${folder}/bin/sluice.js" serve`,
    );
    const version = await run('sluice', ['--version'], {
      env: {
        ...visitor(process.execPath, cwd),
        PATH: `${path.join(home, 'user', 'global', 'bin')}:${pathWith(process.execPath)}`,
      },
    });
    expect(version.stdout).toBe(`${manifestOf('.').version}\n`);
  });

  for (const version of ['22.12.0', '22.15.1', '26.10.0']) {
    campaignTest(`Node ${version} installs it, scores and serves`, async () => {
      const node = await fetchedNode(version);
      const user = scratch();
      await scoreAndServe(node, await installWithoutNetwork(tarball, user, node), scratch());
    });
  }

  for (const version of ['18.20.8', '20.19.5']) {
    campaignTest(`Node ${version} says in one sentence what is needed`, async () => {
      const node = await fetchedNode(version);
      const words = await runInstalled(node, folder, ['score', 'x.csv'], scratch());
      expect(words).toMatchObject({ code: 1, stdout: '' });
      expect(words.stderr).toMatch(
        /^sluice: Node 22\.12 or newer is needed, and this is v(?:18|20)\.[\d.]+: install one from [^\n]*\n$/,
      );
    });
  }
});

/** Another Node, from the registry. */
async function fetchedNode(version: string): Promise<string> {
  const folder = scratch();
  await run('npm', ['install', '--prefix', folder, '--no-save', `node@${version}`], { cwd: folder });
  const node = path.join(folder, 'node_modules', 'node', 'bin', 'node');
  expect((await run(node, ['--version'])).stdout).toBe(`v${version}\n`);
  return node;
}
