// Answers to records of a topic as lines of a file: each line names the record it answers.
import { isUtf8 } from 'node:buffer';
import type { IncomingRecord } from '../kafka/client/records.ts';

/** The member of a line that identifies its record. */
export const RECORD_MEMBER = 'record';

/** `answer`: a JSON object with at least one member. */
export function topicLine(
  record: Pick<IncomingRecord, 'topic' | 'partition' | 'offset' | 'key'>,
  answer: Buffer,
): Buffer {
  const { topic, partition, offset, key } = record;
  const place = `"topic":${JSON.stringify(topic)},"partition":${partition},"offset":${offset}`;
  const tail = `,"${RECORD_MEMBER}":{${place},${keyMember(key)}}}\n`;
  return Buffer.concat([answer.subarray(0, answer.length - 1), Buffer.from(tail)]);
}

/** The same two names as in the dead letters that `dlq` prints. */
function keyMember(key: Buffer | null): string {
  if (key === null) return '"key":null';
  return isUtf8(key)
    ? `"key":${JSON.stringify(key.toString('utf8'))}`
    : `"key_base64":${JSON.stringify(key.toString('base64'))}`;
}
