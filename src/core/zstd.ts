// The zstd functions of Node.js, with an error for versions before 22.15, which lack them, and the frame boundaries of zstd streams.
import zlib from 'node:zlib';
import { SluiceError } from './errors.ts';

type Zstd = Pick<
  typeof zlib,
  'createZstdCompress' | 'createZstdDecompress' | 'zstdCompress' | 'zstdDecompress' | 'zstdDecompressSync'
>;

/** Whether this Node supports zstd. */
export const hasZstd = (): boolean => 'createZstdDecompress' in zlib;

/** The zstd functions of Node.js. @throws SluiceError usage if this version lacks them */
export function zstd(): Zstd {
  if (hasZstd()) return zlib;
  throw new SluiceError('usage', `zstd needs Node 22.15 or newer, and this is ${process.version}: use gzip`);
}

// The code below finds the frames of a stream, because Node.js decodes only the first frame, and a stream may have many
// (RFC 8878, section 3.1).

const MAGIC = 0xfd2fb528;
const SKIPPABLE = 0x184d2a50;
/** The last four bits of the magic number of a skippable frame can have any value. */
const SKIPPABLE_VARIANTS = 16;
const CHECKSUM_BYTES = 4;
const CONTENT_SIZE_BYTES = [0, 2, 4, 8];
const DICTIONARY_ID_BYTES = [0, 1, 2, 4];
const RLE = 1;
const RESERVED = 3;

/** Sizes of the header fields to read, bytes. All fields are little-endian. */
const PARTS = { magic: 4, skippableSize: 4, descriptor: 1, blockHeader: 3 } as const;

/**
 * Tracks the frames of a stream by their headers, independent of how the bytes are divided into chunks. The contents of
 * blocks are skipped.
 */
export class ZstdFrames {
  #part: keyof typeof PARTS = 'magic';
  #number = 0;
  #have = 0;
  /** Number of bytes to skip before the next header field. `#last`: whether the frame ends after these bytes. */
  #pass = 0;
  #last = false;
  #checksum = false;
  #frames = 0;

  /**
   * Splits bytes into pieces that do not cross the end of a frame.
   * @throws Error if the bytes after a frame are not the start of a frame, or a header is invalid
   */
  *split(chunk: Uint8Array): Generator<Uint8Array> {
    let from = 0;
    for (let at = 0; at < chunk.length; ) {
      if (this.#pass > 0) {
        const n = Math.min(this.#pass, chunk.length - at);
        this.#pass -= n;
        at += n;
      } else {
        this.#number += chunk[at++]! * 2 ** (8 * this.#have++);
        if (this.#have === PARTS[this.#part]) this.#read();
      }
      if (this.#pass > 0 || !this.#last) continue;
      this.#last = false;
      this.#part = 'magic';
      this.#frames++;
      yield chunk.subarray(from, at);
      from = at;
    }
    if (from < chunk.length) yield chunk.subarray(from);
  }

  /** Whether the stream may end at this position, because a frame is complete. */
  get whole(): boolean {
    return this.#frames > 0 && this.#part === 'magic' && this.#have === 0;
  }

  #read(): void {
    const number = this.#number;
    this.#number = 0;
    this.#have = 0;
    if (this.#part === 'magic') this.#part = afterMagic(number);
    else if (this.#part === 'skippableSize') {
      this.#pass = number;
      this.#last = true;
    } else if (this.#part === 'descriptor') this.#descriptor(number);
    else this.#block(number);
  }

  #descriptor(flags: number): void {
    const single = (flags & 0x20) !== 0;
    const contentSize = single && flags >> 6 === 0 ? 1 : CONTENT_SIZE_BYTES[flags >> 6]!;
    this.#pass = (single ? 0 : 1) + DICTIONARY_ID_BYTES[flags & 3]! + contentSize;
    this.#checksum = (flags & 4) !== 0;
    this.#part = 'blockHeader';
  }

  #block(header: number): void {
    const type = (header >> 1) & 3;
    if (type === RESERVED) throw new Error('a block of a reserved type');
    this.#last = (header & 1) !== 0;
    this.#pass = (type === RLE ? 1 : header >> 3) + (this.#last && this.#checksum ? CHECKSUM_BYTES : 0);
  }
}

function afterMagic(number: number): 'descriptor' | 'skippableSize' {
  if (number === MAGIC) return 'descriptor';
  if (number >= SKIPPABLE && number < SKIPPABLE + SKIPPABLE_VARIANTS) return 'skippableSize';
  throw new Error('bytes that are not a zstd frame');
}
