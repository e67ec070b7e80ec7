// What a service and a pipeline tell of their models: which version answers, which did not load.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { SluiceError } from '../../src/core/errors.ts';
import { hostEvents, measureHost } from '../../src/engine/host-events.ts';
import { keepLoaded, ModelHost } from '../../src/engine/model-host.ts';
import { sealPackage } from '../../src/model/package/package-lock.ts';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import { Metrics } from '../../src/monitor/metrics.ts';
import { sampleOf } from '../support/exposition.ts';
import { copyUnlocked } from '../support/registries/packages.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';

test('the version that answers is the one the metrics name, also when the next does not load', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-host-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const publish = async (version: number, change: (manifest: string) => string = (m) => m): Promise<void> => {
    const to = path.join(folder, 'credit-default', String(version));
    copyUnlocked(CREDIT_DEFAULT, to);
    const file = path.join(to, 'model.yaml');
    writeFileSync(file, change(readFileSync(file, 'utf8').replace(/^version: .*$/m, `version: ${version}`)));
    await sealPackage(to);
  };
  const metrics = new Metrics('serve');
  const told: string[] = [];
  const host = new ModelHost({
    registry: new FolderRegistry([folder]),
    workers: 1,
    max: 2,
    ...hostEvents(metrics, (_level, _event, says, fields) => told.push(`${says} ${fields?.code ?? ''}`.trimEnd())),
  });
  onTestFinished(() => host.close());
  const served = async (): Promise<string[]> =>
    (await metrics.text())
      .split('\n')
      .filter((line) => /^sluice_model_(served_info|stale|swaps_total|load_fail)/.test(line));
  const use = async (): Promise<unknown> => {
    const hosted = await host.use('credit-default');
    hosted.release();
    return hosted.model.manifest.version;
  };
  const info = (version: string): unknown =>
    expect.stringMatching(
      new RegExp(
        `^sluice_model_served_info\\{reference="credit-default",version="${version}",package_sha256="[0-9a-f]{64}"\\} 1$`,
      ),
    );
  await publish(1);
  expect(await use()).toBe(1);
  expect(await served()).toContainEqual(info('1'));

  await publish(2);
  await expect.poll(use).toBe(2);
  await expect.poll(served).toContainEqual(info('2'));
  expect((await served()).filter((line) => line.includes('version="1"'))).toEqual([]);
  expect(told).toEqual(['credit-default: version 1 → 2']);

  await publish(3, (manifest) => manifest.replace(/sha256: \w{4}/, 'sha256: 0000'));
  await expect.poll(() => use().then(() => told.length)).toBe(2);
  expect(told[1]).toMatch(/^still serving version 2 of credit-default; .+ model_hash_mismatch$/s);
  const lines = await served();
  expect(lines).toContainEqual(info('2'));
  expect(lines).toContainEqual(expect.stringMatching(/^sluice_model_stale\S*\{reference="credit-default"\} 1$/));
  expect(lines).toContainEqual(
    expect.stringMatching(/^sluice_model_load_fail\S*\{model="credit-default",code="model_hash_mismatch"\} 1$/),
  );
});

test('files of a served version that change are not served, and it is said which', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-host-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const at = (name: string) => path.join(folder, 'credit-default/1', name);
  copyUnlocked(CREDIT_DEFAULT, at('.'));
  const metrics = new Metrics('serve');
  const told: string[] = [];
  const host = new ModelHost({
    registry: new FolderRegistry([folder]),
    workers: 1,
    max: 2,
    ...hostEvents(metrics, (_level, event, says) => told.push(`${event} ${says}`)),
  });
  onTestFinished(() => host.close());
  const use = async () => {
    const hosted = await host.use('credit-default');
    hosted.release();
    return hosted;
  };
  const of = async (name: string) => sampleOf(await metrics.text(), name);
  const first = await use();
  expect(told).toEqual([expect.stringMatching(/^model_unlocked credit-default:1 has no package\.lock/)]);
  expect(await of('sluice_model_without_lock')).toBe(1);
  await sealPackage(at('.'));
  for (const name of ['model.yaml', 'background.csv', 'package.lock', 'model.onnx']) {
    told.length = 0;
    const good = readFileSync(at(name));
    const bad = Buffer.from(good);
    bad[bad.length >> 1]! ^= 1;
    writeFileSync(at(name), bad);
    await expect.poll(() => use().then(() => told.length)).toBe(1);
    expect(told[0]).toMatch(/^model_stale still serving version 1 of credit-default; /);
    expect(told[0]).toContain(name);
    expect(await of('sluice_model_stale')).toBe(1);
    const serving = await use();
    expect([serving.pool === first.pool, serving.model.sha256]).toEqual([true, first.model.sha256]);
    writeFileSync(at(name), good);
    await expect.poll(() => use().then(() => of('sluice_model_stale'))).toBe(0);
  }
  // The same graph with another model.yaml is another model.
  rmSync(at('package.lock'));
  const yaml = readFileSync(at('model.yaml'), 'utf8');
  writeFileSync(at('model.yaml'), yaml.replace('reasons_max: 4', 'reasons_max: 3'));
  await sealPackage(at('.'));
  await expect.poll(async () => (await use()).pool === first.pool).toBe(false);
  expect((await use()).model.sha256).not.toBe(first.model.sha256);
});

test('one that is to be there always is loaded again when it can be, and never closed for another', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-host-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const publish = (version: number): void => {
    const to = path.join(folder, 'credit-default', String(version));
    copyUnlocked(CREDIT_DEFAULT, to);
    const file = path.join(to, 'model.yaml');
    writeFileSync(file, readFileSync(file, 'utf8').replace(/^version: .*$/m, `version: ${version}`));
  };
  const metrics = new Metrics('serve');
  const host = new ModelHost({
    registry: new FolderRegistry([folder]),
    workers: 1,
    max: 1,
    keep: ['credit-default:1'],
    ...hostEvents(metrics, () => {}),
  });
  onTestFinished(() => host.close());
  measureHost(metrics, host);
  const of = async (name: string) => sampleOf(await metrics.text(), name);
  const kept = keepLoaded(host, ['credit-default:1'], 20);
  onTestFinished(() => kept.stop());
  expect(kept.ready).toBe(false);
  for (const version of [2, 3]) publish(version);
  // Room for one, and it is taken: who asks for another gets it all the same, before anything is closed.
  const first = await host.use('credit-default:2');
  const second = await host.use('credit-default:3');
  expect([
    await of('sluice_models_loaded'),
    await of('sluice_workers'),
    await of('sluice_model_evictions_total'),
  ]).toEqual([2, 2, 0]);
  expect(kept.ready).toBe(false);
  publish(1);
  await expect.poll(() => kept.ready).toBe(true);
  first.release();
  second.release();
  expect(await of('sluice_model_evictions_total')).toBe(1);
  expect([kept.ready, await of('sluice_models_loaded'), await of('sluice_model_load_seconds_count')]).toEqual([
    true,
    2,
    3,
  ]);
});

test('a load that the end of the process interrupts is no failure', async () => {
  const metrics = new Metrics('serve');
  const told: string[] = [];
  const { onLoadFailure } = hostEvents(metrics, (_level, _event, says) => told.push(String(says)));
  onLoadFailure('credit-default', new SluiceError('cancelled', 'the validation of the package did not finish'), null);
  expect(told).toEqual([]);
  expect(await metrics.text()).not.toMatch(/^sluice_model_load_failures_total\{/m);
  onLoadFailure('credit-default', new SluiceError('model_invalid', 'damaged'), null);
  expect(told).toEqual(['credit-default cannot be loaded: damaged']);
  expect(await metrics.text()).toMatch(/^sluice_model_load_failures_total\{.*\} 1$/m);
});
