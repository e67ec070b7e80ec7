// Rejected applications that are tried again by the pipeline: answered once when what was wrong is mended, a dead letter once if it never is.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Message } from 'kafkajs';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { scratch, sluiceHere, start } from '../../support/cli.ts';
import { someApplications } from '../../support/kafka/applications.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { committed, produce, readTopic, type SeenRecord } from '../../support/kafka/topics.ts';
import { copyUnlocked } from '../../support/registries/packages.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';
import { times } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const PARTITIONS = 2;
const SESSION_MS = 2_000;
/** Of the first application: long enough ago to be told from now, and not for retention. */
const WRITTEN = Date.now() - 3_600_000;

requireKafka('retries', () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.shared();
  });
  afterAll(() => cluster?.stop());

  let names = 0;
  const setUp = async (
    retry: string,
    change: { yaml?: (y: string) => string; retryTopic?: Record<string, string> } = {},
  ) => {
    const name = `again${names++}`;
    const folder = scratch();
    const [input, output, letters, retries] = await Promise.all([
      cluster.createTopic(`${name}-in`, PARTITIONS),
      cluster.createTopic(`${name}-out`, PARTITIONS),
      cluster.createTopic(`${name}-dlq`, 1),
      cluster.createTopic(`${name}-retry`, PARTITIONS, change.retryTopic),
    ]);
    // Version 1 does not take what it was not trained with, version 2 does.
    for (const version of ['1', '2']) {
      const target = path.join(folder, 'models/credit', version);
      copyUnlocked(CREDIT_DEFAULT, target);
      const file = path.join(target, 'model.yaml');
      const yaml = readFileSync(file, 'utf8')
        .replace(/^id: .*$/m, 'id: credit')
        .replace(/^version: .*$/m, `version: ${version}`);
      writeFileSync(file, version === '2' ? yaml : yaml.replace(/unseen: value\n +unseen_value: -1/, 'unseen: error'));
    }
    const registry = new FolderRegistry([path.join(folder, 'models')]);
    await registry.moveAlias('credit', 'live', '1', 'test');
    const yaml = `model: credit@live
source: { type: kafka, topic: ${input}, group: ${name} }
score: { batch_wait_ms: 10, workers: 1 }
sink: { type: kafka, topic: ${output} }
dead_letter: { type: kafka, topic: ${letters}, retry: { topic: ${retries}, codes: [unseen_category], ${retry} } }
kafka: { brokers: ["${cluster.brokers[0]}"], session_timeout_ms: ${SESSION_MS} }
`;
    const file = path.join(folder, `${name}.yaml`);
    writeFileSync(file, change.yaml?.(yaml) ?? yaml);
    return { name, folder, file, registry, input: input!, output: output!, letters: letters!, retries: retries! };
  };
  type Place = Awaited<ReturnType<typeof setUp>>;
  const run = ({ file, folder }: Place) => {
    const started = start(['run', file], { cwd: folder });
    onTestFinished(async () => {
      started.child.kill('SIGKILL');
      await started.done;
    });
    return {
      ...started,
      async stop() {
        started.child.kill('SIGTERM');
        return started.done;
      },
    };
  };
  const all = someApplications();
  /** Every `step`th is of a kind that version 1 has not seen. */
  const messages = (count: number, step: number, from = 0): Message[] =>
    Array.from({ length: count }, (_, k) => {
      const i = from + k;
      const odd = i % step === 0 ? { source_type: 'KIOSK' } : {};
      const value = JSON.stringify({ ...all[i % all.length], ...odd, id: i });
      return {
        key: `k${i}`,
        value,
        partition: i % PARTITIONS,
        headers: { trace: `t${i}` },
        timestamp: String(WRITTEN + i),
      };
    });
  const read = (topic: string): Promise<SeenRecord[]> => readTopic(cluster, topic);
  const numbers = (records: readonly SeenRecord[]) => records.map((r) => Number(r.key!.slice(1))).sort((a, b) => a - b);

  test('a fault that is mended: each is answered once, from its own place, after more than a session of waiting', async () => {
    const t = await setUp(`delay_ms: ${SESSION_MS + 1000}, attempts: 10`);
    await produce(cluster, t.input, messages(20, 5));
    const running = run(t);
    let words = '';
    running.child.stderr!.on('data', (d: string) => {
      words += d;
    });
    await until(
      async () => (await committed(cluster, `${t.name}-retry`, t.retries).catch(() => 0)) > 0,
      'a second attempt',
    );
    expect(numbers(await read(t.output))).toHaveLength(16);
    await t.registry.moveAlias('credit', 'live', '2', 'test');
    await produce(cluster, t.input, messages(10, 1000, 20));
    await until(async () => (await read(t.output)).length >= 30, 'all answers');
    expect((await running.stop()).code).toBe(0);
    const out = await read(t.output);
    expect(numbers(out)).toEqual(Array.from({ length: 30 }, (_, i) => i));
    for (const { key, partition, headers, timestamp, value } of out) {
      const i = Number(key!.slice(1));
      expect([partition, headers.trace, timestamp]).toEqual([i % PARTITIONS, `t${i}`, WRITTEN + i]);
      const { 'sluice-source-topic': topic, 'sluice-source-partition': from, 'sluice-source-offset': offset } = headers;
      expect([topic, from, offset]).toEqual([t.input, String(i % PARTITIONS), String(Math.floor(i / PARTITIONS))]);
      const again = i < 20 && i % 5 === 0;
      expect(Number(headers['sluice-attempt'] ?? 1)).toBeGreaterThanOrEqual(again ? 3 : 1);
      if (again) expect(JSON.parse(value!).modelVersion).toBe('2');
      expect(Object.keys(headers).filter((name) => name.startsWith('sluice-error'))).toEqual([]);
    }
    expect(await read(t.letters)).toEqual([]);
    expect(words).not.toMatch(/restarts|lease lost/);
  });

  test('one that never succeeds is a dead letter once, with its attempts; a code that is not listed is one at once', async () => {
    const t = await setUp('delay_ms: 300, attempts: 3', {
      yaml: (y) => y.replace('group:', 'until_caught_up: true, group:'),
    });
    const wrong = { key: 'k99', value: JSON.stringify({ ...all[0], probability: 1 }), partition: 1 };
    await produce(cluster, t.input, [...messages(6, 3), wrong]);
    const ended = await sluiceHere(['run', t.file, '--json'], { cwd: t.folder });
    expect(ended.code).toBe(3);
    // Each application is counted once, however often it was tried.
    expect(JSON.parse(ended.stdout)).toMatchObject({ rows: 7, scored: 4, rejected: 3 });
    expect(numbers(await read(t.output))).toEqual([1, 2, 4, 5]);
    const letters = await read(t.letters);
    expect(numbers(letters)).toEqual([0, 3, 99]);
    for (const { key, value, headers } of letters) {
      const i = Number(key!.slice(1));
      const [code, column, attempt] =
        i === 99 ? ['unexpected_column', 'probability', '1'] : ['unseen_category', 'source_type', '3'];
      expect(headers).toMatchObject({
        'sluice-error-code': code,
        'sluice-error-column': column,
        'sluice-error-topic': t.input,
        'sluice-error-partition': String(i % PARTITIONS),
        'sluice-attempt': attempt,
      });
      expect(JSON.parse(value!).source_type).toBe(i === 99 ? all[0]!.source_type : 'KIOSK');
    }
    // Put back by hand it has one attempt more, and nothing is left of the other ones.
    expect((await sluiceHere(['dlq', 'replay', t.file, '--code', 'unseen_category'], { cwd: t.folder })).code).toBe(0);
    await t.registry.moveAlias('credit', 'live', '2', 'test');
    expect((await sluiceHere(['run', t.file], { cwd: t.folder })).code).toBe(0);
    expect(numbers(await read(t.output))).toEqual([0, 1, 2, 3, 4, 5]);
    expect(await read(t.retries)).toHaveLength(4);
  });

  test('members killed again and again: every answer and every letter once, each after all its attempts', async () => {
    const t = await setUp('delay_ms: 700, attempts: 3');
    const records = times('retries', { quick: 200, check: 200, campaigns: 6000 });
    const kills = Math.ceil(records / 200);
    const crew = [run(t), run(t)];
    for (let kill = 0; kill < kills; kill++) {
      const some = Math.ceil(records / kills);
      // In the midst of first attempts, or of later ones.
      const [group, topic] = kill % 2 === 0 ? [t.name, t.input] : [`${t.name}-retry`, t.retries];
      const done = () => committed(cluster, group, topic).catch(() => 0);
      const before = await done();
      await produce(cluster, t.input, messages(Math.min(some, records - kill * some), 2, kill * some));
      await until(async () => (await done()) > before, 'some of them');
      const victim = kill % 2;
      crew[victim]!.child.kill('SIGKILL');
      await crew[victim]!.done;
      crew[victim] = run(t);
    }
    await until(async () => (await committed(cluster, t.name, t.input).catch(() => 0)) >= records, 'the input');
    await until(async () => (await read(t.letters)).length >= records / 2, 'the letters');
    for (const member of crew) expect((await member.stop()).code).toBe(0);
    const [out, letters, retries] = [await read(t.output), await read(t.letters), await read(t.retries)];
    const odd = (want: number) => Array.from({ length: records }, (_, i) => i).filter((i) => i % 2 === want);
    expect(numbers(out)).toEqual(odd(1));
    expect(numbers(letters)).toEqual(odd(0));
    expect(new Set(letters.map((r) => r.headers['sluice-attempt']))).toEqual(new Set(['3']));
    expect(retries).toHaveLength(records);
  });

  test('a record that is too large for the retry topic is a dead letter as it is; a retry topic that would lose letters is refused', async () => {
    const t = await setUp('delay_ms: 100', {
      retryTopic: { 'max.message.bytes': '1500' },
      yaml: (y) => y.replace('group:', 'until_caught_up: true, group:'),
    });
    const value = JSON.stringify({ ...all[0], source_type: 'KIOSK', note: 'x'.repeat(5000) });
    await produce(cluster, t.input, [{ key: 'k0', value, partition: 0 }]);
    const ended = await sluiceHere(['run', t.file, '--json'], { cwd: t.folder });
    const counts = { rows: 1, rejected: 1, rejectedByCode: { unseen_category: 1 } };
    expect([ended.code, JSON.parse(ended.stdout)]).toEqual([3, expect.objectContaining(counts)]);
    const [letter, ...others] = await read(t.letters);
    expect([others, letter!.value === value, letter!.headers['sluice-attempt']]).toEqual([[], true, '1']);
    for (const [settings, words] of [
      [{ 'cleanup.policy': 'compact' }, /retry topic \S+ is compacted.*\[kafka_config\]/],
      [
        { 'retention.ms': '1000' },
        /retry topic \S+ retains records for 1000 ms, but a record waits 600 ms.*\[kafka_config\]/,
      ],
    ] as const) {
      const losing = await setUp('delay_ms: 600', { retryTopic: settings });
      const refused = await sluiceHere(['run', losing.file], { cwd: losing.folder });
      expect([refused.code !== 0, refused.stderr]).toEqual([true, expect.stringMatching(words)]);
    }
    writeFileSync(t.file, readFileSync(t.file, 'utf8').replace(t.retries, `${t.retries}-x`));
    const missing = await sluiceHere(['run', t.file], { cwd: t.folder });
    expect([missing.code, missing.stderr]).toEqual([
      1,
      expect.stringContaining(`the topic ${t.retries}-x does not exist`),
    ]);
  });
});
