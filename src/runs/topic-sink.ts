// Predictions of a file as records of a topic: one line of NDJSON is one value.
import type { KafkaSink } from '../config/pipeline-schema.ts';
import type { KafkaConnection } from '../kafka/client/connection.ts';
import type { OutgoingRecord, RecordHeaders } from '../kafka/client/records.ts';
import { TopicWriter } from '../kafka/topic-writer.ts';
import type { OpenSink } from './endpoints.ts';

export interface TopicSinkOptions {
  connection: KafkaConnection;
  sink: KafkaSink;
  /** A prediction (JSON) in the format of the topic. */
  encode: (json: Buffer) => Buffer;
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
        .map((line): OutgoingRecord => ({ key: keyOf(line, sink.key), value: encode(line), headers }));
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

/** Key of a record: the text of a passthrough column; null: no column is configured, or the row has no value. */
export function keyOf(line: Buffer, column: string | undefined): Buffer | null {
  if (column === undefined) return null;
  const found: unknown = (JSON.parse(line.toString('utf8')) as Record<string, unknown>)[column];
  return found === undefined || found === null ? null : Buffer.from(String(found));
}
