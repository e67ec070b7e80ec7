// Finds the records of delimited text (RFC 4180 quoting; LF, CRLF and CR mixed), at any cut of the input.
import { CR, LF, QUOTE } from '../../core/ascii.ts';
import { RECORD_MALFORMED, RECORD_OK, RECORD_TOO_LONG } from '../../core/block.ts';
import { LINE_SCRATCH, LineKernel } from './line-kernel.ts';
import type { RecordList, RecordScanner, SlabMemory } from './record-scanner.ts';

/** Bytes that make a kernel worth its while. */
const KERNEL_BYTES = 8 * 1024;

const FIELD_START = 0;
const UNQUOTED = 1;
const QUOTED = 2;
/** A quote was seen inside a quoted field: it closes the field or is the first of a doubled one. */
const QUOTE_IN_QUOTED = 3;
/** The record is known to be bad: its line is taken to the end without looking at quotes. */
const BAD_LINE = 4;
/** The record was longer than allowed: the rest of its line is dropped. */
const DROP_LINE = 5;

/**
 * A quote opens a field only as its first byte (elsewhere it is text, as in `5" pipe`).
 *
 * Law: a malformed record never takes more than its first physical line along. When text follows a closing quote, or a
 * quote is still open at the end of the input or beyond `maxRecordBytes`, the record is cut at its first line break,
 * marked malformed, and scanning starts afresh behind that line break.
 */
export class DelimitedScanner implements RecordScanner {
  pos = 0;
  #start = 0;
  #state = FIELD_START;
  #skipLf = false;
  /** Position of the first line break inside the current record, or -1. */
  #firstBreak = -1;
  /**
   * How far a record had been read that was cut at its first line break, with the state and the line there. A line break does
   * not end a record inside quotes only, so one that begins behind the cut and has such a line break before that place is
   * from there on in the state of the other: it continues where that one stopped. Otherwise lines that all leave a quote open
   * would each be read to the limit of a row.
   */
  #known = { to: -1, state: QUOTED, line: 0 };
  /** Line on which the current record begins. */
  #line = 1;
  /** Line on which `pos` lies. */
  #lines = 1;
  /** Next quote, CR and LF at or behind `pos`, the end of the scan if there is none, -1 when unknown. */
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
   * `quote` -1: no quoting at all, every line is a record (NDJSON). `kernelBytes`: bytes at hand from which plain lines are found by
   * a kernel, in memory that it can see.
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

  /** The fast path in memory that the kernel sees: plain lines, as many as there are. */
  #plainLines(kernel: LineKernel, to: number, place: number, records: RecordList): boolean {
    const count = kernel.find(this.pos, to, place, this.#maxRecordBytes);
    if (count === 0) return false;
    records.addLines(kernel.spans, count, this.#lines);
    this.#lines += count;
    this.pos = kernel.next;
    this.#begin();
    return true;
  }

  /** The fast path elsewhere: a line without a quote is found by one native search instead of a loop over bytes. */
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

  /** The first CR behind `from`; `end` or a place behind it if there is none before. */
  #carriageReturn(slab: Buffer, from: number, end: number, to: number): number {
    if (from < this.#known.to) {
      // Read before, and perhaps not for the last time: a search beyond the line would be done again for the next one.
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

  /** Ends the current record at `end`; a blank line is not a record. `pos` is already after the line end. */
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

  /** `to`, `state`: how far the record was read. */
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

  /** The record at `pos` passed the limit: an open quote is taken back to its first line, a long line is dropped. */
  #tooLong(slab: Buffer, records: RecordList): void {
    if (this.#firstBreak >= 0) this.#cutAtFirstBreak(slab, records, this.pos, this.#state);
    else {
      records.add(this.#start, this.pos, RECORD_TOO_LONG, this.#line);
      this.#state = DROP_LINE;
    }
  }
}
