// What an operator asks of both Kafka clients: outages are survived, a restart is not heard elsewhere, an end is soon, a roll loses nothing.
// `npm run chaos` and its sisters do the same by hand, and hold it against seconds; here nothing depends on how busy the machine is.
import { expect, test } from 'vitest';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { SecuredListener } from '../../support/kafka/secured.ts';
import { campaignTest, TIER, times } from '../../support/tiers.ts';
import { runChaos } from './chaos/driver.ts';
import { runEndings } from './chaos/endings.ts';
import { runSilences } from './chaos/silences.ts';

const WHOLE = { lost: 0, doubled: 0, disordered: 0 };
/** The delivery of each client, and what it promises about the answers. */
const CLIENTS = [
  { client: 'platformatic', delivery: 'exactly_once', promised: WHOLE },
  { client: 'kafkajs', delivery: 'at_least_once', promised: { lost: 0 } },
] as const;
/** Without names it would be the session, 30 s. */
const HEARD_MS = 15_000;

requireKafka('endurance', () => {
  // The default alone: transactions that a restarted broker forgot are ended by their client.
  const outages = times('outages', { quick: 0, check: 1, campaigns: 100 });
  test(`the only broker is gone ${outages} times under load, and every partition goes on`, async () => {
    await using cluster = await KafkaCluster.start();
    const report = await runChaos(cluster, { client: 'platformatic', outages, records: 400 * outages, seed: 11 });
    expect(report).toMatchObject({ ...WHOLE, finished: true, exits: 0 });
  });

  for (const { client, delivery, promised } of CLIENTS) {
    const restarts = times('restarts', { quick: 0, check: 0, campaigns: 20 });
    // static-membership.test.ts tries one of them in CI.
    campaignTest(
      `${client}: a static member that is killed and restarted ${restarts} times is not heard elsewhere`,
      async () => {
        await using cluster = await KafkaCluster.start();
        const report = await runSilences(cluster, { client, delivery, kills: restarts });
        expect(report).toMatchObject({ ...promised, exits: 0 });
        expect(Math.max(...report.own, ...report.others)).toBeLessThan(HEARD_MS);
      },
    );
  }

  const endings = times('endings', { quick: 0, check: 0, campaigns: 100 });
  // failures.test.ts tries some of them in CI.
  campaignTest(
    `over TLS with a login ${endings} of ${endings} runs end by themselves after SIGTERM under load`,
    async () => {
      const listener = await SecuredListener.open();
      await using cluster = await KafkaCluster.start({ settings: listener.settings });
      const connection = await listener.connection(cluster);
      for (const { client, delivery, promised } of TIER === 'campaigns' ? CLIENTS : CLIENTS.slice(0, 1)) {
        expect(await runEndings(cluster, connection, { client, delivery, times: endings })).toMatchObject({
          ...promised,
          failed: 0,
        });
      }
    },
  );

  const rolls = times('rolls', { quick: 0, check: 0, campaigns: 60 });
  // client/mixed.test.ts rolls in CI, without load.
  campaignTest(`a group rolls ${rolls} times between the clients, with members killed meanwhile`, async () => {
    await using cluster = await KafkaCluster.start();
    const records = 800 * rolls;
    const options = {
      client: 'kafkajs',
      delivery: 'at_least_once',
      rolls,
      kills: rolls / 2,
      records,
      seed: 12,
    } as const;
    const report = await runChaos(cluster, options);
    expect(report).toMatchObject({ lost: 0, finished: true, exits: 0 });
  });
});
