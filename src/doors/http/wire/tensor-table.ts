// The inputs of an Open Inference request as a table of columns. The table is read batch by batch, so that memory never
// holds all rows as text.
import type { ValueKind } from '../../../core/block.ts';
import {
  type BatchColumn,
  type ColumnSource,
  fillBatch,
  fitRows,
  type LineBatch,
  type RowMarks,
  type SizedColumn,
} from '../../../formats/columns/line-batch.ts';

/** The elements of a tensor. A null element is a missing value. */
export interface Elements {
  readonly length: number;
  at(row: number): unknown;
}

export interface TensorColumn {
  name: string;
  kind: ValueKind;
  data: Elements;
}

export class TensorTable implements ColumnSource {
  readonly names: readonly string[];
  readonly kinds: readonly ValueKind[];
  readonly recordBytes: number;
  readonly #columns: readonly TensorCells[];
  readonly #rows: number;
  #row = 0;

  /** All columns must have the same number of elements. */
  constructor(columns: readonly TensorColumn[], recordBytes: number) {
    this.names = columns.map(({ name }) => name);
    this.kinds = columns.map(({ kind }) => kind);
    this.recordBytes = recordBytes;
    this.#columns = columns.map((column) => new TensorCells(column));
    this.#rows = columns[0]?.data.length ?? 0;
  }

  readForModel(): void {
    // Nothing to do: the numbers of tensors are doubles or exact integers for every reader.
  }

  async next(batch: LineBatch): Promise<boolean> {
    if (this.#row === this.#rows) return false;
    const rows = fitRows(this.#columns, Math.min(batch.capacity, this.#rows - this.#row));
    fillBatch(batch, this.#columns, { rows, recordBytes: this.recordBytes, unused: [] });
    this.#row += rows;
    return true;
  }
}

class TensorCells implements SizedColumn {
  readonly #column: TensorColumn;
  #row = 0;

  constructor(column: TensorColumn) {
    this.#column = column;
  }

  textBytes(rows: number): number {
    const { kind, data } = this.#column;
    if (kind !== 'text') return 0;
    let bytes = 0;
    for (let i = 0; i < rows; i++) bytes += (data.at(this.#row + i) as string | null)?.length ?? 0;
    return bytes;
  }

  take(out: BatchColumn, rows: number, marks: RowMarks): void {
    const from = this.#row;
    this.#row += rows;
    out.fragments = null;
    out.repeats = false;
    if (this.#column.kind === 'number' && this.#takeNumbers(out, from, rows)) out.kind = 'numbers';
    else this.#takeTokens(out, from, rows, marks);
  }

  /** Returns false if an integer cannot be represented as a double. */
  #takeNumbers({ values }: BatchColumn, from: number, rows: number): boolean {
    const { data } = this.#column;
    for (let i = 0; i < rows; i++) {
      const value = data.at(from + i);
      if (typeof value === 'bigint' && !Number.isSafeInteger(Number(value))) return false;
      values[i] = value === null ? Number.NaN : Number(value);
    }
    return true;
  }

  #takeTokens(out: BatchColumn, from: number, rows: number, marks: RowMarks): void {
    const { tokens, ends } = out;
    const { data } = this.#column;
    tokens.length = 0;
    for (let i = 0; i < rows; i++) {
      const value = data.at(from + i);
      if (typeof value === 'string') {
        if (marks.admits(i, value.length)) tokens.utf8(JSON.stringify(value));
        else tokens.ascii('null');
      } else tokens.ascii(numberText(value));
      ends[i] = tokens.length;
    }
    out.kind = 'tokens';
  }
}

/** The text of a number, a boolean or null. A number has all its digits and the sign of zero. */
const numberText = (value: unknown): string => (Object.is(value, -0) ? '-0' : String(value));
