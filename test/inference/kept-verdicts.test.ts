// A model that was judged here before starts with what was found then, and gives the same bytes; what is not whole is found out again.
import { copyFileSync, cpSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { deserialize } from 'node:v8';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { openNative } from '../../src/inference/evaluate/native/native-evaluator.ts';
import { VerdictPlace } from '../../src/inference/sandbox/kept-verdicts.ts';
import { judge } from '../../src/inference/sandbox/verdict.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { copyBundled } from '../support/bundled-models.ts';
import { scratch, sluice } from '../support/cli.ts';
import { CREDIT_COLUMNS } from '../support/score.ts';
import { checkTest } from '../support/tiers.ts';

describe('kept verdicts', () => {
  checkTest('the next process takes them, and finds out again what was damaged', async () => {
    const place = scratch();
    const registry = path.join(place, 'models');
    copyBundled(registry);
    const input = path.join(place, 'in.csv');
    writeFileSync(input, Buffer.concat([...generatePortfolio({ rows: 300, seed: 7 })]));
    const kept = path.join(place, 'cache/sluice/kept');
    const verdict = () => path.join(kept, readdirSync(kept).find((name) => name.startsWith('verdict-'))!);
    const score = async (env: Record<string, string> = { SLUICE_CACHE: 'on' }) => {
      const output = path.join(place, 'out.csv');
      const args = ['score', input, '--model', 'credit-default', '--registry', registry, '-o', output, '--no-manifest'];
      const { code, stderr } = await sluice(args, { env: { ...process.env, XDG_CACHE_HOME: path.join(place, 'cache'), ...env } }); // biome-ignore format: one line
      return { code, stderr, bytes: code === 0 ? readFileSync(output) : null };
    };
    const expected = await score({ SLUICE_CACHE: 'off' });
    expect(expected.code, expected.stderr).toBe(0);
    expect(() => readdirSync(kept)).toThrow();
    expect((await score()).bytes).toEqual(expected.bytes);
    const first = verdict();
    const made = statSync(first).mtimeMs;
    const whole = readFileSync(first);
    expect((await score()).bytes).toEqual(expected.bytes);
    expect(statSync(first).mtimeMs).toBe(made);
    const damaged = Buffer.from(whole);
    damaged[whole.length >> 1]! ^= 1;
    writeFileSync(first, damaged);
    utimesSync(first, 1, 1);
    expect((await score()).bytes).toEqual(expected.bytes);
    // Behind the digest; V8 does not always write the same bytes for the same plan.
    expect(deserialize(readFileSync(first).subarray(32))).toEqual(deserialize(whole.subarray(32)));
    expect(statSync(first).mtimeMs).toBeGreaterThan(made);
    // A model file that is not what model.yaml says is refused, whatever was found out about the one it was.
    const model = path.join(registry, 'credit-default/1/model.onnx');
    const bytes = readFileSync(model);
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(model, bytes);
    const refused = await score();
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('model_hash_mismatch')]);
    expect(readdirSync(kept).filter((name) => name.startsWith('verdict-'))).toHaveLength(1);
  });

  test('one is of this model, of what feeds it and of the policy', async () => {
    const place = scratch();
    vi.stubEnv('XDG_CACHE_HOME', place);
    vi.stubEnv('SLUICE_CACHE', 'on');
    onTestFinished(() => void vi.unstubAllEnvs());
    const model = await loadPackage(CREDIT_COLUMNS);
    const { verdict } = await judge(model, 'auto').known;
    const own = (await VerdictPlace.of(model, 'auto')!.read())!;
    expect(own.verdict).toEqual(verdict);
    // A plan that went over the disk opens.
    openNative(own.plan!).close();
    const { manifest } = model;
    const others = [
      { ...manifest, inputs: manifest.inputs.toReversed() },
      { ...manifest, columns: manifest.columns.map((c) => ({ ...c, missing: { as: 'error' as const } })) },
    ];
    for (const other of others) {
      expect(await VerdictPlace.of({ ...model, manifest: other }, 'auto')!.read()).toBeNull();
    }
    expect(await VerdictPlace.of(model, 'native')!.read()).toBeNull();
    // Only the name of the package and what is said of it are another.
    const renamed = path.join(place, 'renamed');
    cpSync(CREDIT_COLUMNS, renamed, { recursive: true });
    copyFileSync(path.join(renamed, 'model.yaml'), path.join(renamed, 'copy.yaml'));
    const same = { ...model, folder: renamed, ref: 'other:9' };
    expect((await VerdictPlace.of(same, 'auto')!.read())?.verdict).toEqual(verdict);
  });
});
