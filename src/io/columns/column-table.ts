// A table of columns for the engine: batches of rows, as they were read.
import type { CellRun, TableFeed, TableRows } from '../../core/block-columns.ts';
import { type BatchColumn, type ColumnSource, LineBatch } from './line-batch.ts';
import { longRows, mayBeLong } from './line-writer.ts';
import { NUMBER_BYTES } from './number-text.ts';
import { TableBudget } from './table-limits.ts';

/** Most bytes of text of the rows that are handed over at once; a single row may have more. */
const MOST_TEXT_BYTES = 8 * 1024 * 1024;
/** Words up to here take no more than a number does. Longer ones count as often as rows refer to them. */
const SHORT_WORD = 64;

export class ColumnTable implements TableFeed {
  readonly #source: ColumnSource;
  readonly #budget: TableBudget;
  readonly #free: LineBatch[] = [];
  /** Rows of the last batch that were not handed over. */
  readonly #waiting: TableRows[] = [];

  /** `budget` is charged with words that rows refer to again and again. Default: no limit. */
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

/** `all`: most bytes the text of some rows has. `words`: bytes of long words in it, each as often as rows refer to it. */
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

/** Rows `from`..`to - 1` of a batch. */
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
