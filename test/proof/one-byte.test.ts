// Whatever byte of an output, its list, its input, its manifest or its package is changed, `verify` finds it, and names the row.
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { ONNXRUNTIME_VERSION } from '../../src/core/version.ts';
import { canonicalJson } from '../../src/proof/canonical-json.ts';
import { verifyOutput } from '../../src/runs/verify-output.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { makePackage } from '../support/registries/packages.ts';
import { times } from '../support/tiers.ts';

const CHANGES = times('proof changes', { quick: 12, check: 60, campaigns: 1000 });
const FILES = ['in.csv', 'out.csv', 'out.csv.rejects.csv', 'out.csv.manifest.json', 'm/model.yaml', 'm/model.onnx'];

/** A scored file of a few blocks, some rows of which are rejected. */
async function scored(): Promise<string> {
  const folder = scratch();
  const at = (name: string) => path.join(folder, name);
  cpSync(makePackage('m', 1), at('m'), { recursive: true });
  cpSync(at('m'), at('models/m/1'), { recursive: true });
  await sluiceHere(['generate', '--rows', '600', '--clean', '-o', at('in.csv')]);
  const lines = readFileSync(at('in.csv'), 'utf8').split('\n');
  for (let i = 7; i < lines.length - 1; i += 40) lines[i] = lines[i]!.replace(/^[^,]*/, 'none');
  writeFileSync(at('in.csv'), lines.join('\n'));
  const flags = ['--model', 'm', '--registry', at('models'), '-o', at('out.csv'), '--block-bytes', '16384'];
  const { code, stderr } = await sluiceHere(['score', at('in.csv'), ...flags]);
  expect([code, stderr]).toEqual([3, expect.stringContaining('rejected')]);
  return folder;
}

const verify = (folder: string) =>
  verifyOutput({
    output: path.join(folder, 'out.csv'),
    input: path.join(folder, 'in.csv'),
    list: null,
    package: path.join(folder, 'm'),
    key: null,
  });

/** The row of a byte of a file without line ends in quotes; null: of its header. */
function rowOf(text: Buffer, at: number): number | null {
  const line = text.subarray(0, at).toString('latin1').split('\n').length - 1;
  return line === 0 ? null : line;
}

test(`${CHANGES} changes of one byte: all are found, and the row is named`, async () => {
  const folder = await scored();
  expect(await verify(folder)).toMatchObject({ whole: true, findings: [] });
  const random = new Random();
  const below = (n: number): number => Math.floor(random.uniform() * n);
  for (let seed = 1; seed <= CHANGES; seed++) {
    random.seed(seed, 3);
    const name = FILES[seed % FILES.length]!;
    const file = path.join(folder, name);
    const whole = readFileSync(file);
    const at = below(whole.length);
    const changed = Buffer.from(whole);
    changed[at] = (changed[at]! + 1 + below(255)) % 256;
    writeFileSync(file, changed);
    const { whole: sound, findings } = await verify(folder);
    writeFileSync(file, whole);
    const what = `seed ${seed}, ${name}, byte ${at}: ${JSON.stringify(findings)}`;
    expect(sound, what).toBe(false);
    const row = rowOf(whole, at);
    if (['in.csv', 'out.csv'].includes(name) && row !== null) {
      expect(
        findings.flatMap((f) => f.rows),
        what,
      ).toContain(row);
      expect(findings, what).toHaveLength(1);
    }
    const expected = {
      'in.csv': 'input',
      'out.csv': 'output',
      'out.csv.rejects.csv': 'list',
      'out.csv.manifest.json': 'manifest',
    };
    for (const f of findings) expect(f.file, what).toBe(expected[name as keyof typeof expected] ?? 'package');
    if (name.startsWith('m/')) expect(findings[0]!.text, what).toContain(path.basename(name));
  }
});

test('rows that were deleted, doubled and swapped in different blocks are all named', async () => {
  const folder = await scored();
  const file = path.join(folder, 'out.csv');
  const lines = readFileSync(file, 'utf8').split('\n');
  // Line i is row i.
  [lines[10], lines[590]] = [lines[590]!, lines[10]!];
  lines.splice(300, 0, lines[300]!);
  lines.splice(150, 1);
  writeFileSync(file, lines.join('\n'));
  const { findings } = await verify(folder);
  expect(findings.map((f) => [f.kind, f.rows[0]])).toEqual(
    expect.arrayContaining([
      ['swapped', 10],
      ['deleted', 150],
      ['doubled', 300],
    ]),
  );
  expect(findings).toHaveLength(3);
});

test('canonical JSON does not depend on the order of keys', () => {
  expect(canonicalJson({ b: [1, { d: null, c: 'é"' }], a: undefined, A: 1e21 })).toBe(
    '{"A":1e+21,"b":[1,{"c":"é\\"","d":null}]}',
  );
});

test('the version of ONNX Runtime that manifests name is the one that is installed', () => {
  expect(ONNXRUNTIME_VERSION).toBe(JSON.parse(readFileSync('package.json', 'utf8')).dependencies['onnxruntime-node']);
});
