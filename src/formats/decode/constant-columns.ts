// Fills declared constant columns, which the input lacks. An inner decoder reads all other columns.
import { type ColumnBatch, type ColumnData, newColumns } from '../../core/batch.ts';
import { SluiceError } from '../../core/errors.ts';
import type { DeclaredColumns } from '../../core/input-declaration.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import { type DirectEncoding, encodedValue } from '../../inference/encode/encoder.ts';
import { type Decoder, type RecordSlice, rejectEmptyRows } from './decoder.ts';

/** A constant model column: its index, and a cell with its value. */
interface Constant {
  column: number;
  cell: ColumnData;
}

interface ConstantColumnsOptions {
  /** All columns of the model. */
  readers: readonly ColumnReader[];
  /** The constant values by column name. */
  constants: DeclaredColumns['constants'];
  direct: DirectEncoding | null;
  /** Creates the decoder of all columns without a constant. */
  open: (readers: readonly ColumnReader[], direct: DirectEncoding | null) => Decoder;
}

/** Decodes the constant values. @throws SluiceError usage if a column does not accept its value */
export function readConstants(readers: readonly ColumnReader[], values: DeclaredColumns['constants']): Constant[] {
  return readers.flatMap((reader, column) => {
    if (!Object.hasOwn(values, reader.name)) return [];
    const cell = newColumns([reader.kind], 1)[0]!;
    const fault = reader.readNative(values[reader.name], cell, 0);
    const unseen = fault === null && cell.unseenRows.length > 0;
    if (!fault && !unseen) return [{ column, cell }];
    const why = fault?.message ?? 'not a known category of the model';
    throw new SluiceError('usage', `constants: the value for column ${reader.name} is invalid: ${why}`);
  });
}

export class ConstantColumns implements Decoder {
  /** Decodes all columns without a constant. */
  readonly inner: Decoder;
  readonly #constants: readonly Constant[];
  readonly #given: readonly number[];
  readonly #direct: DirectEncoding | null;
  /** The current batch, and a view of it with only the columns of the inner decoder. */
  #batch: ColumnBatch | null = null;
  #seen: ColumnBatch | null = null;

  constructor({ readers, constants, direct, open }: ConstantColumnsOptions) {
    this.#constants = readConstants(readers, constants);
    const fixed = new Set(this.#constants.map(({ column }) => column));
    this.#given = readers.flatMap((_, column) => (fixed.has(column) ? [] : [column]));
    this.#direct = direct;
    const others = <T>(all: readonly T[]): T[] => this.#given.map((column) => all[column]!);
    this.inner = open(others(readers), direct && { inputs: direct.inputs, columns: others(direct.columns) });
  }

  decode(block: RecordSlice, from: number, to: number, batch: ColumnBatch): void {
    const seen = this.#view(batch);
    this.inner.decode(block, from, to, seen);
    // Constants are ignored here: they do not make an empty row non-empty.
    rejectEmptyRows(seen);
    batch.rows = seen.rows;
    batch.rejections = seen.rejections;
    for (const constant of this.#constants) this.#fill(constant, batch);
  }

  #view(batch: ColumnBatch): ColumnBatch {
    if (this.#batch !== batch || this.#seen === null) {
      this.#batch = batch;
      this.#seen = { ...batch, columns: this.#given.map((column) => batch.columns[column]!) };
    }
    return this.#seen;
  }

  #fill({ column, cell }: Constant, batch: ColumnBatch): void {
    const { rows } = batch;
    const out = batch.columns[column]!;
    if (cell.kind === 'number') out.numbers.fill(cell.numbers[0]!, 0, rows);
    else if (cell.kind === 'text') out.texts.fill(cell.texts[0]!, 0, rows);
    else out.codes.fill(cell.codes[0]!, 0, rows);
    out.unseenRows.length = 0;
    const encoding = this.#direct?.columns[column];
    if (!encoding) return;
    // In rows that the inner decoder encoded directly, the input values of this column are still unset.
    const value = encodedValue(encoding, cell, 0);
    for (const place of encoding.places) {
      const { data, width } = this.#direct!.inputs[place.input]!;
      for (let r = 0, at = place.column; r < rows; r++, at += width) (data as Float32Array)[at] = value;
    }
  }
}
