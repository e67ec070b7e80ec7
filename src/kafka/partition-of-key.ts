// The partition of a key, as every Java client computes it: murmur2 over its bytes.

const SEED = 0x9747b28c;
const M = 0x5bd1e995;
const R = 24;

/** `partitions` is at least 1. */
export const partitionOfKey = (key: Uint8Array, partitions: number): number =>
  (murmur2(key) & 0x7fff_ffff) % partitions;

/** MurmurHash2, 32 bits, with the seed of org.apache.kafka.common.utils.Utils; signed. */
export function murmur2(bytes: Uint8Array): number {
  const { length } = bytes;
  let h = SEED ^ length;
  let i = 0;
  for (; i + 4 <= length; i += 4) {
    let k = bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24);
    k = Math.imul(k, M);
    k ^= k >>> R;
    h = Math.imul(h, M) ^ Math.imul(k, M);
  }
  const left = length - i;
  if (left > 2) h ^= bytes[i + 2]! << 16;
  if (left > 1) h ^= bytes[i + 1]! << 8;
  if (left > 0) h = Math.imul(h ^ bytes[i]!, M);
  h ^= h >>> 13;
  h = Math.imul(h, M);
  return h ^ (h >>> 15);
}
