// Scrapes a healthy run of a topic with a real Prometheus: none of the shipped rules may raise an alert, even for a moment.
import { expect } from 'vitest';
import { DRILL_DIVISOR, Load, quietFor, watched } from '../support/alert-drill.ts';
import { KafkaCluster } from '../support/kafka/cluster.ts';
import { requireKafka } from '../support/kafka/require.ts';
import { WatchedPipeline } from '../support/kafka/watched-pipeline.ts';
import { Watch } from '../support/prometheus.ts';
import { checkTestNeeding } from '../support/tools.ts';

const WATCHED_MS = 20_000;

requireKafka('a healthy topic run', () => {
  checkTestNeeding(['Prometheus', 'Alertmanager'], 'raises no alert', async () => {
    await using cluster = await KafkaCluster.start();
    await using pipeline = await WatchedPipeline.start(cluster, 'healthy');
    const ready = () =>
      fetch(`http://127.0.0.1:${pipeline.targets[0]!.port}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      );
    await expect.poll(ready).toBe(true);
    await using _load = new Load(() => pipeline.send(50), 300);
    await using shipped = await Watch.start({ targets: pipeline.targets, divisor: 1, immediate: true });
    await using divided = await Watch.start({ targets: pipeline.targets, divisor: DRILL_DIVISOR, immediate: true });
    for (const watch of [shipped, divided]) await watched(watch);
    await quietFor([shipped, divided], WATCHED_MS);
    expect(await shipped.query('sum(sluice_kafka_records_total) > 500')).toHaveLength(1);
  });
});
