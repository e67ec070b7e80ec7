// An input that is there as a whole is answered as the same bytes in chunks are.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SluiceError } from '../../src/core/errors.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { type ScoreChunksOptions, scoreChunks } from '../../src/engine/score-chunks.ts';
import type { InputFormat } from '../../src/engine/stream-spec.ts';
import { WorkerPool } from '../../src/engine/worker-pool.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import type { ModelPackage } from '../../src/model/package/model-package.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { inChunks } from '../support/blocks.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { asNative, asObjects } from '../support/service.ts';
import { campaignTest, checkTest } from '../support/tiers.ts';

let model: ModelPackage;
let pool: WorkerPool;
let inline: WorkerPool;
beforeAll(async () => {
  model = await loadPackage(CREDIT_DEFAULT);
  pool = await WorkerPool.start({ model, workers: 1 });
  // Its workers would die of every row marked so: what is answered was scored on this thread.
  inline = await WorkerPool.start({ model, workers: 1, inline: true, entry: POISON });
});
afterAll(() => Promise.all([pool.close(), inline.close()]));

const POISON = new URL('../support/poison-worker.ts', import.meta.url);
const CSV: InputFormat = { format: 'delimited', delimiter: ',' };
// Few enough to be scored on this thread, and too many.
describe.each([12, 30])('%i rows', (rows) => {
  const text = Buffer.concat([...generatePortfolio({ rows, seed: 5, oddness: 'light' })]).toString();
  const [head, ...lines] = text.trimEnd().split('\n');
  const objects = asNative(asObjects(text));
  const quoted = lines[1]!
    .split(',')
    .map((c) => `"${c}"`)
    .join(',');

  const inputs: [
    what: string,
    format: InputFormat,
    input: string,
    options?: Partial<Omit<ScoreChunksOptions, 'account'>>,
  ][] = [
    ['CSV', CSV, text],
    ['no line end at the end', CSV, text.trimEnd()],
    ['a byte order mark', CSV, `\uFEFF${text}`],
    ['CRLF and blank lines', CSV, text.replaceAll('\n', '\r\n\r\n')],
    ['a header alone', CSV, `${head}\n`],
    ['nothing', CSV, ''],
    ['a byte order mark alone', CSV, '\uFEFF'],
    ['quotes, an unclosed one', CSV, `${head}\n${quoted}\n"${lines[2]}\n${lines[3]}\n`],
    ['a wrong header', CSV, `x,${head}\n${lines[0]}\n`],
    ['rows too many', CSV, text, { limits: { maxRows: rows - 1 } }],
    ['rows as many as allowed', CSV, text, { limits: { maxRows: rows } }],
    ['rows too long', CSV, text, { limits: { maxRecordBytes: 100 } }],
    ['an invalid row', CSV, `${text}1,2\n`],
    ['an invalid row that ends the run', CSV, `${text}1,2\n`, { failOnInvalid: true }],
    ['JSON', { format: 'json' }, JSON.stringify(objects)],
    ['one application', { format: 'json' }, JSON.stringify(objects[0])],
    ['no application', { format: 'json' }, '[]'],
    ['a cut array', { format: 'json' }, JSON.stringify(objects).slice(0, -1)],
    ['no JSON', { format: 'json' }, 'hello'],
    ['NDJSON', { format: 'ndjson' }, objects.map((o) => JSON.stringify(o)).join('\n')],
    ['bad lines', { format: 'ndjson' }, `{}\nx\n${JSON.stringify(objects[1])}`],
  ];

  test.each(inputs)('%s', async (_, input, bytes, options) => {
    const run = async (whole: boolean, chunk: number, pool: WorkerPool) => {
      const out: Buffer[] = [];
      const rejects: string[] = [];
      const data = Buffer.from(bytes);
      const answer = await scoreChunks({
        account: new RunAccount().unit(),
        model,
        pool,
        chunks: inChunks(whole ? Buffer.alloc(0) : data, chunk),
        whole: whole ? data : null,
        input,
        output: { format: 'json', delimiter: ',' },
        passthrough: [],
        blockBytes: 64 * 1024,
        write: async (b) => void out.push(Buffer.from(b)),
        writeRejects: async (l) => void rejects.push(l),
        ...options,
      }).catch((e: unknown) => (e instanceof SluiceError ? { code: e.code, message: e.message } : Promise.reject(e)));
      return { answer, output: Buffer.concat(out).toString(), rejects: rejects.join('') };
    };
    const whole = await run(true, 1, pool);
    expect(whole).toEqual(await run(false, 65_536, pool));
    expect(whole).toEqual(await run(false, 7, pool));
    expect(whole).toEqual(await run(true, 1, inline));
    expect(whole).toEqual(await run(false, 7, inline));
  });
});

test('a request that was given up is not scored', async () => {
  const run = scoreChunks({
    account: new RunAccount().unit(),
    model,
    pool,
    chunks: inChunks(Buffer.alloc(0), 1),
    whole: Buffer.from('x'),
    input: { format: 'ndjson' },
    output: { format: 'csv', delimiter: ',' },
    passthrough: [],
    write: async () => expect.unreachable(),
    signal: AbortSignal.abort(new SluiceError('client_gone', 'gone')),
  });
  await expect(run).rejects.toMatchObject({ code: 'client_gone' });
});

campaignTest('a few rows do not leave the thread, more of them do', async () => {
  const deaths: string[] = [];
  const rows = (n: number): Buffer => {
    const [head, ...lines] = Buffer.concat([...generatePortfolio({ rows: n, seed: 5, ids: true })]).toString().trimEnd().split('\n'); // biome-ignore format: one line
    return Buffer.from([head, ...lines.map((l) => l.replace(/^[^,]*/, 'KILL_ALWAYS'))].join('\n'));
  };
  const mortal = await WorkerPool.start(
    { model, workers: 1, inline: true, entry: POISON },
    { onWorkerDeath: (reason) => deaths.push(reason) },
  );
  const score = (n: number) =>
    scoreChunks({
      account: new RunAccount().unit(),
      model,
      pool: mortal,
      chunks: inChunks(Buffer.alloc(0), 1),
      whole: rows(n),
      input: CSV,
      output: { format: 'csv', delimiter: ',' },
      passthrough: '*',
      write: async () => {},
    });
  expect(await score(16)).toMatchObject({ rows: 16, scored: 16 });
  expect(deaths).toEqual([]);
  expect(await score(17)).toMatchObject({ rows: 17, scored: 0, rejectedByCode: { row_crashed_worker: 17 } });
  expect(deaths.length).toBeGreaterThan(0);
  await mortal.close();
});

const EFFECTS = { effects: true, top: null, reasons: true, below: null };

checkTest('effects of an application do not leave the thread, once they are open there', async () => {
  const mortal = await WorkerPool.start({ model, workers: 1, inline: true, entry: POISON });
  const [head, line] = Buffer.concat([...generatePortfolio({ rows: 1, seed: 5, ids: true })]).toString().split('\n'); // biome-ignore format: one line
  const score = async (id: string, through: WorkerPool) => {
    const out: Buffer[] = [];
    const { scored, interpreted } = await scoreChunks({
      account: new RunAccount().unit(),
      model,
      pool: through,
      chunks: inChunks(Buffer.alloc(0), 1),
      whole: Buffer.from(`${head}\n${line!.replace(/^[^,]*/, id)}\n`),
      input: CSV,
      output: { format: 'ndjson', delimiter: ',' },
      passthrough: ['application_id'],
      interpretation: EFFECTS,
      write: async (bytes) => void out.push(Buffer.from(bytes)),
    });
    return { scored, interpreted, out: Buffer.concat(out).toString() };
  };
  await score('first', mortal);
  // Its worker dies of it, until the row does not go there any more.
  let alive = await score('KILL_ALWAYS', mortal);
  while (alive.scored === 0) alive = await score('KILL_ALWAYS', mortal);
  expect(alive).toEqual(await score('KILL_ALWAYS', pool));
  expect(alive).toMatchObject({ scored: 1, interpreted: 1, out: expect.stringContaining('"effects"') });
  await mortal.close();
});

test('requests at the same time do not mix', async () => {
  const all = asObjects(Buffer.concat([...generatePortfolio({ rows: 40, seed: 6 })]).toString());
  const one = async (record: unknown, through: WorkerPool, effects: boolean): Promise<string> => {
    const out: Buffer[] = [];
    await scoreChunks({
      account: new RunAccount().unit(),
      model,
      pool: through,
      chunks: inChunks(Buffer.alloc(0), 1),
      whole: Buffer.from(JSON.stringify(record)),
      input: { format: 'json' },
      output: { format: 'ndjson', delimiter: ',' },
      passthrough: [],
      interpretation: effects ? EFFECTS : null,
      write: async (b) => void out.push(Buffer.from(b)),
    });
    return Buffer.concat(out).toString();
  };
  const objects = asNative(all);
  const alone: string[] = [];
  const both = objects.flatMap((o) => [[o, false] as const, [o, true] as const]);
  for (const [o, effects] of both) alone.push(await one(o, pool, effects));
  expect(new Set(alone).size).toBeGreaterThan(50);
  // The first are interpreted by a worker.
  for (let i = 0; i < 2; i++) {
    expect(await Promise.all(both.map(([o, effects]) => one(o, inline, effects)))).toEqual(alone);
  }
});
