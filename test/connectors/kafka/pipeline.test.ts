// `sluice run` as people start it, against a real broker: topic to topic, files on either side, poison, kills and swaps.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { KafkaMessage, Message } from 'kafkajs';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { filesOf, packageHash } from '../../../src/model/package/package-hash.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { type Started, scratch, sluiceHere, start } from '../../support/cli.ts';
import { sampleOf, samplesOf } from '../../support/exposition.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { committed, eachRecord, produce } from '../../support/kafka/topics.ts';
import { copyUnlocked } from '../../support/registries/packages.ts';
import { CREDIT_COLUMNS, CREDIT_DEFAULT, scoreText } from '../../support/score.ts';
import { asNative, asObjects } from '../../support/service.ts';
import { times } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const PARTITIONS = 4;
/** Room for a record of 5 MB. */
const LARGE = { 'max.message.bytes': String(8 * 1024 * 1024) };

requireKafka('sluice run', () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.shared();
  });
  afterAll(() => cluster?.stop());

  let names = 0;
  /** Topics and a pipeline file in a folder of its own. */
  const setUp = async (change: (yaml: string) => string = (y) => y, partitions = PARTITIONS) => {
    const name = `run${names++}`;
    const folder = scratch();
    const [input, output, letters] = await Promise.all([
      cluster.createTopic(`${name}-in`, partitions, LARGE),
      cluster.createTopic(`${name}-out`, partitions),
      cluster.createTopic(`${name}-dlq`, 1, LARGE),
    ]);
    const yaml = `model: credit-default
source: { type: kafka, topic: ${input}, group: ${name} }
score: { batch_wait_ms: 10, workers: 1 }
sink: { type: kafka, topic: ${output} }
dead_letter: { type: kafka, topic: ${letters} }
kafka: { brokers: ["${cluster.brokers.join('","')}"], session_timeout_ms: 3000 }
`;
    const file = path.join(folder, `${name}.yaml`);
    writeFileSync(file, change(yaml));
    return { name, folder, input, output, letters, file };
  };
  const run = (file: string, ...more: string[]): Started & { stop(): Promise<number | null> } => {
    const started = start(['run', file, ...more], { cwd: path.dirname(file) });
    onTestFinished(async () => {
      started.child.kill('SIGKILL');
      await started.done;
    });
    return {
      ...started,
      async stop() {
        started.child.kill('SIGTERM');
        return (await started.done).code;
      },
    };
  };
  const caughtUp = (group: string, topic: string, total: number) =>
    until(async () => (await committed(cluster, group, topic).catch(() => 0)) >= total, `${total} records of ${topic}`);
  const read = async (topic: string): Promise<{ message: KafkaMessage; partition: number }[]> => {
    const all: { message: KafkaMessage; partition: number }[] = [];
    await eachRecord(cluster, topic, (message, partition) => all.push({ message, partition }));
    return all;
  };
  const header = (m: KafkaMessage, name: string) => String(m.headers?.[name] ?? '');

  const applications = (rows: number, seed: number): { text: string; objects: Record<string, unknown>[] } => {
    const text = Buffer.concat([...generatePortfolio({ rows, seed, oddness: 'none' })]).toString();
    return { text, objects: asNative(asObjects(text)) };
  };
  const messagesOf = (objects: Record<string, unknown>[]): Message[] =>
    objects.map((o, i) => ({
      key: `k${i}`,
      value: JSON.stringify({ ...o, id: i }),
      partition: i % PARTITIONS,
      headers: { traceparent: `00-trace-${i}` },
    }));

  test('predictions are those of a file, with key, headers, model and source; poison goes to the dead letters once', async () => {
    const t = await setUp();
    const { text, objects } = applications(2000, 3);
    const good = messagesOf(objects);
    const one = objects[0]!;
    const poison: [string, string | null, string][] = [
      ['not json', '{"amount":', 'malformed_json'],
      ['text', 'hello', 'malformed_json'],
      ['array', '[1,2]', 'not_an_object'],
      ['wrong type', JSON.stringify({ ...one, amount: { x: 1 } }), 'bad_type'],
      ['words', JSON.stringify({ ...one, amount: '12 000' }), 'bad_number'],
      ['missing', JSON.stringify({ amount: 1 }), 'missing_column'],
      ['outcome', JSON.stringify({ ...one, ok: true }), 'outcome_present'],
      ['twice', JSON.stringify(one).replace('{', '{"amount":1,'), 'duplicate_column'],
      ['null', null, 'malformed_json'],
      ['large', JSON.stringify({ ...one, id: 'x'.repeat(500_000) }), 'ok'],
      ['too large', JSON.stringify({ ...one, id: 'x'.repeat(5_000_000) }), 'record_too_long'],
    ];
    const bad: Message[] = poison.map(([key, value], i) => ({
      key,
      value: value as string,
      partition: i % PARTITIONS,
      headers: { id: key },
    }));
    await produce(cluster, t.input, [...good.slice(0, 1000), ...bad, ...good.slice(1000)]);
    const running = run(t.file, '--metrics-port', '0');
    let words = '';
    running.child.stderr!.on('data', (d: string) => {
      words += d;
    });
    await caughtUp(t.name, t.input, 2000 + bad.length);
    const reference = (await scoreText(text, { output: { format: 'ndjson', delimiter: ',' } })).output
      .trim()
      .split('\n')
      .map((l) => JSON.parse(l));
    const out = await read(t.output);
    expect(out).toHaveLength(2001);
    const packageSha256 = packageHash(await filesOf('src/bundled/credit-default/1'));
    const order = new Map<number, number>();
    for (const { message, partition } of out) {
      const value = JSON.parse(message.value!.toString());
      expect(header(message, 'sluice-source-partition')).toBe(String(partition));
      const offset = Number(header(message, 'sluice-source-offset'));
      expect(offset).toBeGreaterThan(order.get(partition) ?? -1);
      order.set(partition, offset);
      expect([header(message, 'sluice-model-id'), header(message, 'sluice-model-version')]).toEqual([
        'credit-default',
        '1',
      ]);
      expect(header(message, 'sluice-package-sha256')).toBe(packageSha256);
      if (typeof value.id !== 'number') continue;
      const { id, modelId, modelVersion, ...prediction } = value;
      const { row: _, ...want } = reference[id];
      expect([modelId, modelVersion, prediction]).toEqual(['credit-default', '1', want]);
      expect([message.key!.toString(), header(message, 'traceparent')]).toEqual([`k${id}`, `00-trace-${id}`]);
    }
    const letters = await read(t.letters);
    const expected = poison.filter(([, , code]) => code !== 'ok');
    expect(letters.map(({ message: m }) => [m.key!.toString(), header(m, 'sluice-error-code')]).sort()).toEqual(
      expected.map(([k, , c]) => [k, c]).sort(),
    );
    for (const { message } of letters) {
      const [, value] = poison.find(([k]) => k === message.key!.toString())!;
      expect(message.value?.toString() ?? null).toBe(value);
      expect(header(message, 'sluice-error-topic')).toBe(t.input);
    }
    const url = /http:\S+/.exec(words)![0];
    const counted = expected.map(([, , code]) => code).sort();
    const letterCounts = samplesOf(await get(url)).filter((m) => m.name === 'sluice_dead_letters_total');
    expect(letterCounts.flatMap((m) => Array(m.value).fill(m.labels.code)).sort()).toEqual(counted);
    // The metrics port also reports the pipeline as a whole, for the list of the service.
    const [report] = JSON.parse(await get(url.replace('/metrics', '/pipelines'))).pipelines;
    expect(report).toMatchObject({ name: t.name, model: 'credit-default', state: 'running', lag: 0, oldestSeconds: 0 });
    expect([report.rows, report.rejected]).toEqual([2000 + bad.length, expected.length]);
    const codes = Object.entries(report.deadLetters as Record<string, number>);
    expect(codes.flatMap(([code, n]) => Array(n).fill(code)).sort()).toEqual(counted);
    const byColumn = await get(`${url}/columns`);
    expect(sampleOf(byColumn, 'sluice_column_rejected_total', { column: 'amount', code: 'bad_number' })).toBe(1);
    expect(await running.stop()).toBe(0);
    const { stderr } = await running.done;
    expect(stderr).not.toContain('12 000');
  });

  test('two processes, killed again and again: every application once, in order', async () => {
    const t = await setUp();
    const part = 1_000;
    const events = times('kills and stops', { quick: 2, check: 2, campaigns: 20 });
    const rows = part * (events + 1);
    const { objects } = applications(rows, 4);
    const messages = messagesOf(objects);
    const feed = (nth: number) => produce(cluster, t.input, messages.slice(nth * part, (nth + 1) * part));
    const done = () => committed(cluster, t.name, t.input).catch(() => 0);
    let left = run(t.file);
    const right = run(t.file);
    for (let nth = 0; nth < events; nth++) {
      const before = await done();
      await feed(nth);
      // In the midst of what was fed.
      await until(async () => (await done()) > before, 'answers');
      if (nth % 2 === 0) {
        left.child.kill('SIGKILL');
        left = run(t.file);
      } else {
        right.child.kill('SIGSTOP');
        // Its session ends meanwhile: the others have its partitions when they have answered everything.
        await caughtUp(t.name, t.input, part * (nth + 1));
        right.child.kill('SIGCONT');
      }
    }
    await feed(events);
    await caughtUp(t.name, t.input, rows);
    const out = await read(t.output);
    const seen = new Map<number, number>();
    const last = new Map<number, number>();
    let disordered = 0;
    for (const { message, partition } of out) {
      const { id } = JSON.parse(message.value!.toString());
      seen.set(id, (seen.get(id) ?? 0) + 1);
      if (id < (last.get(partition) ?? -1)) disordered++;
      last.set(partition, id);
    }
    expect({ distinct: seen.size, records: out.length, disordered }).toEqual({
      distinct: rows,
      records: rows,
      disordered: 0,
    });
    await Promise.all([left.stop(), right.stop()]);
  });

  test('a moved alias changes the model in the stream; a model that is gone pauses with a metric until it is back', async () => {
    const t = await setUp((y) => y.replace('model: credit-default', 'model: credit@live'));
    const models = path.join(t.folder, 'models');
    for (const [version, source] of [
      ['1', CREDIT_DEFAULT],
      ['2', CREDIT_COLUMNS],
    ] as const) {
      const target = path.join(models, 'credit', version);
      copyUnlocked(source, target);
      const yaml = path.join(target, 'model.yaml');
      writeFileSync(
        yaml,
        readFileSync(yaml, 'utf8')
          .replace(/^id: .*$/m, 'id: credit')
          .replace(/^version: .*$/m, `version: ${version}`),
      );
    }
    const registry = new FolderRegistry([models]);
    const { objects } = applications(600, 5);
    const messages = messagesOf(objects);
    const running = run(t.file, '--metrics-port', '0');
    let words = '';
    running.child.stderr!.on('data', (d: string) => {
      words += d;
    });
    await until(async () => words.includes('/metrics'), 'the metrics address');
    const url = /http:\S+/.exec(words)![0];
    await produce(cluster, t.input, messages.slice(0, 200));
    await until(
      async () => (await get(url)).includes(`sluice_pipeline_model_unavailable{pipeline="${t.name}"} 1`),
      'the pause',
    );
    // Nothing is committed while it waits: that is a lag in records and in seconds, and it is not ready.
    const sum = async (name: string) => sampleOf(await get(url), name, { pipeline: t.name }) ?? 0;
    await until(async () => (await sum('sluice_kafka_lag_records')) === 200, 'a lag of all records');
    const waited = await sum('sluice_kafka_lag_seconds');
    expect(waited).toBeGreaterThan(0);
    await until(async () => (await sum('sluice_kafka_lag_seconds')) > waited, 'records to become older');
    expect(await sum('sluice_kafka_paused')).toBe(1);
    expect(await sum('sluice_in_flight_bytes')).toBeGreaterThan(0);
    expect(await sum('sluice_in_flight_budget_bytes')).toBeGreaterThan(0);
    expect(await sampleOf(await get(url), 'sluice_ready')).toBe(0);
    await expect(get(url.replace('/metrics', '/readyz'))).resolves.toContain('not ready');
    expect(await sum('sluice_pipeline_last_answer_timestamp_seconds')).toBe(0);
    const [late] = JSON.parse(await get(url.replace('/metrics', '/pipelines'))).pipelines;
    expect(late).toMatchObject({ model: 'credit@live', state: 'model_unavailable', lag: 200, rows: 0 });
    expect(late.oldestSeconds).toBeGreaterThan(0);
    await registry.moveAlias('credit', 'live', '1', 'test');
    await caughtUp(t.name, t.input, 200);
    expect(await get(url)).toContain(`sluice_pipeline_model_unavailable{pipeline="${t.name}"} 0`);
    await until(async () => (await sum('sluice_kafka_lag_records')) === 0, 'no lag');
    expect(await sum('sluice_kafka_lag_seconds')).toBe(0);
    await until(async () => sampleOf(await get(url), 'sluice_ready') === 1, 'the pipeline to be ready');
    expect(await sum('sluice_pipeline_last_answer_timestamp_seconds')).toBeGreaterThan(0);
    for (const what of ['source', 'workers', 'sink']) {
      expect(sampleOf(await get(url), 'sluice_wait_seconds_total', { pipeline: t.name, for: what })).toBeGreaterThan(0);
    }
    await registry.moveAlias('credit', 'live', '2', 'test');
    // The pipeline asks for the model with each micro-batch: the next ones bring the new version in, sooner or later.
    let sent = 200;
    for (let served = false; !served || sent < 600; sent += 40) {
      served = (await get(url)).includes('version="2"');
      await produce(cluster, t.input, messages.slice(sent % 600, (sent % 600) + 40));
      await caughtUp(t.name, t.input, sent + 40);
    }
    const out = await read(t.output);
    expect(out).toHaveLength(sent);
    const versions = new Map<string, number>();
    for (const { message } of out) {
      const { modelVersion } = JSON.parse(message.value!.toString());
      expect(header(message, 'sluice-model-version')).toBe(modelVersion);
      versions.set(modelVersion, (versions.get(modelVersion) ?? 0) + 1);
    }
    expect(versions.get('1')).toBeGreaterThanOrEqual(200);
    expect(versions.get('2')).toBeGreaterThan(0);
    expect(await running.stop()).toBe(0);
  });

  test('columns of a file cannot take the place of the members that name the model', async () => {
    const t = await setUp();
    const { objects } = applications(4, 9);
    const rows = objects.map((o) => ({ ...o, modelId: 'other', modelVersion: '7', meta: { modelId: 'nested' } }));
    writeFileSync(path.join(t.folder, 'rows.ndjson'), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const run = (passthrough: string, ignore = '') => {
      const file = path.join(t.folder, 'named.yaml');
      writeFileSync(
        file,
        `model: credit-default\nsource: { type: file, path: rows.ndjson${ignore} }\nscore: { passthrough: ${passthrough} }\nsink: { type: kafka, topic: ${t.output} }\nkafka: { brokers: ["${cluster.brokers[0]}"] }\n`,
      );
      return sluiceHere(['run', file], { cwd: t.folder });
    };
    for (const name of ['modelId', 'modelVersion']) {
      const refused = await run(`[${name}]`);
      expect([refused.code, refused.stderr]).toEqual([
        1,
        expect.stringContaining(`passthrough: ${name} is also a column`),
      ]);
    }
    expect((await run('"*"')).stderr).toContain('row 1: the key has the name of an output field [unexpected_column]');
    expect((await run('[meta]', ', columns: { ignore: [modelId, modelVersion] }')).code).toBe(0);
    const values = (await read(t.output)).map(({ message }) => JSON.parse(message.value!.toString()));
    const model = { modelId: 'credit-default', modelVersion: '1' };
    expect(values.slice(0, 4)).toMatchObject(Array(4).fill({ ...model, error: { code: 'unexpected_column' } }));
    expect(values.slice(4)).toMatchObject(Array(4).fill({ ...model, meta: { modelId: 'nested' } }));
  });

  test('a file into a topic, the topic into files, and dead letters put back after a fix', async () => {
    const t = await setUp();
    const { text, objects } = applications(1500, 6);
    writeFileSync(path.join(t.folder, 'portfolio.csv'), text);
    const common = `kafka: { brokers: ["${cluster.brokers[0]}"] }\n`;
    const toTopic = path.join(t.folder, 'to-topic.yaml');
    writeFileSync(
      toTopic,
      `model: credit-default\nsource: { type: file, path: portfolio.csv }\nsink: { type: kafka, topic: ${t.output} }\n${common}`,
    );
    const written = await sluiceHere(['run', toTopic, '--json'], { cwd: t.folder });
    expect(JSON.parse(written.stdout)).toMatchObject({ rows: 1500, scored: 1500 });
    const predictions = await read(t.output);
    expect(predictions).toHaveLength(1500);
    for (const name of ['sluice-model-id', 'sluice-model-version', 'sluice-model-sha256', 'sluice-package-sha256'])
      expect(new Set(predictions.map(({ message }) => header(message, name))).size, name).toBe(1);
    expect(header(predictions[0]!.message, 'sluice-model-id')).toBe('credit-default');
    expect(header(predictions[0]!.message, 'sluice-package-sha256')).toMatch(/^[0-9a-f]{64}$/);

    const messages = messagesOf(objects);
    messages[7] = { ...messages[7]!, value: JSON.stringify({ ...objects[7], amount: 'many' }) };
    await produce(cluster, t.input, messages);
    const toFiles = path.join(t.folder, 'to-files.yaml');
    mkdirSync(path.join(t.folder, 'out'));
    writeFileSync(
      toFiles,
      `model: credit-default
source: { type: kafka, topic: ${t.input}, group: ${t.name}-files, until_caught_up: true }
sink: { type: file, path: "out/p-{partition}-{offset}.ndjson.gz", roll_rows: 100 }
dead_letter: { type: kafka, topic: ${t.letters} }
${common}`,
    );
    const filed = await sluiceHere(['run', toFiles, '--json'], { cwd: t.folder });
    expect(filed.code).toBe(3);
    expect(JSON.parse(filed.stdout)).toMatchObject({ rows: 1500, scored: 1499, rejected: 1 });
    const files = readdirSync(path.join(t.folder, 'out'));
    expect(files.length).toBeGreaterThanOrEqual(PARTITIONS);
    expect(files.filter((f) => f.includes('partial'))).toEqual([]);
    const ids = files.flatMap((f) =>
      gunzipSync(readFileSync(path.join(t.folder, 'out', f)))
        .toString()
        .trimEnd()
        .split('\n')
        .map((l) => JSON.parse(l).id as number),
    );
    expect(new Set(ids).size).toBe(1499);
    expect(ids).toHaveLength(1499);
    // A second run has nothing to do: the offsets were committed.
    expect(JSON.parse((await sluiceHere(['run', toFiles, '--json'], { cwd: t.folder })).stdout)).toMatchObject({
      rows: 0,
    });

    const replayed = await sluiceHere(['dlq', 'replay', t.file, '--json'], { cwd: t.folder });
    expect(JSON.parse(replayed.stdout)).toMatchObject({ replayed: 1, skipped: 0, unusable: 0, failed: [] });
    expect(JSON.parse((await sluiceHere(['dlq', 'replay', t.file, '--json'], { cwd: t.folder })).stdout)).toMatchObject(
      {
        replayed: 0,
      },
    );
    expect(await read(t.input)).toHaveLength(1501);
  });

  test('--dry-run looks at everything and commits nothing', async () => {
    const t = await setUp();
    const { objects } = applications(100, 7);
    await produce(cluster, t.input, messagesOf(objects));
    const dry = await sluiceHere(['run', t.file, '--dry-run'], { cwd: t.folder });
    expect([dry.code, dry.stdout]).toEqual([0, expect.stringMatching(/10 records tried: 10 scored, 0 rejected/)]);
    expect(dry.stdout).toContain(`group ${t.name}: offsets for 0 of ${PARTITIONS} partitions, 100 records to read`);
    expect(await read(t.output)).toHaveLength(0);
    const plain = readFileSync(t.file, 'utf8');
    const routes = `topic: ${t.output}, routes: [{ decision: declined, topic: ${t.letters}-route }]`;
    await cluster.createTopic(`${t.letters}-route`, PARTITIONS);
    writeFileSync(t.file, plain.replace(`topic: ${t.output}`, routes));
    for (const args of [['--dry-run'], []]) {
      const routed = await sluiceHere(['run', t.file, ...args], { cwd: t.folder });
      expect([routed.code, routed.stderr]).toEqual([
        1,
        expect.stringContaining(
          'declined is no decision of the model, which makes the decisions approve, review, decline',
        ),
      ]);
    }
    expect(await read(t.output)).toHaveLength(0);
    writeFileSync(t.file, plain.replace(t.output, 'not-there'));
    const missing = await sluiceHere(['run', t.file, '--dry-run'], { cwd: t.folder });
    expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining('[kafka_topic_missing]')]);
  });
});

const get = (url: string): Promise<string> =>
  new Promise((resolve, reject) => {
    http
      .get(url, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (d) => {
          text += d;
        });
        response.on('end', () => resolve(text));
      })
      .on('error', reject);
  });
