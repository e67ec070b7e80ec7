// The binary extension of the Open Inference Protocol: the same tensors as JSON and as bytes are the same, and frames that do not add up are refused.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { SluiceError } from '../../../src/core/errors.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { bytesOfTensor } from '../../../src/doors/http/wire/binary-tensors.ts';
import { TensorTable } from '../../../src/doors/http/wire/tensor-table.ts';
import { asWanted, readInferRequest } from '../../../src/doors/http/wire/tensors.ts';
import { ColumnLines } from '../../../src/formats/columns/column-table.ts';
import { frame, framed, jsonOf, outputsOf, type Tensor } from '../../support/binary-frames.ts';
import fc from '../../support/seeded-fast-check.ts';
import { asNative, asObjects, type Service, startService } from '../../support/service.ts';

const HEADER = 'inference-header-content-length';
const LIMITS = { rows: 1_000_000, columns: 100 };
const readFrame = (body: Uint8Array, jsonLength?: string) => readInferRequest(body, { ...LIMITS, jsonLength });

/** The rows of a request as lines of JSON. */
async function linesOf(body: Uint8Array, jsonLength?: string): Promise<string> {
  const table = new TensorTable(readFrame(body, jsonLength).columns, 1_000_000);
  const lines: Buffer[] = [];
  for await (const chunk of new ColumnLines(table)) lines.push(Buffer.from(chunk));
  return Buffer.concat(lines).toString();
}
const integers = (bits: number, signed: boolean) =>
  signed
    ? fc.bigInt({ min: -(2n ** BigInt(bits - 1)), max: 2n ** BigInt(bits - 1) - 1n })
    : fc.bigInt({ min: 0n, max: 2n ** BigInt(bits) - 1n });
const VALUES: Record<string, fc.Arbitrary<unknown>> = {
  BOOL: fc.boolean(),
  ...Object.fromEntries([8, 16, 32, 64].map((bits) => [`INT${bits}`, integers(bits, true)])),
  ...Object.fromEntries([8, 16, 32, 64].map((bits) => [`UINT${bits}`, integers(bits, false)])),
  FP32: fc.float({ noNaN: true, noDefaultInfinity: true }),
  FP64: fc.double({ noNaN: true, noDefaultInfinity: true }),
  BYTES: fc.string({ unit: 'binary', maxLength: 12 }),
};
const tensorsOf = fc.integer({ min: 1, max: 6 }).chain((rows) =>
  fc.shuffledSubarray(Object.keys(VALUES), { minLength: 1 }).chain((datatypes) =>
    fc.tuple(
      ...datatypes.map((datatype) =>
        fc.record({
          name: fc.constant(`${datatype} "ä"`),
          shape: fc.constantFrom<number[][]>([rows], [rows, 1]),
          datatype: fc.constant(datatype),
          data: fc.array(VALUES[datatype]!, { minLength: rows, maxLength: rows }),
        }),
      ),
    ),
  ),
);

test('tensors as JSON, as bytes and mixed are the same lines, in every datatype, order and shape', async () => {
  await fc.assert(
    fc.asyncProperty(tensorsOf, fc.func(fc.boolean()), async (tensors, some) => {
      const json = await linesOf(Buffer.from(jsonOf({ inputs: tensors })));
      const rows = tensors[0]!.data.map((_, r) =>
        jsonOf(Object.fromEntries(tensors.map(({ name, data }) => [name, data[r]]))),
      );
      expect(json).toBe(`${rows.join('\n')}\n`);
      for (const binary of [() => true, (t: Tensor) => some(t.name)]) {
        const { body, headers } = frame(tensors, binary);
        expect(await linesOf(body, headers[HEADER])).toBe(json);
      }
    }),
    { numRuns: 300 },
  );
});

test('all numbers of FP16 are what the engine of JavaScript says they are', async () => {
  const bits = Uint16Array.from({ length: 0x10000 }, (_, i) => i).filter((b) => (b & 0x7c00) !== 0x7c00);
  const Halves = (globalThis as unknown as { Float16Array: new (of: ArrayBuffer) => Iterable<number> }).Float16Array;
  const tensor = {
    name: 'x',
    shape: [bits.length],
    datatype: 'FP16',
    parameters: { binary_data_size: bits.byteLength },
  };
  const { body, headers } = framed({ inputs: [tensor] }, Buffer.from(bits.buffer));
  const expected = [...new Halves(bits.buffer)].map((x) => `{"x":${jsonOf(x)}}\n`).join('');
  expect(await linesOf(body, headers[HEADER])).toBe(expected);
});

test.each(['FP16', 'FP32', 'FP64'])(
  'NaN of %s is a missing value, as null is in JSON; infinity is refused',
  async (datatype) => {
    const width = Number(datatype.slice(2)) / 8;
    const of = { FP16: [0x7e00, 0x7c00], FP32: [0x7fc00000, 0xff800000], FP64: [0x7ff80000, 0x7ff00000] }[datatype]!;
    const body = (high: number) => {
      const bytes = Buffer.alloc(width);
      bytes.writeUIntLE(high, Math.max(0, width - 4), Math.min(4, width));
      return framed({ inputs: [{ name: 'x', shape: [1], datatype, parameters: { binary_data_size: width } }] }, bytes);
    };
    const read = (high: number) => linesOf(body(high).body, body(high).headers[HEADER]);
    expect(await read(of[0]!)).toBe('{"x":null}\n');
    await expect(read(of[1]!)).rejects.toThrow('inputs[0]: an element is infinite');
    const json = `{"inputs":[{"name":"x","shape":[1],"datatype":"${datatype}","data":[1e999]}]}`;
    expect(() => readFrame(Buffer.from(json))).toThrow(`an element is not of type ${datatype}`);
  },
);

test('rows and inputs beyond the limits are refused', () => {
  const tensor = (name: string, rows: number) => ({
    name,
    shape: [rows],
    datatype: 'BOOL',
    data: Array(rows).fill(true),
  });
  const bodyOf = (inputs: Tensor[]) => Buffer.from(jsonOf({ inputs }));
  const refused = (limit: string) =>
    expect.objectContaining({ code: 'limit_exceeded', extra: expect.objectContaining({ limit }) });
  const limits = { rows: 3, columns: 2 };
  expect(readInferRequest(bodyOf([tensor('a', 3), tensor('b', 3)]), limits).rows).toBe(3);
  expect(() => readInferRequest(bodyOf([tensor('a', 4)]), limits)).toThrow(refused('rows'));
  expect(() => readInferRequest(bodyOf(['a', 'b', 'c'].map((n) => tensor(n, 1))), limits)).toThrow(refused('columns'));
});

test('outputs as bytes are the outputs as JSON; one with a missing value stays JSON', () => {
  const all: Tensor[] = [
    { name: 'b', shape: [2], datatype: 'BOOL', data: [true, false] },
    { name: 'i', shape: [2], datatype: 'INT64', data: [-5, 2 ** 53 - 1] },
    { name: 'f', shape: [2], datatype: 'FP64', data: [-0, 0.1 + 0.2] },
    { name: 't', shape: [2], datatype: 'BYTES', data: ['', 'ж\n"'] },
    ...['BOOL', 'INT64', 'FP64', 'BYTES'].map((d) => ({
      name: `no ${d}`,
      shape: [2],
      datatype: d,
      data: [null, null],
    })),
  ];
  const { outputs, behind } = asWanted(all as never, { names: null, binary: () => true });
  const json = Buffer.from(JSON.stringify({ outputs }));
  const read = outputsOf(Buffer.concat([json, behind!]), String(json.length));
  expect(read).toMatchObject({ outputs: all, binary: ['b', 'i', 'f', 't'], left: 0 });
  expect(bytesOfTensor('INT64', [1e300])).toBeNull();
});

describe('over sockets', () => {
  let s: Service;
  beforeAll(async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'sluice-binary-'));
    s = await startService(['cors.origins=["https://desk.bank.example"]'], folder, { keep: true });
    return async () => {
      await s.running.stop();
      rmSync(folder, { recursive: true });
    };
  });
  const post = (sent: { body: Uint8Array | string; headers?: Record<string, string> }) =>
    s.call('POST', '/v2/models/credit-default/infer', sent);

  const rows = asNative(
    asObjects(Buffer.concat([...generatePortfolio({ rows: 300, seed: 5, oddness: 'none' })]).toString()),
  );
  const columns = Object.keys(rows[0]!).map((name): Tensor => {
    const data = rows.map((row) => row[name] ?? null);
    const kind = typeof data.find((value) => value !== null);
    const datatype = { boolean: 'BOOL', number: 'FP64' }[kind as string] ?? 'BYTES';
    return { name, shape: [rows.length], datatype, data };
  });
  const whole = ({ data }: Tensor) => data.every((value) => value !== null);

  test('predictions of bytes are those of JSON, asked for in every way', async () => {
    const plain = await post({ body: JSON.stringify({ inputs: columns }) });
    expect([plain.status, plain.headers[HEADER], plain.json.outputs.length]).toEqual([200, undefined, 4]);
    const expected = plain.json.outputs as Tensor[];
    const names = expected.map(({ name }) => name);
    const output = (name: string, binary_data?: boolean) => ({ name, parameters: { binary_data } });
    for (const [more, binary] of [
      [{}, []],
      [{ parameters: { binary_data_output: true } }, names],
      [{ parameters: { binary_data_output: true }, outputs: names.map((n) => output(n, n !== 'points')) }, ['prediction', 'probability', 'decision']], // biome-ignore format: one line
      [{ outputs: names.map((n) => output(n, n === 'decision')) }, ['decision']],
      [{ parameters: { binary_data_output: true }, outputs: names.map((n) => output(n)) }, names],
      [{ parameters: { binary_data_output: false, priority: 3 } }, []],
    ] as [object, string[]][]) {
      const sent = frame(columns, whole, more);
      const reply = await post({ ...sent, headers: { ...sent.headers, 'want-content-digest': 'sha-256=1' } });
      expect([reply.status, reply.headers[HEADER] !== undefined]).toEqual([200, binary.length > 0]);
      expect(reply.headers['content-type']).toMatch(binary.length > 0 ? /^application\/octet-stream$/ : /json/);
      const digest = createHash('sha256').update(reply.bytes).digest('base64');
      expect(reply.headers['content-digest']).toBe(`sha-256=:${digest}:`);
      const read = outputsOf(reply.bytes, reply.headers[HEADER]);
      expect([read.binary, read.left]).toEqual([binary, 0]);
      expect(read.outputs).toEqual(expected);
    }
  });

  test('a compressed body has the length of its JSON before it was compressed; pages may say and read it', async () => {
    const { body, headers } = frame(columns, whole);
    const zipped = { ...headers, 'content-encoding': 'gzip' };
    expect((await post({ body: gzipSync(body), headers: zipped })).status).toBe(200);
    const origin = 'https://desk.bank.example';
    const asked = await s.call('OPTIONS', '/v2/models/credit-default/infer', {
      headers: { origin, 'access-control-request-method': 'POST' },
    });
    expect(asked.headers['access-control-allow-headers']).toContain(HEADER);
    expect(asked.headers['access-control-expose-headers']).toContain(HEADER);
  });

  const good = frame(columns, whole);
  const head = Number(good.headers[HEADER]);
  const one = (more: object, behind: Uint8Array = Buffer.alloc(0)) =>
    framed({ inputs: [{ name: 'x', shape: [2], datatype: 'FP64', ...more }] }, behind);
  const sized = (datatype: string, size: unknown, behind: number[], shape: unknown = [2]) =>
    one({ datatype, shape, parameters: { binary_data_size: size } }, Buffer.from(behind));
  const said = (header: string | string[]) => ({ body: good.body, headers: { [HEADER]: header } as never });
  const text = (...bytes: number[]) => [bytes.length, 0, 0, 0, ...bytes];
  test.each<[string, { body: Uint8Array; headers?: Record<string, string> }, RegExp]>([
    ['no header', { body: good.body }, /is not JSON/],
    ['no header and no bytes', { body: one({ parameters: { binary_data_size: 16 } }).body }, /exceeds the bytes after/],
    ['a length beyond the body', said(String(good.body.length + 1)), /longer than the body/],
    ['a length that is no number', said('many'), /whole number/],
    ['a negative length', said('-1'), /whole number/],
    ['a fraction', said(`${head}.0`), /whole number/],
    ['another base', said('0x10'), /whole number/],
    ['more digits than a double holds', said('9'.repeat(40)), /whole number/],
    ['an empty length', said(''), /whole number/],
    ['the length twice', said([String(head), String(head)]), /whole number/],
    ['a length of zero', said('0'), /is not JSON/],
    ['a length in the middle of the JSON', said(String(head - 1)), /is not JSON/],
    ['a length behind the JSON', said(String(head + 1)), /is not JSON/],
    [
      'bytes that are belong to no input',
      { ...good, body: Buffer.concat([good.body, Buffer.of(0)]) },
      /belong to no input/,
    ],
    ['the last byte missing', { ...good, body: good.body.subarray(0, -1) }, /exceeds the bytes after/],
    [
      'a size that is no number',
      sized('FP64', '16', Array(16).fill(0)),
      /inputs\[0\]: binary_data_size must be a whole/,
    ],
    ['a negative size', sized('FP64', -1, []), /must be a whole/],
    ['a size of a fraction', sized('FP64', 1.5, []), /must be a whole/],
    ['a size of null', sized('FP64', null, []), /must be a whole/],
    ['a size beyond what a double holds', sized('FP64', 2n ** 60n, []), /must be a whole/],
    ['a huge size', sized('FP64', Number.MAX_SAFE_INTEGER, []), /exceeds the bytes after/],
    ['a size that is not that of the shape', sized('FP64', 8, Array(8).fill(0)), /must be 8 bytes for each/],
    ['no rows', sized('FP64', 0, [], [0]), /no row/],
    ['a shape of texts', sized('FP64', 16, Array(16).fill(0), ['2']), /the shape of an input must be/],
    [
      'a shape beyond what a double holds',
      sized('FP64', 16, Array(16).fill(0), [2n ** 60n]),
      /the shape of an input must be/,
    ],
    ['a negative shape', sized('BOOL', 0, [], [-1]), /must be 1 bytes for each/],
    ['a matrix', sized('FP64', 32, Array(32).fill(0), [2, 2]), /the shape of an input must be/],
    ['a boolean that is none', sized('BOOL', 2, [1, 2]), /must be 0 or 1/],
    ['a datatype that is none', sized('BF16', 4, [0, 0, 0, 0]), /datatype must be one of/],
    ['data and bytes', one({ data: [1, 2], parameters: { binary_data_size: 0 } }), /either data or binary_data_size/],
    ['neither', one({ data: null, parameters: {} }), /data must be a list/],
    ['shared memory', one({ parameters: { shared_memory_region: 'a' } }), /data must be a list/],
    [
      'a text longer than its tensor',
      sized('BYTES', 6, [3, 0, 0, 0, 97, 98]),
      /longer than the rest of binary_data_size/,
    ],
    ['a text of 4 GiB', sized('BYTES', 5, [255, 255, 255, 255, 97]), /longer than the rest of binary_data_size/],
    ['a length of three bytes', sized('BYTES', 3, [0, 0, 0]), /longer than the rest of binary_data_size/],
    ['fewer texts than rows', sized('BYTES', 5, text(97)), /as many BYTES elements/],
    ['more texts than rows', sized('BYTES', 12, [...text(), ...text(), ...text()]), /as many BYTES elements/],
    ['a text that is no UTF-8', sized('BYTES', 10, [...text(97), ...text(255)]), /not valid UTF-8/],
    ['half a surrogate pair', sized('BYTES', 12, [...text(97), ...text(0xed, 0xa0, 0x80)]), /not valid UTF-8/],
    ['a flag that is none', frame(columns, whole, { parameters: { binary_data_output: 1 } }), /must be true or false/],
    ['a flag of an output that is none', frame(columns, whole, { outputs: [{ name: 'points', parameters: { binary_data: 'yes' } }] }), /must be true or false/], // biome-ignore format: one line
  ])('refused: %s', async (_, sent, words) => {
    const reply = await post(sent);
    expect([reply.status, reply.json.code, reply.json.error]).toEqual([
      400,
      'bad_request',
      expect.stringMatching(words),
    ]);
  });

  test('the limit of a body holds for bytes as well', async () => {
    const size = 17 * 1024 * 1024;
    const reply = await post(one({ shape: [size], datatype: 'BOOL', parameters: { binary_data_size: size } }, Buffer.alloc(size))); // biome-ignore format: one line
    expect([reply.status, reply.json.code]).toEqual([400, 'limit_exceeded']);
  });

  test('no cut and no changed byte of a frame is anything but an answer or a refusal', () => {
    const small = frame(
      [
        { name: 'a', shape: [2], datatype: 'BYTES', data: ['x', 'yz'] },
        { name: 'b', shape: [2], datatype: 'INT16', data: [1n, -1n] },
      ],
      () => true,
    );
    for (let at = 0; at < small.body.length; at++) {
      for (const change of [0, 1, 34, 57, 255]) {
        for (const body of [small.body.with(at, change), small.body.subarray(0, at)]) {
          try {
            readFrame(body, small.headers[HEADER]);
          } catch (error) {
            expect(error).toBeInstanceOf(SluiceError);
          }
        }
      }
    }
  });
});
