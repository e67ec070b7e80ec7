// A table that consists of one row of another table.
// Scoring the row again takes the same code path as in the whole table.
import { SluiceError } from '../../core/errors.ts';
import { type BatchColumn, type ColumnSource, LineBatch } from './line-batch.ts';

export class SingleRow implements ColumnSource {
  readonly #table: ColumnSource;
  readonly #row: number;
  #read = false;

  /** `row` counts from 1. */
  constructor(table: ColumnSource, row: number) {
    this.#table = table;
    this.#row = row;
  }

  get names(): readonly string[] {
    return this.#table.names;
  }

  get kinds(): ColumnSource['kinds'] {
    return this.#table.kinds;
  }

  get recordBytes(): number {
    return this.#table.recordBytes;
  }

  readForModel(names: ReadonlySet<string>, unused: ReadonlySet<string>): void {
    this.#table.readForModel(names, unused);
  }

  /** @throws SluiceError usage if the table has fewer rows */
  async next(target: LineBatch): Promise<boolean> {
    if (this.#read) return false;
    this.#read = true;
    const batch = new LineBatch(this.names);
    let before = 0;
    while (await this.#table.next(batch)) {
      const at = this.#row - 1 - before;
      if (at < batch.rows) {
        target.rows = 1;
        target.marks.begin(1, this.recordBytes);
        if (batch.marks.has(at)) target.marks.mark(0);
        for (const [i, column] of batch.columns.entries()) copyCell(column, at, target.columns[i]!);
        return true;
      }
      before += batch.rows;
    }
    throw new SluiceError('usage', `--row ${this.#row} does not exist: the file has ${before} rows`);
  }
}

function copyCell(from: BatchColumn, row: number, to: BatchColumn): void {
  to.kind = from.kind;
  to.values[0] = from.values[row]!;
  to.codes[0] = from.codes[row]!;
  to.fragments = from.fragments;
  if (from.kind !== 'tokens') return;
  const token = from.tokens.bytes.subarray(row === 0 ? 0 : from.ends[row - 1]!, from.ends[row]!);
  to.tokens.length = 0;
  to.tokens.room(token.length).set(token);
  to.tokens.length = token.length;
  to.ends[0] = token.length;
}
