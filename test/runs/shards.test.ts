// A run in shards is one run: whatever the cuts, the parts behind each other are the bytes that one run writes.
import { execFileSync } from 'node:child_process';
import { createHash, generateKeyPairSync } from 'node:crypto';
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { ByteWriter, ParquetWriter, parquetWriteBuffer, schemaFromColumnData } from 'hyparquet-writer';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import type { SluiceError } from '../../src/core/errors.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { merge } from '../../src/doors/commands/merge.ts';
import { type ScoreOptions, score } from '../../src/doors/commands/score.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { unseal } from '../../src/proof/envelope.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { withOutput } from '../../src/runs/byte-ends.ts';
import { readManifest, verifyOutput } from '../../src/runs/checks/verify-output.ts';
import { type Endpoint, endpoint } from '../../src/runs/endpoint-specs.ts';
import { openSource } from '../../src/runs/endpoints.ts';
import { InputScorer } from '../../src/runs/input-scorer.ts';
import { planShards } from '../../src/runs/shards/plan-shards.ts';
import { inputsOfShard, openPiece, planText } from '../../src/runs/shards/shard-plan.ts';
import { copyBundled } from '../support/bundled-models.ts';
import { MAIN, scratch, sluiceHere } from '../support/cli.ts';
import { CREDIT_DEFAULT, MemorySink } from '../support/score.ts';
import { asNative, asObjects } from '../support/service.ts';
import { campaignTest, checkTest, times } from '../support/tiers.ts';

const portfolio = (rows: number, seed: number, faults = 0, ids = true): string =>
  Buffer.concat([...generatePortfolio({ rows, seed, faults, ids })]).toString();

/** 0 ≤ x < n, the same for the same seed. */
function dice(seed: number): (n: number) => number {
  let state = (seed * 2654435761 + 12345) >>> 0;
  return (n) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 3266489917) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

/** A portfolio with line ends of all kinds, quoted line ends, blank lines, text behind quotes and quotes that are left open. */
function nasty(seed: number): string {
  const roll = dice(seed);
  const [header, ...rows] = portfolio(12 + roll(30), seed)
    .trimEnd()
    .split('\n') as [string, ...string[]];
  const end = (): string => ['\n', '\r\n', '\r', '\n\n', '\r\n\r\n'][roll(5)]!;
  const lines = rows.map((row) => {
    const [id, ...cells] = row.split(',');
    const named =
      [id!, `"a\n${id}"`, `"x\r\n""y""\n\n${id}"`, `"left\nopen`, `"a"b\n"`, `"${'z'.repeat(roll(400))}\n"`][roll(8)] ??
      id!;
    return `${[named, ...cells].join(',')}${end()}`;
  });
  return `${roll(2) ? '\uFEFF' : ''}${header}${end()}${lines.join('')}${roll(3) ? '' : '"never\nclosed'}`;
}

describe('any cut of any file', () => {
  const write = (name: string, text: string): Endpoint => {
    const file = path.join(scratch(), name);
    writeFileSync(file, text);
    return endpoint(file, {}, 'csv');
  };

  async function scorer() {
    const model = await loadPackage(CREDIT_DEFAULT);
    const pool = new InputScorer({ model, workers: 1, blockBytes: 2048 });
    onTestFinished(() => pool.close());
    return async (from: Endpoint, maxRecordBytes: number) => {
      const sink = new MemorySink();
      const account = new RunAccount();
      let list = '';
      const source = await openSource(from);
      const counts = await pool.score({
        open: async () => ({ source, sink: withOutput(sink, { format: 'csv', delimiter: ',' }) }),
        rejects: {
          write: async (more) => {
            list += more;
          },
          revocable: async () => false,
          keep: async () => {},
          drop: async () => {},
          bytes: () => Buffer.byteLength(list),
          sync: async () => {},
        },
        scoring: {
          passthrough: ['application_id'],
          interpretation: null,
          limits: { maxRecordBytes },
          failOnInvalid: false,
        },
        unit: () => account.unit(),
      });
      return { counts, list, output: sink.text };
    };
  }

  async function sameAs(run: Awaited<ReturnType<typeof scorer>>, input: Endpoint, shards: number, recordBytes: number) {
    const plan = await planShards({ inputs: [input], shards, recordBytes });
    const ends = plan.pieces.map(({ from, to }) => [from, to]);
    expect(ends.flat()).toEqual([0, ...ends.slice(1).flatMap(([from]) => [from, from]), plan.files[0]!.bytes]);
    const whole = await run(input, recordBytes);
    const parts = { output: '', list: '', rows: 0 };
    for (let shard = 0; shard < shards; shard++) {
      for (const planned of inputsOfShard(plan, shard)) {
        const part = await run({ ...input, planned }, recordBytes);
        expect(part.counts.rows).toBe(planned.piece.rows);
        parts.output += part.output;
        parts.list += part.list;
        parts.rows += part.counts.rows;
      }
    }
    expect(parts).toEqual({ output: whole.output, list: whole.list, rows: whole.counts.rows });
    return plan.pieces.length;
  }

  const files = times('sharded files', { quick: 4, check: 10, campaigns: 1500 });
  test(`${files} nasty files of text, cut into up to 40 shards`, async () => {
    const run = await scorer();
    let pieces = 0;
    for (let seed = 1; seed <= files; seed++) {
      const roll = dice(seed + 7);
      const input = write('in.csv', nasty(seed));
      pieces += await sameAs(run, input, 1 + roll(40), [500, 700, 1 << 20][roll(3)]!);
    }
    expect(pieces).toBeGreaterThan(files * 5);
  });

  test(`${files} files of lines with blank ones, faults and byte order marks between`, async () => {
    const run = await scorer();
    for (let seed = 1; seed <= files; seed++) {
      const roll = dice(seed);
      const objects = asNative(asObjects(portfolio(20, seed)));
      const text = objects.map(
        (o) => `${JSON.stringify(o)}${['\n', '\r\n', '\n\n', '\n\uFEFF', '\n{"a":\n', '\r'][roll(6)]}`,
      );
      await sameAs(run, write('in.ndjson', `${roll(2) ? '\uFEFF' : ''}${text.join('')}`), 1 + roll(30), 1 << 20);
    }
  });

  test('a file of which a byte changed, or that grew, is refused by the shard that reads it', async () => {
    const run = await scorer();
    const input = write('in.csv', portfolio(60, 3));
    const plan = await planShards({ inputs: [input], shards: 4, recordBytes: 1 << 20 });
    const bytes = readFileSync(input.name);
    const roll = dice(11);
    for (let i = 0; i < 40; i++) {
      const at = roll(bytes.length);
      const changed = Buffer.from(bytes);
      changed[at]! ^= 1;
      writeFileSync(input.name, changed);
      const reading = plan.pieces.filter(({ from, to }) => (at >= from && at < to) || at < plan.files[0]!.head.bytes);
      for (const piece of reading) {
        await expect(
          run({ ...input, planned: { piece, file: plan.files[0]! } }, 1 << 20),
          `byte ${at}`,
        ).rejects.toMatchObject({
          code: expect.stringMatching(/^(input_changed|header_mismatch|wrong_delimiter)$/),
        });
      }
    }
    writeFileSync(input.name, Buffer.concat([bytes, bytes.subarray(bytes.indexOf(10) + 1)]));
    const last = { piece: plan.pieces.at(-1)!, file: plan.files[0]! };
    await expect(run({ ...input, planned: last }, 1 << 20)).rejects.toMatchObject({ code: 'input_changed' });
  });
});

test('a Parquet file of which only the footer changed is refused by every shard', async () => {
  const file = path.join(scratch(), 'in.parquet');
  const bytes = parquet(asObjects(portfolio(100, 1)));
  writeFileSync(file, bytes);
  const plan = await planShards({ inputs: [endpoint(file, {}, 'csv')], shards: 3, recordBytes: 1 << 20 });
  // Two columns exchange their names, as if the sender had corrected them.
  const footer = bytes.length - 8 - bytes.readUInt32LE(bytes.length - 8);
  const names = bytes.subarray(footer).toString('latin1');
  const exchanged = names.replaceAll(/income|amount/g, (name) => (name === 'income' ? 'amount' : 'income'));
  expect(exchanged).not.toBe(names);
  writeFileSync(file, Buffer.concat([bytes.subarray(0, footer), Buffer.from(exchanged, 'latin1')]));
  expect(plan.pieces).toHaveLength(3);
  for (const piece of plan.pieces) {
    await expect(openPiece({ piece, file: plan.files[0]! })).rejects.toMatchObject({ code: 'input_changed' });
  }
});

test('a Parquet file without dictionaries, whose writer stores 0 as their offset, is divided', async () => {
  const file = path.join(scratch(), 'in.parquet');
  const columnData = textColumns(asObjects(portfolio(100, 1)));
  const writer = new ByteWriter();
  const writing = new ParquetWriter({ writer, schema: schemaFromColumnData({ columnData }) });
  writing.write({ columnData: columnData.map(({ type: _, ...column }) => ({ ...column, encoding: 'PLAIN' as const })), rowGroupSize: 30 }); // biome-ignore format: one line
  for (const { columns } of writing.row_groups)
    for (const { meta_data: data } of columns) if (data) data.dictionary_page_offset = 0n;
  writing.finish();
  writeFileSync(file, Buffer.from(writer.getBuffer()));
  const plan = await planShards({ inputs: [endpoint(file, {}, 'csv')], shards: 3, recordBytes: 1 << 20 });
  expect(plan.pieces.map(({ rows }) => rows)).toEqual([60, 30, 10]);
});

const common: ScoreOptions = {
  model: 'credit-default',
  output: '',
  onInvalid: 'report',
  workers: 1,
  quiet: true,
  passthrough: 'application_id',
};
/** Of what is compared; the commands run in this process, so names are whole paths. */
const all = (folder: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(folder)
      .sort()
      .map((name) => [name, readFileSync(path.join(folder, name), 'utf8')]),
  );

const NOTHING_ELSE = { list: null, package: null, key: null };

/** The same, with what a manifest says but for its blocks. */
const withoutBlocks = (folder: string): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(all(folder)).map(([name, text]) => {
      if (!name.endsWith('.manifest.json')) return [name, text];
      const { predicate, ...rest } = unseal(text, null).statement as { predicate: { blocks: unknown } };
      return [name, { ...rest, predicate: { ...predicate, blocks: null } }];
    }),
  );

async function bothWays(folder: string, pattern: string, { ending = 'csv', shards = 3, several = false } = {}) {
  const name = several ? '{name}.' : 'out.';
  for (const made of ['one', 'parts', 'merged']) mkdirSync(path.join(folder, made));
  const input = path.join(folder, pattern);
  const kind = several ? ['--input-format', 'csv'] : [];
  const json = async (...args: string[]) => {
    const { code, stdout, stderr } = await sluiceHere([...args, '--json']);
    expect([code, stderr]).toEqual([expect.toBeOneOf([0, 3]), expect.not.stringContaining('sluice:')]);
    return JSON.parse(stdout);
  };
  const asOne = ['-m', 'credit-default', '--passthrough', 'application_id', '--workers', '1'];
  const one = await json('score', input, ...kind, ...asOne, '-o', path.join(folder, 'one', `${name}${ending}`));
  const plan = path.join(folder, 'plan.json');
  await json('plan', input, ...kind, '--shards', String(shards), '-o', plan);
  for (let shard = 0; shard < shards; shard++) {
    await score(undefined, {
      ...common,
      plan,
      shard,
      output: path.join(folder, 'parts', `${name}{shard}.${ending}`),
    });
  }
  // The pattern is that of `score`.
  const parts = path.join(folder, 'parts', `${name}{shard}.${ending}`);
  const merged = await json('merge', plan, '--parts', parts, '-o', path.join(folder, 'merged', `${name}${ending}`));
  return { one, merged };
}

describe('sluice plan, score --plan, merge', () => {
  test('files with the same name in several folders are not planned, because their outputs would have one name', async () => {
    const folder = scratch();
    for (const [i, name] of ['a/x.csv', 'b/x.csv', 'b/y.csv', 'c/x.csv.gz'].entries()) {
      const file = path.join(folder, 'in', name);
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, name.endsWith('.gz') ? gzipSync(portfolio(9, i)) : portfolio(9, i));
    }
    const input = path.join(folder, 'in', '*', '*.csv*');
    const plan = path.join(folder, 'plan.json');
    const work = path.join(folder, 'work');
    const planned = await sluiceHere(['plan', input, '--input-format', 'csv', '--shards', '2', '-o', plan]);
    const shared = await sluiceHere([
      ...['shards', input, '--input-format', 'csv', '--shards', '2', '--shard', '0'],
      ...['--work', work, '-m', 'credit-default', '-o', path.join(folder, 'out-{name}.csv')],
    ]);
    for (const { code, stderr } of [planned, shared]) {
      expect([code, stderr]).toEqual([
        2,
        expect.stringMatching(/a\/x\.csv and \S+b\/x\.csv would both be written to x\n/),
      ]);
      expect(stderr).toContain('c/x.csv.gz');
      expect(stderr).not.toContain('y.csv');
    }
    expect([existsSync(plan), existsSync(path.join(work, 'plan.json'))]).toEqual([false, false]);
    expect((await sluiceHere(['plan', path.join(folder, 'in/b/*.csv'), '--shards', '2', '-o', plan])).code).toBe(0);
  });

  const objects = asNative(asObjects(portfolio(200, 4)));
  const faulty = objects.map((o, i) => (i % 37 === 5 ? { ...o, age: 'old, or "aged"\nin lines' } : o));
  const withIds = faulty.map((o) => ({ ...o, application_id: `é${(o as { age: unknown }).age}` }));
  const inQuotes = nasty(5) + nasty(6).replace(/^.*?[\r\n]+/, '');
  const three = {
    'in-a.csv': portfolio(90, 1, 4),
    'in-b.csv': portfolio(50, 2),
    'in-c.csv.gz': gzipSync(portfolio(70, 3, 2)),
  };
  const cases: [string, string, Record<string, string | Buffer>, Parameters<typeof bothWays>[2]][] = [
    ['line ends in quotes', 'in.csv', { 'in.csv': inQuotes }, {}],
    ['several inputs, one of them packed', 'in-*', three, { several: true, shards: 4 }],
    [
      'more shards than rows, into packed files',
      'in.csv',
      { 'in.csv': portfolio(2, 1) },
      { ending: 'csv.gz', shards: 4 },
    ],
    ['row groups of Parquet', 'in.parquet', { 'in.parquet': parquet(withIds) }, { shards: 3 }],
    ['row groups without rows', 'in.parquet', { 'in.parquet': withEmptyGroups(withIds) }, { shards: 5 }],
  ];
  for (const [i, [name, pattern, files, options]] of cases.entries()) {
    (i % 2 === 0 ? checkTest : campaignTest)(
      `${name}: what is merged is what one run writes, and counts and drift are those of one run`,
      async () => {
        const folder = scratch();
        for (const [file, bytes] of Object.entries(files)) writeFileSync(path.join(folder, file), bytes);
        const { one, merged } = await bothWays(folder, pattern, options);
        // Where blocks end depends on the cuts in files that are as small as a block.
        expect(withoutBlocks(path.join(folder, 'merged'))).toEqual(withoutBlocks(path.join(folder, 'one')));
        for (const output of readdirSync(path.join(folder, 'merged')).filter((n) => /\.csv(\.gz)?$/.test(n))) {
          if (output.endsWith('.rejects.csv')) continue;
          const { predicate } = await readManifest(path.join(folder, 'merged', output), null);
          const input = path.join(folder, predicate.input.name);
          const found = await verifyOutput({ ...NOTHING_ELSE, output: path.join(folder, 'merged', output), input });
          expect(found).toMatchObject({ whole: true, findings: [] });
        }
        for (const key of ['rows', 'scored', 'rejected', 'rejectedByCode', 'drift'])
          expect(merged[key], key).toEqual(one[key]);
        expect(one.drift).toEqual({ 'credit-default:1': expect.any(Object) });
      },
    );
  }
});

describe('a night', () => {
  const rows = times('sharded rows', { quick: 0, check: 0, campaigns: 1_000_000 });
  campaignTest(`${rows} rows in 16 shards are what one run writes`, async () => {
    const folder = scratch();
    writeFileSync(path.join(folder, 'in.csv'), portfolio(rows, 7, 500));
    const { one, merged } = await bothWays(folder, 'in.csv', { shards: 16 });
    for (const name of ['out.csv', 'out.csv.rejects.csv', 'out.csv.manifest.json']) {
      const [a, b] = ['one', 'merged'].map((made) => readFileSync(path.join(folder, made, name)));
      expect(a!.equals(b!), name).toBe(true);
    }
    for (const key of ['rows', 'scored', 'rejected', 'rejectedByCode', 'drift'])
      expect(merged[key], key).toEqual(one[key]);
  });
});

describe('the manifest of what is merged', () => {
  const rounds = times('merged manifests', { quick: 0, check: 1, campaigns: 200 });
  checkTest(
    `${rounds} files of many blocks: it is that of one run, byte for byte, and the block of a row that changed is found`,
    async () => {
      const ends = ['\n', '\r\n'];
      for (let seed = 1; seed <= rounds; seed++) {
        const roll = dice(seed + 100);
        const folder = scratch();
        const at = (name: string) => path.join(folder, name);
        for (const made of ['one', 'parts', 'merged']) mkdirSync(at(made));
        const end = ends[roll(2)]!;
        const lines = portfolio(150 + roll(300), seed, roll(3) * 6)
          .trimEnd()
          .split('\n');
        // A record of many lines, longer than a block.
        if (roll(3) === 0) lines[60] = lines[60]!.replace(/^[^,]*/, `"${'a\n'.repeat(roll(4000))}"`);
        writeFileSync(at('in.csv'), `${roll(4) === 0 ? '\uFEFF' : ''}${lines.join(end)}${roll(3) === 0 ? '' : end}`);
        const [shards, blockBytes, readBytes] = [2 + roll(4), 512 + roll(3000), 64 + roll(5000)];
        const inputs = [endpoint(at('in.csv'), {}, 'csv')];
        const plan = await planShards({ inputs, shards, recordBytes: 1 << 20, blockBytes });
        writeFileSync(at('plan.json'), planText(plan));
        const rejects = seed % 3 === 0 ? { rejects: at('one/out.csv.rejects.csv') } : {};
        await score(at('in.csv'), { ...common, ...rejects, blockBytes, output: at('one/out.csv') });
        for (let shard = 0; shard < shards; shard++)
          await score(undefined, {
            ...common,
            plan: at('plan.json'),
            shard,
            readBytes,
            output: at('parts/{shard}.csv'),
          });
        const listed = seed % 3 === 0 ? { rejects: at('merged/out.csv.rejects.csv') } : {};
        await merge(at('plan.json'), { ...listed, parts: at('parts/*'), output: at('merged/out.csv'), quiet: true });
        expect(all(at('merged')), `seed ${seed}`).toEqual(all(at('one')));
        const input = at('in.csv');
        const verify = () => verifyOutput({ ...NOTHING_ELSE, output: at('merged/out.csv'), input });
        expect(await verify(), `seed ${seed}`).toMatchObject({ whole: true });
        const row = 70 + roll(60);
        const changed = readFileSync(input, 'latin1').replace(lines[row]!, (line) => line.replace(/^./, '~'));
        writeFileSync(input, changed, 'latin1');
        const { findings } = await verify();
        expect(findings, `seed ${seed}`).toMatchObject([{ file: 'input', kind: 'changed' }]);
        const [first, last] = findings[0]!.range!;
        expect(row >= first && row <= last, `seed ${seed}`).toBe(true);
      }
    },
  );

  checkTest('it is signed where that is asked for, chained, and not left where that is asked for', async () => {
    const folder = scratch();
    const at = (name: string) => path.join(folder, name);
    writeFileSync(at('in.csv'), portfolio(40, 3));
    const plan = await planShards({ inputs: [endpoint(at('in.csv'), {}, 'csv')], shards: 2, recordBytes: 1 << 20 });
    writeFileSync(at('plan.json'), planText(plan));
    for (const shard of [0, 1])
      await score(undefined, { ...common, plan: at('plan.json'), shard, output: at('part-{shard}.csv') });
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    writeFileSync(at('key.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }));
    const flags = { parts: at('part-*'), output: at('out.csv'), quiet: true };
    await merge(at('plan.json'), flags);
    const first = readFileSync(at('out.csv.manifest.json'));
    await merge(at('plan.json'), { ...flags, signKey: at('key.pem') });
    const { predicate } = await readManifest(at('out.csv'), publicKey);
    expect(predicate.previous).toBe(createHash('sha256').update(first).digest('hex'));
    await merge(at('plan.json'), { ...flags, manifest: false } as typeof flags);
    expect(readdirSync(folder).sort()).toEqual(
      ['in.csv', 'key.pem', 'out.csv', 'part-0.csv', 'part-0.csv.part.json', 'part-1.csv', 'part-1.csv.part.json', 'plan.json'], // biome-ignore format: one line
    );
  });
});

describe('the gate of a run in shards', () => {
  checkTest(
    'the whole is judged where it is merged, as one run is, and nothing is published where it is stopped',
    async () => {
      const folder = scratch();
      const at = (name: string) => path.join(folder, name);
      const [header, ...rows] = portfolio(4000, 5).trimEnd().split('\n') as [string, ...string[]];
      // The first quarter alone has too many unseen values, the whole has not; rows that are rejected count, too.
      const column = header.split(',').indexOf('source_type');
      const moved = rows.map((row, i) => row.split(',').map((cell, c) => (c === column && i < 200 ? 'elsewhere' : i === 900 && c > 0 ? 'no' : cell)).join(',')); // biome-ignore format: one line
      writeFileSync(at('in.csv'), `${[header, ...moved].join('\n')}\n`);
      const plan = await planShards({ inputs: [endpoint(at('in.csv'), {}, 'csv')], shards: 4, recordBytes: 1 << 20 });
      expect(plan.pieces).toHaveLength(4);
      writeFileSync(at('plan.json'), planText(plan));
      for (let shard = 0; shard < 4; shard++)
        await score(undefined, { ...common, plan: at('plan.json'), shard, output: at('part-{shard}.csv') });
      const there = readdirSync(folder);
      const outcome = async (run: () => Promise<number>): Promise<string> => {
        try {
          return String(await run());
        } catch (error) {
          const { code, message } = error as SluiceError;
          return `${code}\n${message}`;
        }
      };
      const limits: ScoreOptions[] = [
        { maxUnseen: '0.06' },
        { maxUnseen: '*=0.06,source_type=0.04' },
        { maxPsi: '0.01', maxMissing: '0.01', maxRejects: 0, maxScorePsi: 0, minRows: 4001 },
        { maxPsi: '9', maxScorePsi: 9, maxRejects: 0.5, minRows: 4000, maxMissing: '1', maxOutOfRange: '1' },
      ].map((said) => ({ ...common, ...said }) as ScoreOptions);
      const stopped: boolean[] = [];
      for (const said of limits) {
        const one = await outcome(() => score(at('in.csv'), { ...said, output: at('one.csv') }));
        const merged = await outcome(() =>
          merge(at('plan.json'), { ...(said as object), parts: at('part-*'), output: at('out.csv'), quiet: true }),
        );
        expect(merged).toBe(one);
        stopped.push(one.startsWith('gate_stopped'));
        const made = readdirSync(folder).filter((name) => !there.includes(name));
        expect(made.some((name) => name.startsWith('out.csv'))).toBe(!stopped.at(-1));
        for (const name of made) rmSync(at(name));
      }
      expect(stopped).toEqual([false, true, true, false]);
      const met = ['--max-rejects', '0.5'];
      const asOne = [...'-m credit-default --passthrough application_id --workers 1'.split(' '), ...met];
      await sluiceHere(['score', at('in.csv'), ...asOne, '-o', at('one.csv')]);
      await sluiceHere(['merge', at('plan.json'), '--parts', at('part-*'), '-o', at('merged.csv'), ...met]);
      const [one, merged] = await Promise.all(['one', 'merged'].map((name) => readManifest(at(`${name}.csv`), null)));
      expect(one!.predicate.options.gate).toEqual({ max_rejects: 0.5 });
      expect(merged!.predicate.options).toEqual(one!.predicate.options);
      const { code, stderr } = await sluiceHere(['merge', at('plan.json'), '--parts', at('part-*'), '-o', at('out.csv'), '--max-rejects', '0']); // biome-ignore format: one line
      expect([code, stderr]).toEqual([4, expect.stringContaining('[gate_stopped]')]);
      copyBundled(at('models'));
      appendFileSync(at('models/credit-default/1/background.csv'), '\n');
      const elsewhere = { registry: at('models'), maxRejects: 0.5, parts: at('part-*'), output: at('out.csv') };
      await expect(merge(at('plan.json'), elsewhere)).rejects.toMatchObject({ code: 'usage' });
    },
  );
});

describe('merge writes nothing but what is proved', () => {
  const flags: ScoreOptions = {
    model: 'credit-default',
    output: 'part-{shard}.csv',
    onInvalid: 'report',
    workers: 1,
    quiet: true,
  };

  checkTest('a part that is missing, there twice, changed, renamed or made otherwise is named', async () => {
    const folder = scratch();
    const at = (name: string) => path.join(folder, name);
    writeFileSync(at('in.csv'), portfolio(60, 3, 6, false));
    const plan = await planShards({ inputs: [endpoint(at('in.csv'), {}, 'csv')], shards: 3, recordBytes: 1 << 20 });
    writeFileSync(at('plan.json'), planText(plan));
    const part = (shard: number, more: Partial<ScoreOptions> = {}) =>
      score(undefined, { ...flags, plan: at('plan.json'), shard, output: at('part-{shard}.csv'), ...more });
    for (const shard of [0, 1, 2]) await part(shard);
    const kept = new Map(readdirSync(folder).map((name) => [name, readFileSync(at(name))]));
    const merge = async (...more: string[]) => {
      const { code, stderr } = await sluiceHere([
        'merge',
        at('plan.json'),
        '--parts',
        at('part-*'),
        '-o',
        at('out.csv'),
        ...more,
      ]);
      expect(existsSync(at('out.csv'))).toBe(code !== 1 && more.length === 0);
      return stderr.replaceAll(`${folder}/`, '');
    };
    const lost = (name: string) => rmSync(at(name));
    const edited = (name: string, from: string | RegExp, to: string) =>
      writeFileSync(at(name), kept.get(name)!.toString().replace(from, to));
    const cases: [says: RegExp, change: () => unknown][] = [
      [
        /missing: shard 1\b.*\[parts_mismatch\]/,
        () => ['', '.part.json', '.rejects.csv'].map((ending) => lost(`part-1.csv${ending}`)),
      ],
      [/part-1\.csv is not a part.*part-1\.csv\.part\.json is missing/, () => lost('part-1.csv.part.json')],
      [
        /shard 2 has two outputs|was renamed/,
        () => ['', '.part.json'].map((end) => writeFileSync(at(`part-9.csv${end}`), kept.get(`part-2.csv${end}`)!)),
      ],
      [/part-0\.csv was changed after its shard ended/, () => edited('part-0.csv', '0.', '1.')],
      [/part-0\.csv\.rejects\.csv was changed/, () => edited('part-0.csv.rejects.csv', /\d+,/, '77,')],
      [/part-2\.csv\.part\.json was changed/, () => edited('part-2.csv.part.json', '"shard":2', '"shard":1')],
      [/part-1\.csv was made with another options than part-0\.csv/, () => part(1, { interpretation: true })],
      [
        /plan\.json was changed after it was created.*\[plan_invalid\]/,
        () => edited('plan.json', /"from": 0/, '"from": 1'),
      ],
      [/plan\.json is not a plan: it is not JSON/, () => writeFileSync(at('plan.json'), 'no')],
    ];
    for (const [says, change] of cases) {
      await change();
      expect(await merge('--quiet')).toMatch(says);
      for (const name of readdirSync(folder)) if (!kept.has(name)) lost(name);
      for (const [name, bytes] of kept) writeFileSync(at(name), bytes);
    }
    expect(await merge('--leave-parts', '-o', at('parts.json'))).toMatch(/60 rows read/);
    const { parts } = JSON.parse(readFileSync(at('parts.json'), 'utf8'));
    expect(parts.map((p: { rows: number; output: { name: string } }) => path.basename(p.output.name))).toEqual([
      'part-0.csv',
      'part-1.csv',
      'part-2.csv',
    ]);
  });

  test.each<[string, Partial<ScoreOptions>, string | undefined, RegExp]>([
    ['an input', {}, 'in.csv', /the plan names the input/],
    ['a delimiter', { delimiter: 'tab' }, undefined, /--delimiter is part of the plan/],
    ['an encoding', { encoding: 'windows-1252' }, undefined, /--encoding is not supported for shards/],
    ['other names', { rename: 'a=b' }, undefined, /--rename is not supported for shards/],
    ['words for nothing', { nullValues: 'NULL' }, undefined, /--null-values is not supported for shards/],
    ['control totals', { expectRows: 9 }, undefined, /--expect-rows applies to whole files/],
    ['to go on', { resume: true }, undefined, /--resume is not supported for shards/],
    ['a gate', { maxPsi: '0.1' }, undefined, /the gate checks all shards together: use --max-psi with sluice merge/],
    ['bytes of a block', { blockBytes: 4096 }, undefined, /--block-bytes is part of the plan/],
    ['a key', { signKey: 'key.pem' }, undefined, /use --sign-key with it/],
    ['a list', { rejects: 'list.csv' }, undefined, /use --rejects with sluice merge/],
    ['one file for all shards', { output: 'part.csv' }, undefined, /put \{shard\} in the output name/],
    ['standard output', { output: '-' }, undefined, /missing output/],
    ['a shard that is not', { shard: 3 }, undefined, /shards 0 to 2/],
    ['no shard', { shard: undefined as never }, undefined, /missing --shard/],
    ['JSON', { output: 'part-{shard}.json' }, undefined, /parts in json cannot be merged/],
  ])('score --plan refuses %s', async (_, more, file, says) => {
    const folder = scratch();
    writeFileSync(path.join(folder, 'in.csv'), portfolio(9, 3));
    const inputs = [endpoint(path.join(folder, 'in.csv'), {}, 'csv')];
    const plan = path.join(folder, 'plan.json');
    writeFileSync(plan, planText(await planShards({ inputs, shards: 3, recordBytes: 1 << 20 })));
    await expect(score(file, { ...flags, plan, shard: 0, ...more })).rejects.toMatchObject({
      code: 'usage',
      message: expect.stringMatching(says),
    });
  });

  checkTest('the job of k8s/shards does what one run does, shard by $JOB_COMPLETION_INDEX', async () => {
    const folder = scratch();
    for (const name of ['in', 'work', 'out']) mkdirSync(path.join(folder, name));
    writeFileSync(path.join(folder, 'in', 'a.csv'), portfolio(40, 3, 2, false));
    const job = parseAllDocuments(readFileSync('k8s/shards/shards.yaml', 'utf8'))[0]!.toJS().spec.jobTemplate.spec;
    const [container] = job.template.spec.containers as [{ args: string[] }];
    expect(container.args).toContain(`--shards=${job.completions}`);
    expect(job.completionMode).toBe('Indexed');
    const env = { ...process.env, SLUICE_REGISTRY: path.resolve('src/bundled'), SLUICE_EXIT_REJECTED: '0' };
    const args = container.args.map((a) => a.replace('/portfolio/', `${folder}/`).replace('=16', '=2').replace('$(NIGHT)', 'sluice-shards-29384').replace('@champion', '').replace(/^--deadline.*/, '--quiet')); // biome-ignore format: one line
    for (const index of ['0', '1']) {
      execFileSync(process.execPath, [MAIN, ...args], {
        env: { ...env, JOB_COMPLETION_INDEX: index },
        stdio: 'ignore',
      });
    }
    await score(path.join(folder, 'in/a.csv'), { ...flags, output: path.join(folder, 'one.csv') });
    const text = (name: string) => readFileSync(path.join(folder, name), 'utf8');
    expect(text('out/a.csv')).toBe(text('one.csv'));
    expect(text('out/a.csv.rejects.csv')).toBe(text('one.csv.rejects.csv'));
  });
});

test('how far the reading of a Parquet file is can be seen, so that its end is foreseen', async () => {
  const file = path.join(scratch(), 'in.parquet');
  writeFileSync(file, parquet(asObjects(portfolio(100, 1))));
  const source = await openSource(endpoint(file, {}, 'csv'));
  const seen: number[] = [];
  for await (const _ of source.chunks) seen.push(source.bytesRead() / source.totalBytes!);
  await source.close();
  expect(seen).toHaveLength(4);
  expect(seen).toEqual([...seen].sort((a, b) => a - b));
  expect(seen[0]).toBeLessThan(0.5);
  expect(seen.at(-1)).toBeGreaterThan(0.5);
});

/** Row groups of 30 rows; every column is text. */
function parquet(rows: readonly Record<string, unknown>[]): Buffer {
  return Buffer.from(parquetWriteBuffer({ columnData: textColumns(rows), rowGroupSize: 30 }));
}

const textColumns = (rows: readonly Record<string, unknown>[]) =>
  Object.keys(rows[0]!).map((name) => ({
    name,
    type: 'STRING' as const,
    data: rows.map((row) => (row[name] == null ? null : String(row[name]))),
    nullable: true,
  }));

/** As pyarrow writes empty tables: groups without pages, at the offset of the next group. */
function withEmptyGroups(rows: readonly Record<string, unknown>[]): Buffer {
  const columnData = textColumns(rows).map(({ type: _, ...column }) => column);
  const writer = new ByteWriter();
  const file = new ParquetWriter({ writer, schema: schemaFromColumnData({ columnData: textColumns(rows) }) });
  file.write({ columnData, rowGroupSize: 30 });
  file.row_groups = file.row_groups.flatMap((group) => [withoutRows(group), group, withoutRows(group)]);
  file.finish();
  return Buffer.from(writer.getBuffer());
}

type Group = ParquetWriter['row_groups'][number];

const withoutRows = (group: Group): Group => ({
  ...group,
  num_rows: 0n,
  columns: group.columns.map((column) => ({
    ...column,
    meta_data: { ...column.meta_data!, num_values: 0n, total_compressed_size: 0n },
  })),
});
