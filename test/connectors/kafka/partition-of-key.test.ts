// The partition of a key against the values of Java's Utils.murmur2 and against kafkajs's partitioner.
import { createRequire } from 'node:module';
import { expect, test } from 'vitest';
import { murmur2, partitionOfKey } from '../../../src/connectors/kafka/output-partitions.ts';
import fc from '../../support/seeded-fast-check.ts';

const theirs: (key: Buffer) => number = createRequire(import.meta.url)(
  'kafkajs/src/producer/partitioners/default/murmur2',
);

// org.apache.kafka.common.utils.UtilsTest#testMurmur2
test.each([
  ['21', -973932308],
  ['foobar', -790332482],
  ['a-little-bit-long-string', -985981536],
  ['a-little-bit-longer-string', -1486304829],
  ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
  ['abc', 479470107],
])('murmur2 of %s is that of Java', (text, hash) => {
  expect(murmur2(Buffer.from(text))).toBe(hash);
});

test('murmur2 and the partition of any key are those of kafkajs', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 70 }), fc.integer({ min: 1, max: 500 }), (bytes, partitions) => {
      const hash = theirs(Buffer.from(bytes));
      expect(murmur2(bytes)).toBe(hash);
      expect(partitionOfKey(bytes, partitions)).toBe((hash & 0x7fffffff) % partitions);
    }),
    { numRuns: 2000 },
  );
});
