// What every Kafka client behind the interface has to do, each behaviour against a real broker. One broker is shared by all.
import { afterAll, beforeAll } from 'vitest';
import type { KafkaClient } from '../../../src/kafka/client/kafka-client.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { admins } from './conformance-admin.ts';
import { members } from './conformance-members.ts';
import { outages } from './conformance-outages.ts';
import { writers } from './conformance-writers.ts';
import { Bench } from './harness.ts';

/** The whole suite; those of members that come back end with a broker that was killed and restarted. */
export function conformance(client: KafkaClient): void {
  requireKafka(`${client.name} as a Kafka client`, () => {
    let bench: Bench;
    beforeAll(async () => {
      bench = await Bench.open(client);
    });
    afterAll(() => bench?.close());
    const open = () => bench;
    admins(open);
    writers(open);
    members(open);
    outages(open);
  });
}
