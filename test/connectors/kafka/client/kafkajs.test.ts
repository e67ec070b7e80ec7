// kafkajs keeps the promises of the interface, except for those named here. In campaigns only.
import { kafkajsClient } from '../../../../src/connectors/kafka/kafkajs/kafkajs-client.ts';
import { conformance } from './conformance.ts';

conformance(kafkajsClient, {
  inCampaigns: 'all',
  known: {
    'of several topics the one that is not there is named, and only that': 'the refusal of a batch names no topic',
    'a topic that is not there and a batch that is too large are named':
      'a partition that is not there is kafka_failed, because kafkajs leaves it out without a word',
    'a member whose sync is not answered in the midst of a rebalance holds nothing that others hold':
      'the lost answer is waited for until the request times out',
    'a member whose heartbeat is not answered in the midst of a rebalance holds nothing that others hold':
      'the lost answer is waited for until the request times out',
  },
});
