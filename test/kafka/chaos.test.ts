// Nothing lost, nothing doubled, nothing out of order while members die and fall asleep; and what happens unfenced.
import { expect, test } from 'vitest';
import { KafkaCluster } from '../support/kafka/cluster.ts';
import { requireKafka } from '../support/kafka/require.ts';
import { TIER } from '../support/tiers.ts';
import { runChaos } from './chaos/driver.ts';

const [KILLS, STOPS] = TIER === 'campaigns' ? [80, 40] : [5, 2];

requireKafka('exactly once under chaos', () => {
  // At the same time on one broker: what is waited for is mostly sessions that run out.
  test(`${KILLS} kills and ${STOPS} stops beyond the session; without fencing the same doubles records`, async () => {
    await using cluster = await KafkaCluster.start();
    const [fenced, unfenced] = await Promise.all([
      runChaos(cluster, { seed: 1, records: 2_500 * KILLS, kills: KILLS, stops: STOPS, addPartitions: 2, visits: 1 }),
      runChaos(cluster, { seed: 3, records: 6_000, stops: 5, fencing: false }),
    ]);
    expect(fenced).toMatchObject({ finished: true, lost: 0, doubled: 0, disordered: 0, kills: KILLS, stops: STOPS });
    // The harness does see what it is there to see.
    expect(unfenced.doubled).toBeGreaterThan(0);
    expect(unfenced.lost).toBe(0);
  });
});
