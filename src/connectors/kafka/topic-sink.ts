// Predictions of a file or an upload as records of a topic: one line of NDJSON is one value. Of a file they are written idempotently, of
// an upload exactly once.

import { parseExact } from '../../core/exact-json.ts';
import type { PredictionSink } from '../contract/connector.ts';
import { openTransactionalWriter } from './choose-client.ts';
import type { KafkaConnection } from './client/connection.ts';
import { kafkaError } from './client/failures.ts';
import type { OutgoingRecord, RecordHeaders } from './client/records.ts';
import type { KafkaSink } from './kafka-options.ts';
import type { EncodeValue } from './record-values.ts';
import { SendPlanner } from './send-plan.ts';
import { TopicDirectory } from './topic-directory.ts';
import { TopicWriter } from './topic-writer.ts';

interface TopicSinkOptions {
  connection: KafkaConnection;
  sink: KafkaSink;
  /** A prediction (JSON) in the format of the topic. */
  encode: EncodeValue;
  /** Of every record. */
  headers?: RecordHeaders;
}

interface TopicSink extends PredictionSink {
  /** Leaves the topic; `commit` and `abort` do not, so that several inputs can follow each other. */
  close(): Promise<void>;
}

/** Idempotent, not transactional: predictions of a failed run may be seen twice. @throws SluiceError kafka_* */
export async function openTopicSink({ connection, sink, encode, headers = {} }: TopicSinkOptions): Promise<TopicSink> {
  const writer = await TopicWriter.open({ connection, topic: sink.topic, compression: sink.compression });
  const lines = new LineSplitter();
  let bytesWritten = 0;
  return {
    output: { format: 'ndjson', delimiter: ',' },
    revocable: false,
    get bytesWritten() {
      return bytesWritten;
    },
    async write(bytes) {
      const records = lines
        .take(bytes)
        .map((line): OutgoingRecord => ({ ...recordOf(line, sink.key, encode), headers }));
      bytesWritten += bytes.length;
      if (records.length > 0) await writer.write(records);
    },
    async commit() {},
    async abort() {
      lines.clear();
    },
    close: () => writer.close(),
  };
}

/** Splits chunks of bytes into whole lines. */
class LineSplitter {
  #rest = Buffer.alloc(0);

  /** Copies of the lines that are complete now, without line ends. */
  take(bytes: Uint8Array): Buffer[] {
    const text = Buffer.concat([this.#rest, bytes]);
    const lines: Buffer[] = [];
    let from = 0;
    for (let end = text.indexOf(10); end >= 0; end = text.indexOf(10, from)) {
      lines.push(text.subarray(from, end));
      from = end + 1;
    }
    this.#rest = text.subarray(from);
    return lines;
  }

  clear(): void {
    this.#rest = Buffer.alloc(0);
  }
}

/**
 * Key and value of a line. The key is the text of a passthrough column, a number with all its digits; null: no column is configured, or
 * the row has no value.
 */
export function recordOf(
  line: Buffer,
  column: string | undefined,
  encode: EncodeValue,
): { key: Buffer | null; value: Buffer } {
  if (column === undefined) return { key: null, value: encode(line) };
  const parsed = parseExact(line);
  const found = parsed[column];
  const key = found === undefined || found === null ? null : Buffer.from(String(found));
  return { key, value: encode(line, undefined, parsed) };
}
interface UploadTopicSinkOptions extends TopicSinkOptions {
  /** Of the upload: no process with the same id writes a line twice. */
  id: string;
  transactionRows: number;
  transactionTimeoutMs: number;
  /** Called before lines are skipped; an error ends the attempt. */
  beforeResume: () => Promise<void>;
}

/** The partition whose offset counts the lines; any would do. */
const COUNTER_PARTITION = 0;

/**
 * Opens the sink of one attempt at an upload. Each transaction writes some lines and, as an offset of the upload's own group, the number
 * of lines written so far:
 *
 * 1. connect with the upload's own transactional id and fence, so that an earlier attempt can commit nothing more;
 * 2. read the number of committed lines and skip as many: the same upload (checked) and the same version give the same lines;
 * 3. write `transactionRows` lines and the new count in each transaction; `commit` writes the rest.
 *
 * Committed lines stay if the upload fails later; the next attempt continues behind them.
 * @throws SluiceError kafka_*
 */
export async function openUploadTopicSink(options: UploadTopicSinkOptions): Promise<PredictionSink> {
  const { connection, sink, encode, headers = {}, id, transactionRows, transactionTimeoutMs } = options;
  const { topic, compression } = sink;
  const directory = new TopicDirectory(connection);
  const producer = openTransactionalWriter({ connection, compression, transactionTimeoutMs, transactionalId: id });
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
