// The interface of record scanners for all formats. A scanner lists the complete records in a slab.

import { RECORD_OK } from '../../core/block.ts';

/** The records found in one slab, as growable typed arrays. The list can be reused for the next slab after `clear`. */
export class RecordList {
  count = 0;
  // The arrays are small initially, because most requests have a single application, and arrays of up to 64 bytes cost
  // almost nothing.
  spans = new Int32Array(16);
  faults = new Uint8Array(8);
  lines = new Int32Array(8);

  /** Adds a record. `start`, `end`: offsets in the slab. `line`: physical line of the input, from 1. */
  add(start: number, end: number, fault: number, line: number): void {
    if (this.count === this.faults.length) this.#grow();
    this.spans[this.count * 2] = start;
    this.spans[this.count * 2 + 1] = end;
    this.faults[this.count] = fault;
    this.lines[this.count] = line;
    this.count++;
  }

  /** Adds the first `count` spans as valid records on consecutive lines, starting with `line`. */
  addLines(spans: Int32Array, count: number, line: number): void {
    while (this.count + count > this.faults.length) this.#grow();
    this.spans.set(spans.subarray(0, count * 2), this.count * 2);
    this.faults.fill(RECORD_OK, this.count, this.count + count);
    for (let i = 0; i < count; i++) this.lines[this.count + i] = line + i;
    this.count += count;
  }

  /**
   * Adds `count` valid records, given as triples: first byte, one past the last byte, and the line of the record
   * relative to `line`.
   */
  addElements(entries: Int32Array, count: number, line: number): void {
    for (let i = 0; i < count * 3; i += 3) this.add(entries[i]!, entries[i + 1]!, RECORD_OK, line + entries[i + 2]!);
  }

  clear(): void {
    this.count = 0;
  }

  #grow(): void {
    const n = this.faults.length * 4;
    const spans = new Int32Array(n * 2);
    spans.set(this.spans);
    const faults = new Uint8Array(n);
    faults.set(this.faults);
    const lines = new Int32Array(n);
    lines.set(this.lines);
    this.spans = spans;
    this.faults = faults;
    this.lines = lines;
  }
}

/** Memory that a scanner may read in place. */
export interface SlabMemory {
  readonly memory: WebAssembly.Memory | null;
  /** Number of bytes at the beginning of the memory that the scanner may overwrite. */
  readonly scratch: number;
}

export interface RecordScanner {
  /** Offset of the next byte of the slab to scan. */
  pos: number;
  /** Offset of the first byte of the slab that is still needed. Bytes before it belong to listed records. */
  readonly keepFrom: number;
  /**
   * Scans the slab up to `to` and lists the complete records. `final`: no more bytes follow. The result does not depend
   * on the positions at which earlier calls stopped. `place`: address of the slab in the memory passed to `attach`; -1:
   * the slab is elsewhere.
   */
  scan(slab: Buffer, to: number, final: boolean, records: RecordList, place?: number): void;
  /** Informs the scanner of the memory that will contain most slabs. */
  attach?(slabs: SlabMemory): void;
  /** Must be called after the bytes starting at `keepFrom` were moved to the beginning of a slab. */
  rebase(): void;
}
