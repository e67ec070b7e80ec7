// An upload into a topic, exactly once: the service is killed again and again while it writes, and a broker is away for a while.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scratch, start } from '../support/cli.ts';
import { KafkaCluster } from '../support/kafka/cluster.ts';
import { requireKafka } from '../support/kafka/require.ts';
import { eachRecord } from '../support/kafka/topics.ts';
import { scoreText } from '../support/score.ts';
import { call, type Reply } from '../support/service.ts';
import { checkTest } from '../support/tiers.ts';

const ROWS = 30_000;
/** The only one. */
const NODE = 1;

requireKafka('uploads into a topic', () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.start();
  });
  afterAll(() => cluster?.stop());

  interface Running {
    kill(): Promise<void>;
    call(method: string, url: string, body?: Buffer, headers?: Record<string, string>): Promise<Reply>;
  }

  const serve = async (folder: string): Promise<Running> => {
    const args = ['serve', '--dev', '--port', '0', '--registry', path.resolve('src/bundled')];
    const settings = ['workers=1', 'jobs.max_crashes=100', `jobs.folder=${folder}/jobs`, `spill.folder=${folder}`, `pipelines=["${folder}/scores.yaml"]`]; // biome-ignore format: one line
    const { child, done } = start([...args, '--set', ...settings], { cwd: folder });
    onTestFinished(() => void child.kill('SIGKILL'));
    let words = '';
    child.stderr!.on('data', (text: string) => {
      words += text;
    });
    await vi.waitUntil(() => words.includes('key of this run') || child.exitCode !== null, { timeout: 180_000 });
    const port = Number(/localhost:(\d+)/.exec(words)?.[1]);
    const token = /sluice_[\w-]+/.exec(words)![0];
    return {
      async kill() {
        child.kill('SIGKILL');
        await done;
      },
      call: (method, url, body, headers = {}) => call(port, token, method, url, { ...(body ? { body } : {}), headers }),
    };
  };

  const setUp = async (name: string, partitions: number, more = ''): Promise<{ folder: string; topic: string }> => {
    const folder = scratch();
    const topic = await cluster.createTopic(name, partitions);
    writeFileSync(
      path.join(folder, 'scores.yaml'),
      `model: credit-default
source: { type: upload }
sink: { type: kafka, topic: ${topic}${more} }
transaction_rows: 500
kafka: { brokers: ["${cluster.brokers.join('","')}"], request_timeout_ms: 3000 }
`,
    );
    return { folder, topic };
  };

  const ids = async (topic: string): Promise<{ id: string; partition: number; line: string }[]> => {
    const all: { id: string; partition: number; line: string }[] = [];
    await eachRecord(cluster, topic, ({ value }, partition) => {
      const line = value!.toString();
      all.push({ id: JSON.parse(line).application_id, partition, line });
    });
    return all;
  };

  // The owner of a job is the key that made it, and --dev makes a key of its own each time: it is called dev each time, too.
  const state = async (s: Running, location: string) => (await s.call('GET', location)).json;

  test('killed while it writes, again and again: every row once, in order, with the bytes of a file', async () => {
    const { folder, topic } = await setUp('upload-kills', 1);
    const body = Buffer.concat([...generatePortfolio({ rows: ROWS, seed: 41, ids: true, faults: 7 })]);
    let service = await serve(folder);
    const made = await service.call('POST', '/api/v1/pipelines/scores', body, { 'idempotency-key': 'tonight' });
    expect(made.status).toBe(201);
    const location = made.headers.location as string;
    const seen: number[] = [];
    for (let kill = 0; kill < 5; kill++) {
      // Some rows further than at the kill before, as far as there are any.
      const from = seen.at(-1) ?? 0;
      await vi.waitUntil(async () => {
        const job = await state(service, location);
        const rows: number = job.summary.rows;
        if (job.state === 'done') return true;
        if (rows <= Math.min(from, ROWS * 0.7)) return false;
        seen.push(rows);
        return true;
      }, { timeout: 180_000, interval: 5 }); // biome-ignore format: one call
      await service.kill();
      service = await serve(folder);
    }
    const again = await service.call('POST', '/api/v1/pipelines/scores', body, { 'idempotency-key': 'tonight' });
    expect(again.json.id).toBe(made.json.id);
    await vi.waitUntil(async () => (await state(service, location)).state === 'done', {
      timeout: 180_000,
      interval: 50,
    });
    expect(seen.length).toBeGreaterThan(0);
    const records = await ids(topic);
    const want = (await scoreText(body, { output: { format: 'ndjson', delimiter: ',' }, passthrough: '*' })).output;
    expect(records).toHaveLength(ROWS);
    expect(`${records.map((r) => r.line).join('\n')}\n`).toBe(want);
    await service.kill();
  });

  test('a broker that is away: the upload waits and says why, and is written once when it is back', async () => {
    const { folder, topic } = await setUp('upload-away', 3, ', key: application_id');
    const body = Buffer.concat([...generatePortfolio({ rows: 4000, seed: 43, ids: true })]);
    const service = await serve(folder);
    await cluster.killNode(NODE);
    const made = await service.call('POST', '/api/v1/pipelines/scores', body);
    expect(made.status).toBe(201);
    const location = made.headers.location as string;
    await vi.waitUntil(async () => (await state(service, location)).error !== undefined, { timeout: 180_000, interval: 100 }); // biome-ignore format: one call
    expect(await state(service, location)).toMatchObject({ state: 'queued', error: { code: 'kafka_unreachable' } });
    // It does not stand in the way of others.
    const url = '/api/v1/scoring/predict.csv?modelId=credit-default&delimiter=comma&passthrough=application_id';
    const other = await service.call('POST', url, body, { prefer: 'respond-async' });
    const place = other.headers.location as string;
    await vi.waitUntil(async () => (await state(service, place)).state === 'done', { timeout: 180_000, interval: 100 });
    await cluster.startNode(NODE);
    await cluster.ready();
    await vi.waitUntil(async () => (await state(service, location)).state === 'done', {
      timeout: 180_000,
      interval: 100,
    });
    expect((await state(service, location)).error).toBeUndefined();
    const records = await ids(topic);
    expect(records).toHaveLength(4000);
    expect(new Set(records.map((r) => r.id)).size).toBe(4000);
    // Each partition is in the order of the rows, and a key has one partition.
    expect(new Set(records.map((r) => r.partition)).size).toBe(3);
    for (const of of Map.groupBy(records, (r) => r.partition).values()) {
      const rows = of.map((r) => JSON.parse(r.line).row as number);
      expect(rows).toEqual(rows.toSorted((a, b) => a - b));
    }
    await service.kill();
  });

  checkTest('a broker that is back and does not know its topics yet: the upload waits for them', async () => {
    const { folder, topic } = await setUp('upload-unknown', 1, ', key: application_id');
    const body = Buffer.concat([...generatePortfolio({ rows: 300, seed: 44, ids: true })]);
    const service = await serve(folder);
    await (await cluster.admin()).deleteTopics({ topics: [topic] });
    await cluster.killNode(NODE);
    const made = await service.call('POST', '/api/v1/pipelines/scores', body);
    const location = made.headers.location as string;
    const waits = async (code: string) => (await state(service, location)).error?.code === code;
    await vi.waitUntil(() => waits('kafka_unreachable'), { timeout: 180_000, interval: 100 });
    await cluster.startNode(NODE);
    await cluster.ready();
    await vi.waitUntil(() => waits('kafka_topic_missing'), { timeout: 180_000, interval: 50 });
    expect(await state(service, location)).toMatchObject({ state: 'queued' });
    await cluster.createTopic(topic, 1);
    await vi.waitUntil(async () => (await state(service, location)).state === 'done', {
      timeout: 180_000,
      interval: 100,
    });
    expect(await ids(topic)).toHaveLength(300);
    await service.kill();
  });
});
