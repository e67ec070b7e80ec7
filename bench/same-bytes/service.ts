// The doors of the service: predictions and interpretations in every format, small and large, packed and in multipart; jobs.
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { type Server, startSluice } from '../servers.ts';
import { brokenLines, read } from './corpus.ts';
import type { Case, Seen, Side } from './side.ts';

interface Ask {
  method?: string;
  url: string;
  headers?: Readonly<Record<string, string>>;
  body?: Buffer;
}

interface Reply {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Buffer;
}

const SCORING = '/api/v1/scoring';
const TYPES = { json: 'application/json', csv: 'text/csv', ndjson: 'application/x-ndjson' } as const;
type Format = keyof typeof TYPES;

/** Starts both services when a case is wanted, and ends them behind the last. */
export async function* serviceCases(sides: readonly Side[], corpus: string, only: string): AsyncIterable<Case> {
  const asks = predictions(corpus);
  const jobs = jobAsks(corpus);
  const wanted = [...asks.keys(), ...jobs.keys()].some((name) => name.includes(only));
  if (!wanted) return;
  const servers = new Map<Side, Server>();
  try {
    await Promise.all(
      sides.map(async (side) => {
        servers.set(side, await startSluice(side.program, path.join(side.folder, 'models'), ['workers=1']));
      }),
    );
    for (const [name, ask] of asks) yield { name, see: async (side) => seenOf(await call(servers.get(side)!, ask)) };
    for (const [name, ask] of jobs) yield { name, see: (side) => job(servers.get(side)!, ask) };
  } finally {
    for (const server of servers.values()) await server.stop();
  }
}

const ask = (operation: string, format: Format, query: string, body: Buffer, headers = {}): Ask => ({
  url: `${SCORING}/${operation}.${format}?modelId=credit-default${query}`,
  headers: { 'content-type': TYPES[format], ...headers },
  body,
});

/** By the name of their case. */
function predictions(corpus: string): Map<string, Ask> {
  const asks = new Map<string, Ask>();
  const add = (name: string, one: Ask): void => void asks.set(`http ${name}`, one);
  const bodies: Record<Format, readonly string[]> = {
    json: [
      'native',
      'strings',
      'ids',
      'pretty',
      'broken',
      'cut',
      'empty-array',
      'object',
      'empty',
      'not-json',
      'bom',
      'large',
    ].map((n) => `${n}.json`),
    ndjson: ['native', 'strings', 'ids', 'crlf', 'broken', 'empty', 'large'].map((n) => `${n}.ndjson`),
    csv: [
      ...[
        'plain',
        'dirty',
        'faults',
        'ids',
        'outcome',
        'quoted',
        'crlf',
        'mixed-ends',
        'bom',
        'empty-cells',
        'broken',
        'header-only',
        'empty',
        'one',
        'wide',
        'notes',
        'long',
        'numbers',
        'booleans',
        'words',
        'missing-column',
        'column-twice',
        'wrong-names',
        'binary',
        'large',
      ].map((n) => `${n}.csv`),
      'tabs.tsv',
      'semicolon.csv',
    ],
  };
  const delimiterOf = (file: string): string =>
    !/\.csv$/.test(file) ? '' : file.startsWith('semicolon') ? '&delimiter=semicolon' : '&delimiter=comma';
  for (const format of ['json', 'ndjson', 'csv'] as const) {
    for (const file of bodies[format]) {
      const body = read(corpus, file);
      const query = delimiterOf(file);
      add(`predict.${format} ${file}`, ask('predict', format, query, body));
      add(`predict.${format} ${file} passthrough=*`, ask('predict', format, `${query}&passthrough=*`, body));
      if (file.startsWith('large')) continue;
      add(`predict.${format} ${file} on_invalid=fail`, ask('predict', format, `${query}&on_invalid=fail`, body));
      for (const more of [
        '',
        '&top_effects=3',
        '&interpret_below=0.5',
        '&top_effects=2&interpret_below=0.3&passthrough=*',
      ]) {
        add(
          `predict/interpretation.${format} ${file} ${more}`,
          ask('predict/interpretation', format, query + more, body),
        );
      }
    }
  }
  for (const [name, pack] of [
    ['gzip', gzipSync],
    ['zstd', zstdCompressSync],
  ] as const) {
    for (const file of ['native.json', 'large.json', 'faults.csv', 'large.csv', 'native.ndjson'] as const) {
      const format = path.extname(file).slice(1) as Format;
      const body = pack(read(corpus, file));
      const packed = { 'content-encoding': name };
      add(`predict.${format} ${file} in ${name}`, ask('predict', format, delimiterOf(file), body, packed));
      add(
        `predict.${format} ${file} in half a ${name}`,
        ask('predict', format, delimiterOf(file), body.subarray(0, body.length >> 1), packed),
      );
    }
  }
  for (const file of ['native.json', 'faults.csv', 'large.csv', 'broken.ndjson'] as const) {
    const format = path.extname(file).slice(1) as Format;
    const headers = { 'content-type': 'multipart/form-data; boundary=edge' };
    add(
      `predict.${format} ${file} multipart`,
      ask('predict', format, delimiterOf(file), multipart(file, read(corpus, file)), headers),
    );
  }
  // One application at a time, as they come from a form.
  for (const [i, line] of brokenLines().entries()) {
    add(`predict.json of one, ${i}`, ask('predict', 'json', '', Buffer.from(`[${line}]`)));
    add(
      `predict/interpretation.json of one, ${i}`,
      ask('predict/interpretation', 'json', '', Buffer.from(`[${line}]`)),
    );
  }
  const one = read(corpus, 'native.json');
  for (const query of [
    '&top_effects=0',
    '&top_effects=x',
    '&interpret_below=x',
    '&on_invalid=shout',
    '&delimiter=colon',
    '&nobody=1',
    '&passthrough=nobody',
  ]) {
    add(`predict.json ${query}`, ask('predict', 'json', query, one));
  }
  for (const model of [
    'nobody',
    'credit-default:1',
    'credit-default:9',
    'credit-columns',
    'lightgbm-multiclass',
    'xgboost-regressor',
  ]) {
    for (const operation of ['predict', 'predict/interpretation']) {
      const { url, ...rest } = ask(operation, 'json', '', one);
      add(`${operation}.json ${model}`, { ...rest, url: url.replace('credit-default', model) });
    }
  }
  add('no model', { url: `${SCORING}/predict.json`, headers: { 'content-type': 'application/json' }, body: one });
  add('another content type', ask('predict', 'json', '', one, { 'content-type': 'image/png' }));
  add('another encoding', ask('predict', 'json', '', one, { 'content-encoding': 'br' }));
  add('models', { method: 'GET', url: '/api/v1/models' });
  add('a model', { method: 'GET', url: '/api/v1/models/credit-default' });
  add('nothing there', { method: 'GET', url: '/api/v1/nothing' });
  add('without a key', {
    ...ask('predict', 'json', '', one),
    headers: { 'content-type': 'application/json', authorization: '' },
  });
  return asks;
}

function jobAsks(corpus: string): Map<string, Ask> {
  const asks = new Map<string, Ask>();
  const later = { prefer: 'respond-async' };
  for (const [operation, format, file, query] of [
    ['predict', 'csv', 'large.csv', '&delimiter=comma'],
    ['predict', 'csv', 'faults.csv', '&delimiter=comma&passthrough=*'],
    ['predict', 'csv', 'faults.csv', '&delimiter=comma&on_invalid=fail'],
    ['predict', 'csv', 'wrong-names.csv', '&delimiter=comma'],
    ['predict', 'json', 'native.json', ''],
    ['predict', 'json', 'cut.json', ''],
    ['predict', 'ndjson', 'broken.ndjson', ''],
    ['predict/interpretation', 'ndjson', 'native.ndjson', '&top_effects=3'],
    ['predict/interpretation', 'csv', 'plain.csv', '&delimiter=comma&interpret_below=0.5'],
  ] as const) {
    asks.set(`job ${operation}.${format} ${file} ${query}`, ask(operation, format, query, read(corpus, file), later));
  }
  return asks;
}

function multipart(file: string, content: Buffer): Buffer {
  const head = `--edge\r\nContent-Disposition: form-data; name="file"; filename="${file}"\r\nContent-Type: application/octet-stream\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), content, Buffer.from('\r\n--edge--\r\n')]);
}

/** Ids and times of day are of one request and one run, and packages that each side registers hold the time. */
const steady = (text: string): string =>
  text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'ID')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replaceAll(/"req-[\w]+"/g, '"REQUEST"')
    .replaceAll(/^(sluice-model: (?!credit-default).*\nsluice-package-sha256: )\w+$/gm, '$1SUM');

const OWN_HEADERS = ['date', 'x-request-id', 'keep-alive'];

function seenOf({ status, headers, body }: Reply): Seen {
  const lines = Object.entries(headers)
    .filter(([name]) => !OWN_HEADERS.includes(name))
    .map(([name, value]) => `${name}: ${value}\n`)
    .sort();
  return new Map([
    ['status', Buffer.from(String(status))],
    ['headers', Buffer.from(steady(lines.join('')))],
    ['body', status === 200 ? body : Buffer.from(steady(body.toString()))],
  ]);
}

/** Made, waited for, fetched whole and in part. */
async function job(server: Server, one: Ask): Promise<Seen> {
  const made = await call(server, one);
  const seen: Seen = new Map();
  const keep = (what: string, reply: Reply): void => {
    for (const [part, bytes] of seenOf(reply))
      seen.set(`${what} ${part}`, Buffer.from(steady(bytes.toString('latin1')), 'latin1'));
  };
  keep('made', { ...made, body: Buffer.from('') });
  const url = String(made.headers.location);
  let state = await call(server, { method: 'GET', url });
  while (/"state":"(queued|running)"/.test(state.body.toString())) {
    await sleep(20);
    state = await call(server, { method: 'GET', url });
  }
  keep('job', state);
  keep('result', await call(server, { method: 'GET', url: `${url}/result` }));
  keep('range', await call(server, { method: 'GET', url: `${url}/result`, headers: { range: 'bytes=100-299' } }));
  keep('gone', await call(server, { method: 'DELETE', url }));
  return seen;
}

const replyOf = (answer: IncomingMessage): Pick<Reply, 'status' | 'headers'> => ({
  status: answer.statusCode ?? 0,
  headers: answer.headers,
});

function call(server: Server, { method = 'POST', url, headers = {}, body }: Ask): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const options = { method, headers: { ...server.headers, ...headers }, rejectUnauthorized: false };
    const made = request(server.url + url, options, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      // Cut off on purpose: how much of it had left by then is a matter of time.
      answer.once('error', () => resolve({ ...replyOf(answer), body: Buffer.from('(cut off)') }));
      answer.once('end', () => resolve({ ...replyOf(answer), body: Buffer.concat(chunks) }));
    });
    made.once('error', reject);
    made.end(body);
  });
}
