// A run that reads a topic exports the metric families of the table that it can have, and no others.
import { expect } from 'vitest';
import { familiesOf } from '../../support/exposition.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { WatchedPipeline } from '../../support/kafka/watched-pipeline.ts';
import { tableOf } from '../../support/metric-table.ts';
import type { ScrapeTarget } from '../../support/prometheus.ts';
import { checkTest } from '../../support/tiers.ts';

requireKafka('a topic run', () => {
  checkTest('exports its families and no others', async () => {
    await using cluster = await KafkaCluster.shared();
    await using pipeline = await WatchedPipeline.start(cluster, 'exported');
    const [metrics, columns] = pipeline.targets;
    const page = async ({ port, path = '/metrics' }: ScrapeTarget) =>
      (await fetch(`http://127.0.0.1:${port}${path}`)).text();
    await expect.poll(() => page(metrics!).catch(() => '')).toContain('sluice_kafka_paused{');
    expect(familiesOf(await page(metrics!))).toEqual(tableOf('topic_run', false));
    expect(familiesOf(await page(columns!))).toEqual(tableOf('topic_run', true));
  });
});
