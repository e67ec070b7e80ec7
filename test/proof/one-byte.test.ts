// Whatever byte of an output, its rejects file, its input, its manifest or its package changes, `verify` finds it, and names the row.
import { createHash, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { expect, test } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { ONNXRUNTIME_VERSION } from '../../src/core/version.ts';
import { canonicalJson, type JsonValue } from '../../src/proof/canonical-json.ts';
import { seal, unseal } from '../../src/proof/envelope.ts';
import { merkleRoot, type Predicate, predicateOf } from '../../src/proof/statement.ts';
import { readManifest, verifyOutput } from '../../src/runs/checks/verify-output.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { makePackage } from '../support/registries/packages.ts';
import { checkTest, times } from '../support/tiers.ts';

const CHANGES = times('proof changes', { quick: 12, check: 24, campaigns: 1000 });
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
    if (name === 'out.csv') {
      expect(findings, what).toMatchObject([{ kind: 'changed', rows: row === null ? [] : [row] }]);
    }
    if (['in.csv', 'out.csv'].includes(name)) {
      const [found] = findings;
      expect(findings, what).toHaveLength(1);
      expect(at >= found!.bytes![0] && at < found!.bytes![1], what).toBe(true);
      expect((row ?? 1) >= found!.range![0] && (row ?? 1) <= found!.range![1], what).toBe(true);
    }
    if (name === 'out.csv.rejects.csv') {
      const rejected = Number(whole.toString('latin1').split('\n')[row ?? 0]!.split(',')[1]);
      expect(
        findings.flatMap((f) => f.rows),
        what,
      ).toEqual(row === null ? [] : [rejected]);
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
  expect(findings.flatMap((f) => f.rows)).toEqual([10, 150, 300, 590]);
});

test('a row that was put between two blocks, and a file that was cut, are found', async () => {
  const folder = await scored();
  const file = path.join(folder, 'out.csv');
  const { predicate } = await readManifest(file, null);
  const [{ end, rows }] = predicate!.blocks!.output as unknown as [{ end: number; rows: number }];
  const whole = readFileSync(file);
  writeFileSync(file, Buffer.concat([whole.subarray(0, end), Buffer.from('1,true,0.5,,\n'), whole.subarray(end)]));
  const inserted = { kind: 'inserted', bytes: [end, end], range: null, rows: [] };
  expect((await verify(folder)).findings).toMatchObject([inserted]);
  expect((await verify(folder)).findings[0]!.text).toContain(`before row ${rows + 1}`);
  writeFileSync(file, whole.subarray(0, end));
  expect((await verify(folder)).findings).toMatchObject([{ kind: 'changed', range: [rows + 1, 600] }]);
});

test('without the package, or with another one, only the block is named', async () => {
  const folder = await scored();
  const file = path.join(folder, 'out.csv');
  const whole = readFileSync(file);
  const changed = Buffer.from(whole);
  changed[whole.indexOf('\n', 20_000) - 2]! ^= 1;
  writeFileSync(file, changed);
  const { findings: named } = await verify(folder);
  expect(named).toMatchObject([{ file: 'output', rows: [expect.any(Number)] }]);
  const without = await verifyOutput({
    output: file,
    input: path.join(folder, 'in.csv'),
    list: null,
    package: null,
    key: null,
  });
  expect(without.findings).toMatchObject([
    {
      ...named[0],
      rows: [],
      text: expect.stringMatching(
        /the block of rows \d+ to \d+ .* changed; to list the changed rows, pass --input and --package$/,
      ),
    },
  ]);
  writeFileSync(path.join(folder, 'm/more.txt'), 'other');
  const { findings } = await verify(folder);
  expect(findings).toMatchObject([{ file: 'output', rows: [] }, { file: 'package' }]);
});

test('a sealed manifest whose parts contradict each other is damaged, and the message names the part', async () => {
  const folder = await scored();
  const file = path.join(folder, 'out.csv.manifest.json');
  const { statement } = unseal(readFileSync(file, 'utf8'), null);
  type Statement = { _type: string; predicateType: string; subject: { name: string }[]; predicate: Predicate };
  expect(predicateOf(statement).rows).toMatchObject({ read: 600, rejected: 15 });
  const cases: [wanted: string, change: (s: Statement) => void][] = [
    ['does not describe an output', (s) => { s._type += '0'; }],
    ['does not describe an output', (s) => { s.predicateType += '0'; }],
    ['contradict each other', (s) => { s.subject[0]!.name = 'other.csv'; }],
    ['contradict each other', (s) => { (s.predicate.blocks as unknown as { count: number }).count++; }],
    ['are not the sum', (s) => { s.predicate.rows.scored++; }],
    ['are not the sum', (s) => { s.predicate.rows.skipped++; }],
    // The sum of the rows is right, but not the sum of the codes.
    ['are not the sum', (s) => { s.predicate.rows.rejected++; s.predicate.rows.scored--; }],
    ['are not the sum', (s) => { s.predicate.rows.rejected_by_code = { bad_number: 1 }; }],
    ['do not add up', (s) => { s.predicate.rows.scored++; s.predicate.rows.read++; }],
    ['a path instead of a file name', (s) => { s.predicate.input.name = '../in.csv'; }],
    ['its time is invalid', (s) => { s.predicate.finished = 'yesterday'; }],
  ]; // biome-ignore format: a table
  for (const [wanted, change] of cases) {
    const copy = structuredClone(statement);
    change(copy as unknown as Statement);
    expect(() => predicateOf(copy), String(change)).toThrow(wanted);
    writeFileSync(file, seal(copy, null));
    expect((await verify(folder)).findings.map((f) => f.text)).toEqual([expect.stringContaining(wanted)]);
  }
});

test('a manifest with another list of blocks fails its root, its seal or its signature', async () => {
  const folder = await scored();
  const file = path.join(folder, 'out.csv.manifest.json');
  const text = readFileSync(file, 'utf8');
  const { statement } = unseal(text, null);
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  type Blocks = { count: number; merkle_root: string; entries: [string, number, number, string][] };
  const forged = (change: (blocks: Blocks) => void): typeof statement => {
    const copy = structuredClone(statement) as unknown as { predicate: { blocks: Blocks } };
    change(copy.predicate.blocks);
    return copy as unknown as typeof statement;
  };
  const another = (blocks: Blocks): void => {
    blocks.entries[2]![3] = 'f'.repeat(64);
  };
  const foundIn = async (manifest: string, key: KeyObject | null = null) => {
    writeFileSync(file, manifest);
    const { findings } = await verifyOutput({
      output: path.join(folder, 'out.csv'),
      input: null,
      list: null,
      package: null,
      key,
    });
    return findings.map((f) => f.text);
  };
  expect(await foundIn(seal(statement, privateKey), publicKey)).toEqual([]);
  expect(await foundIn(seal(forged(another), null))).toEqual([expect.stringContaining('do not match its root hash')]);
  const swapped = forged(({ entries }) => entries.splice(0, 2, entries[1]!, entries[0]!));
  expect(await foundIn(seal(swapped, null))).toEqual([expect.stringContaining('do not match its root hash')]);
  const rooted = forged((blocks) => {
    another(blocks);
    const predicate = (statement as unknown as { predicate: Predicate }).predicate;
    const stored = [predicate.input, predicate.output, predicate.list].map((f) => f?.stored.sha256 ?? null);
    blocks.merkle_root = merkleRoot([stored, ...blocks.entries].map((e) => Buffer.from(canonicalJson(e)))).toString(
      'hex',
    );
  });
  // Its root is right: only the signature shows that somebody else wrote it.
  expect(await foundIn(seal(rooted, null), publicKey)).toEqual([expect.stringContaining('not signed with this key')]);
  const body = JSON.parse(seal(statement, privateKey));
  const other = JSON.parse(seal(rooted, null));
  const { sha256: _, ...unsealed } = { ...other, signatures: body.signatures };
  const sha256 = createHash('sha256').update(canonicalJson(unsealed)).digest('hex');
  const spliced = `${canonicalJson({ ...unsealed, sha256 })}\n`;
  expect(await foundIn(spliced, publicKey)).toEqual([
    expect.stringContaining('the signature of the manifest is broken'),
  ]);
  expect(await foundIn(text.replace('"payload":"e', '"payload":"f'))).toEqual([expect.stringContaining('damaged')]);
});

/** The statement of the manifest of `scored`, its blocks with another digest and its root renewed. */
function withBlocks(folder: string, type: string, digestOf: (bytes: Uint8Array, digest: string) => string): JsonValue {
  const { statement } = unseal(readFileSync(path.join(folder, 'out.csv.manifest.json'), 'utf8'), null);
  const made = structuredClone(statement) as unknown as {
    predicateType: string;
    predicate: Predicate & { blocks: { merkle_root: string; entries: [string, number, number, string][] } };
  };
  const { input, output, list, blocks } = made.predicate;
  const names = { input: 'in.csv', output: 'out.csv', list: 'out.csv.rejects.csv' } as Record<string, string>;
  const from: Record<string, number> = {};
  for (const entry of blocks.entries) {
    const [file, end, , digest] = entry;
    const bytes = readFileSync(path.join(folder, names[file]!)).subarray(from[file] ?? 0, end);
    entry[3] = digestOf(bytes, digest);
    from[file] = end;
  }
  const stored = [input, output, list].map((f) => f?.stored.sha256 ?? null);
  const leaves = [stored, ...blocks.entries].map((e) => Buffer.from(canonicalJson(e as JsonValue)));
  blocks.merkle_root = merkleRoot(leaves).toString('hex');
  made.predicateType = type;
  return made as unknown as JsonValue;
}

checkTest('a manifest of the second format, whose blocks have a SHA-256, names the changed row', async () => {
  const folder = await scored();
  const at = (name: string) => path.join(folder, name);
  const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
  const second = withBlocks(folder, 'urn:sluice:scored-file:v2', sha256);
  writeFileSync(at('out.csv.manifest.json'), seal(second, null));
  expect(await verify(folder)).toMatchObject({ whole: true, findings: [] });
  for (const [name, row] of [
    ['in.csv', 300],
    ['out.csv', 500],
  ] as const) {
    const whole = readFileSync(at(name), 'utf8');
    const lines = whole.split('\n');
    lines[row] = lines[row]!.replace(/\d(?=[^\d]*$)/, (digit) => String((Number(digit) + 5) % 10));
    writeFileSync(at(name), lines.join('\n'));
    const { findings } = await verify(folder);
    expect(findings).toMatchObject([{ kind: 'changed' }]);
    const [first, last] = findings[0]!.range!;
    expect(first <= row && row <= last).toBe(true);
    writeFileSync(at(name), whole);
  }
});

test('blocks of plain text have a CRC-32 of exactly their bytes; another digest is not accepted', async () => {
  const folder = await scored();
  const seen: string[] = [];
  const crc = (bytes: Uint8Array) => crc32(bytes).toString(16).padStart(8, '0');
  const same = withBlocks(folder, 'urn:sluice:scored-file:v3', (bytes, digest) => {
    expect(digest).toBe(crc(bytes));
    seen.push(digest);
    return digest;
  });
  expect(seen.length).toBeGreaterThan(10);
  const file = path.join(folder, 'out.csv.manifest.json');
  expect(seal(same, null)).toBe(readFileSync(file, 'utf8'));
  for (const wrong of ['', 'abc', seen[0]!.toUpperCase().padStart(9, '0'), 'x'.repeat(64)]) {
    writeFileSync(
      file,
      seal(
        withBlocks(folder, 'urn:sluice:scored-file:v3', () => wrong),
        null,
      ),
    );
    const { findings } = await verify(folder);
    expect(findings).toMatchObject([{ file: 'manifest', text: expect.stringContaining('no valid digest') }]);
    writeFileSync(file, seal(same, null));
  }
});

test('a change that leaves every CRC-32 as it was is still a change of the file', async () => {
  const folder = await scored();
  // The bits of the polynomial, in the order in which CRC-32 reads the bits of bytes: a difference without effect.
  const bits = 0x104c11db7n.toString(2);
  const difference = new Uint8Array(5);
  for (const [i, bit] of [...bits].entries()) difference[i >> 3]! |= Number(bit) << (i & 7);
  for (const name of ['in.csv', 'out.csv', 'out.csv.rejects.csv']) {
    const file = path.join(folder, name);
    const whole = readFileSync(file);
    const changed = Buffer.from(whole);
    for (const [i, byte] of difference.entries()) changed[whole.length - 30 + i]! ^= byte;
    expect(crc32(changed)).toBe(crc32(whole));
    writeFileSync(file, changed);
    const { whole: sound, findings } = await verify(folder);
    expect(sound).toBe(false);
    expect(findings).toMatchObject([{ kind: 'content', text: expect.stringContaining('the file was changed') }]);
    writeFileSync(file, whole);
  }
});

checkTest('a manifest of the first format is still checked as a whole', async () => {
  const folder = await scored();
  const file = path.join(folder, 'out.csv.manifest.json');
  const { statement } = unseal(readFileSync(file, 'utf8'), null);
  const earlier = structuredClone(statement) as unknown as {
    predicateType: string;
    predicate: Predicate & { blocks: object };
  };
  const entries = [[600, 15, [88_000, 601, 'a'], [20_000, 601, 'b'], [900, 16, 'c']]];
  const { input, output, list } = earlier.predicate;
  const stored = [input, output, list].map((f) => f?.stored.sha256 ?? null);
  const root = merkleRoot([stored, ...entries].map((e) => Buffer.from(canonicalJson(e)))).toString('hex');
  earlier.predicateType = 'urn:sluice:scored-file:v1';
  earlier.predicate.blocks = { count: 1, merkle_root: root, entries } as never;
  for (const proven of [input, output, list!]) Object.assign(proven, { content: proven.stored });
  const write = () => writeFileSync(file, seal(earlier as unknown as JsonValue, null));
  write();
  expect(await verify(folder)).toMatchObject({ whole: true, findings: [] });
  const out = path.join(folder, 'out.csv');
  writeFileSync(out, `${readFileSync(out, 'utf8')}\n`);
  const text =
    'output: the file was changed; the manifest is of an earlier release, so that its blocks cannot be compared';
  expect((await verify(folder)).findings).toMatchObject([{ file: 'output', kind: 'content', text }]);
  entries[0]![0] = 601;
  write();
  expect((await verify(folder)).findings).toMatchObject([{ file: 'manifest', text: expect.stringContaining('root') }]);
});

test('canonical JSON does not depend on the order of keys', () => {
  expect(canonicalJson({ b: [1, { d: null, c: 'é"' }], a: undefined, A: 1e21 })).toBe(
    '{"A":1e+21,"b":[1,{"c":"é\\"","d":null}]}',
  );
});

test('the version of ONNX Runtime that manifests name is the one that is installed', () => {
  expect(ONNXRUNTIME_VERSION).toBe(JSON.parse(readFileSync('package.json', 'utf8')).dependencies['onnxruntime-node']);
});
