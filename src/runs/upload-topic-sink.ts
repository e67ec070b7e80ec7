// Predictions of an upload into a topic, exactly once: each transaction writes some lines and, as an offset of a group of the upload's
// own, how many lines are written by then.
import { kafkaClient } from '../kafka/choose-client.ts';
import { kafkaError } from '../kafka/client/failures.ts';
import type { OutgoingRecord } from '../kafka/client/records.ts';
import { SendPlanner } from '../kafka/send-plan.ts';
import { TopicDirectory } from '../kafka/topic-directory.ts';
import type { OpenSink } from './endpoints.ts';
import { LineSplitter, recordOf, type TopicSinkOptions } from './topic-sink.ts';

export interface UploadTopicSinkOptions extends TopicSinkOptions {
  /** The upload: the same id never writes a line twice, whatever process uses it. */
  id: string;
  transactionRows: number;
  transactionTimeoutMs: number;
  /** Called before lines are skipped; what it throws ends the attempt. */
  beforeResume: () => Promise<void>;
}

/** The partition whose offset counts the lines; any would do. */
const COUNTER_PARTITION = 0;

/**
 * Opens the sink of one attempt at an upload:
 *
 * 1. connect with the upload's own transactional id and fence: an earlier attempt that still lives can commit nothing any more;
 * 2. read how many lines are committed, and skip as many: the same upload, which is checked, scored by the same version gives the same
 *    lines;
 * 3. write `transactionRows` lines and the new count in one transaction, again and again; `commit` writes the rest.
 *
 * What is committed stays when the upload fails later; the next attempt goes on behind it.
 * @throws SluiceError kafka_*
 */
export async function openUploadTopicSink(options: UploadTopicSinkOptions): Promise<OpenSink> {
  const { connection, sink, encode, headers = {}, id, transactionRows, transactionTimeoutMs } = options;
  const { topic, compression } = sink;
  const directory = new TopicDirectory(connection);
  const producer = kafkaClient().writer({ connection, compression, transactionTimeoutMs, transactionalId: id });
  const close = async () => {
    await Promise.all([producer.discard(), directory.close()]);
  };
  const attempt = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      await close();
      throw kafkaError(error, `writing an upload to the topic ${topic} failed`);
    }
  };
  const done = await attempt(async () => {
    await directory.connect();
    await directory.facts(topic);
    await producer.connect();
    await producer.fence();
    const committed = Number((await directory.committed(id, topic, COUNTER_PARTITION)) ?? 0n);
    if (committed > 0) await options.beforeResume();
    return committed;
  });
  const lines = new LineSplitter();
  let held: OutgoingRecord[] = [];
  let seen = 0;
  let bytesWritten = 0;
  const write = () =>
    attempt(async () => {
      const { partitions } = await directory.facts(topic);
      const partition = Math.floor(seen / transactionRows) % partitions;
      const planner = new SendPlanner({ directory, compression, outputTopic: topic, deadLetterTopic: null });
      // Lines without a key share the partitions, a transaction at a time.
      await planner.add(
        held.map((r) => (r.key === null ? { ...r, partition } : r)),
        'output',
      );
      const next = BigInt(seen);
      const offsets = { group: id, topic, next: new Map([[COUNTER_PARTITION, next]]), member: null };
      await producer.writeTransaction(planner.finish().rounds, offsets);
      held = [];
    });
  return {
    output: { format: 'ndjson', delimiter: ',' },
    revocable: false,
    get bytesWritten() {
      return bytesWritten;
    },
    async write(bytes) {
      for (const line of lines.take(bytes)) {
        if (++seen <= done) continue;
        bytesWritten += line.length;
        held.push({ ...recordOf(line, sink.key, encode), headers });
        if (held.length >= transactionRows) await write();
      }
    },
    async commit() {
      if (held.length > 0) await write();
      await close();
    },
    abort: close,
  };
}
