// Our encoder of record batches against the one of kafkajs as it is published, and CRC-32C against known values.
import { createRequire } from 'node:module';
import { describe, expect, test } from 'vitest';
import {
  type BatchHead,
  type BatchRecord,
  crc32c,
  encodeRecordBatch,
} from '../../../../src/connectors/kafka/client/record-batch.ts';
import fc from '../../../support/seeded-fast-check.ts';

const require = createRequire(import.meta.url);
const original: {
  record: (record: BatchRecord) => { buffer: Buffer };
  batch: (batch: BatchHead & { records: unknown[] }) => Promise<{ buffer: Buffer }>;
  crc: (bytes: Buffer) => number;
} = {
  record: require('kafkajs/src/protocol/recordBatch/record/v0'),
  batch: require('kafkajs/src/protocol/recordBatch/v0').RecordBatch,
  crc: require('kafkajs/src/protocol/recordBatch/crc32C'),
};
const gzip: {
  compress(encoder: { buffer: Buffer }): Promise<Buffer>;
} = require('kafkajs/src/protocol/message/compression/gzip');

const bytes = fc.uint8Array({ maxLength: 200 }).map((b) => Buffer.from(b));
const some = fc.option(fc.oneof(bytes, fc.string({ unit: 'grapheme' })), { nil: null });
const header = fc.oneof(bytes, fc.string({ unit: 'grapheme' }));
const record = fc.record({
  timestampDelta: fc.oneof(fc.nat(200), fc.integer({ min: -(2 ** 40), max: 2 ** 40 })),
  key: some,
  value: some,
  headers: fc.dictionary(fc.string({ maxLength: 8 }), fc.oneof(header, fc.array(header, { maxLength: 3 })), {
    maxKeys: 5,
    noNullPrototype: true,
  }),
});
const headOf = (n: number, rest: Partial<BatchHead> = {}): BatchHead => ({
  firstTimestamp: '1700000000000',
  maxTimestamp: 1_800_000_000_000,
  producerId: '9223372036854775807',
  producerEpoch: 32_767,
  firstSequence: 2_147_483_647,
  transactional: true,
  lastOffsetDelta: n - 1,
  compression: 0,
  ...rest,
});

describe('record batches', () => {
  test('have the bytes that kafkajs writes', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(record, { minLength: 1, maxLength: 70 }),
        fc.boolean(),
        fc.constantFrom(0, 1),
        async (list, transactional, compression) => {
          const records = list.map((r, offsetDelta) => ({ ...r, offsetDelta }));
          const head = headOf(records.length, { transactional, compression });
          const ours = await encodeRecordBatch(records, head, (plain) => gzip.compress({ buffer: plain }));
          const theirs = await original.batch({ ...head, records: records.map((r) => original.record(r)) });
          expect(ours.equals(theirs.buffer)).toBe(true);
        },
      ),
      { numRuns: 300 },
    );
  });

  test('of large values and many records, too', async () => {
    const records = Array.from({ length: 5000 }, (_, offsetDelta) => ({
      offsetDelta,
      timestampDelta: 0,
      key: null,
      value: Buffer.alloc(offsetDelta % 97 === 0 ? 70_000 : 130, offsetDelta),
      headers: {},
    }));
    const head = headOf(records.length);
    const ours = await encodeRecordBatch(records, head, async (plain) => plain);
    const theirs = await original.batch({ ...head, records: records.map((r) => original.record(r)) });
    expect(ours.equals(theirs.buffer)).toBe(true);
  });
});

test('CRC-32C', () => {
  // RFC 3720, appendix B.4.
  expect(crc32c(Buffer.alloc(32))).toBe(0x8a9136aa);
  expect(crc32c(Buffer.alloc(32, 0xff))).toBe(0x62a8ab43);
  expect(crc32c(Buffer.from(Array.from({ length: 32 }, (_, i) => i)))).toBe(0x46dd794e);
  expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(9), (b, from) => {
      expect(crc32c(b, Math.min(from, b.length))).toBe(original.crc(Buffer.from(b.subarray(Math.min(from, b.length)))));
    }),
  );
});
