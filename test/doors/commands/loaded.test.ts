// A command loads what it needs and no more: modules are most of what a short command costs.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { scratch, sluice } from '../../support/cli.ts';

const HOOK = `
import { appendFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
registerHooks({ load: (url, context, next) => (appendFileSync(process.env.LOADED, url + '\\n'), next(url, context)) });
`;

/** Packages and modules of Sluice that a command loads in all its processes and threads. */
async function loadedBy(args: string[], place: string, env: Record<string, string> = {}): Promise<Set<string>> {
  const hook = path.join(place, 'hook.mjs');
  const list = path.join(place, 'loaded.txt');
  writeFileSync(hook, HOOK);
  writeFileSync(list, '');
  const NODE_OPTIONS = `--import=${pathToFileURL(hook)}`;
  const { code, stderr } = await sluice(args, { env: { ...env, LOADED: list, NODE_OPTIONS }, sources: true });
  expect(code, stderr).toBe(0);
  const urls = readFileSync(list, 'utf8').trim().split('\n');
  return new Set(
    urls.flatMap((url) => /\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? /\/src\/(.*)/.exec(url)?.[1] ?? []),
  );
}

test.each([
  [['--version'], []],
  [['keys', '--help'], ['commander']],
  [['run', '--help'], ['commander']],
  [['score', '--help'], ['commander']],
  [['--help'], ['commander']],
  [['help', 'keys'], ['commander']],
])('%j', async (args, packages) => {
  const loaded = [...(await loadedBy(args, scratch()))];
  expect(loaded.filter((name) => !name.endsWith('.ts')).sort()).toEqual(packages);
  // Descriptions of all commands, which are what the help shows.
  if (args[0] === '--help') expect(loaded.length).toBeLessThan(38);
  if (args[0] === '--version')
    expect(loaded.sort()).toEqual(['core/cache-folder.ts', 'core/no-telemetry.ts', 'core/version.ts', 'main.ts']);
});

test('a model that was judged before is scored without ONNX Runtime and without the YAML library', async () => {
  const place = scratch();
  const input = path.join(place, 'in.csv');
  writeFileSync(input, Buffer.concat([...generatePortfolio({ rows: 20, seed: 1 })]));
  const args = [
    'score',
    input,
    '--model',
    'credit-default',
    '--registry',
    'src/bundled',
    '-o',
    path.join(place, 'out'),
  ];
  const env = { SLUICE_CACHE: 'on', XDG_CACHE_HOME: place };
  const first = await loadedBy(args, place, env);
  expect([...first]).toEqual(expect.arrayContaining(['onnxruntime-node', 'yaml', 'inference/sandbox/probe-entry.ts']));
  const again = await loadedBy(args, place, env);
  expect([...again].filter((name) => ['onnxruntime-node', 'yaml'].includes(name))).toEqual([]);
  expect(again).not.toContain('inference/sandbox/probe-entry.ts');
});
