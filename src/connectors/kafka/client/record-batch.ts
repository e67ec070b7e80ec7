// Encodes record batches of the v2 format, each into one buffer.
// The encoder of kafkajs allocates one buffer per record and per header.
// Format: https://kafka.apache.org/documentation/#recordbatch
import { BATCH_OVERHEAD, isList } from './records.ts';

/** A record as kafkajs passes it to the encoder. Header values are bytes, text, null, or lists of these. */
export interface BatchRecord {
  offsetDelta?: number;
  /** Time after the first timestamp of the batch, ms. */
  timestampDelta?: number;
  key?: Buffer | string | null;
  value?: Buffer | string | null;
  headers?: Readonly<Record<string, Buffer | string | null | readonly (Buffer | string | null)[]>>;
}

export interface BatchHead {
  firstTimestamp: number | string;
  maxTimestamp: number | string;
  producerId: { toString(): string } | number | string;
  producerEpoch: number;
  firstSequence: number;
  transactional: boolean;
  lastOffsetDelta: number;
  /** Codec number; 0: uncompressed. */
  compression: number;
}

// Byte offsets of fields in a batch.
export const LENGTH_AT = 8;
export const MAGIC_AT = 16;
export const CRC_AT = 17;
export const ATTRIBUTES_AT = 21;
export const LAST_OFFSET_DELTA_AT = 23;
export const FIRST_TIMESTAMP_AT = 27;
export const MAX_TIMESTAMP_AT = 35;
export const PRODUCER_ID_AT = 43;
const PRODUCER_EPOCH_AT = 51;
const FIRST_SEQUENCE_AT = 53;
export const COUNT_AT = 57;
export const MAGIC = 2;
const CODEC_MASK = 7;
const TRANSACTIONAL = 16;

/** Encodes a batch. `compress` is called if `head` names a codec. */
export async function encodeRecordBatch(
  records: readonly BatchRecord[],
  head: BatchHead,
  compress: (plain: Buffer) => Promise<Buffer>,
): Promise<Buffer> {
  const codec = head.compression & CODEC_MASK;
  let batch: Buffer;
  if (codec === 0) batch = encodeRecords(records, BATCH_OVERHEAD);
  else {
    const packed = await compress(encodeRecords(records, 0));
    batch = Buffer.allocUnsafe(BATCH_OVERHEAD + packed.length);
    packed.copy(batch, BATCH_OVERHEAD);
  }
  batch.fill(0, 0, LENGTH_AT);
  batch.writeInt32BE(batch.length - LENGTH_AT - 4, LENGTH_AT);
  batch.writeInt32BE(0, LENGTH_AT + 4);
  batch.writeInt8(MAGIC, MAGIC_AT);
  batch.writeInt16BE(codec | (head.transactional ? TRANSACTIONAL : 0), ATTRIBUTES_AT);
  batch.writeInt32BE(head.lastOffsetDelta, LAST_OFFSET_DELTA_AT);
  batch.writeBigInt64BE(BigInt(head.firstTimestamp), FIRST_TIMESTAMP_AT);
  batch.writeBigInt64BE(BigInt(head.maxTimestamp), MAX_TIMESTAMP_AT);
  batch.writeBigInt64BE(BigInt(head.producerId.toString()), PRODUCER_ID_AT);
  batch.writeInt16BE(head.producerEpoch, PRODUCER_EPOCH_AT);
  batch.writeInt32BE(head.firstSequence, FIRST_SEQUENCE_AT);
  batch.writeInt32BE(records.length, COUNT_AT);
  batch.writeUInt32BE(crc32c(batch, ATTRIBUTES_AT), CRC_AT);
  return batch;
}

/** Encodes the records one after the other, after `room` uninitialized bytes. */
function encodeRecords(records: readonly BatchRecord[], room: number): Buffer {
  const bodies = new Int32Array(records.length);
  let size = room;
  for (let i = 0; i < records.length; i++) {
    const body = sizeOfBody(records[i]!);
    bodies[i] = body;
    size += sizeOfVarint(body) + body;
  }
  const to = Buffer.allocUnsafe(size);
  let at = room;
  for (let i = 0; i < records.length; i++) {
    const { offsetDelta = 0, timestampDelta = 0, key, value, headers } = records[i]!;
    at = writeVarint(to, at, bodies[i]!);
    to[at++] = 0;
    at = writeVarint(to, at, timestampDelta);
    at = writeVarint(to, at, offsetDelta);
    at = writeBytes(to, at, key);
    at = writeBytes(to, at, value);
    at = writeVarint(to, at, countOf(headers));
    for (const name in headers) {
      const bytes = nameBytes(name);
      const values = headers[name] ?? null;
      if (isList(values)) for (const one of values) at = writeBytes(to, writeBytes(to, at, bytes), one);
      else at = writeBytes(to, writeBytes(to, at, bytes), values);
    }
  }
  return to;
}

function sizeOfBody({ offsetDelta = 0, timestampDelta = 0, key, value, headers }: BatchRecord): number {
  let size = 1 + sizeOfVarint(timestampDelta) + sizeOfVarint(offsetDelta) + sizeOfBytes(key) + sizeOfBytes(value);
  size += sizeOfVarint(countOf(headers));
  for (const name in headers) {
    const nameSize = sizeOfBytes(nameBytes(name));
    const values = headers[name] ?? null;
    if (isList(values)) for (const one of values) size += nameSize + sizeOfBytes(one);
    else size += nameSize + sizeOfBytes(values);
  }
  return size;
}

function countOf(headers: BatchRecord['headers']): number {
  let n = 0;
  for (const name in headers) {
    const values = headers[name] ?? null;
    n += isList(values) ? values.length : 1;
  }
  return n;
}

const MAX_NAMES = 1000;
const names = new Map<string, Buffer>();
/** The bytes of a header name, cached because header names repeat. */
function nameBytes(name: string): Buffer {
  let bytes = names.get(name);
  if (!bytes) {
    if (names.size >= MAX_NAMES) names.clear();
    bytes = Buffer.from(name);
    names.set(name, bytes);
  }
  return bytes;
}

function sizeOfBytes(value: Buffer | string | null | undefined): number {
  if (value === null || value === undefined) return 1;
  const n = typeof value === 'string' ? Buffer.byteLength(value) : value.length;
  return sizeOfVarint(n) + n;
}

function writeBytes(to: Buffer, at: number, value: Buffer | string | null | undefined): number {
  if (value === null || value === undefined) return writeVarint(to, at, -1);
  if (typeof value === 'string') {
    const n = Buffer.byteLength(value);
    const start = writeVarint(to, at, n);
    return start + to.write(value, start, n, 'utf8');
  }
  const start = writeVarint(to, at, value.length);
  const n = value.length;
  if (n < 32) for (let i = 0; i < n; i++) to[start + i] = value[i]!;
  else to.set(value, start);
  return start + n;
}

/** Zigzag encoding: maps small numbers of either sign to small non-negative numbers. For integers up to 2^52. */
const zigzag = (n: number): number => (n >= 0 ? n * 2 : -n * 2 - 1);

function sizeOfVarint(n: number): number {
  let z = zigzag(n);
  let bytes = 1;
  for (; z >= 128; z = Math.floor(z / 128)) bytes++;
  return bytes;
}

function writeVarint(to: Buffer, at: number, n: number): number {
  let z = zigzag(n);
  for (; z >= 128; z = Math.floor(z / 128)) to[at++] = (z % 128) | 128;
  to[at++] = z;
  return at;
}

/** Lookup tables for eight bytes at once ("slicing by 8"), for the reversed Castagnoli polynomial. */
const TABLES = (() => {
  const tables = new Int32Array(8 * 256);
  for (let i = 0; i < 256; i++) {
    let c = i;
    for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0x82f63b78 : c >>> 1;
    tables[i] = c;
  }
  for (let i = 256; i < tables.length; i++) {
    const c = tables[i - 256]!;
    tables[i] = (c >>> 8) ^ tables[c & 255]!;
  }
  return tables;
})();

/** CRC-32C (RFC 3720, Castagnoli) of the bytes from offset `from`, as an unsigned number. */
export function crc32c(bytes: Uint8Array, from = 0): number {
  const t = TABLES;
  const end = bytes.length;
  let crc = -1;
  let i = from;
  for (; i + 8 <= end; i += 8) {
    const low = crc ^ (bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24));
    crc =
      t[1792 + (low & 255)]! ^
      t[1536 + ((low >>> 8) & 255)]! ^
      t[1280 + ((low >>> 16) & 255)]! ^
      t[1024 + (low >>> 24)]! ^
      t[768 + bytes[i + 4]!]! ^
      t[512 + bytes[i + 5]!]! ^
      t[256 + bytes[i + 6]!]! ^
      t[bytes[i + 7]!]!;
  }
  for (; i < end; i++) crc = t[(crc ^ bytes[i]!) & 255]! ^ (crc >>> 8);
  return ~crc >>> 0;
}
