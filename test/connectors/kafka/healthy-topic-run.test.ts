// Scrapes a healthy run of a topic with a real Prometheus: none of the shipped rules may raise an alert, even for a moment.
import { expect } from 'vitest';
import { HEALTHY_DIVISOR, Load, quietFor, watched } from '../../support/alert-drill.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { WatchedPipeline } from '../../support/kafka/watched-pipeline.ts';
import { Watch } from '../../support/prometheus.ts';
import { TIER, times } from '../../support/tiers.ts';
import { checkTestNeeding } from '../../support/tools.ts';

const SECONDS = times('healthy seconds of a topic', { quick: 0, check: 30, campaigns: 180 });

requireKafka('a healthy topic run', () => {
  checkTestNeeding(['Prometheus', 'Alertmanager'], 'raises no alert', async () => {
    await using cluster = await KafkaCluster.shared();
    await using pipeline = await WatchedPipeline.start(cluster, 'healthy');
    const ready = () =>
      fetch(`http://127.0.0.1:${pipeline.targets[0]!.port}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      );
    await expect.poll(ready).toBe(true);
    await using _load = new Load(() => pipeline.send(50), 300);
    await using ends = new AsyncDisposableStack();
    // Windows as shipped are those of test/monitoring/healthy.test.ts, too; windows that are full within the test find more.
    const divisors = TIER === 'campaigns' ? [HEALTHY_DIVISOR, 1] : [HEALTHY_DIVISOR];
    const watches: Watch[] = [];
    for (const divisor of divisors) {
      watches.push(ends.use(await Watch.start({ targets: pipeline.targets, divisor, immediate: true })));
    }
    for (const watch of watches) await watched(watch);
    await quietFor(watches, SECONDS * 1000);
    expect(await watches[0]!.query('sum(sluice_kafka_records_total) > 500')).toHaveLength(1);
  });
});
