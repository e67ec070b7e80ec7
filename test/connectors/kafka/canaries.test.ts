// Values of applications in a topic are told nowhere but where they belong: the log, the summary, the metrics and what Sluice writes of
// a dead letter are without them.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CANARY, jsonInputs, SUNG } from '../../support/canaries.ts';
import { scratch, start } from '../../support/cli.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { committed, eachRecord, produce } from '../../support/kafka/topics.ts';
import { until } from '../../support/until.ts';

requireKafka('canaries in a topic', () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.shared();
  });
  afterAll(() => cluster?.stop());

  test.each(['dead_letter', 'report', 'fail'] as const)('on_invalid: %s', async (onInvalid) => {
    const name = `canary-${onInvalid.replace('_', '-')}`;
    const [input, output, letters] = await Promise.all(
      ['in', 'out', 'dlq'].map((end) => cluster.createTopic(`${name}-${end}`)),
    );
    const inputs = jsonInputs();
    await produce(
      cluster,
      input!,
      inputs.map(([, value]) => ({ key: CANARY, value, headers: { [CANARY]: CANARY } })),
    );
    const folder = scratch();
    const [file, metrics] = ['pipeline.yaml', 'metrics.prom'].map((f) => path.join(folder, f)) as [string, string];
    writeFileSync(
      file,
      `model: credit-default
source: { type: kafka, topic: ${input}, group: ${name} }
sink: { type: kafka, topic: ${output} }
dead_letter: { type: kafka, topic: ${letters} }
on_invalid: ${onInvalid}
score: { workers: 1, passthrough: [] }
kafka: { brokers: ["${cluster.brokers[0]}"], session_timeout_ms: 3000 }
`,
    );
    const running = start(['run', file, '--json', '--metrics-file', metrics]);
    if (onInvalid !== 'fail') {
      await until(async () => (await committed(cluster, name, input!).catch(() => 0)) >= inputs.length, 'all records');
      running.child.kill('SIGTERM');
    }
    const { code, stdout, stderr } = await running.done;
    expect(code, stderr).toBe(onInvalid === 'fail' ? 1 : 0);
    const told = [stdout, stderr, readFileSync(metrics, 'utf8')];
    await eachRecord(cluster, letters!, ({ headers }) => {
      const ours = Object.entries(headers ?? {}).filter(([header]) => header.startsWith('sluice-'));
      expect(ours.length).toBeGreaterThan(3);
      told.push(ours.map(([header, value]) => `${header}: ${value}`).join('\n'));
    });
    let answers = 0;
    await eachRecord(cluster, output!, ({ value }) => {
      answers++;
      told.push(String(value));
    });
    if (onInvalid === 'report') expect(answers).toBe(inputs.length);
    expect(told.filter((text) => SUNG.test(text))).toEqual([]);
  });
});
