// The behaviour of every Kafka client behind the interface, tested with a real broker that all tests share. Transactions are tested where
// the client has them.
import { afterAll, beforeAll, test } from 'vitest';
import type { KafkaClient } from '../../../../src/connectors/kafka/client/kafka-client.ts';
import { requireKafka } from '../../../support/kafka/require.ts';
import { campaignTest, SKIPPED, TIER } from '../../../support/tiers.ts';
import { admins } from './conformance-admin.ts';
import { members } from './conformance-members.ts';
import { outages } from './conformance-outages.ts';
import { transactions } from './conformance-transactions.ts';
import { writers } from './conformance-writers.ts';
import { type Behaves, Bench } from './harness.ts';

export interface ConformanceOptions {
  /** Behaviours that this client is known not to have, each with what it does instead: skipped by name. */
  known?: Readonly<Record<string, string>>;
  /** Whether all of it, or just what has to do with brokers that are killed, is left to campaigns. Default: nothing. */
  inCampaigns?: 'all' | 'outages';
}

/** The whole suite; those of members that come back end with a broker that was killed and restarted. */
export function conformance(client: KafkaClient, { known = {}, inCampaigns }: ConformanceOptions = {}): void {
  const behaves: Behaves = (name, run) => {
    const instead = known[name];
    if (instead === undefined && inCampaigns === 'all') campaignTest(name, run);
    else if (instead === undefined) test(name, run);
    else test.skip(`${name}${SKIPPED}known of ${client.name}: ${instead}`, run);
  };
  requireKafka(`${client.name} as a Kafka client`, () => {
    let bench: Bench;
    beforeAll(async () => {
      if (TIER === 'campaigns' || inCampaigns !== 'all') bench = await Bench.open(client);
    });
    afterAll(() => bench?.close());
    const open = () => bench;
    admins(open, behaves);
    writers(open, behaves);
    if (client.transactionalWriter) transactions(open, behaves);
    members(open, behaves);
    if (TIER === 'campaigns' || inCampaigns === undefined) outages(open, behaves);
  });
}
