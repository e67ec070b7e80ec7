// Writes the predictions of a file or an upload to a topic: each line of NDJSON becomes the value of one record.
// The predictions of a file are written idempotently, the predictions of an upload exactly once.

import { SluiceError } from '../../core/errors.ts';
import { parseExact, textOf } from '../../core/exact-json.ts';
import { ownValue } from '../../core/own-keys.ts';
import { MODEL_KEYS } from '../../formats/schemas/prediction-schema.ts';
import type { PredictionSink } from '../contract/connector.ts';
import { openTransactionalWriter } from './choose-client.ts';
import type { KafkaConnection } from './client/connection.ts';
import { kafkaError } from './client/failures.ts';
import type { IncomingRecord, OutgoingRecord, RecordHeaders } from './client/records.ts';
import type { KafkaSink } from './kafka-options.ts';
import type { EncodeValue } from './record-values.ts';
import { SendPlanner } from './send-plan.ts';
import { TopicDirectory } from './topic-directory.ts';
import { TopicWriter } from './topic-writer.ts';

interface TopicSinkOptions {
  connection: KafkaConnection;
  sink: KafkaSink;
  /** Encodes a prediction, given as JSON, in the format of the topic. */
  encode: EncodeValue;
  /** Headers of every record. */
  headers?: RecordHeaders;
  /**
   * Members that name the model in every record, as a JSON object. The lines have none, because an input has one model.
   */
  members?: Buffer;
}

/** What predictions say of their model. `onnx.sha256`: hexadecimal. */
interface NamedModel {
  readonly id: string;
  readonly version: string | number;
  readonly onnx: { readonly sha256: string };
}

/** Headers and members that name the model in every record. */
export const namedModel = (
  model: NamedModel,
  packageSha256: string,
): Required<Pick<TopicSinkOptions, 'headers' | 'members'>> => ({
  headers: modelHeaders(model, packageSha256),
  members: Buffer.from(JSON.stringify({ modelId: model.id, modelVersion: String(model.version) })),
});

const modelHeaders = ({ id, version, onnx }: NamedModel, packageSha256: string): Record<string, Buffer> => ({
  'sluice-model-id': Buffer.from(id),
  'sluice-model-version': Buffer.from(String(version)),
  'sluice-model-sha256': Buffer.from(onnx.sha256),
  'sluice-package-sha256': Buffer.from(packageSha256),
});

/**
 * Headers that name the package and the source of a prediction. Consecutive records of a partition share one headers
 * object.
 */
export function predictionHeaders(
  model: NamedModel,
  packageSha256: string,
): (record: Pick<IncomingRecord, 'topic' | 'partition'>) => Record<string, Buffer> {
  let last: { topic: string; partition: number; headers: Record<string, Buffer> } | null = null;
  return ({ topic, partition }) => {
    if (last?.partition === partition && last.topic === topic) return last.headers;
    const headers = {
      ...modelHeaders(model, packageSha256),
      'sluice-source-topic': Buffer.from(topic),
      'sluice-source-partition': Buffer.from(String(partition)),
    };
    last = { topic, partition, headers };
    return headers;
  };
}

interface TopicSink extends PredictionSink {
  /** Closes the writer. `commit` and `abort` keep it open for further inputs. */
  close(): Promise<void>;
}

/**
 * Opens an idempotent sink without transactions. If a run fails and is repeated, readers may see predictions twice.
 * @throws SluiceError kafka_*
 */
export async function openTopicSink(options: TopicSinkOptions): Promise<TopicSink> {
  const { connection, sink, encode, headers = {}, members } = options;
  const writer = await TopicWriter.open({ connection, topic: sink.topic, compression: sink.compression });
  const lines = new LineSplitter();
  const keys = new KeyColumn(sink.key);
  let bytesWritten = 0;
  return {
    output: { format: 'ndjson', delimiter: ',', added: members ? MODEL_KEYS : [] },
    revocable: false,
    get bytesWritten() {
      return bytesWritten;
    },
    async write(bytes) {
      const records = keys
        .checked(lines.take(bytes))
        .map((line): OutgoingRecord => ({ ...recordOf(named(line, members), sink.key, encode), headers }));
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

/** Adds the members of an object to a prediction, which has at least one member and none of these. */
function named(line: Buffer, members: Buffer | undefined): Buffer {
  if (members === undefined) return line;
  return Buffer.concat([members.subarray(0, -1), COMMA, line.subarray(1)]);
}

const COMMA = Buffer.from(',');

/** Splits chunks of bytes into whole lines. */
class LineSplitter {
  #rest = Buffer.alloc(0);

  /** Adds bytes. Returns copies of the complete lines, without line breaks. */
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

/** Rejects a key column that the predictions do not have. All records would be written without a key. */
export class KeyColumn {
  readonly #column: string | undefined;
  #checked = false;

  constructor(column: string | undefined) {
    this.#column = column;
    this.#checked = column === undefined;
  }

  /**
   * Returns the lines. Of the first lines with a scored row, at least one must have the column; the rows of JSON need
   * not all have it.
   * @throws SluiceError kafka_config
   */
  checked(lines: Buffer[]): Buffer[] {
    if (this.#checked) return lines;
    const column = this.#column!;
    let isScored = false;
    for (const line of lines) {
      const prediction = parseExact(line);
      this.#checked = Object.hasOwn(prediction, column);
      if (this.#checked) return lines;
      isScored ||= !Object.hasOwn(prediction, 'error');
    }
    if (!isScored) return lines;
    throw new SluiceError('kafka_config', `sink.key: the input has no passthrough column ${column}`);
  }
}

/**
 * The key and value of the record for a line. The key is the text of a passthrough column; a number keeps all its
 * digits, and an object or list is its JSON. null: no column is configured, or the row has no value.
 */
export function recordOf(
  line: Buffer,
  column: string | undefined,
  encode: EncodeValue,
): { key: Buffer | null; value: Buffer } {
  if (column === undefined) return { key: null, value: encode(line) };
  const parsed = parseExact(line);
  const found = ownValue(parsed, column);
  const key = found === undefined || found === null ? null : Buffer.from(textOf(found));
  return { key, value: encode(line, undefined, parsed) };
}

interface UploadTopicSinkOptions extends TopicSinkOptions {
  /** ID of the upload. If several processes have the same ID, only one of them writes a given line. */
  id: string;
  transactionRows: number;
  transactionTimeoutMs: number;
  /** Identifies the lines that an attempt writes; stored with the number of committed lines. At most 4,096 bytes. */
  identity: string;
  /**
   * Called before lines are skipped. If it throws, the attempt ends. `identity`: of the attempt that wrote these lines;
   * null: unknown, because an earlier release wrote them.
   */
  beforeResume: (identity: string | null) => Promise<void>;
}

/** The partition whose offset stores the number of lines. The choice is arbitrary. */
const COUNTER_PARTITION = 0;

/**
 * Opens the sink for one attempt at an upload. Each transaction writes some lines, and commits the number of lines
 * written so far. This number is stored as an offset, in a group that only this upload uses.
 *
 * 1. Connect with a transactional ID that only this upload uses, and fence, so that earlier attempts can no longer
 *    commit.
 * 2. Read the number of committed lines, and skip this number of lines. They are the same as in the earlier attempt,
 *    because upload, package and settings are the same (`beforeResume` checks this).
 * 3. Write `transactionRows` lines and the new count in each transaction; `commit` writes the remaining lines.
 *
 * Committed lines remain if the upload fails later. The next attempt continues after them.
 * @throws SluiceError kafka_*
 */
export async function openUploadTopicSink(options: UploadTopicSinkOptions): Promise<PredictionSink> {
  const {
    connection,
    sink,
    encode,
    headers = {},
    members,
    id,
    identity,
    transactionRows,
    transactionTimeoutMs,
  } = options;
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
    if (committed > 0) await options.beforeResume(await directory.note(id, topic, COUNTER_PARTITION));
    return committed;
  });
  const lines = new LineSplitter();
  const keys = new KeyColumn(sink.key);
  let held: OutgoingRecord[] = [];
  let seen = 0;
  let bytesWritten = 0;
  const write = () =>
    attempt(async () => {
      const { partitions } = await directory.facts(topic);
      const partition = Math.floor(seen / transactionRows) % partitions;
      const planner = new SendPlanner({ directory, compression, outputTopic: topic, deadLetterTopic: null });
      // All lines without a key in a transaction go to one partition; transactions rotate through the partitions.
      await planner.add(
        held.map((r) => (r.key === null ? { ...r, partition } : r)),
        'output',
      );
      const next = BigInt(seen);
      const offsets = { group: id, topic, next: new Map([[COUNTER_PARTITION, next]]), note: identity, member: null };
      await producer.writeTransaction(planner.finish().rounds, offsets);
      held = [];
    });
  return {
    output: { format: 'ndjson', delimiter: ',', added: members ? MODEL_KEYS : [] },
    revocable: false,
    get bytesWritten() {
      return bytesWritten;
    },
    async write(bytes) {
      for (const line of keys.checked(lines.take(bytes))) {
        if (++seen <= done) continue;
        bytesWritten += line.length;
        held.push({ ...recordOf(named(line, members), sink.key, encode), headers });
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
