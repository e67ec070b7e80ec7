// Damaged packages: ONNX files and manifests with bytes changed, cut, repeated or taken from elsewhere. Each is refused with a
// code or still reproduces its predictions; none brings the registering process down, none hangs, and what was served goes on
// being served.
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse } from 'csv-parse/sync';
import { afterAll, expect, test } from 'vitest';
import { SluiceError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import { encodeRows } from '../../src/inference/encode/encode-rows.ts';
import { Probe } from '../../src/inference/sandbox/probe.ts';
import { scoreRows } from '../../src/inference/sandbox/sample-scorer.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import { deviationOf, type ExpectedTable, expectedFor, readExpected } from '../../src/onboarding/expected.ts';
import { writePackage } from '../../src/onboarding/package-files.ts';
import { proposePackage } from '../../src/onboarding/register.ts';
import { copyUnlocked } from '../support/registries/packages.ts';
import { startService } from '../support/service.ts';
import { campaignTest, checkTest, SEED, TIER, times } from '../support/tiers.ts';
import { type Landed, type Landing, runTrials, type TrialCase } from '../support/trials.ts';
import { registerOptions, ZOO, zooModels } from '../support/zoo.ts';

const MUTATIONS = times('mutations', { quick: 10, check: 20, campaigns: 1000 });
const AT_ONCE = 3;
const BASES = [
  'lightgbm-native-categories',
  'skl-forest-string-booleans',
  'skl-logistic-zipmap',
  'skl-isolation-forest',
  'skl-mlp',
];

/** Landings that are bugs, and those that are not. */
const MUST_NOT: readonly Landing[] = ['wrong', 'hung', 'crashed', 'unexplained', 'ambiguous'];
const LANDINGS: readonly Landing[] = [...MUST_NOT, 'unchanged', 'right', 'refused', 'contained'];
/** Share of the damaged packages that may crash ONNX Runtime in the process started for them. */
const MAX_CONTAINED = 0.01;
/** What ends by itself or by the limit of its probe ends long before this, however busy the machine is. */
const HANG_MS = 300_000;

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-mutations-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A whole package and its self-test. */
interface Base {
  folder: string;
  header: readonly string[];
  rows: readonly (readonly string[])[];
  expected: ExpectedTable;
  tolerance: number;
}

async function base(name: string): Promise<Base> {
  const m = zooModels().find((z) => z.name === name)!;
  const target = path.join(folder, 'bases', name);
  const proposal = await proposePackage({
    ...(await registerOptions(m)),
    expected: await readExpected(path.join(ZOO, 'models', name, 'expected-clean.csv')),
    expectedRows: await readExpected(path.join(ZOO, 'data/clean.csv')),
  });
  // Of a test before: a package that is there is never written over.
  rmSync(target, { recursive: true, force: true });
  await writePackage(target, proposal);
  const test = proposal.manifest.self_test!;
  const [header, ...rows] = parse(readFileSync(path.join(target, test.input))) as string[][];
  const expected = await readExpected(path.join(target, test.expected));
  return { folder: target, header: header!, rows, expected, tolerance: test.tolerance! };
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

/** A package with one part damaged; the hash is made to fit, so that it is not the hash that saves us. Returns that part. */
function damaged(from: string, to: string, random: Random): 'model.onnx' | 'model.yaml' {
  copyUnlocked(from, to);
  const yaml = path.join(to, 'model.yaml');
  if (random.chance(0.25)) {
    writeFileSync(yaml, mutate(readFileSync(yaml), random));
    return 'model.yaml';
  }
  const onnx = path.join(to, 'model.onnx');
  const bytes = mutate(readFileSync(onnx), random);
  writeFileSync(onnx, bytes);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  writeFileSync(yaml, readFileSync(yaml, 'utf8').replace(/sha256: [0-9a-f]{64}/, `sha256: ${sha256}`));
  return 'model.onnx';
}

/** The damaged packages next in line: several registering processes share one line. */
function* damagedPackages(bases: readonly Base[], ids: Iterator<number>, run: string): Generator<TrialCase> {
  for (let next = ids.next(); !next.done; next = ids.next()) {
    const id = next.value;
    const random = new Random();
    random.seed(SEED, id);
    const source = bases[id % bases.length]!;
    const target = path.join(folder, `${run}${id}`);
    const part = damaged(source.folder, target, random);
    const unchanged = readFileSync(path.join(target, part)).equals(readFileSync(path.join(source.folder, part)));
    yield { id, folder: target, unchanged, reproduces: () => reproduces(target, source) };
    rmSync(target, { recursive: true });
  }
}

/** Scores the self-test of the whole package with the damaged one, in a process of its own; false if it cannot be scored. */
async function reproduces(target: string, { header, rows, expected, tolerance }: Base): Promise<boolean> {
  let probe: Probe | null = null;
  try {
    const { manifest } = await loadPackage(target);
    probe = await Probe.open(readFileSync(path.join(target, manifest.onnx.file)));
    const fields = manifest.columns.map((c) => header.indexOf(c.name));
    const encoded = encodeRows(manifest, rows, fields);
    const scores = await scoreRows(probe, manifest, encoded);
    const compared = { scores, rejected: encoded.rejected, rowOf: rows.map((_, i) => i) };
    const found = deviationOf(manifest, compared, expectedFor(expected, manifest), tolerance);
    return found.beyond === 0 && found.rows === rows.length;
  } catch (error) {
    if (error instanceof SluiceError) return false;
    throw error;
  } finally {
    probe?.close();
  }
}

/** Every mutation landed once, and none where it must not. */
function expectHeld(landed: readonly Landed[], mutations: number): void {
  const ids = landed.map((l) => l.id).sort((a, b) => a - b);
  expect(ids).toEqual(Array.from({ length: mutations }, (_, i) => i));
  expect(landed.filter((l) => MUST_NOT.includes(l.landing))).toEqual([]);
  // A crash of ONNX Runtime is contained, but our own checks of a file should leave it next to nothing to crash on.
  expect(landed.filter((l) => l.landing === 'contained').length).toBeLessThanOrEqual(mutations * MAX_CONTAINED);
}

checkTest(`${MUTATIONS} damaged packages: refused, or right`, async () => {
  const bases = await Promise.all(BASES.map(base));
  const ids = Array.from({ length: MUTATIONS }, (_, i) => i).values();
  const runs = Array.from({ length: AT_ONCE }, () => runTrials(damagedPackages(bases, ids, 'm'), { limitMs: HANG_MS }));
  const landed = (await Promise.all(runs)).flat();
  if (process.env.SHOW) for (const l of landed) process.stderr.write(`${JSON.stringify(l)}\n`);
  expectHeld(landed, MUTATIONS);
  const count = (landing: Landing, code?: string): number =>
    landed.filter((l) => l.landing === landing && (code === undefined || l.code === code)).length;
  if (TIER === 'campaigns')
    process.stderr.write(`${JSON.stringify(Object.fromEntries(LANDINGS.map((l) => [l, count(l)])))}\n`);
  expect(LANDINGS.reduce((n, l) => n + count(l), 0)).toBe(MUTATIONS);
  expect(count('right')).toBeGreaterThan(0);
  expect(count('refused', 'model_invalid')).toBeGreaterThan(MUTATIONS / 10);
  expect(count('refused', 'self_test_failed')).toBeGreaterThan(0);
});

const PLANTED = [
  ['crash', 'crashed'],
  ['crash-later', 'crashed'],
  ['hang', 'hung'],
  ['accept', 'wrong'],
  ['throw', 'unexplained'],
  ['answer-twice', 'ambiguous'],
] as const;
const isFoundOut = async (fault: (typeof PLANTED)[number][0], landing: string) => {
  const bases = [await base(BASES[0]!)];
  const few = 4;
  const ids = Array.from({ length: few }, (_, i) => i).values();
  // Nothing that hangs by a plant ever answers, and whatever else it does is done well before.
  const limitMs = fault === 'hang' ? 2_000 : HANG_MS;
  const landed = await runTrials(damagedPackages(bases, ids, `${fault}-`), { limitMs, fault });
  expect(landed.map((l) => l.landing)).toContain(landing);
  expect(() => expectHeld(landed, few)).toThrow();
};
for (const [i, [fault, landing]] of PLANTED.entries()) {
  (i === 0 ? checkTest : campaignTest)(
    `a registering process with the planted fault "${fault}" is found out: ${landing}`,
    () => isFoundOut(fault, landing),
  );
}

test('without a planted fault the same packages are held', async () => {
  const bases = [await base(BASES[0]!)];
  const landed = await runTrials(damagedPackages(bases, [0, 1, 2, 3].values(), 'sane-'), { limitMs: HANG_MS });
  expectHeld(landed, 4);
  // One that is missing, or landed twice, is noticed.
  expect(() => expectHeld(landed.slice(1), 4)).toThrow();
  expect(() => expectHeld([...landed, landed[0]!], 4)).toThrow();
});

campaignTest('a service goes on with the version before, whatever is put in the place of the next', async () => {
  const { folder: source } = await base('skl-logistic-zipmap');
  const models = path.join(folder, 'models');
  const id = 'skl-logistic-zipmap';
  copyUnlocked(source, path.join(models, id, '1'));
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
    // For the registry to read its folder again, and for the version before to be loaded in the background: of a refused one nothing tells.
    await sleep(700);
    const reply = await ask();
    expect(reply.status).toBe(200);
    const { modelVersion, predictions } = reply.json;
    if (modelVersion === '1') expect(reply.text).toBe(first);
    else expect(Math.abs(predictions[0].probability - JSON.parse(first).predictions[0].probability)).toBeLessThan(1e-5);
  }
});
