// Pipeline files: the checks say what the schema says, and what the schema cannot say is told where it stands.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { Value } from 'typebox/value';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { formatYaml, readYaml } from '../../src/config/yaml.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { parseBySchema } from '../../src/pipeline/pipeline-explain.ts';
import { FEATURE_KEYS } from '../../src/runs/complete-pipeline.ts';
import { parseByChecks, parsePipeline } from '../../src/runs/read-pipeline.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import fc from '../support/seeded-fast-check.ts';

type Mapping = Record<string, unknown>;

const FULL: Mapping = {
  model: 'credit-default@champion',
  score: {
    interpretation: 'effects',
    interpret_below: 0.5,
    top_effects: 3,
    passthrough: ['id'],
    batch_rows: 10,
    batch_wait_ms: 0,
    workers: 2,
    evaluator: 'native',
    record_bytes: 4096,
    max_columns: 50,
  },
  on_invalid: 'report',
  delivery: 'at_least_once',
  transaction_rows: 5,
  transaction_timeout_ms: 1000,
  kafka: {
    brokers: ['a:9092'],
    client_id: 'x',
    rack: 'r',
    tls: { ca_file: 'ca.pem', key_passphrase: { env: 'SECRET' } },
    sasl: {
      mechanism: 'plain',
      username: 'u',
      password: { file: 'p' },
      token: { env: 'T' },
      token_endpoint: { url: 'u', client_id: 'c', client_secret: { env: 'S' }, scope: 's', tls: { ca_file: 'c' } },
      extensions: { logicalCluster: 'lkc-1' },
    },
    session_timeout_ms: 5000,
    connect_timeout_ms: 1,
    request_timeout_ms: 1,
  },
  schema_registry: { url: 'http://r', username: 'u', password: { env: 'P' }, timeout_ms: 3 },
};
const ENDS: Record<'source' | 'sink' | 'dead_letter', Mapping[]> = {
  source: [
    {
      type: 'kafka',
      topic: 'a',
      group: 'g',
      format: 'avro',
      start_at: 'latest',
      on_offset_lost: 'stop',
      until_caught_up: true,
      fetch_bytes: 1,
      in_flight_bytes: 2,
    },
    { type: 'file', path: 'in/*.csv', format: 'tsv', compression: 'gzip', delimiter: 'pipe' },
    { type: 'stdio', format: 'json', compression: 'zstd', delimiter: 'tab' },
    { type: 'upload', format: 'ndjson', delimiter: 'semicolon' },
  ],
  sink: [
    { type: 'kafka', topic: 'b', format: 'json', compression: 'lz4', timestamp: 'now', key: 'id' },
    { type: 'file', path: 'out/{name}.csv', format: 'parquet', compression: 'none', roll_rows: 1, roll_ms: 2 },
    { type: 'stdio', format: 'csv', compression: 'gzip', delimiter: 'comma' },
  ],
  dead_letter: [
    { type: 'kafka', topic: 'c' },
    { type: 'kafka', topic: 'c', retry: { topic: 'r', codes: ['unseen_category'], delay_ms: 1, attempts: 2 } },
    { type: 'file', path: 'd.csv' },
  ],
};

/** Values that schemas like and dislike. */
const VALUES: readonly unknown[] = [
  null,
  true,
  0,
  1,
  -1,
  1.5,
  1e12,
  65_536,
  65_537,
  '',
  'x',
  '*',
  'kafka',
  'file',
  'upload',
  'stdio',
  'none',
  'csv',
  [],
  ['a'],
  [1],
  {},
  { env: 'E' },
  { type: 'upload' },
];

/** Every key of a value by its path, parts included. */
function paths(value: unknown, prefix: readonly string[] = []): string[][] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.entries(value).flatMap(([k, v]) => [[...prefix, k], ...paths(v, [...prefix, k])]);
}

function edit(value: Mapping, at: readonly string[], change: (parent: Mapping, key: string) => void): void {
  let parent: unknown = value;
  for (const key of at.slice(0, -1)) parent = (parent as Mapping | null)?.[key];
  if (typeof parent === 'object' && parent !== null) change(parent as Mapping, at.at(-1)!);
}

const pipelines = fc
  .record({
    source: fc.constantFrom(...ENDS.source),
    sink: fc.constantFrom(...ENDS.sink),
    dead_letter: fc.constantFrom(undefined, ...ENDS.dead_letter),
    gone: fc.array(fc.nat(), { maxLength: 30 }),
    changed: fc.array(fc.tuple(fc.nat(), fc.constantFrom(...VALUES)), { maxLength: 2 }),
    added: fc.option(fc.tuple(fc.nat(), fc.constantFrom('topic', 'batch_row', 'constructor', '__proto__', 'extra'))),
  })
  .map(({ source, sink, dead_letter, gone, changed, added }) => {
    const value = structuredClone({ ...FULL, source, sink, ...(dead_letter ? { dead_letter } : {}) }) as Mapping;
    const all = paths(value);
    const pick = (n: number) => all[n % all.length]!;
    // What must be there goes rarely: otherwise nearly every pipeline would be refused for the same reason.
    const needed = new Set(['model', 'source', 'sink', 'type', 'topic', 'group', 'path', 'url', 'mechanism']);
    for (const n of gone) {
      if (needed.has(pick(n).at(-1)!) && n % 7 !== 0) continue;
      edit(value, pick(n), (parent, key) => {
        delete parent[key];
      });
    }
    for (const [n, to] of changed) {
      edit(value, pick(n), (parent, key) => {
        parent[key] = structuredClone(to);
      });
    }
    if (added) {
      edit(value, [...pick(added[0]), added[1]], (parent, key) => {
        Object.defineProperty(parent, key, { value: 1, enumerable: true, configurable: true, writable: true });
      });
    }
    return formatYaml(value);
  });

test('checks accept and refuse what the schema does, and fill in the same defaults', () => {
  const seen = { accepted: 0, refused: 0 };
  fc.assert(
    fc.property(pipelines, (text) => {
      const read = readYaml('p.yaml', text);
      if (!read.ok) throw new Error(read.problems[0]!.message);
      const bySchema = parseBySchema('p.yaml', text, FEATURE_KEYS);
      const byChecks = parseByChecks(read);
      seen[bySchema.ok ? 'accepted' : 'refused']++;
      expect(byChecks !== null).toBe(bySchema.ok);
      if (bySchema.ok) expect(byChecks).toStrictEqual(bySchema.value);
    }),
    { numRuns: 600 },
  );
  // Both ways are tried in earnest.
  expect(seen.accepted).toBeGreaterThan(60);
  expect(seen.refused).toBeGreaterThan(60);
});

test.each(['', '[]', 'null', 'model: m', '5', 'source: x\nsink: [y]\nmodel: m'])(
  '%j is refused in words',
  async (text) => {
    const parsed = await parsePipeline('p.yaml', text);
    expect(parsed.ok ? [] : parsed.problems.map((p) => p.message)).not.toEqual([]);
  },
);

test('an end of unknown type does not hide the faults of the others', async () => {
  const parsed = await parsePipeline('p.yaml', 'model: 5\nsource: { type: kafak }\nsink: { type: file, pth: x }\n');
  expect(parsed.ok ? [] : parsed.problems.map((p) => `${p.line}:${p.column} ${p.message}`)).toEqual([
    expect.stringMatching(/^1:8 model must be string/),
    '2:17 source.type must be one of kafka, file, stdio, postgres, upload',
    expect.stringMatching(/^3:7 sink: missing key path/),
    '3:21 unknown key pth (did you mean path?)',
  ]);
});

const faults = async (text: string): Promise<string[]> => {
  const parsed = await parsePipeline('p.yaml', `model: m\n${text}\n`);
  return parsed.ok ? [] : parsed.problems.map((p) => `${p.line}:${p.column} ${p.message}`);
};

describe('uploads', () => {
  const upload = 'source: { type: upload }';
  test.each([
    ['a file', 'sink: { type: file, path: "out/{name}.parquet" }\ndead_letter: { type: file, path: "{name}.csv" }'],
    ['a topic', 'sink: { type: kafka, topic: t, key: id }\ndead_letter: { type: file, path: "{name}.csv" }'],
  ])('to %s, exactly once unless it is said otherwise', async (_name, ends) => {
    expect(await parsePipeline('p.yaml', `model: m\n${upload}\n${ends}\n`)).toMatchObject({
      ok: true,
      value: { source: { type: 'upload', format: 'csv' }, delivery: 'exactly_once', on_invalid: 'dead_letter' },
    });
    expect(await faults(`${upload}\n${ends}\ndelivery: at_least_once`)).toEqual([]);
  });

  test('not to standard output, each into a file of its own, and rejected rows into a list each', async () => {
    expect(await faults(`${upload}\nsink: { type: stdio }`)).toEqual([
      '3:7 the sink of an upload must be a file or a topic',
    ]);
    expect(
      await faults(`${upload}\nsink: { type: file, path: o.csv }\ndead_letter: { type: kafka, topic: r }`),
    ).toEqual([
      '3:7 sink.path must contain {name} if the source is an upload',
      '4:14 dead letters of uploads must go to files',
    ]);
    expect(
      await faults(`${upload}\nsink: { type: kafka, topic: t }\ndead_letter: { type: file, path: r.csv }`),
    ).toEqual(['4:14 dead_letter.path must contain {name} if the source is an upload']);
  });
});

describe('names of files', () => {
  const from = (source: string, sink: string) =>
    faults(`source: { type: file, ${source} }\nsink: { type: file, ${sink} }`);

  test.each([
    'o.csv',
    'o.tsv.gz',
    'o.tab',
    'o.ndjson.zst',
    'o.jsonl',
    'O.JSON.GZ',
    'o.parquet',
    'out',
    '/dev/fd/3',
    'v1.2/out',
  ])('%s is written', async (name) => {
    expect(await from('path: i.csv', `path: ${name}`)).toEqual([]);
  });

  test('an ending that stands for no format, unless the format is said', async () => {
    const known = 'csv, tsv, ndjson, json, parquet, arrow, with .gz or .zst';
    expect(await from('path: i.csv', 'path: o.xlsx')).toEqual([
      `3:27 sink.path: Sluice writes no files with the extension .xlsx: use ${known}`,
    ]);
    expect(await from('path: i.csv.bz2', 'path: o.orc.gz')).toEqual([
      `2:29 source.path: Sluice reads no files with the extension .bz2: use ${known}`,
      `3:27 sink.path: Sluice writes no files with the extension .orc: use ${known}`,
    ]);
    expect(await from('path: i.txt, format: csv', 'path: o.out, format: ndjson')).toEqual([]);
    expect(await from('path: "in/*.txt"', 'path: "out/{name}.csv"')).toEqual([]);
  });

  test('a Parquet file is not compressed once more', async () => {
    const message = 'sink: a Parquet file compresses its pages itself: remove the compression gzip or zstd';
    expect(await from('path: i.csv', 'path: o.parquet.gz')).toEqual([`3:7 ${message}`]);
    expect(await from('path: i.csv', 'path: o, format: parquet, compression: zstd')).toEqual([`3:7 ${message}`]);
    expect(await from('path: i.parquet.zst', 'path: o.csv')).toHaveLength(1);
    const out = 'source: { type: stdio }\nsink: { type: stdio, format: parquet';
    expect(await faults(`${out} }`)).toEqual([]);
    expect(await faults(`${out}, compression: gzip }`)).toEqual([`3:7 ${message}`]);
  });

  test('standard streams carry Arrow; a Parquet file is read from its end', async () => {
    const through = (format: string, score = '') =>
      faults(`${score}source: { type: stdio, format: ${format} }\nsink: { type: stdio, format: arrow }`);
    expect(await through('arrow')).toEqual([]);
    expect(await through('parquet')).toEqual(['2:32 source.format must be one of csv, tsv, ndjson, json, arrow']);
    expect(await through('arrow', 'score: { passthrough: "*" }\n')).toEqual([
      '2:8 passthrough: Arrow needs a list of columns',
    ]);
  });
});

describe('what is loaded', () => {
  /** Runs `sluice …` and returns the modules of typebox that were loaded, without the small one that checks use. */
  function loaded(args: string[]): { code: number | null; modules: string[] } {
    const list = path.join(scratch(), 'modules.txt');
    const hook = path.join(scratch(), 'hook.mjs');
    writeFileSync(list, '');
    writeFileSync(
      hook,
      `import { registerHooks } from 'node:module';
import { appendFileSync } from 'node:fs';
registerHooks({ load(url, context, next) { appendFileSync(${JSON.stringify(list)}, url + '\\n'); return next(url, context); } });`,
    );
    const { status } = spawnSync(process.execPath, ['--import', pathToFileURL(hook).href, 'src/main.ts', ...args], {
      encoding: 'utf8',
    });
    const modules = readFileSync(list, 'utf8').split('\n');
    expect(modules.some((m) => m.includes('/src/cli.ts'))).toBe(true);
    return { code: status, modules: modules.filter((m) => /node_modules\/typebox\/(?!build\/guard\/)/.test(m)) };
  }

  test('a pipeline in order is linted without the schema library, a faulty one is explained with it', () => {
    expect(loaded(['lint', 'pipelines/loan-applications.yaml'])).toEqual({ code: 0, modules: [] });
    const faulty = path.join(scratch(), 'p.yaml');
    writeFileSync(faulty, 'model: m\n');
    const explained = loaded(['lint', faulty]);
    expect([explained.code, explained.modules.length > 0]).toEqual([2, true]);
  });

  test('a pipeline runs, and help is written, without it', () => {
    const folder = scratch();
    const file = path.join(folder, 'p.yaml');
    writeFileSync(path.join(folder, 'i.csv'), Buffer.concat([...generatePortfolio({ rows: 5, seed: 3 })]));
    writeFileSync(
      file,
      `model: credit-default
source: { type: file, path: ${folder}/i.csv }
sink: { type: file, path: ${folder}/o.ndjson }
score: { workers: 1 }
`,
    );
    expect(loaded(['run', file])).toEqual({ code: 0, modules: [] });
    for (const word of ['score', 'run']) expect(loaded([word, '--help'])).toEqual({ code: 0, modules: [] });
  });
});

const LOGIN = 'mechanism: oauthbearer';
const ENDPOINT = 'token_endpoint: { url: "https://i/t", client_id: c, client_secret: { env: S } }';
const RETRY = 'topic: r, codes: [unseen_category]';
const TOPICS = (letters: string, rest = '') =>
  `model: m\nsource: { type: kafka, topic: a, group: g }\nsink: { type: kafka, topic: b, routes: [{ decision: d, topic: b2 }] }\ndead_letter: { type: kafka, topic: c${letters} }\n${rest}`;
const SASL = (keys: string) => TOPICS('', `kafka: { sasl: { ${keys} } }`);

test.each([
  [SASL(`${LOGIN}, ${ENDPOINT}`), null],
  [SASL(`${LOGIN}, ${ENDPOINT.replace('https://i', 'http://127.0.0.1:8080')}`), null],
  [SASL(`${LOGIN}, token: { file: f }, extensions: { logicalCluster: lkc-1 }`), null],
  [SASL('mechanism: plain, username: u, password: { env: P }'), null],
  [SASL('mechanism: plain, username: u'), '5:16 kafka.sasl: mechanism: plain needs password'],
  [SASL(LOGIN), '5:16 kafka.sasl: mechanism: oauthbearer needs one of token_endpoint and token'],
  [SASL(`${LOGIN}, token: { file: f }, ${ENDPOINT}`), '5:16 kafka.sasl: mechanism: oauthbearer needs one of token_endpoint and token'],
  [SASL(`${LOGIN}, token: { file: f }, username: u`), '5:72 kafka.sasl.username: is not supported with mechanism: oauthbearer'],
  [SASL('mechanism: plain, username: u, password: { env: P }, token: { env: T }'), '5:78 kafka.sasl.token: is not supported with mechanism: plain'],
  [SASL(`${LOGIN}, ${ENDPOINT.replace('https:', 'http:')}`), '5:65 kafka.sasl.token_endpoint.url: must be an https address'],
  [SASL(`${LOGIN}, ${ENDPOINT.replace('https://i/t', 'i')}`), '5:65 kafka.sasl.token_endpoint.url: must be an https address'],
  [SASL(`${LOGIN}, token: { file: f }, extensions: { auth: x }`), '5:74 kafka.sasl.extensions: the extension auth is reserved for the token'],
  [SASL(`${LOGIN}, token: { file: f }, extensions: { a-b: x }`), '5:76 unknown key a-b'],
  [TOPICS('', 'kafka: { brokers: ["kafka-1.example.com:9093", "[::1]:9092", "10.0.0.1:65535"] }'), null],
  [TOPICS('', 'kafka: { brokers: [kafka-1] }'), '5:20 kafka.brokers.0: must be host:port of one broker'],
  [TOPICS('', 'kafka: { brokers: ["a:9093", "b:9093,c:9093"] }'), '5:30 kafka.brokers.1: must be host:port of one broker'],
  [TOPICS('', 'kafka: { brokers: ["a:0"] }'), '5:20 kafka.brokers.0: must be host:port of one broker'],
  [TOPICS('', 'kafka: { brokers: ["a:65536"] }'), '5:20 kafka.brokers.0: must be host:port of one broker'],
  [TOPICS('', 'kafka: { brokers: ["PLAINTEXT://a:9092"] }'), '5:20 kafka.brokers.0: must be host:port of one broker'],
  [TOPICS('', 'kafka: { tls: { certificate_file: c.pem, key_file: k.pem, key_passphrase: { env: P } } }'), null],
  [TOPICS('', 'kafka: { tls: { certificate_file: c.pem } }'), '5:15 kafka.tls: certificate_file needs key_file'],
  [TOPICS('', 'kafka: { tls: { key_file: k.pem } }'), '5:15 kafka.tls: key_file needs certificate_file'],
  [TOPICS('', 'kafka: { tls: { key_passphrase: { env: P } } }'), '5:15 kafka.tls: key_passphrase needs key_file'],
  [TOPICS('', 'schema_registry: { url: "https://r", tls: { key_file: k.pem } }'), '5:43 schema_registry.tls: key_file needs certificate_file'],
  ['model: m\nsource: { type: file, path: a.csv, trailer: { marker: T } }\nsink: { type: file, path: b.csv }', null],
  ['model: m\nsource: { type: file, path: a.csv, trailer: { marker: T, extra_rows: 1 } }\nsink: { type: file, path: b.csv }', '2:45 source.trailer: extra_rows needs rows_field'],
  [TOPICS(`, retry: { ${RETRY}, delay_ms: 5, attempts: 2, group: h }`), null],
  [TOPICS(`, retry: { ${RETRY}, attempts: 1 }`), '4:94 dead_letter.retry.attempts must be >= 2'],
  [TOPICS(', retry: { topic: r, codes: [] }'), '4:65 dead_letter.retry.codes must not have fewer than 1 items'],
  [TOPICS(', retry: { topic: r, codes: [output_too_large] }'), 'dead_letter.retry.codes.0 must be one of malformed_record'],
  ...['a', 'b', 'b2', 'c'].map((topic) => [TOPICS(`, retry: { topic: ${topic}, codes: [empty_row] }`), '4:55 retry: the retry topic must differ from all other topics of the pipeline'] as const),
  [TOPICS(`, retry: { ${RETRY}, group: g }`), '4:91 retry: the retry group must differ from the group of the source'],
  [TOPICS(`, retry: { ${RETRY} }`, 'on_invalid: report'), '4:46 retry: needs on_invalid: dead_letter'],
  [TOPICS(`, retry: { ${RETRY} }`).replace(/sink: .*/, 'sink: { type: file, path: "{partition}-{offset}.ndjson" }'), '4:46 retry: needs a topic as the source and as the sink'],
  ...['{partition}', '{offset}', 'all'].map((name) => [TOPICS('').replace(/sink: .*/, `sink: { type: file, path: "${name}.ndjson" }`), '3:7 sink.path must contain {partition} and {offset} if the source is a topic'] as const),
] as const)('logins and retries that contradict themselves', async (yaml, message) => {
  const parsed = await parsePipeline('p.yaml', yaml);
  const told = parsed.ok ? null : parsed.problems.map((p) => `${p.line}:${p.column} ${p.message}`);
  if (message === null) expect(told).toBeNull();
  else expect(told?.[0]).toContain(message);
}); // biome-ignore format: a table

test('every pipeline that comes with Sluice names its schema for editors, and fits it', async () => {
  const files = readdirSync('pipelines').filter((f) => f.endsWith('.yaml') && !f.endsWith('.test.yaml'));
  expect(files.length).toBeGreaterThan(3);
  for (const file of files) {
    const [, schema] = /^# yaml-language-server: \$schema=(.*)$/m.exec(
      readFileSync(path.join('pipelines', file), 'utf8'),
    )!;
    expect(path.resolve('pipelines', schema!)).toBe(path.resolve('docs/pipeline.schema.json'));
    const offered = JSON.parse(readFileSync('docs/pipeline.schema.json', 'utf8'));
    const value = parse(readFileSync(path.join('pipelines', file), 'utf8'));
    expect([file, Value.Check(offered, value), Value.Check(offered, { ...value, modell: 'm' })]).toEqual([
      file,
      true,
      false,
    ]);
  }
  expect((await sluiceHere(['lint', ...files.map((f) => path.join('pipelines', f))])).code).toBe(0);
});
