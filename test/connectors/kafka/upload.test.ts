// An upload into a topic, exactly once: the service is killed again and again while it writes, and a broker is away for a while.
import { appendFileSync, cpSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { scratch, start } from '../../support/cli.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { eachRecord } from '../../support/kafka/topics.ts';
import { scoreText } from '../../support/score.ts';
import { call, type Reply } from '../../support/service.ts';
import { TIER, times } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const KILLS = times('kills of a service that writes', { quick: 1, check: 1, campaigns: 20 });
const ROWS = 6_000 * KILLS;
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

  const serve = async (
    folder: string,
    pipelines: readonly string[],
    registry = path.resolve('src/bundled'),
  ): Promise<Running> => {
    const args = ['serve', '--dev', '--port', '0', '--registry', registry];
    const settings = ['workers=1', 'jobs.max_crashes=100', `jobs.folder=${folder}/jobs`, `spill.folder=${folder}`, `pipelines=${JSON.stringify(pipelines.map((name) => `${folder}/${name}.yaml`))}`]; // biome-ignore format: one line
    const { child, done } = start([...args, '--set', ...settings], { cwd: folder });
    onTestFinished(() => void child.kill('SIGKILL'));
    let words = '';
    child.stderr!.on('data', (text: string) => {
      words += text;
    });
    await until(() => words.includes('key of this run') || child.exitCode !== null);
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

  /** A pipeline of this name and its topic. */
  const setUp = async (folder: string, name: string, partitions: number, more = ''): Promise<string> => {
    const topic = await cluster.createTopic(`upload-${name}`, partitions);
    writeFileSync(
      path.join(folder, `${name}.yaml`),
      `model: credit-default
source: { type: upload }
sink: { type: kafka, topic: ${topic}${more} }
transaction_rows: 500
kafka: { brokers: ["${cluster.brokers.join('","')}"], request_timeout_ms: 3000 }
`,
    );
    return topic;
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
    const folder = scratch();
    const topic = await setUp(folder, 'scores', 1);
    const body = Buffer.concat([...generatePortfolio({ rows: ROWS, seed: 41, ids: true, faults: 7 })]);
    let service = await serve(folder, ['scores']);
    const made = await service.call('POST', '/api/v1/pipelines/scores', body, { 'idempotency-key': 'tonight' });
    expect(made.status).toBe(201);
    const location = made.headers.location as string;
    const seen: number[] = [];
    for (let kill = 0; kill < KILLS; kill++) {
      // Some rows further than at the kill before, as far as there are any.
      const from = seen.at(-1) ?? 0;
      await until(async () => {
        const job = await state(service, location);
        const rows: number = job.summary.rows;
        if (job.state === 'done') return true;
        if (rows <= Math.min(from, ROWS * 0.7)) return false;
        seen.push(rows);
        return true;
      }, 'more rows', 5); // biome-ignore format: one call
      await service.kill();
      service = await serve(folder, ['scores']);
    }
    const again = await service.call('POST', '/api/v1/pipelines/scores', body, { 'idempotency-key': 'tonight' });
    expect(again.json.id).toBe(made.json.id);
    await until(async () => (await state(service, location)).state === 'done');
    expect(seen.length).toBeGreaterThan(0);
    const records = await ids(topic);
    const want = (await scoreText(body, { output: { format: 'ndjson', delimiter: ',' }, passthrough: '*' })).output;
    expect(records).toHaveLength(ROWS);
    const model = '{"modelId":"credit-default","modelVersion":"1",';
    expect(`${records.map((r) => r.line).join('\n')}\n`).toBe(want.replaceAll(/^\{/gm, model));
    await service.kill();
  });

  const changes: { changed: string; name: string; says: string; change: (folder: string) => void }[] = [
    {
      changed: 'another package under the same version',
      name: 'package',
      says: 'the content of the package changed',
      change: (folder) => {
        const version = path.join(folder, 'models/credit-default/1');
        appendFileSync(path.join(version, 'model.yaml'), '# another package\n');
        rmSync(path.join(version, 'package.lock'), { force: true });
      },
    },
    {
      changed: 'rejected rows are written no more',
      name: 'settings',
      says: 'the settings of the pipeline changed',
      change: (folder) => {
        const more = `on_invalid: dead_letter\ndead_letter: { type: file, path: "${folder}/{name}.rejects.csv" }\n`;
        appendFileSync(path.join(folder, 'settings.yaml'), more);
      },
    },
  ];
  test.each(TIER === 'campaigns' ? changes : changes.slice(0, 1))(
    '$changed: an upload of which something is written fails, and nothing is added',
    async ({ name, says, change }) => {
      const folder = scratch();
      const topic = await setUp(folder, name, 1);
      const registry = path.join(folder, 'models');
      cpSync('src/bundled/credit-default', path.join(registry, 'credit-default'), { recursive: true });
      const body = Buffer.concat([...generatePortfolio({ rows: 60_000, seed: 46, ids: true, faults: 7 })]);
      const before = await serve(folder, [name], registry);
      const made = await before.call('POST', `/api/v1/pipelines/${name}`, body);
      const location = made.headers.location as string;
      await until(async () => (await state(before, location)).summary.rows >= 1000);
      await before.kill();
      const written = (await ids(topic)).length;
      expect(written).toBeGreaterThan(0);
      change(folder);
      const after = await serve(folder, [name], registry);
      await until(async () => !['queued', 'running'].includes((await state(after, location)).state));
      const job = await state(after, location);
      expect([job.state, job.error.code]).toEqual(['failed', 'checkpoint_mismatch']);
      expect(job.error.message).toContain(says);
      expect((await ids(topic)).length).toBe(written);
      await after.kill();
    },
  );

  test.each(['exactly_once', 'at_least_once'])('%s: each record names its model', async (delivery) => {
    const folder = scratch();
    const name = `named-${delivery}`;
    const topic = await setUp(folder, name, 1);
    appendFileSync(path.join(folder, `${name}.yaml`), `delivery: ${delivery}\n`);
    const service = await serve(folder, [name]);
    const body = Buffer.concat([...generatePortfolio({ rows: 20, seed: 45, ids: true, faults: 3 })]);
    const made = await service.call('POST', `/api/v1/pipelines/${name}`, body);
    await until(async () => (await state(service, made.headers.location as string)).state === 'done');
    const models = new Set<string>();
    let records = 0;
    await eachRecord(cluster, topic, ({ value, headers }) => {
      const { modelId, modelVersion } = JSON.parse(value!.toString());
      const of = ['sluice-model-id', 'sluice-model-version', 'sluice-package-sha256'].map((key) => headers![key]);
      models.add([modelId, modelVersion, ...of].join(' '));
      records++;
    });
    const { packageSha256 } = await state(service, made.headers.location as string);
    expect([records, ...models]).toEqual([20, `credit-default 1 credit-default 1 ${packageSha256}`]);
    await service.kill();
  });

  test('a broker that is away, and back without a topic: uploads wait and say why, and are written once', async () => {
    const folder = scratch();
    const [topic, lost] = await Promise.all([
      setUp(folder, 'away', 3, ', key: application_id'),
      setUp(folder, 'unknown', 1, ', key: application_id'),
    ]);
    const body = Buffer.concat([...generatePortfolio({ rows: 2000, seed: 43, ids: true })]);
    const few = Buffer.concat([...generatePortfolio({ rows: 300, seed: 44, ids: true })]);
    const service = await serve(folder, ['away', 'unknown']);
    await (await cluster.admin()).deleteTopics({ topics: [lost] });
    await cluster.killNode(NODE);
    const upload = async (name: string, rows: Buffer): Promise<string> => {
      const made = await service.call('POST', `/api/v1/pipelines/${name}`, rows);
      expect(made.status).toBe(201);
      return made.headers.location as string;
    };
    // In one answer: a waiting upload is tried again and again, and runs meanwhile.
    const waits = async (at: string, code: string) => {
      const job = await state(service, at);
      return job.state === 'queued' && job.error?.code === code;
    };
    const done = async (at: string) => (await state(service, at)).state === 'done';
    const location = await upload('away', body);
    await until(() => waits(location, 'kafka_unreachable'));
    const waiting = await upload('unknown', few);
    // It does not stand in the way of others.
    const url = '/api/v1/scoring/predict.csv?modelId=credit-default&delimiter=comma&passthrough=application_id';
    const other = await service.call('POST', url, few, { prefer: 'respond-async' });
    await until(() => done(other.headers.location as string));
    await cluster.startNode(NODE);
    await cluster.ready();
    await until(() => done(location));
    expect((await state(service, location)).error).toBeUndefined();
    await until(() => waits(waiting, 'kafka_topic_missing'));
    await cluster.createTopic(lost, 1);
    await until(() => done(waiting));
    expect(await ids(lost)).toHaveLength(300);
    const records = await ids(topic);
    expect(records).toHaveLength(2000);
    expect(new Set(records.map((r) => r.id)).size).toBe(2000);
    // Each partition is in the order of the rows, and a key has one partition.
    expect(new Set(records.map((r) => r.partition)).size).toBe(3);
    for (const of of Map.groupBy(records, (r) => r.partition).values()) {
      const rows = of.map((r) => JSON.parse(r.line).row as number);
      expect(rows).toEqual(rows.toSorted((a, b) => a - b));
    }
    await service.kill();
  });
});
