// A block: many whole records as bytes with their position; the unit of work, of backpressure and of ordering.

// Blocks of a table have columns (values and dictionary codes) instead of text.

/** What the values of a column of a typed format are. */
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
  | 'null';

/** JSON tokens of the codes, concatenated; the last one is `null`. */
export interface WordList {
  /** No other list of the process has it. */
  readonly id: number;
  readonly bytes: Uint8Array;
  /** One past the last byte of each token. */
  readonly ends: Int32Array;
}

/** The cells of one column in a run of rows. numbers: NaN is null; an infinity is a value. coded: the code of a word. tokens: of JSON, one behind the other. */
export type CellRun =
  | { readonly kind: 'numbers'; readonly values: Float64Array }
  | { readonly kind: 'coded'; readonly codes: Int32Array; readonly words: WordList }
  | {
      readonly kind: 'tokens';
      readonly bytes: Uint8Array;
      /** One past the last byte of each token. */
      readonly ends: Int32Array;
    };

/** Rows whose cells are held in the same way. */
export interface ColumnRun {
  readonly rows: number;
  /** In the order of the names. */
  readonly cells: readonly CellRun[];
}

/** Few objects, because each one costs a message to a worker more than its bytes do: `runsOf` makes the runs of them. */
export interface BlockColumns {
  readonly names: readonly string[];
  /** Per run: rows, and per column its kind, where its cells begin in `memory`, and which word list they are coded by or how many bytes of tokens follow them. */
  readonly shape: Int32Array;
  readonly memory: SharedArrayBuffer;
  /** All word lists, in shared memory. */
  readonly words: WordBook | null;
}

export interface WordBook {
  /** Per list: its id, words, and where its ends and its bytes begin and how many these are. */
  readonly shape: Int32Array;
  readonly memory: SharedArrayBuffer;
}

const NUMBERS = 0;
const CODED = 1;
const TOKENS = 2;
/** Numbers that a shape has per column of a run, and per list. */
const PER_COLUMN = 3;
const PER_LIST = 5;

const aligned = (bytes: number): number => (bytes + 7) & ~7;

const bytesOfCells = (cell: CellRun): number => {
  if (cell.kind === 'numbers') return cell.values.byteLength;
  return cell.kind === 'coded'
    ? aligned(cell.codes.byteLength)
    : aligned(cell.ends.byteLength) + aligned(cell.bytes.length);
};

/** Bytes that runs take in the memory of a block. */
export const bytesOfRuns = (runs: readonly ColumnRun[]): number =>
  runs.reduce((sum, { cells }) => cells.reduce((bytes, cell) => bytes + bytesOfCells(cell), sum), 0);

/** Runs in memory that was given for them: `bytesOfRuns`. */
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

/** The runs of a block; together they have its rows, in order. */
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

/** Rows of a table that were read, until they are given back. */
export interface TableRows {
  readonly run: ColumnRun;
  /** Most bytes their text has. */
  readonly textBytes: number;
  /** Rows, from 0, whose text is longer than this many bytes. */
  longer(bytes: number): Iterable<number>;
  /** They are no longer used. */
  release(): void;
}

/** The columns of a typed table. */
export interface TypedTable {
  readonly names: readonly string[];
  /** What each column holds. */
  readonly kinds: readonly ValueKind[];
  /**
   * Names the columns that the model reads, before the first `next`: their numbers become the nearest doubles and NaN a missing value.
   * Other columns are passed through, so that their values keep every digit.
   */
  readForModel(names: ReadonlySet<string>): void;
}

/** A table that is read a few thousand rows at a time. */
export interface TableFeed {
  readonly names: readonly string[];
  /** The next rows; null: there are none. Not to be called again before it has answered. @throws SluiceError */
  next(): Promise<TableRows | null>;
}

/** Why the cutter already knows that a record is bad (0: it does not). */
export const RECORD_OK = 0;
/** Quoting that violates RFC 4180: only the first physical line is consumed, and scanning resumes behind it. */
export const RECORD_MALFORMED = 1;
/** Longer than the row limit: the span covers only its beginning. */
export const RECORD_TOO_LONG = 2;

/** Scoring this record alone brought its worker down twice. */
export const RECORD_CRASHED = 3;
/** The model threw on this record alone. */
export const RECORD_MODEL_FAILED = 4;

/** JSON nested deeper than allowed. */
export const RECORD_TOO_DEEP = 5;

/** Sluice itself failed on this record alone: neither the record nor the model is at fault. */
export const RECORD_INTERNAL_ERROR = 6;

export interface Block {
  /** Position of the block in its stream, from 0. */
  readonly seq: number;
  /** The bytes. Workers get shared memory, so that the bytes survive the death of a worker. */
  readonly slab: ArrayBufferLike;
  /** Two entries a record: first byte and one past the last byte in the slab, line end not included. Empty where `columns` are instead. */
  readonly spans: Int32Array;
  /** One RECORD_* a record. */
  readonly faults: Uint8Array;
  /** 1-based row number of the first record in its stream. */
  readonly firstRow: number;
  /** Physical line of the input on which each record begins, from 1. */
  readonly lines: Int32Array;
  /** Offset of slab byte 0 from the beginning of the input; NaN: the input is a table, which has no text. */
  readonly firstByte: number;
  /** Bytes of the slab in use, or of the columns. */
  readonly length: number;
  /** Offset in the input at which the next block begins: all before it has been consumed. Of a table: rows. */
  readonly inputEnd: number;
  /** The records, where they came as columns: they have no bytes then. */
  readonly columns?: BlockColumns;
}

/** Number of records in a block. */
export const recordsOf = (block: Pick<Block, 'faults'>): number => block.faults.length;
