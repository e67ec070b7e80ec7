// The bytes of a run of records, copied out of the shared slab: a decoder may then change them where they lie.
import { isUtf8 } from 'node:buffer';
import type { RecordSlice } from './decoder.ts';

/** Bytes behind the last record that a decoder may read and change. */
const SLACK = 8;

/** V8 copies out of shared memory a word at a time, but only if both sides begin at a word: byte by byte is ten times slower. */
const ALIGNMENT = 8;

export interface Run {
  /** The copy; more may be read and changed behind it. */
  bytes: Uint8Array;
  /** Byte of the slab at `bytes[0]`. */
  base: number;
  /** The bytes from the first record on are UTF-8. */
  valid: boolean;
}

/** Copies records `from`..`to - 1` (to > from) with all that stands between them. The copy costs some 0.07 ms a MB. */
export function copyRun(block: RecordSlice, from: number, to: number, room: (bytes: number) => Uint8Array): Run {
  const start = block.spans[from * 2]!;
  const base = start - (start % ALIGNMENT);
  const length = block.spans[to * 2 - 1]! - base;
  const bytes = room(length);
  bytes.set(new Uint8Array(block.slab, base, length));
  return { bytes, base, valid: isUtf8(bytes.subarray(start - base, length)) };
}

/** true if a record of a valid run was cut inside a character. */
const isCut = (run: Uint8Array, start: number, end: number): boolean =>
  continues(run[start]!) || (end < run.length && continues(run[end]!));

/** A run in memory of its own. */
export class RecordBytes {
  bytes: Buffer = Buffer.from(new ArrayBuffer(0));
  /** The same bytes; SLACK more can be read behind the last record. */
  view: DataView = new DataView(this.bytes.buffer);
  /** Byte of the slab at `bytes[0]`. */
  base = 0;
  /** Without what is left of earlier runs behind. */
  used: Buffer = this.bytes;
  #run: Run = { bytes: this.bytes, base: 0, valid: true };

  /** Copies records `from`..`to - 1` (to > from) with all that stands between them. */
  load(block: RecordSlice, from: number, to: number): void {
    this.#run = copyRun(block, from, to, (length) => {
      if (this.bytes.length < length + SLACK) {
        this.bytes = Buffer.from(new ArrayBuffer(length + (length >> 2) + SLACK));
        this.view = new DataView(this.bytes.buffer);
      }
      return this.bytes.subarray(0, length);
    });
    this.base = this.#run.base;
    this.used = this.bytes.subarray(0, this.#run.bytes.length);
  }

  /** true if `bytes[start..end)` is valid UTF-8. A valid run is checked once; then only its cuts can be wrong. */
  isUtf8(start: number, end: number): boolean {
    return this.#run.valid ? !isCut(this.#run.bytes, start, end) : isUtf8(this.bytes.subarray(start, end));
  }
}

/** true for the second to fourth byte of a character. */
const continues = (byte: number): boolean => (byte & 0xc0) === 0x80;
