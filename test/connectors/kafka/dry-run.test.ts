// `run --dry-run` where nothing is there yet: a broker that has just started, topics without a record, a group without an offset.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';

requireKafka('a dry run', () => {
  test('on a fresh broker and an empty topic says so, and leaves no group behind', async () => {
    await using cluster = await KafkaCluster.start();
    for (const topic of ['in', 'out', 'dlq']) await cluster.createTopic(topic, 3);
    const file = path.join(scratch(), 'fresh.yaml');
    writeFileSync(
      file,
      `model: credit-default
source: { type: kafka, topic: in, group: fresh }
sink: { type: kafka, topic: out }
dead_letter: { type: kafka, topic: dlq }
score: { workers: 1 }
kafka: { brokers: ["${cluster.brokers[0]}"] }
`,
    );
    const { code, stdout, stderr } = await sluiceHere(['run', file, '--dry-run']);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout.split('\n')).toEqual([
      expect.stringMatching(/^model credit-default is credit-default:\d+, /),
      expect.stringMatching(/^source: topic in, 3 partitions, /),
      expect.stringMatching(/^sink: topic out, 3 partitions, /),
      expect.stringMatching(/^dead letters: topic dlq, 3 partitions, /),
      'group fresh: offsets for 0 of 3 partitions, 0 records to read',
      'the topic in is empty: nothing could be scored',
      'nothing was written or committed',
      '',
    ]);
    expect((await (await cluster.admin()).listGroups()).groups).toEqual([]);
  });
});
