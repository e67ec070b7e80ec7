// From the bytes of a fetch to records: whatever the batches hold comes out, and damaged ones do not.

import { expect, test } from 'vitest';
import {
  MOST_UNPACKED_BYTES,
  type PackedCompression,
  packBatch,
} from '../../../../src/connectors/kafka/client/codecs.ts';
import {
  ATTRIBUTES_AT,
  type BatchRecord,
  COUNT_AT,
  CRC_AT,
  crc32c,
  encodeRecordBatch,
} from '../../../../src/connectors/kafka/client/record-batch.ts';
import { Unreadable } from '../../../../src/connectors/kafka/platformatic/broker-failures.ts';
import {
  decodeRecords,
  type FetchedPartition,
  readFetch,
  readFetchById,
} from '../../../../src/connectors/kafka/platformatic/fetched-records.ts';
import { markedTopic } from '../../../../src/connectors/kafka/platformatic/offset-marks.ts';
import fc from '../../../support/seeded-fast-check.ts';

const CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const;
const TIME = 1_700_000_000_000;
const bytes = fc.uint8Array({ maxLength: 300 }).map((b) => Buffer.from(b));
const record = fc.record({
  key: fc.option(bytes),
  value: fc.option(bytes),
  headers: fc.dictionary(
    fc.oneof(fc.string({ minLength: 1 }), fc.constantFrom('valueOf', '__proto__', 'constructor')),
    fc.oneof(fc.option(bytes), fc.array(fc.option(bytes), { minLength: 2, maxLength: 3 })),
    { maxKeys: 3 },
  ),
  timestampDelta: fc.oneof(fc.integer({ min: -100, max: 100 }), fc.integer({ min: -(2 ** 45), max: 2 ** 40 })),
});
const batch = fc.record({ records: fc.array(record, { minLength: 1, maxLength: 5 }), codec: fc.nat(4) });

async function encoded(
  base: bigint,
  records: readonly BatchRecord[],
  codec = 0,
  transactional = false,
  pack: (plain: Buffer) => Promise<Buffer> = (plain) => packBatch(plain, CODECS[codec] as PackedCompression),
): Promise<Buffer> {
  const placed = records.map((r, offsetDelta) => ({ ...r, offsetDelta }));
  const head = {
    firstTimestamp: TIME,
    maxTimestamp: TIME,
    producerId: 7n,
    producerEpoch: 0,
    firstSequence: 0,
    transactional,
  };
  const settings = { ...head, lastOffsetDelta: records.length - 1, compression: codec };
  const bytes = await encodeRecordBatch(placed, settings, pack);
  // The broker puts the offset in; the checksum begins behind it.
  bytes.writeBigInt64BE(base, 0);
  return bytes;
}

const fetched = (batches: Buffer, aborted: FetchedPartition['aborted'] = []): FetchedPartition => ({
  ...{ partition: 3, error: 0, highWatermark: 0n, lastStable: 0n, logStart: 0n, preferredReplica: -1 },
  ...{ aborted, batches },
});

test('records come back as they were encoded, from any offset on, with the last batch cut anywhere', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(batch, { minLength: 1, maxLength: 4 }),
      fc.nat(20),
      fc.nat(400),
      async (batches, from, cut) => {
        const whole: Buffer[] = [];
        const expected: object[] = [];
        let offset = 0n;
        for (const { records, codec } of batches) {
          whole.push(await encoded(offset, records, codec));
          for (const { key, value, headers, timestampDelta } of records) {
            const place = { topic: 't', partition: 3, offset: offset++, timestamp: TIME + timestampDelta };
            expected.push({ ...place, key, value, headers: { ...headers } });
          }
        }
        const last = await encoded(offset, [{ key: null, value: Buffer.from('cut') }]);
        const answer = Buffer.concat([...whole, last.subarray(0, cut % last.length)]);
        const { records, next } = await decodeRecords('t', fetched(answer), BigInt(from));
        expect(records.map((r) => ({ ...r, headers: { ...r.headers } }))).toEqual(expected.slice(from));
        expect(next).toBe(offset > BigInt(from) ? offset : BigInt(from));
      },
    ),
    { numRuns: 60 },
  );
});

test('one bit that is wrong makes a batch unreadable, wherever it is', async () => {
  const whole = await encoded(5n, [{ key: Buffer.from('key'), value: Buffer.from('value') }]);
  for (let bit = 16 * 8; bit < whole.length * 8; bit++) {
    const damaged = Buffer.from(whole);
    damaged[bit >> 3]! ^= 1 << (bit & 7);
    await expect(decodeRecords('t', fetched(damaged), 0n)).rejects.toThrow(Unreadable);
  }
});

test('records of an aborted transaction are left out, those of others are not', async () => {
  const one = [{ key: null, value: Buffer.from('x') }];
  const batches = Buffer.concat([
    await encoded(0n, one, 0, true),
    await encoded(1n, one, 0, false),
    await encoded(2n, one, 0, true),
  ]);
  const offsets = async (aborted: FetchedPartition['aborted']) =>
    (await decodeRecords('t', fetched(batches, aborted), 0n)).records.map((r) => r.offset);
  expect(await offsets([])).toEqual([0n, 1n, 2n]);
  expect(await offsets([{ producerId: 7n, first: 2n }])).toEqual([0n, 1n]);
  expect(await offsets([{ producerId: 7n, first: 0n }])).toEqual([1n]);
  expect(await offsets([{ producerId: 8n, first: 0n }])).toEqual([0n, 1n, 2n]);
});

test.each(['gzip', 'snappy', 'lz4', 'zstd'] as const)(
  'a %s batch of a megabyte that unpacks to more than the limit is unreadable',
  async (codec) => {
    const piece = await packBatch(Buffer.alloc(2 ** 20), codec);
    // The framing of the Java client around snappy has one head.
    const head = codec === 'snappy' ? 16 : 0;
    const pieces = Array.from({ length: MOST_UNPACKED_BYTES / 2 ** 20 + 1 }, () => piece.subarray(head));
    const bomb = Buffer.concat([piece.subarray(0, head), ...pieces]);
    expect(bomb.length * 16).toBeLessThan(MOST_UNPACKED_BYTES);
    const one = [{ key: null, value: Buffer.from('x') }];
    const whole = await encoded(0n, one, CODECS.indexOf(codec), false, async () => bomb);
    const found = await decodeRecords('t', fetched(whole), 0n).catch((error: unknown) => error);
    expect(found).toBeInstanceOf(Unreadable);
    expect((found as Error).message).toBe(
      `a batch compressed with ${codec} cannot be decompressed: it has more than ${MOST_UNPACKED_BYTES} bytes`,
    );
  },
);

test('raw snappy that states a size above the limit is rejected before the size is allocated', async () => {
  const stated = Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f, ...new Uint8Array(8)]);
  const whole = await encoded(0n, [{ key: null, value: null }], CODECS.indexOf('snappy'), false, async () => stated);
  await expect(decodeRecords('t', fetched(whole), 0n)).rejects.toThrow(`more than ${MOST_UNPACKED_BYTES} bytes`);
});

test('a batch that states millions of records is unreadable', async () => {
  const whole = await encoded(0n, [{ key: null, value: Buffer.from('x') }]);
  whole.writeInt32BE(2 ** 20 + 1, COUNT_AT);
  whole.writeUInt32BE(crc32c(whole, ATTRIBUTES_AT), CRC_AT);
  await expect(decodeRecords('t', fetched(whole), 0n)).rejects.toThrow('more than 1048576 records');
});

test('a fetch that is decoded in several steps gives each record once, whatever the steps', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(batch, { minLength: 1, maxLength: 4 }),
      fc.nat(600),
      fc.boolean(),
      async (batches, mostBytes, aborts) => {
        const whole: Buffer[] = [];
        let offset = 0n;
        for (const { records, codec } of batches) {
          whole.push(await encoded(offset, records, codec, aborts));
          offset += BigInt(records.length);
        }
        const answer = fetched(Buffer.concat(whole), aborts ? [{ producerId: 7n, first: 1n }] : []);
        const atOnce = (await decodeRecords('t', answer, 0n)).records;
        const stepwise: typeof atOnce = [];
        for (let at = 0n; at < offset; ) {
          const { records, next } = await decodeRecords('t', answer, at, mostBytes);
          expect(next).toBeGreaterThan(at);
          stepwise.push(...records);
          at = next;
        }
        expect(stepwise).toEqual(atOnce);
      },
    ),
    { numRuns: 60 },
  );
});

const big = fc.bigInt({ min: -1n, max: 2n ** 62n });
const answered = fc.record({
  partition: fc.nat(5000),
  error: fc.constantFrom(0, 1, 100, 103),
  highWatermark: big,
  lastStable: big,
  logStart: big,
  aborted: fc.array(fc.record({ producerId: big, first: big }), { maxLength: 200 }),
  preferredReplica: fc.integer({ min: -1, max: 9 }),
  batches: fc.nat(40_000).map((n) => Buffer.alloc(n, n)),
});
const tag = fc.record({ id: fc.nat(300), data: fc.uint8Array({ maxLength: 200 }).map((b) => Buffer.from(b)) });
const tagList = fc.array(tag, { maxLength: 3 });

const int16 = (n: number) => Buffer.from([(n >> 8) & 255, n & 255]);
const int32 = (n: number) => Buffer.from([n >>> 24, (n >> 16) & 255, (n >> 8) & 255, n & 255]);
const int64 = (n: bigint) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(n);
  return bytes;
};
const varint = (n: number): Buffer =>
  n < 128 ? Buffer.from([n]) : Buffer.concat([Buffer.from([(n & 127) | 128]), varint(n >>> 7)]);
const tagged = (tags: readonly { id: number; data: Buffer }[]) =>
  Buffer.concat([varint(tags.length), ...tags.flatMap(({ id, data }) => [varint(id), varint(data.length), data])]);
const headOf = (p: FetchedPartition) =>
  Buffer.concat([int32(p.partition), int16(p.error), int64(p.highWatermark), int64(p.lastStable), int64(p.logStart)]);

test('a fetch response with topic ids and one with names give the same partitions', () => {
  fc.assert(
    fc.property(fc.array(fc.array(answered, { maxLength: 4 }), { maxLength: 3 }), tagList, (topics, tags) => {
      const byName = topics.map((partitions) => [
        ...[int16(1), Buffer.from('t'), int32(partitions.length)],
        ...partitions.flatMap((p) => [
          ...[headOf(p), int32(p.aborted.length)],
          ...p.aborted.flatMap(({ producerId, first }) => [int64(producerId), int64(first)]),
          ...[int32(p.preferredReplica), int32(p.batches.length), p.batches],
        ]),
      ]);
      const byId = topics.map((partitions) => [
        ...[Buffer.alloc(16, 7), varint(partitions.length + 1)],
        ...partitions.flatMap((p) => [
          // No array at all means the same as an empty one.
          ...[headOf(p), varint(p.aborted.length === 0 ? p.partition % 2 : p.aborted.length + 1)],
          ...p.aborted.flatMap(({ producerId, first }) => [int64(producerId), int64(first), tagged(tags)]),
          ...[int32(p.preferredReplica), varint(p.batches.length === 0 ? p.partition % 2 : p.batches.length + 1)],
          ...[p.batches, tagged(tags)],
        ]),
        tagged(tags),
      ]);
      const start = [int32(0), int16(5), int32(0)];
      const found = readFetchById(Buffer.concat([...start, varint(topics.length + 1), ...byId.flat(), tagged(tags)]));
      expect(found).toEqual(readFetch(Buffer.concat([...start, int32(topics.length), ...byName.flat()])));
      expect(found).toEqual({ error: 5, partitions: topics.flat() });
    }),
    { numRuns: 60 },
  );
});

test.each([
  ['sluice-topic:c1/t1', 'c1', 't1'],
  // Copied from another cluster, for example by a mirror.
  ['sluice-topic:c2/t1', 'c1', null],
  ['sluice-topic:c1/t1', null, null],
  ['', 'c1', null],
  [null, 'c1', null],
  ['text of another program', 'c1', null],
])('the topic of the offset mark %s in the cluster %s is %s', (metadata, cluster, topic) => {
  expect(markedTopic(metadata, cluster)).toBe(topic);
});
