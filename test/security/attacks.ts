// Requests that want to cost more than their bytes: one line for each, by the entry point that takes them.
import { gzipSync, zstdCompressSync } from 'node:zlib';
import {
  bool,
  type DataType,
  dictionary,
  float64,
  int8,
  int32,
  nullType,
  runEndEncoded,
  utf8,
} from '@uwdata/flechette';
import {
  type ColumnBuffer,
  dictionaryMessage,
  END,
  recordMessage,
  schemaMessage,
  textBuffers,
} from '../support/arrow-messages.ts';
import { frame, type Tensor } from '../support/binary-frames.ts';
import { predictUrl } from '../support/service.ts';

export interface Attack {
  name: string;
  method?: string;
  path: string;
  headers?: Record<string, string>;
  body: Buffer;
  /** Bytes that it becomes after decompression, words as often as rows have them. Default: those of the body. */
  expanded?: number;
  /** Times the CPU of good rows of its bytes that it may take. Default: 20; what has more is many small messages. */
  ratio?: number;
  /** Rows of it that are scored or rejected. Default: few. */
  rows?: number;
}

const MB = 1024 * 1024;
const NO_BYTES = new Uint8Array(0);
const zeros = (bytes: number): Uint8Array => new Uint8Array(bytes);
const ndjson = (value: string, times: number): Buffer => Buffer.from(`${value}\n`.repeat(times));

/** One good application, as the bundled model wants it. */
export type Application = Record<string, unknown>;

function arrowAttacks(columns: readonly string[]): Attack[] {
  const arrow = (name: string, parts: readonly Buffer[], more: Partial<Attack> = {}): Attack => ({
    name: `Arrow: ${name}`,
    path: predictUrl('arrow', '&passthrough=word'),
    headers: { 'content-type': 'application/vnd.apache.arrow.stream' },
    body: Buffer.concat([...parts, END]),
    ...more,
  });
  const expanded = (bytes: number, rows = 0) => ({ expanded: bytes, rows });
  const nullTypes = Object.fromEntries(columns.map((name) => [name, nullType()]));
  /** The columns of the model, all null, and one that is passed through. */
  const schema = (word: DataType) => schemaMessage({ ...nullTypes, word });
  const records = (rows: number, nodes: readonly (readonly [number, number])[], buffers: readonly ColumnBuffer[]) =>
    recordMessage({ rows, nodes: [...columns.map(() => [rows, rows] as const), ...nodes], buffers });
  const words = (texts: readonly (string | Uint8Array)[]) => {
    const [offsets, bytes] = textBuffers(texts);
    const buffers = [NO_BYTES, { zstd: offsets }, { zstd: bytes }];
    return { rows: texts.length, nodes: [[texts.length, 0] as const], buffers };
  };
  const coded = schema(dictionary(utf8(), int8(), false, 0));
  const codes = (rows: number) => records(rows, [[rows, 0]], [NO_BYTES, { zstd: zeros(rows) }]);
  const numbers = (rows: number, claims?: number) =>
    records(rows, [[rows, 0]], [NO_BYTES, { zstd: zeros(rows * 8), ...(claims === undefined ? {} : { claims }) }]);
  const repeated = (times: number, of: () => readonly Buffer[]) => Array.from({ length: times }, of).flat();
  const nulls = (rows: number) => records(rows, [[rows, rows]], []);
  const lastRun = new Uint8Array(Int32Array.of(1_000_000).buffer);
  return [
    arrow(
      'a word of 60 MiB and 50 batches',
      [coded, dictionaryMessage(0, words(['x'.repeat(60 * MB)])), ...repeated(50, () => [codes(10)])],
      expanded(60 * MB, 500),
    ),
    arrow(
      'a word of 1 MB for each of 100 rows',
      [coded, dictionaryMessage(0, words(['x'.repeat(1_000_000)])), codes(100)],
      expanded(100_000_000, 100),
    ),
    arrow(
      'a word of 1 MB for each of 100,000 rows',
      [coded, dictionaryMessage(0, words(['x'.repeat(1_000_000)])), codes(100_000)],
      expanded(256 * MB, 300),
    ),
    arrow(
      'a dictionary extended 500 times',
      [
        coded,
        dictionaryMessage(0, words(Array(100_000).fill('some word'))),
        ...repeated(500, () => [dictionaryMessage(0, words(['x']), true), codes(10)]),
      ],
      { ...expanded(2 * MB, 5000), ratio: 60 },
    ),
    arrow(
      'a dictionary of 60 MiB extended 100 times',
      [
        coded,
        dictionaryMessage(0, words(Array(60).fill('y'.repeat(MB - 10)))),
        ...repeated(100, () => [dictionaryMessage(0, words(['x']), true), codes(10)]),
      ],
      expanded(256 * MB, 300),
    ),
    arrow(
      'a dictionary replaced 50 times by 1 MiB',
      [coded, ...repeated(50, () => [dictionaryMessage(0, words(['z'.repeat(MB - 10)])), codes(10)])],
      expanded(256 * MB, 500),
    ),
    arrow(
      'a million empty words',
      [coded, dictionaryMessage(0, words(Array(1_000_000).fill(''))), codes(10)],
      expanded(4 * MB, 10),
    ),
    arrow('a million rows of nulls', [schema(nullType()), nulls(1_000_000)], expanded(24 * 1_000_000, 1_000_000)),
    arrow('two billion rows', [schema(nullType()), nulls(2_000_000_000)]),
    arrow('a batch of 2^53 rows', [schema(nullType()), nulls(2 ** 53 - 1)]),
    arrow('a buffer that claims 2 GiB', [schema(float64()), numbers(10, 2 ** 31 - 1)]),
    arrow('a buffer that claims 2^60 bytes', [schema(float64()), numbers(10, 2 ** 60)]),
    arrow('8 MiB of zeros', [schema(float64()), numbers(MB)], expanded(32 * MB, MB)),
    arrow(
      'runs of 200,000 rows',
      [
        schema(runEndEncoded(int32(), utf8())),
        records(
          200_000,
          [
            [200_000, 0],
            [1, 0],
            [1, 0],
          ],
          [NO_BYTES, lastRun, NO_BYTES, ...textBuffers(['x'.repeat(1000)])],
        ),
      ],
      expanded(200_000 * 1000, 200_000),
    ),
    arrow(
      'booleans of a bit a row',
      [schema(bool()), records(500_000, [[500_000, 0]], [NO_BYTES, { zstd: zeros(62_500) }])],
      expanded(500_000 * 24, 500_000),
    ),
    arrow('5,000 columns', [
      schemaMessage(Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`c${i}`, float64()]))),
    ]),
    arrow('a column name of 1 MB', [schemaMessage({ ['n'.repeat(1_000_000)]: float64() })]),
    arrow('10,000 empty batches', [
      schema(float64()),
      ...repeated(10_000, () => [records(0, [[0, 0]], [NO_BYTES, NO_BYTES])]),
    ]),
  ];
}

function jsonAttacks(good: Application): Attack[] {
  const json = (name: string, text: string | Buffer, more: Partial<Attack> = {}): Attack => ({
    name: `JSON: ${name}`,
    path: predictUrl('json'),
    body: Buffer.from(text as string),
    ...more,
  });
  const gzipped = (name: string, text: Buffer, format = 'json'): Attack => ({
    name: `${format}: ${name}, gzip`,
    path: predictUrl(format),
    headers: { 'content-encoding': 'gzip' },
    body: gzipSync(text),
    expanded: text.length,
  });
  const one = JSON.stringify(good);
  const long = (value: unknown) => JSON.stringify([{ ...good, source_type: value }]);
  return [
    json('nested 100,000 deep', '['.repeat(100_000)),
    json('an object nested 100,000 deep', `[${'{"a":'.repeat(100_000)}`),
    json('200,000 empty objects', `[${Array(200_000).fill('{}').join(',')}]`, { rows: 200_000 }),
    json('a million empty elements', `[${','.repeat(1_000_000)}]`),
    json('a million members', `[{${Array.from({ length: 100_000 }, (_, i) => `"k${i}":1`).join(',')}}]`),
    json('the same member 100,000 times', `[{${Array(100_000).fill('"income":1').join(',')}}]`),
    json('a text of 1 MB', long('x'.repeat(MB - 2000))),
    json('a text of escapes', long('\u0001'.repeat(100_000))),
    json('a number of 500,000 digits', `[${one.replace(/"income":[^,}]*/, `"income":${'9'.repeat(500_000)}`)}]`),
    json('an exponent of 100,000 digits', `[${one.replace(/"income":[^,}]*/, `"income":1e${'9'.repeat(100_000)}`)}]`),
    json('4 MB of blanks', `[${' '.repeat(4 * MB)}]`),
    json('a name of 900 kB', `[{"${'k'.repeat(900_000)}":1}]`),
    json(
      'names that hash alike',
      `[{${Array.from({ length: 50_000 }, (_, i) => `"${i.toString(2).padStart(17, '0').replaceAll('0', 'Aa').replaceAll('1', 'BB')}":1`).join(',')}}]`,
    ),
    json('half surrogates', long('\ud800').repeat(1)),
    gzipped('64 MB of blanks', Buffer.from(`[${' '.repeat(64 * MB)}]`)),
    gzipped('64 MB of line breaks', Buffer.alloc(64 * MB, 10), 'ndjson'),
    { ...gzipped('300,000 empty objects', ndjson('{}', 300_000), 'ndjson'), rows: 300_000 },
    gzipped('an endless line', Buffer.alloc(64 * MB, 0x61), 'ndjson'),
    {
      name: 'NDJSON: 16 MB of zeros, zstd',
      path: predictUrl('ndjson'),
      headers: { 'content-encoding': 'zstd' },
      body: zstdCompressSync(zeros(16 * MB)),
      expanded: 16 * MB,
    },
    {
      name: 'JSON: gzip in gzip',
      path: predictUrl('json'),
      headers: { 'content-encoding': 'gzip, gzip' },
      body: gzipSync(gzipSync(zeros(16 * MB))),
    },
    {
      name: 'JSON: half a megabyte of interpretation of nothing',
      path: '/api/v1/scoring/predict/interpretation.json?modelId=credit-default',
      body: Buffer.from(`[${Array(100_000).fill('{}').join(',')}]`),
      rows: 100_000,
    },
  ];
}

function csvAttacks(header: string): Attack[] {
  const csv = (name: string, body: Buffer, more: Partial<Attack> = {}): Attack => ({
    name: `CSV: ${name}`,
    path: predictUrl('csv'),
    body,
    ...more,
  });
  const tabs = header.split('\t').length;
  return [
    csv('a header of 900,000 columns', Buffer.from('a\t'.repeat(450_000))),
    csv('a million empty lines', Buffer.concat([Buffer.from(`${header}\n`), Buffer.alloc(MB, 10)])),
    csv('half a million rows of one cell', Buffer.from(`${header}\n${'x\n'.repeat(500_000)}`), { rows: 500_000 }),
    csv('rows of nothing but delimiters', Buffer.from(`${header}\n${`${'\t'.repeat(tabs - 1)}\n`.repeat(100_000)}`)),
    csv('rows of 100,000 cells', Buffer.from(`${header}\n${`${'\t'.repeat(100_000)}\n`.repeat(20)}`)),
    csv('a quote that is never closed', Buffer.from(`${header}\n"${'x'.repeat(4 * MB)}`)),
    csv('quotes of quotes', Buffer.from(`${header}\n${`${'"'.repeat(900_000)}\n`.repeat(4)}`)),
    csv('carriage returns', Buffer.concat([Buffer.from(`${header}\n`), Buffer.alloc(2 * MB, 13)])),
    csv('bytes that are not UTF-8', Buffer.concat([Buffer.from(`${header}\n`), Buffer.alloc(2 * MB, 0xff)])),
    csv('a byte order mark a line', Buffer.from(`${header}\n${'\ufeff\n'.repeat(200_000)}`), { rows: 200_000 }),
    csv('64 MB of one line, gzip', gzipSync(Buffer.concat([Buffer.from(`${header}\n`), Buffer.alloc(64 * MB, 0x61)])), {
      headers: { 'content-encoding': 'gzip' },
      expanded: 64 * MB,
    }),
    csv('passthrough of 3,000 names', Buffer.from(`${header}\n`), {
      path: predictUrl('csv', `&passthrough=${Array.from({ length: 2000 }, (_, i) => i).join(',')}`),
    }),
    csv(
      'a form of 20,000 parts',
      Buffer.from(
        `${Array.from({ length: 20_000 }, (_, i) => `--b\r\nContent-Disposition: form-data; name="f${i}"\r\n\r\nx\r\n`).join('')}--b--\r\n`,
      ),
      { headers: { 'content-type': 'multipart/form-data; boundary=b' } },
    ),
    csv(
      'a form whose part has a head of 1 MB',
      Buffer.from(
        `--b\r\nContent-Disposition: form-data; name="f"; filename="${'x'.repeat(MB)}"\r\n\r\nx\r\n--b--\r\n`,
      ),
      { headers: { 'content-type': 'multipart/form-data; boundary=b' } },
    ),
    csv(
      'a form that is almost its boundary',
      Buffer.from(`--b\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\n${'\r\n--'.repeat(500_000)}`),
      { headers: { 'content-type': `multipart/form-data; boundary=b` } },
    ),
  ];
}

function inferAttacks(good: Application): Attack[] {
  const path = '/v2/models/credit-default/infer';
  const infer = (name: string, body: Buffer, more: Partial<Attack> = {}): Attack => ({
    name: `V2: ${name}`,
    path,
    body,
    ...more,
  });
  const packed = (name: string, value: unknown): Attack => {
    const text = Buffer.from(JSON.stringify(value));
    return infer(`${name}, gzip`, gzipSync(text), { headers: { 'content-encoding': 'gzip' }, expanded: text.length });
  };
  const tensor = (name: string, data: readonly unknown[], more: object = {}) => ({
    name,
    shape: [data.length],
    datatype: 'FP64',
    data,
    ...more,
  });
  const names = Object.keys(good);
  const framed = (tensors: Tensor[]) => {
    const { body, headers } = frame(tensors, () => true);
    return { body, headers: headers as Record<string, string> };
  };
  const binary = framed([{ name: 'income', shape: [1], datatype: 'FP64', data: [1] }]);
  const huge = Buffer.from(
    JSON.stringify({
      inputs: [{ name: 'income', shape: [2 ** 40], datatype: 'BYTES', parameters: { binary_data_size: 4 } }],
    }),
  );
  return [
    packed('a tensor name of 1 MB in 120 rows', {
      inputs: [...names.map((n) => tensor(n, Array(120).fill(1))), tensor('n'.repeat(1_000_000), Array(120).fill(1))],
    }),
    packed('10,000 inputs', { inputs: Array.from({ length: 10_000 }, (_, i) => tensor(`c${i}`, [1])) }),
    packed('a million elements', { inputs: names.map((n) => tensor(n, Array(40_000).fill(0))) }),
    packed('a million lists', {
      inputs: [{ name: 'income', shape: [1_000_000], datatype: 'FP64', data: Array(1_000_000).fill([]) }],
    }),
    packed('nested lists', {
      inputs: [
        { name: 'income', shape: [1], datatype: 'FP64', data: JSON.parse(`${'['.repeat(2000)}${']'.repeat(2000)}`) },
      ],
    }),
    packed('100,000 outputs', {
      inputs: [tensor('income', [1])],
      outputs: Array.from({ length: 100_000 }, (_, i) => ({ name: `o${i}` })),
    }),
    packed('whole numbers of 1,000 digits', {
      inputs: [{ name: 'income', shape: [5000], datatype: 'INT64', data: Array(5000).fill(`${'9'.repeat(1000)}`) }],
    }),
    packed('16 MB of blanks', ' '.repeat(15 * MB)),
    infer('more than 16 MB', gzipSync(Buffer.alloc(40 * MB, 0x20)), {
      headers: { 'content-encoding': 'gzip' },
      expanded: 16 * MB,
    }),
    infer('a shape of 2^40 texts', Buffer.concat([huge, Buffer.alloc(4)]), {
      headers: { 'inference-header-content-length': String(huge.length) },
    }),
    infer('a header beyond the body', binary.body, { headers: { 'inference-header-content-length': '999999999999' } }),
    infer('a version of 10,000 letters', Buffer.from('{}'), {
      path: `/v2/models/credit-default/versions/${'9'.repeat(10_000)}/infer`,
    }),
  ];
}

function otherAttacks(good: Application): Attack[] {
  const one = Buffer.from(JSON.stringify([good]));
  const job = (name: string, more: Partial<Attack>): Attack => ({
    name: `jobs: ${name}`,
    path: predictUrl('json'),
    headers: { prefer: 'respond-async' },
    body: one,
    ...more,
  });
  const tus = { 'tus-resumable': '1.0.0' };
  return [
    job('a key of 10,000 letters', { headers: { prefer: 'respond-async', 'idempotency-key': 'k'.repeat(10_000) } }),
    job('200,000 empty objects', {
      body: Buffer.from(`[${Array(200_000).fill('{}').join(',')}]`),
      rows: 200_000,
    }),
    job('an upload of 2^53 bytes', {
      headers: { ...tus, 'upload-length': String(2 ** 53 - 1) },
      body: Buffer.alloc(0),
    }),
    job('metadata of 10,000 pairs', {
      headers: {
        ...tus,
        'upload-length': '10',
        'upload-metadata': Array.from({ length: 1500 }, (_, i) => `k${i} YQ==`).join(','),
      },
      body: Buffer.alloc(0),
    }),
    {
      name: 'models: a reference of 8,000 letters',
      method: 'GET',
      path: `/api/v1/models/${'m'.repeat(8000)}`,
      body: Buffer.alloc(0),
    },
    {
      name: 'models: a reference of dots',
      method: 'GET',
      path: `/api/v1/models/${'..%2f'.repeat(1000)}`,
      body: Buffer.alloc(0),
    },
    {
      name: 'query: 2,000 parameters',
      path: predictUrl('json', `&${Array.from({ length: 2000 }, (_, i) => `p${i}=1`).join('&')}`),
      body: one,
    },
    { name: 'query: modelId 1,000 times', path: predictUrl('json', '&modelId=credit-default'.repeat(600)), body: one },
    {
      name: 'query: an alias of percent signs',
      path: predictUrl('json', `&passthrough=${'%25'.repeat(4000)}`),
      body: one,
    },
  ];
}

/** All attacks. `good`: an application the model takes. */
export function attacksWith(good: Application): Attack[] {
  const columns = Object.keys(good);
  return [
    ...arrowAttacks(columns),
    ...jsonAttacks(good),
    ...csvAttacks(columns.join('\t')),
    ...inferAttacks(good),
    ...otherAttacks(good),
  ];
}
