// The bytes of a run of records, copied out of the shared slab: a decoder may then change them where they lie.
import { isUtf8 } from 'node:buffer';
import type { RecordSlice } from './decoder.ts';

/** Bytes behind the last record that a decoder may read and change. */
const SLACK = 8;

/** V8 copies out of shared memory a word at a time, but only if both sides begin at a word: byte by byte is ten times slower. */
const ALIGNMENT = 8;

/** The copy costs some 0.07 ms a MB; reading from it is as fast as reading the slab. */
export class RecordBytes {
  bytes: Buffer = Buffer.from(new ArrayBuffer(0));
  /** The same bytes; SLACK more can be read behind the last record. */
  view: DataView = new DataView(this.bytes.buffer);
  /** Byte of the slab at `bytes[0]`. */
  base = 0;
  #length = 0;
  #valid = true;

  /** Copies records `from`..`to - 1` (to > from) with all that stands between them. */
  load(block: RecordSlice, from: number, to: number): void {
    const start = block.spans[from * 2]!;
    const base = start - (start % ALIGNMENT);
    const length = block.spans[to * 2 - 1]! - base;
    if (this.bytes.length < length + SLACK) {
      this.bytes = Buffer.from(new ArrayBuffer(length + (length >> 2) + SLACK));
      this.view = new DataView(this.bytes.buffer);
    }
    const run = new Uint8Array(block.slab, base, length);
    this.bytes.set(run);
    this.base = base;
    this.#length = length;
    this.#valid = isUtf8(this.bytes.subarray(start - base, length));
  }

  /** true if `bytes[start..end)` is valid UTF-8. A sound run is checked once; then only its cuts can be wrong. */
  isUtf8(start: number, end: number): boolean {
    if (!this.#valid) return isUtf8(this.bytes.subarray(start, end));
    return !continues(this.bytes[start]!) && (end >= this.#length || !continues(this.bytes[end]!));
  }
}

/** true for the second to fourth byte of a character. */
const continues = (byte: number): boolean => (byte & 0xc0) === 0x80;
