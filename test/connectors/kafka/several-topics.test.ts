// Several topics a pipeline, against a real broker: a member of the group for each, in every process, and a pattern that finds more.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Started, scratch, sluiceHere, start } from '../../support/cli.ts';
import { someApplications } from '../../support/kafka/applications.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { committed, produce, readTopic } from '../../support/kafka/topics.ts';
import { campaignTest } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const PARTITIONS = 3;

requireKafka('several topics a pipeline', () => {
  let cluster: KafkaCluster;
  const applications = someApplications();
  beforeAll(async () => {
    cluster = await KafkaCluster.shared();
  });
  afterAll(() => cluster?.stop());

  const pipeline = (name: string, source: string, sink = `${name}-out`, letters = `${name}-dlq`): string => {
    const file = path.join(scratch(), `${name}.yaml`);
    writeFileSync(
      file,
      `model: credit-default
source: { type: kafka, ${source}, group: ${name} }
score: { batch_wait_ms: 5, workers: 1 }
sink: { type: kafka, topic: ${sink} }
dead_letter: { type: kafka, topic: ${letters} }
kafka: { brokers: ["${cluster.brokers[0]}"], session_timeout_ms: 3000, instance_id: INSTANCE }
`,
    );
    return file;
  };
  /** A process of the pipeline under a name of its own, and what it says. */
  const run = (file: string, instance: string): Started & { words: () => string } => {
    const own = path.join(scratch(), path.basename(file));
    writeFileSync(own, readFileSync(file, 'utf8').replace('INSTANCE', instance));
    const started = start(['run', own, '--metrics-port', '0'], { cwd: path.dirname(own) });
    let words = '';
    started.child.stderr!.on('data', (d: string) => {
      words += d;
    });
    onTestFinished(async () => {
      started.child.kill('SIGKILL');
      await started.done;
    });
    return { ...started, words: () => words };
  };
  const feed = (topic: string, count: number, from = 0) =>
    produce(
      cluster,
      topic,
      Array.from({ length: count }, (_, i) => ({
        key: `${topic}-${from + i}`,
        value: JSON.stringify(applications[(from + i) % 1000]),
        partition: (from + i) % PARTITIONS,
      })),
    );
  const answered = (group: string, topic: string, count: number, says: () => string) =>
    until(
      async () => (await committed(cluster, group, topic).catch(() => 0)) >= count,
      `${count} answers to ${topic}`,
    ).catch((error: Error) => {
      throw new Error(`${error.message}\n${says()}`);
    });
  const ended = async ({ child, done }: Started) => {
    child.kill('SIGTERM');
    return (await done).code;
  };

  test('two topics, two processes, one killed and one come: every application once, in order', async () => {
    const name = 'two';
    const topics = [`${name}-a`, `${name}-b`];
    for (const topic of [...topics, `${name}-out`]) await cluster.createTopic(topic, PARTITIONS);
    await cluster.createTopic(`${name}-dlq`);
    const file = pipeline(name, `topics: [${topics}]`);
    const left = run(file, 'left');
    const right = run(file, 'right');
    const count = 3_000;
    for (let i = 0; i < 3; i++) for (const topic of topics) await feed(topic, 500, i * 500);
    await until(
      () => [left, right].every((p) => topics.every((t) => p.words().includes(`${t}, assigned partitions: `))),
      'members',
    );
    for (const topic of topics) await answered(name, topic, 500, () => left.words() + right.words());
    left.child.kill('SIGKILL');
    for (let i = 3; i < 6; i++) for (const topic of topics) await feed(topic, 500, i * 500);
    const third = run(file, 'third');
    for (const topic of topics) await answered(name, topic, count, () => right.words() + third.words());
    const seen = await readTopic(cluster, `${name}-out`);
    expect(seen).toHaveLength(2 * count);
    expect(new Set(seen.map((s) => s.key)).size).toBe(2 * count);
    for (const topic of topics) {
      for (let p = 0; p < PARTITIONS; p++) {
        const mine = seen.filter((s) => s.partition === p && s.headers['sluice-source-topic'] === topic);
        const offsets = mine.map((s) => Number(s.headers['sluice-source-offset']));
        expect(offsets).toEqual(Array.from({ length: count / PARTITIONS }, (_, i) => i));
      }
    }
    const metrics = await (await fetch(/http:\S+/.exec(right.words())![0])).text();
    for (const topic of topics) {
      expect(metrics).toMatch(
        new RegExp(`sluice_kafka_lag_records\\{pipeline="${name}",topic="${topic}",partition="\\d"\\}`),
      );
    }
    expect([await ended(right), await ended(third)]).toEqual([0, 0]);
  });

  // Topics are looked for every half minute.
  campaignTest(
    'a pattern: what the pipeline writes is left out, a topic made while it runs is read, one that goes is left in words',
    async () => {
      const name = 'pattern';
      for (const end of ['a', 'out']) await cluster.createTopic(`${name}-${end}`, PARTITIONS);
      await cluster.createTopic(`${name}-dlq`);
      await cluster.createTopic(`other-${name}-a`, PARTITIONS);
      const file = pipeline(name, `topic_pattern: "${name}-.*", start_at: latest`);
      const running = run(file, 'one');
      const says = running.words;
      await until(() => /pattern-a, assigned partitions: 0, 1, 2/.test(says()), 'the first topic');
      expect(says()).toMatch(/pattern-out matches topic_pattern and is skipped/);
      expect(says()).toMatch(/pattern-dlq matches topic_pattern and is skipped/);
      // Where "latest" lies is committed once it is known.
      const admin = await cluster.admin();
      const begun = async () => {
        const [of] = await admin.fetchOffsets({ groupId: name, topics: [`${name}-a`] });
        return of!.partitions.filter((p) => p.offset !== '-1').length === PARTITIONS;
      };
      await until(begun, 'the places to start at');
      await feed(`${name}-a`, 30);
      await answered(name, `${name}-a`, 30, says);
      await cluster.createTopic(`${name}-b`, PARTITIONS);
      // Before anybody has noticed: nothing of it is skipped, whatever start_at says.
      await feed(`${name}-b`, 30);
      await answered(name, `${name}-b`, 30, says);
      await admin.deleteTopics({ topics: [`${name}-a`] });
      await until(() => /the topic pattern-a was removed/.test(says()), 'the words');
      await feed(`${name}-b`, 30, 30);
      await answered(name, `${name}-b`, 60, says);
      const seen = await readTopic(cluster, `${name}-out`);
      expect(seen).toHaveLength(90);
      expect(new Set(seen.map((s) => s.key)).size).toBe(90);
      expect(await ended(running)).toBe(0);
    },
  );

  test('caught up, and a dry run, over all topics', async () => {
    const name = 'nightly';
    const topics = [`${name}-a`, `${name}-b`, `${name}-empty`];
    for (const topic of [...topics, `${name}-out`]) await cluster.createTopic(topic, PARTITIONS);
    await cluster.createTopic(`${name}-dlq`);
    await feed(topics[0]!, 30);
    await feed(topics[1]!, 60);
    const file = pipeline(name, `topics: [${topics}], until_caught_up: true`);
    const dry = await sluiceHere(['run', file, '--dry-run'], { cwd: path.dirname(file) });
    expect([dry.code, dry.stdout]).toEqual([
      0,
      expect.stringMatching(/nightly-b: offsets for 0 of 3 partitions, 60 records to read/),
    ]);
    const done = await sluiceHere(['run', file, '--json'], { cwd: path.dirname(file) });
    expect(done.code, done.stderr).toBe(0);
    expect(JSON.parse(done.stdout)).toMatchObject({ rows: 90, scored: 90 });
    const again = await sluiceHere(['run', file, '--json'], { cwd: path.dirname(file) });
    expect(JSON.parse(again.stdout)).toMatchObject({ rows: 0 });
  });
});
