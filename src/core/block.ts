// A block: the bytes of whole records with their positions. It is the unit of work, of backpressure and of ordering.

// Blocks of a columnar table contain columns (values and dictionary codes) instead of text.

/** The type of the values in a column of a typed format. */
export type ValueKind =
  | 'number'
  | 'decimal'
  | 'boolean'
  | 'text'
  | 'date'
  | 'timestamp'
  | 'time'
  | 'duration'
  | 'binary'
  | 'nested'
  | 'null';

/** A dictionary: one JSON token per code, concatenated. The last token is `null`. */
export interface WordList {
  /** ID of the list, unique within the process. */
  readonly id: number;
  readonly bytes: Uint8Array;
  /** End offset of each token. */
  readonly ends: Int32Array;
}

/**
 * The cells of a column in a run of rows. `numbers`: NaN is null, an infinity is a value. `coded`: codes of a word
 * list. `tokens`: one JSON token per row, concatenated.
 */
export type CellRun =
  | { readonly kind: 'numbers'; readonly values: Float64Array }
  | { readonly kind: 'coded'; readonly codes: Int32Array; readonly words: WordList }
  | {
      readonly kind: 'tokens';
      readonly bytes: Uint8Array;
      /** End offset of each token. */
      readonly ends: Int32Array;
    };

/** Consecutive rows whose cells are stored in the same way. */
export interface ColumnRun {
  readonly rows: number;
  /** In the order of the column names. */
  readonly cells: readonly CellRun[];
}

/**
 * The columns of a block in a compact form, which `runsOf` expands into runs. It has few objects, because each object
 * of a message to a worker costs more than its bytes.
 */
export interface BlockColumns {
  readonly names: readonly string[];
  /**
   * For each run: its number of rows. Then for each column: kind, offset of its cells in `memory`, and index of its
   * word list or number of its token bytes.
   */
  readonly shape: Int32Array;
  readonly memory: SharedArrayBuffer;
  /** All word lists, in shared memory. */
  readonly words: WordBook | null;
}

export interface WordBook {
  /** For each list: its ID, its number of words, and offset and length of its ends and of its bytes. */
  readonly shape: Int32Array;
  readonly memory: SharedArrayBuffer;
}

const NUMBERS = 0;
const CODED = 1;
const TOKENS = 2;
/** Number of integers in a shape per column of a run. `PER_LIST`: per word list. */
const PER_COLUMN = 3;
const PER_LIST = 5;

const aligned = (bytes: number): number => (bytes + 7) & ~7;

const bytesOfCells = (cell: CellRun): number => {
  if (cell.kind === 'numbers') return cell.values.byteLength;
  return cell.kind === 'coded'
    ? aligned(cell.codes.byteLength)
    : aligned(cell.ends.byteLength) + aligned(cell.bytes.length);
};

/** Number of bytes that runs need in the memory of a block. */
export const bytesOfRuns = (runs: readonly ColumnRun[]): number =>
  runs.reduce((sum, { cells }) => cells.reduce((bytes, cell) => bytes + bytesOfCells(cell), sum), 0);

/** Stores runs in `memory`, which must have space for `bytesOfRuns` bytes. */
export function blockColumns(
  names: readonly string[],
  runs: readonly ColumnRun[],
  memory: SharedArrayBuffer,
  bookOf: (lists: readonly WordList[]) => WordBook,
): BlockColumns {
  const shape: number[] = [];
  const lists = new Map<number, WordList>();
  const places = new Map<number, number>();
  let at = 0;
  const put = (values: Float64Array | Int32Array | Uint8Array): number => {
    const from = at;
    if (values instanceof Float64Array) new Float64Array(memory, from, values.length).set(values);
    else if (values instanceof Int32Array) new Int32Array(memory, from, values.length).set(values);
    else new Uint8Array(memory, from, values.length).set(values);
    at = aligned(at + values.byteLength);
    return from;
  };
  for (const { rows, cells } of runs) {
    shape.push(rows);
    for (const cell of cells) {
      if (cell.kind === 'numbers') shape.push(NUMBERS, put(cell.values), 0);
      else if (cell.kind === 'tokens') {
        shape.push(TOKENS, put(cell.ends), cell.bytes.length);
        put(cell.bytes);
      } else {
        const { id } = cell.words;
        if (!places.has(id)) places.set(id, places.size);
        lists.set(id, cell.words);
        shape.push(CODED, put(cell.codes), places.get(id)!);
      }
    }
  }
  const words = lists.size === 0 ? null : bookOf([...lists.values()]);
  return { names, shape: Int32Array.from(shape), memory, words };
}

export function wordBook(lists: readonly WordList[]): WordBook {
  const bytes = lists.reduce((sum, list) => sum + aligned(list.bytes.length) + aligned(list.ends.byteLength), 0);
  const memory = new SharedArrayBuffer(bytes);
  let at = 0;
  const shape = lists.flatMap(({ id, bytes, ends }) => {
    const from = at;
    new Int32Array(memory, from, ends.length).set(ends);
    at += aligned(ends.byteLength);
    const text = at;
    new Uint8Array(memory, text, bytes.length).set(bytes);
    at += aligned(bytes.length);
    return [id, ends.length, from, text, bytes.length];
  });
  return { shape: Int32Array.from(shape), memory };
}

function listsOf({ shape, memory }: WordBook): WordList[] {
  const lists: WordList[] = [];
  for (let i = 0; i < shape.length; i += PER_LIST) {
    const [id, count, ends, text, length] = shape.subarray(i, i + PER_LIST);
    lists.push({ id: id!, ends: new Int32Array(memory, ends!, count!), bytes: new Uint8Array(memory, text!, length!) });
  }
  return lists;
}

/** The runs of a block, which cover its rows in order. */
export function runsOf({ names, shape, memory, words }: BlockColumns): ColumnRun[] {
  const lists = words ? listsOf(words) : [];
  const runs: ColumnRun[] = [];
  for (let i = 0; i < shape.length; ) {
    const rows = shape[i++]!;
    const cells = names.map((): CellRun => {
      const [kind, from, last] = shape.subarray(i, i + PER_COLUMN);
      i += PER_COLUMN;
      if (kind === NUMBERS) return { kind: 'numbers', values: new Float64Array(memory, from!, rows) };
      const integers = new Int32Array(memory, from!, rows);
      if (kind === CODED) return { kind: 'coded', codes: integers, words: lists[last!]! };
      return { kind: 'tokens', ends: integers, bytes: new Uint8Array(memory, aligned(from! + rows * 4), last!) };
    });
    runs.push({ rows, cells });
  }
  return runs;
}

/** Rows that were read from a table. They are valid until `release`. */
export interface TableRows {
  readonly run: ColumnRun;
  /** Upper bound of the length of the rows' text, bytes. */
  readonly textBytes: number;
  /** Indexes (from 0) of the rows whose text is longer than `bytes`. */
  longer(bytes: number): Iterable<number>;
  /** Must be called when the rows are no longer used. */
  release(): void;
}

/** The columns of a typed table. */
export interface TypedTable {
  readonly names: readonly string[];
  /** The type of each column. */
  readonly kinds: readonly ValueKind[];
  /**
   * Sets the columns that the model reads. Must be called before the first `next`. The numbers of these columns become
   * the nearest doubles, and NaN becomes a missing value. All other columns are passed through with all digits, except
   * those of `unused`, whose values become null, whatever they are.
   */
  readForModel(names: ReadonlySet<string>, unused: ReadonlySet<string>): void;
}

/** A table that is read in batches of a few thousand rows. */
export interface TableFeed {
  readonly names: readonly string[];
  /**
   * Returns the next rows; null: the table has ended. Must not be called before the previous call has resolved.
   * @throws SluiceError
   */
  next(): Promise<TableRows | null>;
}

/** States of records that are known before decoding. RECORD_OK: no error; all other values are errors. */
export const RECORD_OK = 0;
/**
 * The quoting violates RFC 4180. Only the first physical line of the record is consumed, and scanning resumes after it.
 */
export const RECORD_MALFORMED = 1;
/** The record is longer than the limit. Its span covers only the start of the record. */
export const RECORD_TOO_LONG = 2;

/** The record alone killed its worker twice. */
export const RECORD_CRASHED = 3;
/** The model failed on this record alone. */
export const RECORD_MODEL_FAILED = 4;

/** The JSON is nested deeper than the limit. */
export const RECORD_TOO_DEEP = 5;

/** Sluice failed on this record alone; neither the record nor the model caused the error. */
export const RECORD_INTERNAL_ERROR = 6;

export interface Block {
  /** Position of the block in its stream, from 0. */
  readonly seq: number;
  /** The bytes of the records. Workers get shared memory, so that the bytes survive the death of a worker. */
  readonly slab: ArrayBufferLike;
  /** Two entries per record: start and end offset in the slab, without the line break. Empty if `columns` is set. */
  readonly spans: Int32Array;
  /** One RECORD_* value per record. */
  readonly faults: Uint8Array;
  /** 1-based row number of the first record in its stream. */
  readonly firstRow: number;
  /** Physical line of the input on which each record begins, from 1. */
  readonly lines: Int32Array;
  /** Input offset of the first byte of the slab; NaN: the input is a table without text. */
  readonly firstByte: number;
  /** Number of used bytes in the slab or in the columns. */
  readonly length: number;
  /** Input offset at which the next block begins; for tables, the number of rows consumed. */
  readonly inputEnd: number;
  /** The records in columnar form; the slab then contains no records. */
  readonly columns?: BlockColumns;
}

/** Number of records in a block. */
export const recordsOf = (block: Pick<Block, 'faults'>): number => block.faults.length;
