// One byte of one file of a package is another one: no door scores with it, and a service that has the package goes on with what it has.

import { cpSync, existsSync, linkSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'; // biome-ignore format: one line
import path from 'node:path';
import { expect, test } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { openModel } from '../../src/index.ts';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { readPipeline } from '../../src/runs/read-pipeline.ts';
import { startRun } from '../../src/runs/start-run.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { collectedLog } from '../support/collected-log.ts';
import { codeOf } from '../support/registries/packages.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { PREDICT, type Service, startService } from '../support/service.ts';
import { times } from '../support/tiers.ts';

const CHANGES = times('package changes', { quick: 12, check: 12, campaigns: 1000 });
const PROCESSES = times('package processes', { quick: 1, check: 1, campaigns: 24 });
const ROWS = path.join(CREDIT_DEFAULT, 'selftest.csv');

interface Change {
  file: string;
  at: number;
  bytes: Buffer;
}

/** Every file in turn; a byte of it, and what it becomes. */
function changeOf(seed: number): Change {
  const random = new Random();
  random.seed(seed, 5);
  const below = (n: number): number => Math.floor(random.uniform() * n);
  const files = readdirSync(CREDIT_DEFAULT).sort();
  const file = files[seed % files.length]!;
  const bytes = readFileSync(path.join(CREDIT_DEFAULT, file));
  const at = below(bytes.length);
  bytes[at] = (bytes[at]! + 1 + below(255)) % 256;
  return { file, at, bytes };
}

/** A registry whose version `seed` has that change; the others share their bytes on the disk. */
function damagedVersions(root: string, seeds: readonly number[]): void {
  for (const seed of seeds) {
    const { file, bytes } = changeOf(seed);
    const to = path.join(root, 'credit-default', String(seed));
    mkdirSync(to, { recursive: true });
    for (const name of readdirSync(CREDIT_DEFAULT)) {
      if (name !== file) linkSync(path.join(root, 'whole', name), path.join(to, name));
    }
    writeFileSync(path.join(to, file), bytes);
  }
}

function registryOf(seeds: readonly number[]): string {
  const root = scratch();
  cpSync(CREDIT_DEFAULT, path.join(root, 'whole'), { recursive: true });
  damagedVersions(root, seeds);
  return root;
}

async function runOf(root: string, reference: string): Promise<unknown> {
  const file = path.join(root, 'p.yaml');
  const out = path.join(root, 'out.csv');
  writeFileSync(
    file,
    `model: ${reference}\nsource: { type: file, path: '${ROWS}' }\nsink: { type: file, path: out.csv }\n`,
  );
  const { log } = collectedLog();
  const context = { name: 'p', registry: new FolderRegistry([root]), account: new RunAccount(), metrics: null, beside: [], log, tracer: null }; // biome-ignore format: one line
  const host = () => Promise.reject(new Error('files need no host'));
  const code = await codeOf(startRun(await readPipeline(file), { ...context, host }).then((run) => run.done));
  expect([existsSync(out), existsSync(`${out}.manifest.json`)]).toEqual([false, false]);
  return code;
}

async function answerOf(service: Service, reference: string): Promise<unknown> {
  const url = `${PREDICT}.csv?modelId=${reference}&delimiter=comma`;
  const { status, json } = await service.call('POST', url, { body: readFileSync(ROWS) });
  return status === 400 ? json.code : status;
}

test(`${CHANGES} changes of one byte: refused by runs, by a service and by the library, each with the file`, async () => {
  const seeds = Array.from({ length: CHANGES }, (_, i) => i + 1);
  const root = registryOf(seeds);
  const service = await startService([], scratch(), { registry: new FolderRegistry([root]) });
  for (const seed of seeds) {
    const { file, at } = changeOf(seed);
    const reference = `credit-default:${seed}`;
    const named = await new FolderRegistry([root]).resolve(reference).catch((e: Error) => e.message);
    const codes = [
      await runOf(root, reference),
      await answerOf(service, reference),
      await codeOf(openModel(reference, { registry: root, workers: 1 })),
    ];
    expect(codes, `seed ${seed}: ${file}, byte ${at}`).toEqual(Array(3).fill('model_hash_mismatch'));
    expect(named).toContain(path.join(String(seed), file === 'package.lock' ? '' : file));
  }
});

test(`${PROCESSES} of them at the command line: score, run and explain refuse`, async () => {
  const seeds = Array.from({ length: PROCESSES }, (_, i) => i * 5 + 2);
  const root = registryOf(seeds);
  for (const seed of seeds) {
    const model = `credit-default:${seed}`;
    const file = path.join(root, 'p.yaml');
    writeFileSync(
      file,
      `model: ${model}\nsource: { type: file, path: '${ROWS}' }\nsink: { type: file, path: out.csv }\n`,
    );
    for (const args of [
      ['score', ROWS, '--model', model, '-o', path.join(root, 'out.csv')],
      ['run', file],
      ['explain', ROWS, '--model', model, '--row', '1'],
    ]) {
      const { code, stderr } = await sluiceHere([...args, '--registry', root]);
      expect([code, stderr], args[0]).toEqual([1, expect.stringContaining('[model_hash_mismatch]')]);
    }
    expect(existsSync(path.join(root, 'out.csv'))).toBe(false);
  }
});

test('a service whose package is changed answers with what it has loaded, bit for bit, and says so', async () => {
  const root = scratch();
  const folder = path.join(root, 'credit-default/1');
  cpSync(CREDIT_DEFAULT, folder, { recursive: true });
  const { log, lines } = collectedLog();
  const service = await startService([], scratch(), { registry: new FolderRegistry([root]), log });
  const url = `${PREDICT}/interpretation.csv?modelId=credit-default&delimiter=comma`;
  const ask = async () => (await service.call('POST', url, { body: readFileSync(ROWS) })).text;
  const before = await ask();
  for (const seed of [2, 3, 6]) {
    const { file, bytes } = changeOf(seed);
    lines.length = 0;
    writeFileSync(path.join(folder, file), bytes);
    await expect.poll(() => ask().then(() => lines.map((l) => l.event))).toContain('model_stale');
    expect(await ask()).toBe(before);
    const metrics = (await service.call('GET', '/metrics')).text;
    expect(metrics).toMatch(/^sluice_model_stale\{reference="credit-default"\} 1$/m);
    expect(metrics).toMatch(/^sluice_model_load_failures_total\{model="credit-default",code="model_hash_mismatch"\}/m);
    cpSync(path.join(CREDIT_DEFAULT, file), path.join(folder, file));
    await expect
      .poll(() => ask().then(async () => (await service.call('GET', '/metrics')).text))
      .toMatch(/^sluice_model_stale\{reference="credit-default"\} 0$/m);
  }
});
