// Decodes the bytes of a fetch response into committed records, each once.
// Formats: https://kafka.apache.org/protocol (Fetch, versions 11 and 13), https://kafka.apache.org/documentation/#recordbatch
import { type BatchCompression, MOST_UNPACKED_BYTES, unpackBatch } from '../client/codecs.ts';
import {
  ATTRIBUTES_AT,
  COUNT_AT,
  CRC_AT,
  crc32c,
  FIRST_TIMESTAMP_AT,
  LAST_OFFSET_DELTA_AT,
  LENGTH_AT,
  MAGIC,
  MAGIC_AT,
  MAX_TIMESTAMP_AT,
  PRODUCER_ID_AT,
} from '../client/record-batch.ts';
import { BATCH_OVERHEAD, type IncomingRecord, type RecordHeaders } from '../client/records.ts';
import { Unreadable } from './broker-failures.ts';

export interface FetchedPartition {
  readonly partition: number;
  /** Error code of the Kafka protocol; 0: none. */
  readonly error: number;
  readonly highWatermark: bigint;
  /** Offset after the last record that readers of committed records can see. */
  readonly lastStable: bigint;
  readonly logStart: bigint;
  /** The aborted transactions, each with its producer and first offset. */
  readonly aborted: readonly { readonly producerId: bigint; readonly first: bigint }[];
  /** ID of a replica in the rack of this client that should be read instead of the leader; -1: none. */
  readonly preferredReplica: number;
  readonly batches: Buffer;
}

interface CommittedRecords {
  readonly records: IncomingRecord[];
  /** Offset after everything that was decoded or skipped. */
  readonly next: bigint;
}

const UUID_BYTES = 16;

/** Decodes the body of a fetch response for one topic. */
export function readFetch(body: Buffer): { error: number; partitions: FetchedPartition[] } {
  const error = body.readInt16BE(4);
  const partitions: FetchedPartition[] = [];
  let at = 10;
  const topics = body.readInt32BE(at);
  at += 4;
  for (let t = 0; t < topics; t++) {
    at += 2 + body.readInt16BE(at);
    const count = body.readInt32BE(at);
    at += 4;
    for (let p = 0; p < count; p++) {
      const head = at;
      const aborted: { producerId: bigint; first: bigint }[] = [];
      const abortedCount = body.readInt32BE(head + 30);
      at = head + 34;
      for (let i = 0; i < abortedCount; i++, at += 16) {
        aborted.push({ producerId: body.readBigInt64BE(at), first: body.readBigInt64BE(at + 8) });
      }
      const preferredReplica = body.readInt32BE(at);
      const size = Math.max(0, body.readInt32BE(at + 4));
      at += 8 + size;
      partitions.push({ ...headOf(body, head), aborted, preferredReplica, batches: body.subarray(at - size, at) });
    }
  }
  return { error, partitions };
}

/** Decodes the body of a fetch response with topic IDs, after the tagged fields of its header. */
export function readFetchById(body: Buffer): { error: number; partitions: FetchedPartition[] } {
  const error = body.readInt16BE(4);
  const partitions: FetchedPartition[] = [];
  const at = new Cursor(body, 10);
  for (let topics = at.unsigned() - 1; topics > 0; topics--) {
    at.position += UUID_BYTES;
    for (let count = at.unsigned() - 1; count > 0; count--) {
      const head = at.position;
      at.position += 30;
      const aborted: { producerId: bigint; first: bigint }[] = [];
      for (let n = at.unsigned() - 1; n > 0; n--) {
        aborted.push({ producerId: body.readBigInt64BE(at.position), first: body.readBigInt64BE(at.position + 8) });
        at.position += 16;
        at.skipTags();
      }
      const preferredReplica = body.readInt32BE(at.position);
      at.position += 4;
      const size = Math.max(0, at.unsigned() - 1);
      const batches = body.subarray(at.position, at.position + size);
      at.position += size;
      at.skipTags();
      partitions.push({ ...headOf(body, head), aborted, preferredReplica, batches });
    }
    at.skipTags();
  }
  return { error, partitions };
}

const headOf = (body: Buffer, at: number) => ({
  partition: body.readInt32BE(at),
  error: body.readInt16BE(at + 4),
  highWatermark: body.readBigInt64BE(at + 6),
  lastStable: body.readBigInt64BE(at + 14),
  logStart: body.readBigInt64BE(at + 22),
});

const CODEC_MASK = 7;
const LOG_APPEND_TIME = 8;
const TRANSACTIONAL = 16;
const CONTROL = 32;
const ABORT_MARKER = 0;
const CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const satisfies readonly BatchCompression[];

/** Maximum records of a batch. Each takes memory, even if it is empty and costs almost no compressed byte. */
const MOST_BATCH_RECORDS = 2 ** 20;

/**
 * Decodes the committed records from offset `from`, in order. Stops before a batch if the batches before it have more
 * than `mostBytes` decompressed bytes; `next` is then the offset to fetch again from.
 * @throws Unreadable if a batch is damaged, too large, of an old format, or compressed with an unknown codec
 */
export async function decodeRecords(
  topic: string,
  fetched: FetchedPartition,
  from: bigint,
  mostBytes = MOST_UNPACKED_BYTES,
): Promise<CommittedRecords> {
  const records: IncomingRecord[] = [];
  const filter = new AbortedFilter(fetched.aborted);
  let next = from;
  let bytes = 0;
  for (const batch of batchesOf(fetched.batches)) {
    if (bytes > mostBytes) break;
    const attributes = batch.readInt16BE(ATTRIBUTES_AT);
    const base = batch.readBigInt64BE(0);
    const last = base + BigInt(batch.readInt32BE(LAST_OFFSET_DELTA_AT));
    if (last < from) continue;
    const producerId = batch.readBigInt64BE(PRODUCER_ID_AT);
    filter.upTo(last);
    next = last + 1n;
    if ((attributes & CONTROL) !== 0) {
      filter.marker(producerId, batch);
      continue;
    }
    if ((attributes & TRANSACTIONAL) !== 0 && filter.drops(producerId)) continue;
    const codec = CODECS[attributes & CODEC_MASK];
    if (codec === undefined) throw new Unreadable('a batch is compressed with an unknown codec');
    const packed = batch.subarray(BATCH_OVERHEAD);
    const plain = codec === 'none' ? packed : await unpackBatch(packed, codec).catch(refuse(codec));
    bytes += plain.length;
    readRecords(plain, { topic, partition: fetched.partition, from, base, batch, attributes }, records);
  }
  return { records, next };
}

const refuse = (codec: string) => (cause: unknown) => {
  const reason = cause instanceof Error ? cause.message : 'unknown reason';
  throw new Unreadable(`a batch compressed with ${codec} cannot be decompressed: ${reason}`);
};

/** Yields whole batches. A last batch that the size limit of the fetch truncated is omitted. */
function* batchesOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at + MAGIC_AT < bytes.length; ) {
    const end = at + LENGTH_AT + 4 + bytes.readInt32BE(at + LENGTH_AT);
    if (end > bytes.length) return;
    const batch = bytes.subarray(at, end);
    if (batch[MAGIC_AT] !== MAGIC) throw new Unreadable('a batch has a format older than Kafka 0.11');
    if (crc32c(batch, ATTRIBUTES_AT) !== batch.readUInt32BE(CRC_AT))
      throw new Unreadable('a batch has a wrong checksum');
    yield batch;
    at = end;
  }
}

/** Tracks which producers are inside an aborted transaction at the current log position. */
class AbortedFilter {
  readonly #waiting: { producerId: bigint; first: bigint }[];
  readonly #active = new Set<bigint>();

  constructor(aborted: FetchedPartition['aborted']) {
    this.#waiting = [...aborted].sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
  }

  upTo(offset: bigint): void {
    while (this.#waiting.length > 0 && this.#waiting[0]!.first <= offset)
      this.#active.add(this.#waiting.shift()!.producerId);
  }

  drops(producerId: bigint): boolean {
    return this.#active.has(producerId);
  }

  marker(producerId: bigint, batch: Buffer): void {
    const key = controlKey(batch);
    if (key !== null && key.readInt16BE(2) === ABORT_MARKER) this.#active.delete(producerId);
  }
}

/** The key of the only record in a control batch. It contains a version and a type. */
function controlKey(batch: Buffer): Buffer | null {
  const at = new Cursor(batch, BATCH_OVERHEAD);
  at.varint();
  at.position++;
  at.varint();
  at.varint();
  return at.bytes();
}

interface Frame {
  topic: string;
  partition: number;
  from: bigint;
  base: bigint;
  batch: Buffer;
  attributes: number;
}

function readRecords(plain: Buffer, frame: Frame, to: IncomingRecord[]): void {
  const { topic, partition, from, base, batch, attributes } = frame;
  const count = batch.readInt32BE(COUNT_AT);
  if (count > MOST_BATCH_RECORDS) throw new Unreadable(`a batch has more than ${MOST_BATCH_RECORDS} records`);
  const appended = (attributes & LOG_APPEND_TIME) !== 0;
  const time = Number(batch.readBigInt64BE(appended ? MAX_TIMESTAMP_AT : FIRST_TIMESTAMP_AT));
  const skipped = from > base ? Number(from - base) : 0;
  const at = new Cursor(plain, 0);
  for (let i = 0; i < count; i++) {
    const size = at.varint();
    const end = at.position + size;
    if (end > plain.length) throw new Unreadable('a record is cut off');
    at.position++;
    const delta = at.varint();
    const offset = at.varint();
    if (offset >= skipped) {
      const key = at.bytes();
      const value = at.bytes();
      const timestamp = appended ? time : time + delta;
      to.push({ topic, partition, offset: base + BigInt(offset), timestamp, key, value, headers: at.headers() });
    }
    at.position = end;
  }
}

const NO_HEADERS: RecordHeaders = Object.freeze({});

class Cursor {
  position: number;
  readonly #from: Buffer;

  constructor(from: Buffer, position: number) {
    this.#from = from;
    this.position = position;
  }

  /** Decodes an integer of up to 2^53 without a sign. */
  unsigned(): number {
    const from = this.#from;
    let byte = from[this.position++]!;
    let value = byte & 127;
    for (let scale = 128; byte >= 128; scale *= 128) {
      byte = from[this.position++]!;
      value += (byte & 127) * scale;
    }
    if (byte === undefined) throw new Unreadable('a record is cut off');
    return value;
  }

  /** Decodes a zigzag-encoded integer of up to 2^53. */
  varint(): number {
    const z = this.unsigned();
    return z % 2 === 0 ? z / 2 : -(z + 1) / 2;
  }

  /** Skips the tagged fields of a structure. */
  skipTags(): void {
    for (let n = this.unsigned(); n > 0; n--) {
      this.unsigned();
      const size = this.unsigned();
      this.position += size;
    }
  }

  bytes(): Buffer | null {
    const size = this.varint();
    if (size < 0) return null;
    const start = this.position;
    this.position += size;
    return this.#from.subarray(start, this.position);
  }

  headers(): RecordHeaders {
    const count = this.varint();
    if (count === 0) return NO_HEADERS;
    // The object has no prototype, because a header may be named `valueOf` or `__proto__`.
    const headers: Record<string, Buffer | null | (Buffer | null)[]> = Object.create(null);
    for (let i = 0; i < count; i++) {
      const name = this.bytes()?.toString() ?? '';
      const value = this.bytes();
      const known = headers[name];
      if (known === undefined) headers[name] = value;
      else if (Array.isArray(known)) known.push(value);
      else headers[name] = [known, value];
    }
    return headers;
  }
}
