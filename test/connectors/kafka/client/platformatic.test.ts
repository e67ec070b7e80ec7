// @platformatic/kafka keeps what the interface of a Kafka client promises.
import { platformaticClient } from '../../../../src/connectors/kafka/platformatic/platformatic-client.ts';
import { conformance } from './conformance.ts';

conformance(platformaticClient, { inCampaigns: 'outages' });
