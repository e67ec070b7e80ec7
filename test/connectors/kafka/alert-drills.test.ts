// Drills with a real broker: one thing goes wrong with a topic, and the right alert reaches the webhook, no other does.
import { expect } from 'vitest';
import { DRILL_DIVISOR, Load, settled, toldOf, watched } from '../../support/alert-drill.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { SlowLink } from '../../support/kafka/slow-link.ts';
import { deleteRecords } from '../../support/kafka/topics.ts';
import { WatchedPipeline, type WatchedPipelineOptions } from '../../support/kafka/watched-pipeline.ts';
import { Watch } from '../../support/prometheus.ts';
import { campaignTestNeeding } from '../../support/tools.ts';

interface Scene {
  cluster: KafkaCluster;
  pipeline: WatchedPipeline;
  link: SlowLink;
}

interface Drill {
  what: string;
  alerts: readonly string[];
  options?: (link: SlowLink) => WatchedPipelineOptions;
  bring?: (scene: Scene) => Promise<unknown>;
  again?: (scene: Scene) => Promise<unknown>;
}

const SLOW_MS = 18_000;

const DRILLS: readonly Drill[] = [
  {
    what: 'the broker goes away',
    alerts: ['SluiceNotReady'],
    bring: ({ cluster }) => cluster.killNode(1),
  },
  {
    what: 'the brokers take a transaction for very slow',
    alerts: ['SluiceLagGrowing'],
    options: (link) => ({
      file: (yaml) =>
        `${yaml.replace(/brokers: \[.*?\]/, `brokers: ["${link.address}"]`)}transaction_timeout_ms: 120000\n`,
    }),
    again: ({ link }) => link.holdNext(SLOW_MS, false),
  },
  {
    what: 'answers are too large for their topic',
    alerts: ['SluiceDeadLetters'],
    options: () => ({ outputSettings: { 'max.message.bytes': '4000' } }),
    bring: ({ pipeline }) => pipeline.send(2, { extra: { note: 'x'.repeat(8000) } }),
  },
  {
    what: 'records are removed before they are read',
    alerts: ['SluiceOffsetsLost'],
    options: () => ({ file: (yaml) => yaml.replace('group: drill }', 'group: drill, on_offset_lost: earliest }') }),
    bring: async ({ cluster, pipeline }) => {
      pipeline.kill('SIGSTOP');
      // The first are the answer to what it has already asked for.
      for (let i = 0; i < 3; i++) await pipeline.send(200);
      const admin = await cluster.admin();
      const ends = await admin.fetchTopicOffsets(pipeline.input);
      const partitions = ends.map(({ partition, high }) => ({ partition, offset: high }));
      await deleteRecords(cluster, pipeline.input, partitions);
      pipeline.kill('SIGCONT');
    },
  },
  { what: 'a member is killed', alerts: ['SluiceDown'], bring: async ({ pipeline }) => pipeline.end('SIGKILL') },
];

requireKafka('alerts of topics', () => {
  for (const { what, alerts, options, bring, again } of [...DRILLS, { what: 'nothing', alerts: [] } as Drill]) {
    campaignTestNeeding(['Prometheus', 'Alertmanager'], `${what}: ${alerts.join(', ')}`, async () => {
      await using link = await SlowLink.open();
      await using cluster = await KafkaCluster.start({ settings: link.settings });
      await using pipeline = await WatchedPipeline.start(cluster, 'drill', options?.(link));
      await using watch = await Watch.start({ targets: pipeline.targets, divisor: DRILL_DIVISOR });
      await using load = new Load(() => pipeline.send(20), 500);
      await watched(watch);
      await expect.poll(async () => (await watch.query('sum(sluice_kafka_records_total) > 100')).length).toBe(1);
      const scene: Scene = { cluster, pipeline, link };
      await bring?.(scene);
      {
        const repeat = again === undefined ? null : new Load(() => again(scene));
        await toldOf(watch, alerts).finally(() => repeat?.stop());
      }
      expect(await settled(watch), pipeline.words).toEqual(alerts);
      expect(load.rounds).toBeGreaterThan(0);
    });
  }
});
