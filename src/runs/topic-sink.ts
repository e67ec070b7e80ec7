// Predictions of a file as records of a topic: one line of NDJSON is one value.
import type { KafkaSink } from '../config/pipeline-schema.ts';
import type { KafkaConnection } from '../kafka/client/connection.ts';
import type { OutgoingRecord, RecordHeaders } from '../kafka/client/records.ts';
import { parsePrediction } from '../kafka/schemas/prediction-schema.ts';
import { TopicWriter } from '../kafka/topic-writer.ts';
import type { OpenSink } from './endpoints.ts';
import type { RecordFormat } from './record-format.ts';

export interface TopicSinkOptions {
  connection: KafkaConnection;
  sink: KafkaSink;
  /** A prediction (JSON) in the format of the topic. */
  encode: RecordFormat['encode'];
  /** Of every record. */
  headers?: RecordHeaders;
}

export interface TopicSink extends OpenSink {
  /** Leaves the topic; `commit` and `abort` do not, so that several inputs can follow each other. */
  close(): Promise<void>;
}

/** Idempotent, not transactional: a run that failed may be seen twice. @throws SluiceError kafka_* */
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
export class LineSplitter {
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
  encode: RecordFormat['encode'],
): { key: Buffer | null; value: Buffer } {
  if (column === undefined) return { key: null, value: encode(line) };
  const parsed = parsePrediction(line);
  const found = parsed[column];
  const key = found === undefined || found === null ? null : Buffer.from(String(found));
  return { key, value: encode(line, undefined, parsed) };
}
