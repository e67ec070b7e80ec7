// The ways in which compressors and those who append to files put the same bytes into gzip and zstd.
import { constants, gzipSync, zstdCompressSync } from 'node:zlib';

export interface Container {
  name: string;
  compression: 'gzip' | 'zstd';
  bytes: Buffer;
  /** Where a cut leaves a container that nobody can tell from a whole one → how many of the plain bytes are in it. */
  ends: ReadonlyMap<number, number>;
}

const { ZSTD_c_checksumFlag, ZSTD_c_contentSizeFlag } = constants;
const zstd = (plain: Uint8Array, params: Record<number, number> = {}) => zstdCompressSync(plain, { params });
const EMPTY = Buffer.alloc(0);

/** A member with the name of its file in the head, as gzip writes it. */
function named(plain: Uint8Array): Buffer {
  const member = gzipSync(plain);
  const head = Buffer.from(member.subarray(0, 10));
  head[3] = 8;
  return Buffer.concat([head, Buffer.from('portfolio.csv\0'), member.subarray(10)]);
}

function skippable(bytes: number): Buffer {
  const frame = Buffer.alloc(8 + bytes, 0x28);
  frame.writeUInt32LE(0x184d2a5e, 0);
  frame.writeUInt32LE(bytes, 4);
  return frame;
}

/** One part of a container and the plain bytes in it. */
type Part = readonly [packed: Buffer, plain: Buffer];

function container(name: string, compression: Container['compression'], parts: readonly Part[]): Container {
  const ends = new Map<number, number>();
  let packedBytes = 0;
  let plainBytes = 0;
  for (const [packed, plain] of parts) {
    packedBytes += packed.length;
    plainBytes += plain.length;
    ends.set(packedBytes, plainBytes);
  }
  return { name, compression, bytes: Buffer.concat(parts.map(([packed]) => packed)), ends };
}

/** Each holds all of `plain`, which is lines of text; no line is in two parts of one. */
export function containersOf(plain: Buffer): Container[] {
  const rows = plain.toString().split(/(?<=\n)/).map((row) => Buffer.from(row)); // biome-ignore format: one line
  const pieces = [rows.slice(0, 10), rows.slice(10, 25), rows.slice(25)].map((piece) => Buffer.concat(piece));
  const each = (pack: (piece: Buffer) => Buffer): Part[] => pieces.map((piece) => [pack(piece), piece]);
  return [
    container('gzip', 'gzip', [[gzipSync(plain), plain]]),
    container('gzip with the name of a file', 'gzip', [[named(plain), plain]]),
    container('gzip of several members', 'gzip', each(gzipSync)),
    container('gzip with empty members', 'gzip', [[gzipSync(EMPTY), EMPTY], ...each(gzipSync), [gzipSync(EMPTY), EMPTY]]), // biome-ignore format: one line
    container('zstd', 'zstd', [[zstd(plain), plain]]),
    container('zstd with a checksum', 'zstd', [[zstd(plain, { [ZSTD_c_checksumFlag]: 1 }), plain]]),
    container('zstd without its size', 'zstd', [[zstd(plain, { [ZSTD_c_contentSizeFlag]: 0 }), plain]]),
    container(
      'zstd of several frames',
      'zstd',
      each((p) => zstd(p, { [ZSTD_c_checksumFlag]: 1 })),
    ),
    container('zstd with skippable frames', 'zstd', [
      [skippable(0), EMPTY],
      ...each((p) => zstd(p)).flatMap((part): Part[] => [part, [skippable(40), EMPTY]]),
    ]),
    container('zstd with empty frames', 'zstd', [[zstd(EMPTY), EMPTY], ...each((p) => zstd(p)), [zstd(EMPTY), EMPTY]]), // biome-ignore format: one line
    container('zstd with a frame a row', 'zstd', rows.map((row): Part => [zstd(row), row])), // biome-ignore format: one line
  ];
}
