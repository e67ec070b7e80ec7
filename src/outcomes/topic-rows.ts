// Reads a topic from the beginning to its current end, without a consumer group.
// So it neither commits offsets nor affects group members.
import { isUtf8 } from 'node:buffer';
import { kafkaClient } from '../connectors/kafka/choose-client.ts';
import type { KafkaConnection } from '../connectors/kafka/client/connection.ts';
import type { IncomingRecord, RecordHeaders } from '../connectors/kafka/client/records.ts';
import { headerText } from '../connectors/kafka/dlq/dead-letter.ts';
import { TIME_HEADER } from '../connectors/kafka/send-plan.ts';
import { ObjectColumns, type RowBatch, type RowFault, type WantedColumn } from './row-batch.ts';

interface TopicTable {
  readonly topic: string;
  readonly connection: KafkaConnection;
  /** Decodes a value to JSON, or returns the reason why it cannot be decoded. */
  readonly decode: (value: Buffer) => Promise<{ json: Buffer } | { fault: string }>;
  /** Called repeatedly while an open transaction delays later records. */
  readonly onWait?: (partition: number, ms: number) => void;
}

/**
 * Reads partition by partition, in order. A record without a value becomes a row without texts.
 * @throws SluiceError kafka_topic_missing | kafka_not_authorized | kafka_unreachable | schema_registry_unavailable
 */
export async function* topicRows(
  { topic, connection, decode, onWait }: TopicTable,
  columns: readonly WantedColumn[],
  signal: AbortSignal | undefined,
): AsyncGenerator<RowBatch> {
  const scanner = kafkaClient().scanner(connection);
  const objects = new ObjectColumns(columns);
  const options = { ...(signal ? { signal } : {}), ...(onWait ? { onWait } : {}) };
  try {
    for (const [partition, { low, end }] of await scanner.bounds(topic)) {
      if (low >= end) continue;
      for await (const records of scanner.scan({ topic, partition, from: low, end }, options)) {
        yield await batchOf(records, objects, decode);
      }
    }
  } finally {
    await scanner.close();
  }
}

async function batchOf(
  records: readonly IncomingRecord[],
  objects: ObjectColumns,
  decode: TopicTable['decode'],
): Promise<RowBatch> {
  const texts = objects.newTexts(records.length);
  const faults: RowFault[] = [];
  const keys: (string | null)[] = [];
  for (const [row, { key, value }] of records.entries()) {
    keys.push(key !== null && isUtf8(key) ? key.toString('utf8') : null);
    if (value === null) continue;
    const decoded = await decode(value);
    const fault =
      'fault' in decoded
        ? { code: 'malformed_record' as const, column: null, message: decoded.fault }
        : objects.read(decoded.json.toString('utf8'), texts, row, {});
    if (fault) faults.push({ ...fault, row });
  }
  return {
    rows: records.length,
    placeOf: (row) => Number(records[row]!.offset),
    texts,
    has: objects.has,
    faults,
    records: {
      keys,
      times: records.map(timeOf),
      models: records.map(({ headers }) => modelOf(headers)),
      gone: records.map(({ value }) => value === null),
    },
  };
}

/** The time of an application. If the timestamp of the record could not be set to it, a header contains the time. */
const timeOf = ({ headers, timestamp }: IncomingRecord): number =>
  Number(headerText(headers, TIME_HEADER) ?? timestamp);

function modelOf(headers: RecordHeaders): string | null {
  const id = headerText(headers, 'sluice-model-id');
  const version = headerText(headers, 'sluice-model-version');
  return id === undefined || version === undefined ? null : `${id}:${version}`;
}
