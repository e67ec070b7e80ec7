// Pipelines without a broker: what their files may say, files on both sides, tests of pipelines, metrics and health.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { gzipSync, zstdDecompressSync } from 'node:zlib';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import { parquetWriteFile } from 'hyparquet-writer';
import { describe, expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { Metrics } from '../../src/monitor/metrics.ts';
import { serveMetrics } from '../../src/monitor/metrics-server.ts';
import { parsePipeline } from '../../src/runs/read-pipeline.ts';
import { scratch, sluice, sluiceHere } from '../support/cli.ts';
import { checkTest } from '../support/tiers.ts';

const portfolio = (rows: number, seed = 3, faults = 0): Buffer =>
  Buffer.concat([...generatePortfolio({ rows, seed, faults, oddness: 'none' })]);

describe('the file of a pipeline', () => {
  test('those that come with Sluice are in order', async () => {
    const files = readdirSync('pipelines')
      .filter((f) => !f.endsWith('.test.yaml'))
      .map((f) => path.join('pipelines', f));
    expect(files.length).toBeGreaterThanOrEqual(3);
    expect((await sluiceHere(['lint', ...files])).stdout).toBe(`${files.length} pipelines are valid\n`);
    const tested = await sluiceHere(['test', 'pipelines/loan-applications.yaml']);
    expect([tested.code, tested.stdout]).toEqual([0, expect.stringContaining('2 passed, 0 failed')]);
  });

  test('defaults: dead letters if there are any, exactly once between topics', async () => {
    const parsed = await parsePipeline(
      'p.yaml',
      'model: m\nsource: { type: kafka, topic: a, group: g }\nsink: { type: kafka, topic: b }\n',
    );
    expect(parsed).toMatchObject({
      ok: true,
      value: {
        on_invalid: 'report',
        delivery: 'exactly_once',
        score: { batch_rows: 1024, interpretation: 'none' },
        kafka: { client_id: 'sluice' },
      },
    });
  });

  test('all faults at once, each with its place and what was meant', async () => {
    const text = `modell: m
source: { type: kafka, topik: a, group: g }
score: { interpretation: full, batch_rows: 0 }
sink: { type: file, path: x.csv, roll_rows: many }
`;
    const parsed = await parsePipeline('p.yaml', text);
    expect(parsed.ok).toBe(false);
    const problems = parsed.ok ? [] : parsed.problems.map((p) => `${p.line}:${p.column} ${p.message}`);
    expect(problems).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^1:1 unknown key modell \(did you mean model\?\)/),
        expect.stringMatching(/^2:\d+ unknown key topik \(did you mean topic\?\)/),
        expect.stringMatching(/^3:\d+ score.interpretation must be one of none, effects, reasons/),
        expect.stringMatching(/^4:\d+ sink.roll_rows must be/),
      ]),
    );
  });

  test.each([
    [
      'an unknown type',
      'source: { type: kafak, topic: a, group: g }\nsink: { type: stdio }',
      /source.type must be one of kafka, file, stdio/,
    ],
    [
      'the same topic twice',
      'source: { type: kafka, topic: a, group: g }\nsink: { type: kafka, topic: a }',
      /same topic/,
    ],
    ['no topic', 'source: { type: kafka, group: g }\nsink: { type: kafka, topic: b }', /one of topic, topics and/],
    [
      'a topic and a pattern',
      'source: { type: kafka, topic: a, topic_pattern: a.*, group: g }\nsink: { type: kafka, topic: b }',
      /one of topic, topics and/,
    ],
    [
      'a pattern that is none',
      'source: { type: kafka, topic_pattern: "a(", group: g }\nsink: { type: kafka, topic: b }',
      /topic_pattern: is not a regular expression/,
    ],
    [
      'one of several topics written',
      'source: { type: kafka, topics: [a, b], group: g }\nsink: { type: kafka, topic: c, routes: [{ decision: d, topic: b }] }',
      /a topic is also the source/,
    ],
    [
      'one of several topics as dead letters',
      'source: { type: kafka, topics: [a, b], group: g }\nsink: { type: kafka, topic: c }\ndead_letter: { type: kafka, topic: a }',
      /the topic is also read as input/,
    ],
    [
      'several topics into files',
      'source: { type: kafka, topics: [a, b], group: g }\nsink: { type: file, path: "{partition}-{offset}.ndjson" }',
      /only a single topic can be written to files/,
    ],
    [
      'a retry topic of several topics',
      'source: { type: kafka, topics: [a, b], group: g }\nsink: { type: kafka, topic: c }\ndead_letter: { type: kafka, topic: d, retry: { topic: r, codes: [bad_number] } }',
      /retry: needs a single topic/,
    ],
    [
      'partitions of a file',
      'source: { type: file, path: a.csv }\nsink: { type: kafka, topic: b, partition: source }',
      /needs a topic as the source/,
    ],
    [
      'a deadline of a topic',
      'source: { type: kafka, topic: a, group: g }\nsink: { type: kafka, topic: b }\ndeadline: "06:00"',
      /deadline: is supported for files/,
    ],
    [
      'a deadline that is no time',
      'source: { type: file, path: a.csv }\nsink: { type: file, path: b.csv }\ndeadline: tomorrow',
      /deadline: must be a time of day/,
    ],
    [
      'exactly once from a file',
      'source: { type: file, path: a.csv }\nsink: { type: kafka, topic: a }\ndelivery: exactly_once',
      /topics as source and sink/,
    ],
    [
      'dead letters without a place',
      'source: { type: kafka, topic: a, group: g }\nsink: { type: kafka, topic: b }\non_invalid: dead_letter',
      /needs the key dead_letter/,
    ],
    [
      'several files into one',
      'source: { type: file, path: "*.csv" }\nsink: { type: file, path: out.csv }',
      /must contain \{name\}/,
    ],
    [
      'a topic into one file',
      'source: { type: kafka, topic: a, group: g }\nsink: { type: file, path: out.csv }',
      /\{partition\}/,
    ],
  ])('%s is told', async (_name, text, words) => {
    const parsed = await parsePipeline('p.yaml', `model: m\n${text}\n`);
    expect(parsed.ok ? '' : parsed.problems.map((p) => p.message).join('\n')).toMatch(words);
  });

  test('a password that is sent without TLS is a warning', async () => {
    const file = path.join(scratch(), 'p.yaml');
    const lint = async (kafka: string) => {
      const topics =
        'source: { type: kafka, topic: a, group: g }\nsink: { type: kafka, topic: b, partition: source }\ndead_letter: { type: kafka, topic: c }';
      writeFileSync(file, `model: credit-default\n${topics}\nkafka: { ${kafka} }\n`);
      const { code, stdout, stderr } = await sluiceHere(['lint', file]);
      expect([code, stdout]).toEqual([0, '1 pipeline is valid\n']);
      return stderr.replace(file, 'p.yaml');
    };
    const plain = 'sasl: { mechanism: plain, username: u, password: { env: P } }';
    const warning = 'sluice: p.yaml: kafka.sasl: mechanism: plain sends the password unencrypted; set kafka.tls\n';
    expect(await lint(plain)).toBe(warning);
    expect(await lint(`${plain}, tls: false`)).toBe(warning);
    expect(await lint(`${plain}, tls: true`)).toBe('');
    expect(await lint(plain.replace('plain', 'scram-sha-512'))).toBe('');
  });

  test('a model that is not there is a fault of the pipeline', async () => {
    const file = path.join(scratch(), 'p.yaml');
    writeFileSync(file, 'model: credit-defualt\nsource: { type: stdio }\nsink: { type: stdio }\n');
    const { code, stderr } = await sluiceHere(['lint', file]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('did you mean credit-default?')]);
  });
});

describe('files', () => {
  test('several inputs, compressed both ways, rejects in one list, exit 3', async () => {
    const folder = scratch();
    mkdirSync(path.join(folder, 'in'));
    mkdirSync(path.join(folder, 'out'));
    writeFileSync(path.join(folder, 'in', 'a.csv'), portfolio(500, 3, 2));
    writeFileSync(path.join(folder, 'in', 'b.csv.gz'), gzipSync(portfolio(300, 4)));
    writeFileSync(
      path.join(folder, 'p.yaml'),
      'model: credit-default\nsource: { type: file, path: "in/*" }\nscore: { interpretation: reasons, interpret_below: 0.6, workers: 1 }\nsink: { type: file, path: "out/{name}.ndjson.zst" }\ndead_letter: { type: file, path: out/rejected.csv }\n',
    );
    const { code, stdout } = await sluiceHere(['run', 'p.yaml', '--json'], { cwd: folder });
    expect([code, JSON.parse(stdout)]).toEqual([3, expect.objectContaining({ rows: 800, scored: 798, rejected: 2 })]);
    const lines = (name: string) =>
      zstdDecompressSync(readFileSync(path.join(folder, 'out', name)))
        .toString()
        .trimEnd()
        .split('\n')
        .map((l) => JSON.parse(l));
    expect([lines('a.ndjson.zst').length, lines('b.ndjson.zst').length]).toEqual([500, 300]);
    for (const a of lines('b.ndjson.zst')) expect(a.interpretation === undefined).toBe(a.probability >= 0.6);
    expect(
      readFileSync(path.join(folder, 'out', 'rejected.csv'), 'utf8')
        .trimEnd()
        .split('\n'),
    ).toHaveLength(3);
    expect(readdirSync(path.join(folder, 'out')).sort()).toEqual([
      'a.ndjson.zst',
      'a.ndjson.zst.manifest.json',
      'b.ndjson.zst',
      'b.ndjson.zst.manifest.json',
      'rejected.csv',
    ]);
  });

  test('a compressed file that is cut off leaves no output', async () => {
    const folder = scratch();
    const whole = gzipSync(portfolio(5000));
    writeFileSync(path.join(folder, 'p.csv.gz'), whole.subarray(0, whole.length - 2000));
    writeFileSync(
      path.join(folder, 'p.yaml'),
      'model: credit-default\nsource: { type: file, path: p.csv.gz }\nsink: { type: file, path: out.csv }\nscore: { workers: 1 }\n',
    );
    const { code, stderr } = await sluiceHere(['run', 'p.yaml'], { cwd: folder });
    expect([code, stderr]).toEqual([1, expect.stringContaining('[truncated_input]')]);
    expect(readdirSync(folder).sort()).toEqual(['p.csv.gz', 'p.yaml']);
  });

  checkTest('Parquet on both sides says the same as CSV', async () => {
    const folder = scratch();
    const text = portfolio(150, 8);
    writeFileSync(path.join(folder, 'p.csv'), text);
    const [header, ...rows] = text
      .toString()
      .trimEnd()
      .split('\n')
      .map((l) => l.split(','));
    const numbers = new Set(['amount', 'term', 'income', 'monthly_payment', 'pt_income']);
    parquetWriteFile({
      filename: path.join(folder, 'p.parquet'),
      rowGroupSize: 60,
      columnData: header!.map((name, i) => ({
        name,
        type: numbers.has(name) ? 'DOUBLE' : 'STRING',
        data: rows.map((r) => (r[i] === '' ? null : numbers.has(name) ? Number(r[i]) : r[i])),
      })),
    });
    const to = async (name: string, input: string, output: string) => {
      writeFileSync(
        path.join(folder, name),
        `model: credit-default\nsource: { type: file, path: ${input} }\nsink: { type: file, path: ${output} }\nscore: { workers: 1, interpretation: effects }\n`,
      );
      return sluiceHere(['run', name], { cwd: folder });
    };
    expect((await to('a.yaml', 'p.csv', 'a.ndjson')).code).toBe(0);
    expect((await to('b.yaml', 'p.parquet', 'b.ndjson')).code).toBe(0);
    expect(readFileSync(path.join(folder, 'b.ndjson'), 'utf8')).toBe(
      readFileSync(path.join(folder, 'a.ndjson'), 'utf8'),
    );
    expect((await to('c.yaml', 'p.parquet', 'c.parquet')).code).toBe(0);
    const out = await parquetReadObjects({ file: await asyncBufferFromFile(path.join(folder, 'c.parquet')) });
    const want = readFileSync(path.join(folder, 'a.ndjson'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((l) => JSON.parse(l));
    expect(out).toHaveLength(150);
    out.forEach((o, i) => {
      const { row, prediction, probability, points, decision, interpretation } = want[i];
      expect(o).toMatchObject({ row, prediction, probability, points, decision, base: interpretation.base });
      expect(o['effect.income']).toBe(
        interpretation.effects.find((e: { column: string }) => e.column === 'income').effect,
      );
    });
    writeFileSync(path.join(folder, 'p.parquet'), readFileSync(path.join(folder, 'p.parquet')).subarray(0, 9000));
    const cut = await to('d.yaml', 'p.parquet', 'd.ndjson');
    expect([cut.code, cut.stderr]).toEqual([1, expect.stringContaining('[truncated_input]')]);
  });

  test('standard input to standard output', async () => {
    const folder = scratch();
    writeFileSync(
      path.join(folder, 'p.yaml'),
      'model: credit-default\nsource: { type: stdio }\nsink: { type: stdio, format: csv }\nscore: { workers: 1 }\n',
    );
    const { code, stdout } = await sluice(['run', 'p.yaml'], { cwd: folder, stdin: portfolio(20) });
    expect(code).toBe(0);
    expect(stdout.trimEnd().split('\n')).toHaveLength(21);
  });
});

test('a test that fails says where, and the exit code is 1', async () => {
  const folder = scratch();
  const file = path.join(folder, 'p.yaml');
  writeFileSync(file, 'model: credit-default\nsource: { type: stdio }\nsink: { type: stdio }\n');
  const text = readFileSync('pipelines/loan-applications.test.yaml', 'utf8');
  writeFileSync(
    path.join(folder, 'p.test.yaml'),
    text.replace('decision: approve', 'decision: decline, probability: 0.1'),
  );
  const { code, stdout } = await sluiceHere(['test', file]);
  expect(code).toBe(1);
  expect(stdout).toMatch(/FAILED .*decision is "approve", expected "decline"/);
  expect(stdout).toContain('1 passed, 1 failed');
});

test('metrics and health over plain HTTP', async () => {
  let ready = false;
  const server = await serveMetrics(new Metrics('topic_run'), {
    host: '127.0.0.1',
    port: 0,
    ready: () => ready,
    pipelines: async () => ({ sluice: '0', pipelines: [] }),
  });
  const get = (where: string) =>
    new Promise<[number, string]>((resolve, reject) => {
      http
        .get({ port: server.port, path: where }, (response) => {
          let body = '';
          response.setEncoding('utf8').on('data', (d) => {
            body += d;
          });
          response.on('end', () => resolve([response.statusCode!, body]));
        })
        .on('error', reject);
    });
  try {
    expect((await get('/livez'))[0]).toBe(200);
    expect((await get('/readyz'))[0]).toBe(503);
    ready = true;
    expect((await get('/readyz'))[0]).toBe(200);
    expect((await get('/metrics'))[1]).toContain('sluice_kafka_lag_records');
    expect((await get('/x'))[0]).toBe(404);
  } finally {
    await server.close();
  }
});
