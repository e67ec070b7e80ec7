// What cuts bytes into records: a scanner walks a slab and lists the records it saw whole, whatever the format.

import { RECORD_OK } from '../../core/block.ts';

/** Records found in one slab, as growable typed arrays (reused for the next slab after `clear`). */
export class RecordList {
  count = 0;
  // Small at first: most requests bring one application, and arrays of up to 64 bytes cost next to nothing.
  spans = new Int32Array(16);
  faults = new Uint8Array(8);
  lines = new Int32Array(8);

  /** `start`, `end`: bytes of the slab; `line`: physical line of the input, from 1. */
  add(start: number, end: number, fault: number, line: number): void {
    if (this.count === this.faults.length) this.#grow();
    this.spans[this.count * 2] = start;
    this.spans[this.count * 2 + 1] = end;
    this.faults[this.count] = fault;
    this.lines[this.count] = line;
    this.count++;
  }

  /** Adds the first `count` spans as valid records, each on a line of its own, from `line` on. */
  addLines(spans: Int32Array, count: number, line: number): void {
    while (this.count + count > this.faults.length) this.#grow();
    this.spans.set(spans.subarray(0, count * 2), this.count * 2);
    this.faults.fill(RECORD_OK, this.count, this.count + count);
    for (let i = 0; i < count; i++) this.lines[this.count + i] = line + i;
    this.count += count;
  }

  /** Adds `count` valid records: first byte, one past the last, and on which line behind `line` each begins. */
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

/** Memory that a scanner may look at in place. */
export interface SlabMemory {
  readonly memory: WebAssembly.Memory | null;
  /** Bytes at its beginning for exclusive use. */
  readonly scratch: number;
}

export interface RecordScanner {
  /** Next byte of the slab to look at. */
  pos: number;
  /** First byte of the slab that is still needed: what lies before belongs to records already listed. */
  readonly keepFrom: number;
  /**
   * Looks at the slab up to `to` and lists the records that are whole; `final`: no byte follows.
   * The result does not depend on where earlier calls stopped. `place`: where the slab begins in the memory of `attach`; -1: it
   * lies elsewhere.
   */
  scan(slab: Buffer, to: number, final: boolean, records: RecordList, place?: number): void;
  /** Informs the scanner of the memory that will contain most slabs. */
  attach?(slabs: SlabMemory): void;
  /** The bytes from `keepFrom` on now begin at 0 of another slab. */
  rebase(): void;
}
