// Nothing lost, nothing doubled, nothing out of order while members die and fall asleep; and what happens unfenced.
import { expect, test } from 'vitest';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { campaignTest, TIER } from '../../support/tiers.ts';
import { runChaos } from './chaos/driver.ts';

const [KILLS, STOPS] = TIER === 'campaigns' ? [80, 40] : [2, 1];

requireKafka('exactly once under chaos', () => {
  test(`${KILLS} kills and ${STOPS} stops beyond the session`, async () => {
    await using cluster = await KafkaCluster.shared();
    const records = 1_500 * KILLS;
    const report = await runChaos(cluster, {
      seed: 1,
      records,
      kills: KILLS,
      stops: STOPS,
      addPartitions: 2,
      visits: 1,
    });
    expect(report).toMatchObject({ finished: true, lost: 0, doubled: 0, disordered: 0, kills: KILLS, stops: STOPS });
  });

  // Shows that the harness detects doubled records.
  campaignTest('without fencing the same doubles records', async () => {
    await using cluster = await KafkaCluster.shared();
    const report = await runChaos(cluster, { seed: 3, records: 6_000, stops: 5, fencing: false });
    expect(report.doubled).toBeGreaterThan(0);
    expect(report.lost).toBe(0);
  });
});
