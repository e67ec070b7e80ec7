// A table of columns for the engine: batches of rows, of which the text is written only for those who ask for it.
import type { CellRun, ColumnRun, RowsAsText, TableFeed, TableRows } from '../../core/block-columns.ts';
import { type BatchColumn, type ColumnSource, LineBatch } from './line-batch.ts';
import { LineWriter } from './line-writer.ts';

export class ColumnTable implements TableFeed {
  readonly #source: ColumnSource;
  readonly #onText: (bytes: number) => void;
  readonly #free: LineBatch[] = [];

  /** `onText`: bytes of text that were written. */
  constructor(source: ColumnSource, onText: (bytes: number) => void) {
    this.#source = source;
    this.#onText = onText;
  }

  get names(): readonly string[] {
    return this.#source.names;
  }

  async next(): Promise<TableRows | null> {
    const batch = this.#free.pop() ?? new LineBatch(this.names);
    if (!(await this.#source.next(batch))) return null;
    return new BatchRows(batch, this.#onText, this.#free);
  }
}

class BatchRows implements TableRows {
  readonly run: ColumnRun;
  readonly #batch: LineBatch;
  readonly #onText: (bytes: number) => void;
  readonly #free: LineBatch[];
  #lines: LineWriter | null = null;

  constructor(batch: LineBatch, onText: (bytes: number) => void, free: LineBatch[]) {
    const { rows, columns } = batch;
    this.run = { rows, cells: columns.map((column) => cellsOf(column, rows)) };
    this.#batch = batch;
    this.#onText = onText;
    this.#free = free;
  }

  get text(): RowsAsText {
    this.#lines ??= new LineWriter(this.#batch);
    const lines = this.#lines;
    const onText = this.#onText;
    return {
      longest: lines.longest,
      get left() {
        return lines.left;
      },
      write(to) {
        const bytes = lines.write(to);
        onText(bytes);
        return bytes;
      },
    };
  }

  *longer(bytes: number): Generator<number> {
    const lines = new LineWriter(this.#batch);
    const line = Buffer.allocUnsafeSlow(lines.longest);
    for (let row = 0; lines.left > 0; row++) if (lines.write(line) - 1 > bytes) yield row;
  }

  release(): void {
    this.#free.push(this.#batch);
  }
}

function cellsOf({ kind, values, codes, fragments, tokens, ends }: BatchColumn, rows: number): CellRun {
  if (kind === 'numbers') return { kind, values: values.subarray(0, rows) };
  if (kind === 'coded') return { kind, codes: codes.subarray(0, rows), words: fragments!.list };
  return { kind, bytes: tokens.bytes.subarray(0, tokens.length), ends: ends.subarray(0, rows) };
}
