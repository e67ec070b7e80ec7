// Imports only the modules of @platformatic/kafka that are used, each from its own file.
// The main module of the package would also load clients, metrics and schema registries. This costs half a second of
// CPU time and 30 MB in every process that reads a topic.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import type * as Library from '@platformatic/kafka';

const DOOR = pathToFileURL(createRequire(import.meta.url).resolve('@platformatic/kafka'));
const part = async <T>(file: string): Promise<T> => (await import(new URL(file, DOOR).href)) as T;

export type { API, Connection, ResponseParser, Writer } from '@platformatic/kafka';

// All brokers from Kafka 2.5 to 4.x support these API versions, except where a comment names a later release.
export const { Reader } = await part<Pick<typeof Library, 'Reader'>>('protocol/reader.js');
export const { ResponseError } = await part<Pick<typeof Library, 'ResponseError'>>('errors.js');
export const { protocolErrorsCodesById } =
  await part<Pick<typeof Library, 'protocolErrorsCodesById'>>('protocol/errors.js');
export const saslAuthenticateV1 = await part<typeof Library.saslAuthenticateV1>(
  'apis/security/sasl-authenticate-v1.js',
);
export const saslHandshakeV1 = await part<typeof Library.saslHandshakeV1>('apis/security/sasl-handshake-v1.js');
export const apiVersionsV3 = await part<typeof Library.apiVersionsV3>('apis/metadata/api-versions-v3.js');
export const metadataV9 = await part<typeof Library.metadataV9>('apis/metadata/metadata-v9.js');
// Kafka 2.8 and later. The response has the ID of each topic.
export const metadataV10 = await part<typeof Library.metadataV10>('apis/metadata/metadata-v10.js');
export const findCoordinatorV3 = await part<typeof Library.findCoordinatorV3>('apis/metadata/find-coordinator-v3.js');
export const describeConfigsV2 = await part<typeof Library.describeConfigsV2>('apis/admin/describe-configs-v2.js');
export const describeTransactionsV0 = await part<typeof Library.describeTransactionsV0>(
  'apis/admin/describe-transactions-v0.js',
);
export const listOffsetsV5 = await part<typeof Library.listOffsetsV5>('apis/consumer/list-offsets-v5.js');
export const offsetFetchV6 = await part<typeof Library.offsetFetchV6>('apis/consumer/offset-fetch-v6.js');
export const offsetFetchV7 = await part<typeof Library.offsetFetchV7>('apis/consumer/offset-fetch-v7.js');
export const offsetCommitV8 = await part<typeof Library.offsetCommitV8>('apis/consumer/offset-commit-v8.js');
export const joinGroupV7 = await part<typeof Library.joinGroupV7>('apis/consumer/join-group-v7.js');
export const syncGroupV5 = await part<typeof Library.syncGroupV5>('apis/consumer/sync-group-v5.js');
export const heartbeatV4 = await part<typeof Library.heartbeatV4>('apis/consumer/heartbeat-v4.js');
export const leaveGroupV4 = await part<typeof Library.leaveGroupV4>('apis/consumer/leave-group-v4.js');
export const fetchV11 = await part<typeof Library.fetchV11>('apis/consumer/fetch-v11.js');
// Kafka 3.1 and later. The request has the ID of the topic instead of its name.
export const fetchV13 = await part<typeof Library.fetchV13>('apis/consumer/fetch-v13.js');
export const produceV8 = await part<typeof Library.produceV8>('apis/producer/produce-v8.js');
export const initProducerIdV3 = await part<typeof Library.initProducerIdV3>('apis/producer/init-producer-id-v3.js');
export const addPartitionsToTxnV3 = await part<typeof Library.addPartitionsToTxnV3>(
  'apis/producer/add-partitions-to-txn-v3.js',
);
export const addOffsetsToTxnV3 = await part<typeof Library.addOffsetsToTxnV3>('apis/producer/add-offsets-to-txn-v3.js');
export const txnOffsetCommitV3 = await part<typeof Library.txnOffsetCommitV3>('apis/producer/txn-offset-commit-v3.js');
export const endTxnV3 = await part<typeof Library.endTxnV3>('apis/producer/end-txn-v3.js');

// These modules load the entire protocol, so they are imported only when a login needs them.
export const saslPlain = () => part<typeof Library.saslPlain>('protocol/sasl/plain.js');
export const saslScramSha = () => part<typeof Library.saslScramSha>('protocol/sasl/scram-sha.js');

/** The name of an error code in the Kafka protocol. */
export const errorName = (number: number): string =>
  (protocolErrorsCodesById as Readonly<Record<number, string>>)[number] ?? 'UNKNOWN_SERVER_ERROR';
