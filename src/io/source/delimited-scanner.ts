// Finds the records of delimited text (RFC 4180 quoting; LF, CRLF and CR mixed), independent of how the input is divided into chunks.
import { CR, LF, QUOTE } from '../../core/ascii.ts';
import { RECORD_MALFORMED, RECORD_OK, RECORD_TOO_LONG } from '../../core/block.ts';
import { LINE_SCRATCH, LineKernel } from './line-kernel.ts';
import type { RecordList, RecordScanner, SlabMemory } from './record-scanner.ts';

/** Minimum number of bytes for which a kernel saves time. */
const KERNEL_BYTES = 8 * 1024;

const FIELD_START = 0;
const UNQUOTED = 1;
const QUOTED = 2;
/** After a quote in a quoted field: it closes the field, or is the first of a doubled quote. */
const QUOTE_IN_QUOTED = 3;
/** The record is malformed. Its line is read to the end, and quotes are ignored. */
const BAD_LINE = 4;
/** The record was too long. The remaining line is dropped. */
const DROP_LINE = 5;

/**
 * A quote opens a quoted field only as the first byte of a field. In an unquoted field it is text, as in `5" pipe`.
 *
 * Invariant: a malformed record never affects more than its first physical line. A record is malformed if text follows
 * a closing quote, or a quote is still open at the end of the input or beyond `maxRecordBytes`. It is cut at its first
 * line break, and scanning restarts after this line break.
 */
export class DelimitedScanner implements RecordScanner {
  pos = 0;
  #start = 0;
  #state = FIELD_START;
  #skipLf = false;
  /** Position of the first line break inside the current record, or -1. */
  #firstBreak = -1;
  /**
   * Position at which the scan of a cut record had stopped, with the state and line number there. In a record that
   * contains a line break before this position, the line break is inside quotes. So the scan of such a record reaches
   * this position in the same state, and can skip to it. Otherwise, if every line had an open quote, each line would be
   * scanned up to the record limit.
   */
  #known = { to: -1, state: QUOTED, line: 0 };
  /** Number of the line on which the current record begins. */
  #line = 1;
  /** Number of the line that contains `pos`. */
  #lines = 1;
  /** Positions of the next quote, LF and CR at or after `pos`. If there is none, the end of the scan. -1: unknown. */
  #quoteAt = -1;
  #lfAt = -1;
  #crAt = -1;
  #slabs: SlabMemory | null = null;
  #kernel: LineKernel | null = null;
  readonly #delimiter: number;
  readonly #maxRecordBytes: number;
  readonly #quote: number;
  readonly #kernelBytes: number;

  /**
   * `quote`: -1 disables quoting, so that every line is a record (NDJSON). `kernelBytes`: minimum number of available
   * bytes for which a kernel is used, if it can access the memory.
   */
  constructor(delimiter: number, maxRecordBytes: number, quote = QUOTE, kernelBytes = KERNEL_BYTES) {
    this.#kernelBytes = kernelBytes;
    this.#delimiter = delimiter;
    this.#maxRecordBytes = maxRecordBytes;
    this.#quote = quote;
  }

  get keepFrom(): number {
    return this.#state === DROP_LINE ? this.pos : this.#start;
  }

  rebase(): void {
    const shift = this.keepFrom;
    this.pos -= shift;
    this.#start = Math.max(0, this.#start - shift);
    if (this.#firstBreak >= 0) this.#firstBreak -= shift;
    this.#known.to -= shift;
    this.#quoteAt = -1;
    this.#crAt = -1;
    this.#lfAt = -1;
  }

  attach(slabs: SlabMemory): void {
    this.#slabs = slabs.memory && slabs.scratch >= LINE_SCRATCH ? slabs : null;
  }

  scan(slab: Buffer, to: number, final: boolean, records: RecordList, place = -1): void {
    if (!this.#kernel && this.#slabs?.memory && to - this.pos >= this.#kernelBytes) {
      this.#kernel = new LineKernel(this.#slabs.memory, 0, this.#quote < 0 ? null : this.#delimiter);
    }
    const kernel = place >= 0 ? this.#kernel : null;
    this.#quoteAt = -1;
    this.#crAt = -1;
    this.#lfAt = -1;
    do {
      while (this.pos < to) {
        if (this.#skipLf) {
          this.#skipLf = false;
          if (slab[this.pos] === LF) {
            this.pos++;
            this.#start = this.pos;
            continue;
          }
        }
        if (this.pos === this.#start && this.#state === FIELD_START) {
          if (kernel && this.#plainLines(kernel, to, place, records)) continue;
          if (this.#plainLine(slab, to, records)) continue;
        }
        this.#step(slab, to, records);
      }
      if (final && this.#state === QUOTED) {
        this.#state = BAD_LINE;
        if (this.#firstBreak >= 0) this.#cutAtFirstBreak(slab, records, to, QUOTED);
      }
    } while (this.pos < to);
    if (final && (this.pos > this.#start || this.#state === DROP_LINE)) this.#end(to, records);
  }

  /** Fast path for memory that the kernel can access: lists all plain lines. */
  #plainLines(kernel: LineKernel, to: number, place: number, records: RecordList): boolean {
    const count = kernel.find(this.pos, to, place, this.#maxRecordBytes);
    if (count === 0) return false;
    records.addLines(kernel.spans, count, this.#lines);
    this.#lines += count;
    this.pos = kernel.next;
    this.#begin();
    return true;
  }

  /** Fast path for other memory: finds a line without quotes by a native search instead of a loop over bytes. */
  #plainLine(slab: Buffer, to: number, records: RecordList): boolean {
    const from = this.pos;
    if (this.#lfAt < from && this.#lfAt !== to) {
      const found = slab.indexOf(LF, from);
      this.#lfAt = found < 0 || found > to ? to : found;
    }
    const lf = this.#lfAt;
    if (lf >= to) return false;
    if (this.#quoteAt < from && this.#quoteAt !== to) {
      const q = this.#quote < 0 ? -1 : slab.indexOf(QUOTE, from);
      this.#quoteAt = q < 0 || q > to ? to : q;
    }
    if (this.#quoteAt < lf) return false;
    if (lf - from > this.#maxRecordBytes) return false;
    let end = lf;
    if (lf > from && slab[lf - 1] === CR) end--;
    const cr = this.#carriageReturn(slab, from, end, to);
    if (cr < end) {
      this.pos = cr + 1;
      this.#skipLf = true;
      this.#end(cr, records);
      return true;
    }
    this.pos = lf + 1;
    this.#end(end, records);
    return true;
  }

  /** The first CR at or after `from`; if there is none before `end`, any position at or after `end`. */
  #carriageReturn(slab: Buffer, from: number, end: number, to: number): number {
    if (from < this.#known.to) {
      // These bytes were scanned before and may be scanned again. The search must not go beyond the line, because it
      // would be repeated for every line.
      const at = slab.subarray(from, end).indexOf(CR);
      return at < 0 ? end : from + at;
    }
    if (this.#crAt < from && this.#crAt !== to) {
      const cr = slab.indexOf(CR, from);
      this.#crAt = cr < 0 || cr > to ? to : cr;
    }
    return this.#crAt;
  }

  #step(slab: Buffer, to: number, records: RecordList): void {
    const delimiter = this.#delimiter;
    const limit = this.#start + this.#maxRecordBytes;
    let pos = this.pos;
    let state = this.#state;
    const dropping = state === DROP_LINE;
    while (pos < to) {
      if (pos >= limit && !dropping) {
        const c = slab[pos];
        const ends = state !== QUOTED && (c === LF || c === CR);
        if (!ends) {
          this.pos = pos;
          this.#state = state;
          this.#tooLong(slab, records);
          return;
        }
      }
      const c = slab[pos]!;
      if (state === QUOTED) {
        if (c === QUOTE) state = QUOTE_IN_QUOTED;
        else if (c === LF || c === CR) {
          if (this.#firstBreak < 0) this.#firstBreak = pos;
          if (c === CR || slab[pos - 1] !== CR) this.#lines++;
          if (pos < this.#known.to) {
            ({ to: pos, state, line: this.#lines } = this.#known);
            continue;
          }
        }
        pos++;
        continue;
      }
      if (c === LF || c === CR) {
        this.pos = pos + 1;
        this.#skipLf = c === CR;
        this.#state = state;
        this.#end(pos, records);
        return;
      }
      if (state === QUOTE_IN_QUOTED) {
        if (c === QUOTE) state = QUOTED;
        else if (c === delimiter) state = FIELD_START;
        else {
          state = BAD_LINE;
          if (this.#firstBreak >= 0) {
            this.#cutAtFirstBreak(slab, records, pos, QUOTE_IN_QUOTED);
            return;
          }
        }
      } else if (state === FIELD_START) {
        if (c === this.#quote) state = QUOTED;
        else if (c !== delimiter) state = UNQUOTED;
      } else if (state === UNQUOTED && c === delimiter) state = FIELD_START;
      pos++;
    }
    this.pos = pos;
    this.#state = state;
  }

  /** Ends the current record at `end`. A blank line is not a record. `pos` is already after the line break. */
  #end(end: number, records: RecordList): void {
    if (this.#state !== DROP_LINE && end > this.#start) {
      const long = end - this.#start > this.#maxRecordBytes;
      const fault = this.#state === BAD_LINE ? RECORD_MALFORMED : long ? RECORD_TOO_LONG : RECORD_OK;
      records.add(this.#start, end, fault, this.#line);
    }
    this.#lines++;
    this.#begin();
  }

  #begin(): void {
    this.#start = this.pos;
    this.#line = this.#lines;
    this.#state = FIELD_START;
    this.#firstBreak = -1;
  }

  /**
   * Cuts the current record at its first line break. `to`: position at which the scan of the record stopped. `state`:
   * the state there.
   */
  #cutAtFirstBreak(slab: Buffer, records: RecordList, to: number, state: number): void {
    const at = this.#firstBreak;
    this.#known = { to, state, line: this.#lines };
    records.add(this.#start, at, RECORD_MALFORMED, this.#line);
    this.#skipLf = slab[at] === CR;
    this.pos = at + 1;
    this.#quoteAt = -1;
    this.#crAt = -1;
    this.#lfAt = -1;
    this.#lines = this.#line + 1;
    this.#begin();
  }

  /**
   * Handles a record that exceeds the limit at `pos`. A record with an open quote is cut to its first line. If the
   * record is a single long line, the remaining line is dropped.
   */
  #tooLong(slab: Buffer, records: RecordList): void {
    if (this.#firstBreak >= 0) this.#cutAtFirstBreak(slab, records, this.pos, this.#state);
    else {
      records.add(this.#start, this.pos, RECORD_TOO_LONG, this.#line);
      this.#state = DROP_LINE;
    }
  }
}
