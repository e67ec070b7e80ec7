// Dead letters by the hundred, written as pipelines write them: in transactions, some of which are aborted.
import type { Message } from 'kafkajs';
import type { IncomingRecord } from '../../../src/connectors/kafka/client/records.ts';
import { deadLetter } from '../../../src/connectors/kafka/dlq/dead-letter.ts';
import type { KafkaCluster } from './cluster.ts';

export interface MadeLetter {
  id: number;
  /** Partition of the dead letter topic. */
  partition: number;
  from: { topic: string; partition: number };
  key: string | null;
  code: string;
  column?: string;
  pipeline: string;
  /** ms since 1970. */
  time: number;
}

/** What must never be seen where nobody asked for values. */
export const CANARY = 'CANARY-4711';

/** The record became a dead letter so long after it was written, ms. */
export const RECORD_AGE_MS = 3_600_000;

export function messageOf({ id, from, key, code, column, pipeline, time, partition }: MadeLetter): Message {
  const record: IncomingRecord = {
    topic: from.topic,
    partition: from.partition,
    offset: BigInt(id),
    timestamp: time - RECORD_AGE_MS,
    key: key === null ? null : Buffer.from(key),
    value: Buffer.from(`{"id":${id},"name":"${CANARY}"}`),
    headers: { id: Buffer.from(String(id)), other: Buffer.from(CANARY) },
  };
  const reason = { code, message: 'not taken', ...(column === undefined ? {} : { column }) };
  const letter = deadLetter(record, reason as Parameters<typeof deadLetter>[1], pipeline);
  const headers = letter.headers as NonNullable<Message['headers']>;
  return { key: letter.key, value: letter.value, timestamp: String(time), partition, headers };
}

/** Writes them in transactions of `step`; each is followed by one of the same letters that is aborted. */
export async function writeLetters(
  cluster: KafkaCluster,
  topic: string,
  letters: readonly MadeLetter[],
  step = 50,
): Promise<void> {
  const transactionalId = `letters-${crypto.randomUUID()}`;
  const producer = cluster.client().producer({ idempotent: true, maxInFlightRequests: 1, transactionalId });
  await producer.connect();
  for (let i = 0; i < letters.length; i += step) {
    const messages = letters.slice(i, i + step).map(messageOf);
    for (const end of ['commit', 'abort'] as const) {
      const transaction = await producer.transaction();
      await transaction.send({ topic, messages });
      await transaction[end]();
    }
  }
  await producer.disconnect();
}
