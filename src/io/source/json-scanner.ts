// Finds the elements of a JSON array while it arrives, without parsing them.
// A single object is treated as an array with one element.
import { RECORD_OK, RECORD_TOO_DEEP } from '../../core/block.ts';
import { SluiceError } from '../../core/errors.ts';
import { ELEMENT_SCRATCH, ElementKernel, type ElementWindow, elementWindow } from './element-kernel.ts';
import type { RecordList, RecordScanner, SlabMemory } from './record-scanner.ts';

/** Minimum number of bytes for which a kernel saves time. */
const KERNEL_BYTES = 8 * 1024;

/** Before the value; only white space was read. */
const START = 0;
/** After `[`: expects an element or `]`. */
const FIRST = 1;
/** After `,`: expects an element. */
const ELEMENT = 2;
const INSIDE = 3;
/** After an element: expects `,` or `]`. */
const AFTER = 4;
/** After the value: only white space may follow. */
const END = 5;

/** `{` */
const OPEN = 123;

const isSpace = (c: number): boolean => c === 32 || c === 10 || c === 13 || c === 9;

/**
 * Scans JSON. An element is listed even if it is invalid JSON, provided that its brackets and strings are closed; the
 * decoder then rejects the element. An error of the array outside its elements ends the input.
 * @throws SluiceError from scan: malformed_json | truncated_input | limit_exceeded
 */
export class JsonScanner implements RecordScanner {
  pos = 0;
  #start = 0;
  #state = START;
  #single = false;
  #depth = 0;
  #inString = false;
  #escaped = false;
  #fault = RECORD_OK;
  #line = 1;
  #lines = 1;
  #elements = 0;
  readonly #maxRecordBytes: number;
  readonly #maxDepth: number;
  readonly #kernelBytes: number;
  #slabs: SlabMemory | null = null;
  #kernel: ElementKernel | null = null;
  /** The kernel for slabs outside the shared memory. */
  #window: ElementWindow | null = null;

  /** `kernelBytes`: minimum number of available bytes for which a kernel is used. */
  constructor(maxRecordBytes: number, maxDepth: number, kernelBytes = KERNEL_BYTES) {
    this.#kernelBytes = kernelBytes;
    this.#maxRecordBytes = maxRecordBytes;
    this.#maxDepth = maxDepth;
  }

  get keepFrom(): number {
    return this.#state === INSIDE ? this.#start : this.pos;
  }

  rebase(): void {
    const shift = this.keepFrom;
    this.pos -= shift;
    this.#start = 0;
  }

  attach(slabs: SlabMemory): void {
    this.#slabs = slabs.memory && slabs.scratch >= ELEMENT_SCRATCH ? slabs : null;
  }

  scan(slab: Buffer, to: number, final: boolean, records: RecordList, place = -1): void {
    this.#openKernel(to - this.pos, place);
    while (this.pos < to) {
      if (this.#state === INSIDE) {
        this.#inside(slab, to, records);
        continue;
      }
      const c = slab[this.pos]!;
      if (isSpace(c)) {
        if (c === 10) this.#lines++;
        this.pos++;
      } else if (!(c === OPEN && this.#plainElements(slab, to, place, records))) this.#between(c);
    }
    if (!final) return;
    if (this.#state === INSIDE && this.#depth === 0 && !this.#inString) this.#close(to, records);
    if (this.#state === INSIDE || (this.#state !== END && this.#state !== START)) {
      throw new SluiceError('truncated_input', `the JSON text ends in the middle of element ${this.#elements + 1}`);
    }
    if (this.#state === START) throw new SluiceError('malformed_json', 'the body contains no JSON value');
  }

  /** Opens the kernel if it saves time. `bytes`: number of available bytes. */
  #openKernel(bytes: number, place: number): void {
    if (bytes < this.#kernelBytes) return;
    const limits = { bytes: this.#maxRecordBytes, depth: this.#maxDepth };
    if (place < 0) this.#window ??= elementWindow(limits);
    else if (this.#slabs?.memory) this.#kernel ??= new ElementKernel(this.#slabs.memory, 0, limits);
  }

  /** Fast path at the start of an object: lists all plain elements that end in these bytes. */
  #plainElements(slab: Buffer, to: number, place: number, records: RecordList): boolean {
    if (this.#state !== FIRST && this.#state !== ELEMENT) return false;
    const before = records.count;
    const kernel = place < 0 ? this.#window?.kernel : this.#kernel;
    if (!kernel) return false;
    this.#lines =
      place < 0
        ? this.#window!.find(slab, this.pos, to, this.#lines, records)
        : kernel.find(this.pos, to, place, this.#lines, records);
    if (records.count === before) return false;
    this.#elements += records.count - before;
    this.pos = kernel.next;
    this.#state = AFTER;
    return true;
  }

  #between(c: number): void {
    const state = this.#state;
    if (state === START && c === 91) {
      this.#state = FIRST;
      this.pos++;
    } else if (state === START && c === OPEN) {
      this.#single = true;
      this.#open();
    } else if (state === AFTER && c === 44) {
      this.#state = ELEMENT;
      this.pos++;
    } else if ((state === AFTER || state === FIRST) && c === 93) {
      this.#state = END;
      this.pos++;
    } else if ((state === FIRST || state === ELEMENT) && c !== 44 && c !== 93 && c !== 125 && c !== 58) this.#open();
    else {
      const where = state === START ? 'a JSON array of objects is expected' : `after element ${this.#elements}`;
      throw new SluiceError('malformed_json', `the JSON text is malformed: ${where}, line ${this.#lines}`);
    }
  }

  #open(): void {
    this.#state = INSIDE;
    this.#start = this.pos;
    this.#line = this.#lines;
    this.#depth = 0;
    this.#inString = false;
    this.#escaped = false;
    this.#fault = RECORD_OK;
  }

  #inside(slab: Buffer, to: number, records: RecordList): void {
    let pos = this.pos;
    let depth = this.#depth;
    let lines = this.#lines;
    let inString = this.#inString;
    let escaped = this.#escaped;
    const maxDepth = this.#maxDepth;
    const limit = this.#start + this.#maxRecordBytes;
    /** One past the last byte of the record, if the record ends here. */
    let end = -1;
    for (; pos < to; pos++) {
      if (pos >= limit) this.#tooLong();
      const c = slab[pos]!;
      if (c === 10) lines++;
      if (inString) {
        if (escaped) escaped = false;
        else if (c === 92) escaped = true;
        else if (c === 34) {
          inString = false;
          if (depth === 0) {
            end = ++pos;
            break;
          }
        }
      } else if (c === 34) inString = true;
      else if (c === 123 || c === 91) {
        depth++;
        if (depth > maxDepth) this.#fault = RECORD_TOO_DEEP;
      } else if (c === 125 || c === 93) {
        // A value without brackets, such as a number or null, ends where the array ends.
        if (depth === 0) {
          end = pos;
          break;
        }
        depth--;
        if (depth === 0) {
          end = ++pos;
          break;
        }
      } else if (depth === 0 && (c === 44 || isSpace(c))) {
        if (c === 10) lines--;
        end = pos;
        break;
      }
    }
    this.pos = pos;
    this.#depth = depth;
    this.#lines = lines;
    this.#inString = inString;
    this.#escaped = escaped;
    if (end >= 0) this.#close(end, records);
  }

  #tooLong(): never {
    throw new SluiceError(
      'limit_exceeded',
      `element ${this.#elements + 1} is longer than ${this.#maxRecordBytes} bytes`,
      { extra: { limit: 'row_bytes', value: this.#maxRecordBytes, unit: 'bytes' } },
    );
  }

  #close(end: number, records: RecordList): void {
    records.add(this.#start, end, this.#fault, this.#line);
    this.#elements++;
    this.#state = this.#single ? END : AFTER;
    this.#depth = 0;
  }
}
