// A columnar table as batches of rows for the engine, and as JSON lines for readers of text.
import type { CellRun, TableFeed, TableRows } from '../../core/block.ts';
import { type FragmentLayout, NUMBER_BYTES, writeNumber } from './json-text.ts';
import { type BatchColumn, type ColumnSource, LineBatch } from './line-batch.ts';
import { TableBudget } from './table-limits.ts';

// Functions that write columns as JSON lines, byte-identical to JSON.stringify of one object per row.

const OPEN = 123;
const CLOSE = 125;
const NEWLINE = 10;
const SPACE = 32;
/** Maximum bytes that copying 8 bytes at a time writes beyond the end of a line. */
const SLACK = 8;
/** Bytes of a line in addition to its cells: two braces and a line feed. */
const AROUND = 3;

/**
 * Whether a column has a text per code or a text per cell. The loop over cells reads this array instead of an object
 * per column.
 */
const BY_CODE = 0;
const BY_CELL = 1;

const textOf = ({ fragments }: BatchColumn): number => (fragments ? BY_CODE : BY_CELL);

/** Upper bound of the length of the batch's lines, bytes. */
function longestLine({ columns, rows }: LineBatch): number {
  let bytes = AROUND;
  for (const { kind, fragments, key, ends } of columns) {
    let longest = NUMBER_BYTES;
    if (!fragments && kind === 'tokens') {
      longest = 0;
      for (let i = 0, from = 0; i < rows; from = ends[i++]!) longest = Math.max(longest, ends[i]! - from);
    }
    bytes += fragments ? fragments.longest : key.length + longest;
  }
  return bytes;
}

const scratch = new Uint8Array(NUMBER_BYTES);

/** Length of a row's line including its line feed, bytes. */
function lineBytes({ columns }: LineBatch, row: number): number {
  let bytes = AROUND - (columns.length > 0 ? 1 : 0);
  for (const { kind, fragments, key, ends, codes, values } of columns) {
    bytes += key.length;
    if (fragments) bytes += fragments.tokenBytes(codes[row]!);
    else if (kind === 'tokens') bytes += ends[row]! - (row === 0 ? 0 : ends[row - 1]!);
    else bytes += writeNumber(scratch, 0, values[row]!);
  }
  return bytes;
}

/**
 * Writes the lines of a batch. A row with more than `recordBytes` bytes of text, or with a text that was too long to
 * copy, becomes a line of `recordBytes + 1` spaces. Every reader then rejects the row as too long.
 */
export class LineWriter {
  /** Upper bound of a line's length, including bytes that may be written beyond it. */
  readonly longest: number;
  /** Rows whose line is longer than `recordBytes`; null: none. */
  readonly #tooLong: ReadonlySet<number> | null;
  #row = 0;
  /** Number of spaces written for a row that is too long. */
  readonly #omitted: number;
  readonly #batch: LineBatch;
  readonly #texts: Uint8Array;
  readonly #codes: readonly Int32Array[];
  readonly #fragments: readonly (FragmentLayout | null)[];
  /** Keys of all columns in units of 8 bytes, for copying. */
  readonly #keys: readonly Float64Array[];

  /** `recordBytes`: maximum text length of a row. */
  constructor(batch: LineBatch, recordBytes: number) {
    const { columns, rows } = batch;
    this.#batch = batch;
    this.#omitted = recordBytes + 1;
    const longest = longestLine(batch);
    const tooLong = longest - 1 > recordBytes || batch.marks.any ? longRows(batch, recordBytes, 0, rows) : null;
    this.#tooLong = tooLong;
    const most = recordBytes + 2;
    this.longest = SLACK + (tooLong ? (tooLong.size > 0 ? most : Math.min(longest, most)) : longest);
    this.#texts = Uint8Array.from(columns, textOf);
    this.#codes = columns.map((column) => column.codes);
    this.#fragments = columns.map((column) => column.fragments?.layout ?? null);
    this.#keys = columns.map((column) => column.keyWords);
  }

  /** Number of rows that are not written yet. */
  get left(): number {
    return this.#batch.rows - this.#row;
  }

  /** Writes lines until the longest line might no longer fit. Returns the number of bytes. */
  write(to: Buffer): number {
    const view = new DataView(to.buffer, to.byteOffset, to.byteLength);
    const most = to.length - this.longest;
    let at = 0;
    while (this.left > 0 && at <= most) {
      const row = this.#row++;
      at = this.#tooLong?.has(row) ? this.#omit(to, at) : this.#line(row, to, view, at);
    }
    return at;
  }

  #omit(to: Buffer, start: number): number {
    const end = start + this.#omitted;
    to.fill(SPACE, start, end);
    to[end] = NEWLINE;
    return end + 1;
  }

  #line(row: number, to: Buffer, view: DataView, start: number): number {
    const { columns } = this.#batch;
    const [texts, codes, fragments, keys] = [this.#texts, this.#codes, this.#fragments, this.#keys];
    let at = start;
    if (texts.length === 0) to[at++] = OPEN;
    for (let c = 0; c < texts.length; c++) {
      if (texts[c] === BY_CODE) {
        const { words, starts, lengths } = fragments[c]!;
        const code = codes[c]![row]!;
        const length = lengths[code]!;
        let word = starts[code]!;
        for (let k = 0; k < length; k += 8) view.setFloat64(at + k, words[word++]!, true);
        at += length;
      } else {
        const key = keys[c]!;
        const end = at + columns[c]!.key.length;
        for (let k = 0; k < key.length; k++, at += 8) view.setFloat64(at, key[k]!, true);
        at = writeCell(columns[c]!, row, to, end);
      }
    }
    to[at++] = CLOSE;
    to[at++] = NEWLINE;
    return at;
  }
}

/** Rows whose text without its line feed is longer than `bytes`, or was too long to copy. */
function longRows(batch: LineBatch, bytes: number, from: number, to: number): Set<number> {
  const isLong = (row: number) => batch.marks.has(row) || lineBytes(batch, row) - 1 > bytes;
  const rows = new Set<number>();
  for (let row = from; row < to; row++) if (isLong(row)) rows.add(row);
  return rows;
}

/** Whether any row of a batch may be longer than `bytes`. */
const mayBeLong = (batch: LineBatch, bytes: number): boolean => batch.marks.any || longestLine(batch) - 1 > bytes;

function writeCell(column: BatchColumn, row: number, to: Buffer, at: number): number {
  const { kind, values } = column;
  return kind === 'numbers' ? writeNumber(to, at, values[row]!) : copyToken(column, row, to, at);
}

function copyToken({ tokens, ends }: BatchColumn, row: number, to: Buffer, at: number): number {
  const { bytes } = tokens;
  const end = ends[row]!;
  for (let p = row === 0 ? 0 : ends[row - 1]!; p < end; p++) to[at++] = bytes[p]!;
  return at;
}

/** Maximum text bytes per returned group of rows, unless a single row has more text. */
const MOST_TEXT_BYTES = 8 * 1024 * 1024;
/**
 * A word of at most this many bytes is not charged to the budget. A longer word is charged for each row that refers to
 * it.
 */
const SHORT_WORD = 64;

export class ColumnTable implements TableFeed {
  readonly #source: ColumnSource;
  readonly #budget: TableBudget;
  readonly #free: LineBatch[] = [];
  /** Rows of the last batch that were not returned yet. */
  readonly #waiting: TableRows[] = [];

  /** `budget` is charged for a long word each time that a row refers to it. Default: no limit. */
  constructor(source: ColumnSource, budget = new TableBudget()) {
    this.#source = source;
    this.#budget = budget;
  }

  get names(): readonly string[] {
    return this.#source.names;
  }

  async next(): Promise<TableRows | null> {
    const waiting = this.#waiting.shift();
    if (waiting) return waiting;
    const batch = this.#free.pop() ?? new LineBatch(this.names);
    if (!(await this.#source.next(batch))) return null;
    const { rows } = batch;
    const texts = textBytes(batch, 0, rows);
    this.#budget.addBytes(texts.words);
    let parts = 0;
    const release = () => {
      if (--parts === 0) this.#free.push(batch);
    };
    const add = (from: number, to: number, bytes: number) => {
      if (bytes > MOST_TEXT_BYTES && to - from > 1) {
        const middle = (from + to) >> 1;
        add(from, middle, textBytes(batch, from, middle).all);
        add(middle, to, textBytes(batch, middle, to).all);
        return;
      }
      parts++;
      this.#waiting.push(rowsOf(batch, { from, to, textBytes: bytes, release }));
    };
    add(0, rows, texts.all);
    return this.#waiting.shift()!;
  }
}

/**
 * `all`: upper bound of the text bytes of rows `from` to `to - 1`. `words`: bytes of long words in these rows, counted
 * once per reference.
 */
function textBytes({ columns }: LineBatch, from: number, to: number): { all: number; words: number } {
  const rows = to - from;
  let [all, words] = [0, 0];
  for (const { kind, key, fragments, codes, ends, repeats } of columns) {
    all += rows * key.length;
    if (fragments && fragments.longest > SHORT_WORD + key.length) {
      let bytes = 0;
      for (let row = from; row < to; row++) bytes += fragments.tokenBytes(codes[row]!);
      all += bytes;
      words += bytes;
    } else if (fragments) all += rows * SHORT_WORD;
    else if (kind === 'tokens') {
      const bytes = rows === 0 ? 0 : ends[to - 1]! - (from === 0 ? 0 : ends[from - 1]!);
      all += bytes;
      if (repeats && bytes > rows * SHORT_WORD) words += bytes;
    } else all += rows * NUMBER_BYTES;
  }
  return { all, words };
}

/** Rows `from` to `to - 1` of a batch. */
function rowsOf(
  batch: LineBatch,
  { from, to, textBytes, release }: { from: number; to: number; textBytes: number; release: () => void },
): TableRows {
  return {
    run: { rows: to - from, cells: batch.columns.map((column) => cellsOf(column, from, to)) },
    textBytes,
    release,
    *longer(bytes) {
      if (mayBeLong(batch, bytes)) for (const row of longRows(batch, bytes, from, to)) yield row - from;
    },
  };
}

function cellsOf({ kind, values, codes, fragments, tokens, ends }: BatchColumn, from: number, to: number): CellRun {
  if (kind === 'numbers') return { kind, values: values.subarray(from, to) };
  if (kind === 'coded') return { kind, codes: codes.subarray(from, to), words: fragments!.list };
  if (from === 0)
    return { kind, bytes: tokens.bytes.subarray(0, to === 0 ? 0 : ends[to - 1]!), ends: ends.subarray(0, to) };
  const start = ends[from - 1]!;
  return {
    kind,
    bytes: tokens.bytes.subarray(start, ends[to - 1]!),
    ends: ends.subarray(from, to).map((end) => end - start),
  };
}

const CHUNK_BYTES = 256 * 1024;

const bufferOf = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);

/** A table as JSON lines. A chunk is valid until the next chunk is requested. */
export class ColumnLines implements AsyncIterable<Uint8Array> {
  readonly #source: ColumnSource;
  readonly #batch: LineBatch;
  /** Remaining lines of the batch. `#rest`: remaining bytes of lines that did not fit into the target. */
  #lines: LineWriter | null = null;
  #apart: Buffer = Buffer.alloc(0);
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: ColumnSource) {
    this.#source = source;
    this.#batch = new LineBatch(source.names);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    const chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES);
    for (let n = await this.readInto(chunk); n > 0; n = await this.readInto(chunk)) yield chunk.subarray(0, n);
  }

  /** Reads the next bytes into `target`. Returns their number, 0 at the end. */
  async readInto(target: Uint8Array): Promise<number> {
    if (this.#rest.length === 0) {
      if (!this.#lines?.left && !(await this.#next())) return 0;
      const lines = this.#lines!;
      if (target.length >= lines.longest) return lines.write(bufferOf(target));
      if (this.#apart.length < lines.longest) this.#apart = Buffer.allocUnsafeSlow(lines.longest);
      this.#rest = this.#apart.subarray(0, lines.write(this.#apart.subarray(0, lines.longest)));
    }
    const n = Math.min(target.length, this.#rest.length);
    target.set(this.#rest.subarray(0, n));
    this.#rest = this.#rest.subarray(n);
    return n;
  }

  /** Loads the next batch; false: the table has ended. */
  async #next(): Promise<boolean> {
    if (!(await this.#source.next(this.#batch))) return false;
    this.#lines = new LineWriter(this.#batch, this.#source.recordBytes);
    return true;
  }
}
