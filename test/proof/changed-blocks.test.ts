// Blocks that changed are found in every format, compressed or not, merged from shards or resumed, and their rows are named.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync, gzipSync, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { bool, columnFromArray, float64, tableFromColumns, tableFromIPC, tableToIPC, utf8 } from '@uwdata/flechette';
import { parquetReadObjects } from 'hyparquet';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { expect, test } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { merge } from '../../src/doors/commands/merge.ts';
import { score } from '../../src/doors/commands/score.ts';
import { BlockDigests, type BlockRange, locateChanges } from '../../src/proof/block-digests.ts';
import { readManifest, type Verified, verifyOutput } from '../../src/runs/checks/verify-output.ts';
import { endpoint } from '../../src/runs/endpoint-specs.ts';
import { planShards } from '../../src/runs/shards/plan-shards.ts';
import { planText } from '../../src/runs/shards/shard-plan.ts';
import { scratch } from '../support/cli.ts';
import { jobOf, killedRun, OFTEN, scoreJob } from '../support/interrupted.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { asNative, asObjects } from '../support/service.ts';
import { campaignTest, checkTest, TIER, times } from '../support/tiers.ts';

const random = new Random();
const below = (n: number): number => Math.floor(random.uniform() * n);

async function* inChunks(text: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < text.length; ) {
    const n = 1 + below(300);
    yield text.subarray(at, at + n);
    at += n;
  }
}

test('of random edits, every block that they touch is found, and whole ones only between two of them', async () => {
  for (let seed = 1; seed <= 300; seed++) {
    random.seed(seed, 9);
    const text = Buffer.from(Array.from({ length: 200 + below(2000) }, () => below(256)));
    const digests = new BlockDigests(seed % 2 === 0 ? 'crc32' : 'sha256');
    const blocks: BlockRange[] = [];
    for (let at = 0; at < text.length; ) {
      const n = 1 + below(200);
      blocks.push({ ...digests.markWith(text.subarray(at, at + n))!, rows: 1 });
      at += n;
    }
    const at = below(text.length);
    const [removed, added] = [below(3) * below(60), below(3) * below(60)];
    const put = Buffer.from(Array.from({ length: added }, () => below(256)));
    const edited = Buffer.concat([text.subarray(0, at), put, text.subarray(at + removed)]);
    const { changed, unreadable } = await locateChanges(() => inChunks(edited), blocks);
    expect(unreadable).toBeNull();
    if (edited.equals(text)) {
      expect(changed, `seed ${seed}`).toEqual([]);
      continue;
    }
    expect(changed, `seed ${seed}`).toHaveLength(1);
    const [{ from, to, movedBefore, movedBehind }] = changed as [(typeof changed)[number]];
    const end = Math.min(text.length, at + removed);
    // Bytes at the edges of an edit can be those that were there.
    expect(from <= Math.max(at, from), `seed ${seed}`).toBe(true);
    expect(text.subarray(0, from).equals(edited.subarray(0, from + movedBefore)), `seed ${seed}`).toBe(true);
    expect(text.subarray(to).equals(edited.subarray(to + movedBehind)), `seed ${seed}`).toBe(true);
    const [first, last] = [blocks.findIndex((b) => b.end > at), blocks.findIndex((b) => b.end >= end)];
    expect(from, `seed ${seed}`).toBeGreaterThanOrEqual(first < 1 ? 0 : blocks[first - 1]!.end);
    expect(to, `seed ${seed}`).toBeLessThanOrEqual(Math.max(blocks[last < 0 ? blocks.length - 1 : last]!.end, from));
  }
});

const portfolio = (rows: number, seed: number, faults = 0): string =>
  Buffer.concat([...generatePortfolio({ rows, seed, faults, ids: true })]).toString();

const columnsOf = (csv: string) => {
  const rows = asNative(asObjects(csv)) as Record<string, unknown>[];
  return Object.keys(rows[0]!).map((name) => {
    const data = rows.map((row) => row[name] ?? null);
    return { name, data, kind: typeof data.find((value) => value !== null) as 'string' | 'number' | 'boolean' };
  });
};

function parquetOf(csv: string, rowGroupSize: number): Buffer {
  const types = { string: 'STRING', number: 'DOUBLE', boolean: 'BOOLEAN' } as const;
  const columnData = columnsOf(csv).map(({ name, data, kind }) => ({ name, data, type: types[kind], nullable: true }));
  return Buffer.from(parquetWriteBuffer({ columnData, rowGroupSize }));
}

function arrowOf(csv: string): Buffer {
  const types = { string: utf8, number: float64, boolean: bool };
  const batches = { maxBatchRows: 100 };
  const columns = columnsOf(csv).map(
    ({ name, data, kind }) => [name, columnFromArray(data, types[kind](), batches)] as const,
  );
  return Buffer.from(tableToIPC(tableFromColumns(columns as never), { format: 'file' })!);
}

const options = {
  model: 'credit-default',
  onInvalid: 'report',
  passthrough: 'application_id',
  quiet: true,
  workers: 1,
} as const;

const verified = (output: string, input: string): Promise<Verified> =>
  verifyOutput({ output, input, list: null, package: CREDIT_DEFAULT, key: null });

const flip = (bytes: Buffer): { changed: Buffer; at: number } => {
  const at = below(bytes.length);
  const changed = Buffer.from(bytes);
  changed[at] = (changed[at]! + 1 + below(255)) % 256;
  return { changed, at };
};

const unpacked = (name: string, bytes: Buffer): Buffer =>
  name.endsWith('.gz') ? gunzipSync(bytes) : name.endsWith('.zst') ? zstdDecompressSync(bytes) : bytes;
const packed = (name: string, bytes: Buffer): Buffer =>
  name.endsWith('.gz') ? gzipSync(bytes) : name.endsWith('.zst') ? zstdCompressSync(bytes) : bytes;

/** Which element a byte of a text belongs to, from 1; null: none. */
function rowOfByte(name: string, text: Buffer, at: number): number | null {
  if (name === 'out.json') {
    const json = text.toString('latin1');
    const starts = [...json.matchAll(/\{"application_id"/g)].map(({ index }) => index);
    if (at < starts[0]! || at >= json.lastIndexOf('],"summary"')) return null;
    // A comma belongs to the row behind it.
    return starts.filter((start, i) => at >= (i === 0 ? start : start - 1)).length;
  }
  const line = text.subarray(0, at).toString('latin1').split('\n').length - 1;
  return name.includes('.ndjson') ? line + 1 : line === 0 ? null : line;
}

const CHANGES = times('changes of each format', { quick: 1, check: 1, campaigns: 400 });

for (const name of ['out.csv', 'out.tsv', 'out.ndjson', 'out.json', 'out.csv.gz', 'out.ndjson.zst']) {
  (name === 'out.json' || name === 'out.ndjson.zst' ? test : checkTest)(
    `${name}: the block of a byte of the content is found, and its row is named`,
    async () => {
      const folder = scratch();
      const [input, output] = [path.join(folder, 'in.csv'), path.join(folder, name)];
      writeFileSync(input, portfolio(500, 3, 8));
      expect(await score(input, { ...options, output, blockBytes: 8192 })).toBe(3);
      expect(await verified(output, input)).toMatchObject({ whole: true, findings: [] });
      const stored = readFileSync(output);
      const text = unpacked(name, stored);
      for (let seed = 1; seed <= CHANGES; seed++) {
        random.seed(seed, 21);
        const { changed, at } = flip(text);
        writeFileSync(output, packed(name, changed));
        const { findings } = await verified(output, input);
        const row = rowOfByte(name, text, at);
        const what = `seed ${seed}, byte ${at}, row ${row}: ${JSON.stringify(findings)}`;
        expect(findings, what).toHaveLength(1);
        const [{ file, bytes, range, rows }] = findings as [(typeof findings)[number]];
        expect(file, what).toBe('output');
        expect(at >= bytes![0] && at < bytes![1], what).toBe(true);
        if (row !== null) {
          expect(row >= range![0] && row <= range![1], what).toBe(true);
          expect(rows, what).toEqual([row]);
        } else if (range !== null)
          expect(
            rows.filter((r) => r !== 1),
            what,
          ).toEqual([]);
      }
      if (text !== stored) {
        writeFileSync(output, packed(name, text).equals(stored) ? gzipSync(text, { level: 1 }) : packed(name, text));
        expect((await verified(output, input)).findings).toMatchObject([{ kind: 'stored', rows: [] }]);
      }
      // Bytes as they are stored: whatever the decompressor makes of them, the file is not whole.
      for (let seed = 1; seed <= CHANGES; seed++) {
        random.seed(seed, 22);
        const { changed, at } = flip(stored);
        writeFileSync(output, changed);
        const { findings } = await verified(output, input);
        expect(findings.length, `seed ${seed}, byte ${at}`).toBeGreaterThan(0);
        let now: Buffer | null = null;
        try {
          now = unpacked(name, changed);
        } catch {
          // It cannot be read.
        }
        const first = now === null ? null : text.findIndex((byte, i) => byte !== now[i]);
        const what = `seed ${seed}, byte ${at}: ${JSON.stringify(findings)}`;
        if (first !== null && first >= 0) {
          expect(findings[0]!.bytes![0] <= first && findings[0]!.bytes![1] > first, what).toBe(true);
        }
        if (first === -1 && now!.length === text.length) expect(findings, what).toMatchObject([{ kind: 'stored' }]);
      }
    },
  );
}

checkTest('a compressed output that was cut, or whose checksum changed, is found where it ends', async () => {
  const folder = scratch();
  const [input, output] = [path.join(folder, 'in.csv'), path.join(folder, 'out.csv.gz')];
  writeFileSync(input, portfolio(500, 3));
  expect(await score(input, { ...options, output, blockBytes: 8192 })).toBe(0);
  const stored = readFileSync(output);
  const { predicate } = await readManifest(output, null);
  const { end } = predicate.blocks!.output.at(-1)!;
  writeFileSync(output, stored.subarray(0, stored.length >> 1));
  const [found, ...more] = (await verified(output, input)).findings;
  expect([found!.kind, found!.range![1], found!.bytes![1], more]).toEqual(['changed', 500, end, []]);
  expect(found!.text).toContain('cannot be read');
  const changed = Buffer.from(stored);
  changed[stored.length - 5]! ^= 1;
  writeFileSync(output, changed);
  const { findings } = await verified(output, input);
  expect(findings.map(({ file }) => file)).toEqual(findings.map(() => 'output'));
  expect(findings.at(-1)!.text).toContain('cannot be read');
});

/** The rows of a table as JSON; null: it cannot be read. */
async function rowsOf(name: string, bytes: Buffer): Promise<string[] | null> {
  const plain = (_: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value);
  try {
    const content = unpacked(name, bytes);
    if (name.endsWith('.parquet')) {
      const file = content.buffer.slice(content.byteOffset, content.byteOffset + content.length) as ArrayBuffer;
      return (await parquetReadObjects({ file })).map((row) => JSON.stringify(row, plain));
    }
    return tableFromIPC(content)
      .toArray()
      .map((row) => JSON.stringify(row, plain));
  } catch {
    return null;
  }
}

const GROUP_ROWS = 50_000;
const TABLE_CHANGES = times('changes of each table', { quick: 0, check: 3, campaigns: 150 });

for (const name of ['out.parquet', 'out.arrow', 'out.arrows.zst']) {
  (name === 'out.arrows.zst' ? campaignTest : checkTest)(
    `${name}: the row group or record batch of a byte is found, and rows with other values are named`,
    async () => {
      const folder = scratch();
      const [input, output] = [path.join(folder, 'in.csv'), path.join(folder, name)];
      const rows = GROUP_ROWS + 3000;
      writeFileSync(input, portfolio(rows, 5, 20));
      expect(await score(input, { ...options, output })).toBe(3);
      expect(await verified(output, input)).toMatchObject({ whole: true, findings: [] });
      const { predicate } = await readManifest(output, null);
      expect(predicate.blocks!.output.map((block) => block.rows)).toEqual([GROUP_ROWS, 3000, 0]);
      const stored = readFileSync(output);
      const text = unpacked(name, stored);
      const before = (await rowsOf(name, stored))!;
      let named = 0;
      for (let seed = 1; seed <= TABLE_CHANGES; seed++) {
        random.seed(seed, 31);
        const { changed, at } = flip(text);
        const bytes = packed(name, changed);
        writeFileSync(output, bytes);
        const { findings } = await verified(output, input);
        const what = `seed ${seed}, byte ${at}: ${JSON.stringify(findings).slice(0, 400)}`;
        expect(findings, what).toHaveLength(1);
        const [found] = findings as [(typeof findings)[number]];
        const block = predicate.blocks!.output.findIndex(({ end }) => at < end);
        const range = [[1, GROUP_ROWS], [GROUP_ROWS + 1, rows], null][block]!;
        expect([found.file, found.range], what).toEqual(['output', range]);
        expect(at >= found.bytes![0] && at < found.bytes![1], what).toBe(true);
        if (found.text.includes('could not be compared') || found.range === null) continue;
        const now = await rowsOf(name, bytes);
        if (now === null || now.length !== before.length) continue;
        const differing = before.flatMap((row, i) => (row === now[i] ? [] : [i + 1]));
        expect(found.rows, what).toEqual(differing);
        named += differing.length;
      }
      expect(named).toBeGreaterThan(0);
    },
  );
}

const INPUTS: Record<string, (csv: string) => Buffer> = {
  'in.csv': (csv) => Buffer.from(csv),
  'in.ndjson.gz': (csv) =>
    gzipSync(
      asNative(asObjects(csv))
        .map((row) => `${JSON.stringify(row)}\n`)
        .join(''),
    ),
  'in.json': (csv) => Buffer.from(JSON.stringify(asNative(asObjects(csv)), null, 1)),
  'in.parquet': (csv) => parquetOf(csv, 120),
  'in.arrow': arrowOf,
};

for (const [name, bytesOf] of Object.entries(INPUTS)) {
  checkTest(`${name}: the block of a byte of an input is found`, async () => {
    const folder = scratch();
    const [input, output] = [path.join(folder, name), path.join(folder, 'out.csv')];
    const stored = bytesOf(portfolio(400, 7));
    writeFileSync(input, stored);
    expect(await score(input, { ...options, output, blockBytes: 8192 })).toBe(0);
    const { predicate } = await readManifest(output, null);
    const blocks = predicate.blocks!.input;
    expect(blocks.length).toBeGreaterThan(2);
    expect(blocks.reduce((sum, { rows }) => sum + rows, 0)).toBe(400);
    const text = unpacked(name, stored);
    expect(blocks.at(-1)!.end).toBe(text.length);
    expect(await verified(output, input)).toMatchObject({ whole: true, findings: [] });
    for (let seed = 1; seed <= CHANGES; seed++) {
      random.seed(seed, 41);
      const { changed, at } = flip(text);
      writeFileSync(input, packed(name, changed));
      const { findings } = await verified(output, input);
      const what = `seed ${seed}, byte ${at}: ${JSON.stringify(findings)}`;
      expect(findings, what).toHaveLength(1);
      const [{ file, bytes, range, rows }] = findings as [(typeof findings)[number]];
      expect(file, what).toBe('input');
      expect(at >= bytes![0] && at < bytes![1], what).toBe(true);
      const row = name === 'in.csv' ? text.subarray(0, at).toString().split('\n').length - 1 : null;
      if (row) expect(row >= range![0] && row <= range![1], what).toBe(true);
      // A byte of a row can leave its score as it was.
      if (row && changed[at] !== 10 && text[at] !== 10 && changed[at] !== 34)
        expect([[], [row]], what).toContainEqual(rows);
    }
  });
}

/** Changes a digit of a row in the content of an output, and checks that the row is named. */
async function nameOne(output: string, input: string, seed: number): Promise<void> {
  expect(await verified(output, input)).toMatchObject({ whole: true, findings: [] });
  const stored = readFileSync(output);
  const lines = unpacked(output, stored).toString().split('\n');
  random.seed(seed, 51);
  const row = 1 + below(lines.length - 2);
  const line = output.includes('.csv') ? row : row - 1;
  lines[line] = lines[line]!.replace(/\d(?=[^\d]*$)/, (digit) => String((Number(digit) + 1) % 10));
  writeFileSync(output, packed(output, Buffer.from(lines.join('\n'))));
  const { findings } = await verified(output, input);
  expect(findings).toMatchObject([{ file: 'output', kind: 'changed', rows: [row] }]);
  writeFileSync(output, stored);
}

checkTest('outputs and rejects files that were merged from shards, compressed or not', async () => {
  for (const [i, [inputName, ending]] of (
    [
      ['in.csv', 'csv.gz'],
      ['in.parquet', 'ndjson.zst'],
      ['in.parquet', 'csv'],
    ] as const
  ).entries()) {
    const folder = scratch();
    const at = (name: string) => path.join(folder, name);
    const csv = portfolio(700, 11 + i, inputName === 'in.csv' ? 15 : 0);
    writeFileSync(at(inputName), inputName === 'in.csv' ? csv : parquetOf(csv, 90));
    const inputs = [endpoint(at(inputName), {}, 'csv')];
    const plan = await planShards({ inputs, shards: 3, recordBytes: 1 << 20, blockBytes: 8192 });
    expect(plan.pieces).toHaveLength(3);
    writeFileSync(at('plan.json'), planText(plan));
    for (let shard = 0; shard < 3; shard++) {
      await score(undefined, { ...options, plan: at('plan.json'), shard, output: at(`part-{shard}.${ending}`) });
    }
    await merge(at('plan.json'), { parts: at('part-*'), output: at(`out.${ending}`), quiet: true });
    await score(at(inputName), { ...options, output: at(`one.${ending}`), blockBytes: 8192 });
    const [merged, one] = await Promise.all(
      ['out', 'one'].map(async (name) => (await readManifest(at(`${name}.${ending}`), null)).predicate.blocks!),
    );
    expect(merged!.input).toEqual(one!.input);
    if (inputName === 'in.csv') expect(merged).toEqual(one);
    for (let seed = 1; seed <= 3; seed++) await nameOne(at(`out.${ending}`), at(inputName), seed);
    const list = at(`out.${ending}.rejects.csv`);
    if (inputName === 'in.parquet') {
      expect(readdirSync(folder)).not.toContain(path.basename(list));
      continue;
    }
    const rejected = readFileSync(list, 'utf8').split('\n');
    writeFileSync(list, rejected.map((text, n) => (n === 9 ? text.replace(/.$/, '~') : text)).join('\n'));
    const row = Number(rejected[9]!.split(',')[1]);
    expect((await verified(at(`out.${ending}`), at(inputName))).findings).toMatchObject([
      { file: 'list', rows: [row] },
    ]);
  }
});

checkTest('outputs of resumed runs, compressed or not', async () => {
  const [compressed, ...others] = [
    ['in.csv', 'out.csv.gz'],
    ['in.parquet', 'out.ndjson'],
    ['in.arrow', 'out.csv'],
  ] as const;
  for (const [input, output] of TIER === 'campaigns' ? [compressed, ...others] : [compressed]) {
    const job = jobOf(input, output, { rows: 20_000 });
    const at = (name: string) => path.join(job.folder, name);
    expect([0, 3]).toContain((await scoreJob(job)).code);
    const { predicate: whole } = await readManifest(at(output), null);
    await killedRun(job);
    const resumed = await scoreJob(job, '--resume', ...OFTEN);
    expect(JSON.parse(resumed.stdout).resumedRows, resumed.stderr).toBeGreaterThan(0);
    const { predicate } = await readManifest(at(output), null);
    expect({ ...predicate, previous: null }).toEqual({ ...whole, previous: null });
    await nameOne(at(output), at(input), 1);
  }
});

checkTest('a rejects file of several inputs has the blocks of each in its own manifest', async () => {
  const folder = scratch();
  const at = (name: string) => path.join(folder, name);
  for (const [i, name] of ['in-a.csv', 'in-b.csv', 'in-c.csv'].entries())
    writeFileSync(at(name), portfolio(120, i + 1, i === 2 ? 0 : 6));
  await score(at('in-*.csv'), {
    ...options,
    output: at('{name}.out.csv'),
    rejects: at('rejects.csv'),
    blockBytes: 4096,
  });
  const list = at('rejects.csv');
  const whole = readFileSync(list, 'utf8').split('\n');
  const line = whole.findIndex((text) => text.includes('in-b.csv'));
  expect(line).toBeGreaterThan(1);
  for (const name of ['a', 'b', 'c'])
    expect(await verified(at(`in-${name}.out.csv`), at(`in-${name}.csv`))).toMatchObject({ whole: true });
  writeFileSync(list, whole.map((text, n) => (n === line ? text.replace(/.$/, '~') : text)).join('\n'));
  const row = Number(
    whole[line]!.split(',').at(whole[line]!.split(',').findIndex((cell) => cell.endsWith('in-b.csv')) + 1),
  );
  expect((await verified(at('in-b.out.csv'), at('in-b.csv'))).findings).toMatchObject([{ file: 'list', rows: [row] }]);
  // The bytes of others are known by the digest of the whole file only.
  expect((await verified(at('in-a.out.csv'), at('in-a.csv'))).findings).toMatchObject([
    { file: 'list', kind: 'content', rows: [] },
  ]);
});
