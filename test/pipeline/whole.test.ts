// An input that is there as a whole is answered as the same bytes in chunks are.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SluiceError } from '../../src/core/errors.ts';
import { generatePortfolio } from '../../src/demo/generate.ts';
import { loadPackage, type ModelPackage } from '../../src/model/package.ts';
import { type InputFormat, type ScoreStreamOptions, scoreStream } from '../../src/pipeline/score-stream.ts';
import { WorkerPool } from '../../src/pipeline/worker-pool.ts';
import { inChunks } from '../support/blocks.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { asNative, asObjects } from '../support/service.ts';

let model: ModelPackage;
let pool: WorkerPool;
beforeAll(async () => {
  model = await loadPackage(CREDIT_DEFAULT);
  pool = await WorkerPool.start({ model, workers: 1 });
});
afterAll(() => pool.close());

const CSV: InputFormat = { format: 'delimited', delimiter: ',' };
const text = Buffer.concat([...generatePortfolio({ rows: 30, seed: 5, dirty: true })]).toString();
const [head, ...lines] = text.trimEnd().split('\n');
const objects = asNative(asObjects(text));
const quoted = lines[1]!
  .split(',')
  .map((c) => `"${c}"`)
  .join(',');

const inputs: [what: string, format: InputFormat, input: string, options?: Partial<ScoreStreamOptions>][] = [
  ['CSV', CSV, text],
  ['no line end at the end', CSV, text.trimEnd()],
  ['a byte order mark', CSV, `\uFEFF${text}`],
  ['CRLF and blank lines', CSV, text.replaceAll('\n', '\r\n\r\n')],
  ['a header alone', CSV, `${head}\n`],
  ['nothing', CSV, ''],
  ['a byte order mark alone', CSV, '\uFEFF'],
  ['quotes, an unclosed one', CSV, `${head}\n${quoted}\n"${lines[2]}\n${lines[3]}\n`],
  ['a wrong header', CSV, `x,${head}\n${lines[0]}\n`],
  ['rows too many', CSV, text, { limits: { maxRows: 29 } }],
  ['rows as many as allowed', CSV, text, { limits: { maxRows: 30 } }],
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
  const run = async (whole: boolean, chunk: number) => {
    const out: Buffer[] = [];
    const rejects: string[] = [];
    const data = Buffer.from(bytes);
    const answer = await scoreStream({
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
  const whole = await run(true, 1);
  expect(whole).toEqual(await run(false, 65_536));
  expect(whole).toEqual(await run(false, 7));
});

test('a request that was given up is not scored', async () => {
  const run = scoreStream({
    model,
    pool,
    chunks: inChunks(Buffer.alloc(0), 1),
    whole: Buffer.from(text),
    input: CSV,
    output: { format: 'csv', delimiter: ',' },
    passthrough: [],
    write: async () => expect.unreachable(),
    signal: AbortSignal.abort(new SluiceError('client_gone', 'gone')),
  });
  await expect(run).rejects.toMatchObject({ code: 'client_gone' });
});
