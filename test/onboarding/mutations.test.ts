// Damaged packages: ONNX files and manifests with bytes changed, cut, repeated or taken from elsewhere. Each is refused with a
// code or still passes its self-test; none brings this process down, none hangs, and what was served goes on being served.
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect } from 'vitest';
import { SluiceError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import { readExpected } from '../../src/onboarding/expected.ts';
import { proposePackage } from '../../src/onboarding/register.ts';
import { tryPackage } from '../../src/onboarding/verify.ts';
import { writePackage } from '../../src/onboarding/write.ts';
import { startService } from '../support/service.ts';
import { checkTest, times } from '../support/tiers.ts';
import { registerOptions, ZOO, zooModels } from '../support/zoo.ts';

const MUTATIONS = times('SLUICE_MUTATIONS', { quick: 120, check: 120, campaigns: 1000 });
const AT_ONCE = 3;
const SEED = Number(process.env.SLUICE_SEED ?? 7);
const BASES = [
  'lightgbm-native-categories',
  'skl-forest-string-booleans',
  'skl-logistic-zipmap',
  'skl-isolation-forest',
  'skl-mlp',
];

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-mutations-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function base(name: string): Promise<string> {
  const m = zooModels().find((z) => z.name === name)!;
  const target = path.join(folder, 'bases', name);
  const proposal = await proposePackage({
    ...(await registerOptions(m)),
    expected: await readExpected(path.join(ZOO, 'models', name, 'expected-clean.csv')),
    expectedRows: await readExpected(path.join(ZOO, 'data/clean.csv')),
  });
  await writePackage(target, proposal);
  return target;
}

const below = (random: Random, n: number): number => Math.floor(random.uniform() * n);

function mutate(bytes: Buffer, random: Random): Buffer {
  const out = Buffer.from(bytes);
  const at = below(random, out.length);
  const length = 1 + below(random, Math.min(64, out.length - at));
  switch (below(random, 16)) {
    case 0:
      return out.subarray(0, at);
    case 1:
      return Buffer.concat([out.subarray(0, at), out.subarray(at + length)]);
    case 2:
      return Buffer.concat([out.subarray(0, at), out.subarray(at, at + length), out.subarray(at)]);
    case 3:
      out.copy(out, below(random, out.length - length), at, at + length);
      return out;
    case 4:
      for (let i = at; i < at + length; i++) out[i] = 0xff;
      return out;
    case 5:
      for (let i = 0; i < 1 + below(random, 20); i++) out[below(random, out.length)] = below(random, 256);
      return out;
    default:
      // Mostly the framing stays whole: numbers keep their length, and what they say is wrong (nodes, features, sizes, types).
      for (let i = 0; i < 1 + below(random, 3); i++) {
        const p = below(random, out.length);
        out[p] = (out[p]! & 0x80) | below(random, 128);
      }
      return out;
  }
}

/** A package with one part damaged; its hash is made to fit, so that it is not the hash that saves us. */
function damaged(from: string, to: string, random: Random): 'onnx' | 'yaml' {
  cpSync(from, to, { recursive: true });
  const yaml = path.join(to, 'model.yaml');
  if (random.chance(0.25)) {
    writeFileSync(yaml, mutate(readFileSync(yaml), random));
    return 'yaml';
  }
  const onnx = path.join(to, 'model.onnx');
  const bytes = mutate(readFileSync(onnx), random);
  writeFileSync(onnx, bytes);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  writeFileSync(yaml, readFileSync(yaml, 'utf8').replace(/sha256: [0-9a-f]{64}/, `sha256: ${sha256}`));
  return 'onnx';
}

checkTest(`${MUTATIONS} damaged packages: refused, or right`, async () => {
  const bases = await Promise.all(BASES.map(base));
  const outcomes: Record<string, number> = {};
  let next = 0;
  const work = async () => {
    while (next < MUTATIONS) {
      const i = next++;
      const random = new Random();
      random.seed(SEED, i);
      const target = path.join(folder, `m${i}`);
      const part = damaged(bases[i % bases.length]!, target, random);
      let outcome = 'right';
      try {
        await tryPackage(await loadPackage(target));
      } catch (error) {
        if (process.env.SHOW) process.stderr.write(`${i} ${part} ${String((error as Error).message).slice(0, 150)}\n`);
        if (!(error instanceof SluiceError)) throw new Error(`mutation ${i} (${part})`, { cause: error });
        outcome = /brought its process down/.test(error.message)
          ? 'crashed its process'
          : /does not come to an end/.test(error.message)
            ? 'hung'
            : error.code;
      }
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      rmSync(target, { recursive: true });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  process.stderr.write(`${JSON.stringify(outcomes)}\n`);
  const { right = 0, ...refused } = outcomes;
  expect(right + Object.values(refused).reduce((a, b) => a + b, 0)).toBe(MUTATIONS);
  expect(right).toBeGreaterThan(0);
  expect(refused.model_invalid).toBeGreaterThan(MUTATIONS / 10);
  expect(refused.self_test_failed).toBeGreaterThan(0);
});

checkTest('a service goes on with the version before, whatever is put in the place of the next', async () => {
  const source = await base('skl-logistic-zipmap');
  const models = path.join(folder, 'models');
  const id = 'skl-logistic-zipmap';
  cpSync(source, path.join(models, id, '1'), { recursive: true });
  mkdirSync(models, { recursive: true });
  const service = await startService([], path.join(folder), { registry: new FolderRegistry([models]) });
  const sample = (await service.call('GET', `/api/v1/models/${id}`)).json.sample;
  const ask = () =>
    service.call('POST', `/api/v1/scoring/predict.json?modelId=${id}`, { body: JSON.stringify(sample) });
  const first = (await ask()).text;
  expect(JSON.parse(first).summary.scored).toBe(1);
  for (let i = 0; i < 12; i++) {
    const random = new Random();
    random.seed(SEED + 1, i);
    const version = String(i + 2);
    damaged(source, path.join(models, id, version), random);
    const yaml = path.join(models, id, version, 'model.yaml');
    // The same number in the file as in the path, so that the rest of the package is looked at.
    writeFileSync(yaml, readFileSync(yaml, 'utf8').replace('version: 1', `version: ${version}`));
    await sleep(700);
    const reply = await ask();
    expect(reply.status).toBe(200);
    const { modelVersion, predictions } = reply.json;
    if (modelVersion === '1') expect(reply.text).toBe(first);
    else expect(Math.abs(predictions[0].probability - JSON.parse(first).predictions[0].probability)).toBeLessThan(1e-5);
  }
});
