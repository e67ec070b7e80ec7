// The row kernel decodes plain rows to numbers and codes in one pass of WebAssembly, compiled for the columns of a stream.
import { type ColumnBatch, type ColumnData, newColumns } from '../../core/batch.ts';
import { PAGE } from '../../core/slabs.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import { type DirectEncoding, type EncodedInput, type Encoding, encodedValue } from '../../inference/encode/encoder.ts';
import { Arena } from '../../wasm/arena.ts';
import type { WasmFunction } from '../../wasm/function.ts';
import { assemble, loadModule } from '../../wasm/module.ts';
import { DECLINED, VALID } from './cells.ts';
import { placeDivisors } from './number-program.ts';
import { ODD_CELL, type RowField, type RowPlaces } from './row-frame.ts';
import { placeMasks } from './row-locals.ts';
import { mayMiss, type Words } from './word-table.ts';

/**
 * Number of bytes that vector loads may read after the last record. `FIELD_SLACK` is added for each field, because a
 * record may have too few fields.
 */
const SLACK = 32;
const FIELD_SLACK = 20;
/** Maximum number of fields. For more fields, compiling the function takes longer than the kernel saves. */
const MAX_FIELDS = 400;

/** The fields of each row. */
interface RowLayout {
  fields: number;
  /** Field index of each model column. */
  columns: readonly number[];
  /** Field index of each passthrough column; -1: the rows lack the column. */
  passthrough: readonly number[];
}

/** The syntax of the rows. */
export interface RowSyntax {
  /** Name of the kernel in stack traces. */
  readonly name: string;
  /** Maximum number of bytes between two fields. */
  readonly between: number;
  /** Writes further tables to the kernel's memory, before the word tables of the columns. */
  place?(arena: Arena): void;
  /** Writes the word table of a column to the kernel's memory. */
  words(arena: Arena, reader: ColumnReader, encoding: Encoding | null): Words | null;
  /**
   * Decodes an odd cell into row `row` of `out`, with the same result as the reference decoder. Returns false if the
   * row must be declined.
   */
  readOdd(reader: ColumnReader, cell: OddCell, out: ColumnData, row: number): boolean;
  /** Creates the function rows(count, shift); see `RowFrame`. */
  program(fields: readonly RowField[], places: RowPlaces): WasmFunction;
}

/** An odd cell: bytes `from` to `to - 1` of `bytes`. */
export interface OddCell {
  bytes: Buffer;
  from: number;
  to: number;
  quoted: boolean;
  /** Whether the text of an unseen category is needed later. */
  keepsText: boolean;
}

interface RowKernelOptions {
  readers: readonly ColumnReader[];
  layout: RowLayout;
  syntax: RowSyntax;
  /** Maximum rows of a run. */
  capacity: number;
  /** Model inputs into which numbers are written instead of into columns; null: none. */
  direct: DirectEncoding | null;
}

/** The memory layout of a kernel. */
interface RowMemory {
  readonly arena: Arena;
  readonly places: RowPlaces;
  readonly fields: readonly RowField[];
  /** Columns whose values are stored without encoding. */
  readonly outputs: readonly { column: number; kind: ColumnData['kind']; at: number }[];
  /** Model inputs that the kernel encodes directly, with the address of their rows. */
  readonly inputs: readonly { input: EncodedInput; at: number }[];
  /**
   * Columns that are read as texts. `at`: address of the positions of their cells, as pairs of first byte and one past
   * the last byte.
   */
  readonly texts: readonly { column: number; at: number }[];
  readonly echoes: readonly { passthrough: number; at: number }[];
  /** Address of the bytes of a run, which follow all tables. */
  readonly bytes: number;
}

/** Whether a column accepts cells that are neither plain numbers nor words of its table. */
const takesOdd = (reader: ColumnReader): boolean =>
  reader.kind === 'number' ||
  (reader.kind === 'category' && reader.readUnseen(newColumns([reader.kind], 1)[0]!, 0) === null);

function layOut({ readers, layout, capacity, direct, syntax }: RowKernelOptions): RowMemory {
  const arena = new Arena();
  const divisors = placeDivisors(arena);
  const masks = placeMasks(arena);
  syntax.place?.(arena);
  const records = arena.take(capacity * 8);
  const states = arena.take(capacity);
  const left = arena.take(8);
  const odd = arena.take(capacity * layout.fields * ODD_CELL * 4);
  const used = new Set(direct?.columns.flatMap((c) => c?.places.map((p) => p.input) ?? []));
  const matrices = (direct?.inputs ?? []).map((input, i) => {
    const at = used.has(i) ? arena.take(capacity * input.width * 4) : 0;
    return { input, at, rowBytes: input.width * 4 };
  });
  const fields: RowField[] = Array.from({ length: layout.fields }, () => ({ spans: [] }));
  const outputs: { column: number; kind: ColumnData['kind']; at: number }[] = [];
  const texts: { column: number; at: number }[] = [];
  const span = (field: number): number => {
    const at = arena.take(capacity * 8);
    fields[field]!.spans.push(at);
    return at;
  };
  for (const [column, reader] of readers.entries()) {
    const field = layout.columns[column]!;
    const { kind } = reader;
    if (kind === 'text') {
      texts.push({ column, at: span(field) });
      continue;
    }
    const encoding = direct?.columns[column] ?? null;
    const words = syntax.words(arena, reader, encoding);
    const common = { column, reader, words, mayMiss: mayMiss(reader), listsOdd: takesOdd(reader) };
    if (encoding) fields[field]!.model = { ...common, encoding };
    else {
      const at = arena.take(capacity * (kind === 'number' ? 8 : 4));
      outputs.push({ column, kind, at });
      fields[field]!.model = { ...common, at };
    }
  }
  const echoes = layout.passthrough.flatMap((field, passthrough) =>
    field < 0 ? [] : [{ passthrough, at: span(field) }],
  );
  const places = { records, states, left, odd, masks, divisors, matrices };
  const inputs = matrices.filter((_, i) => used.has(i));
  return { arena, places, fields, outputs, inputs, texts, echoes, bytes: arena.take(0) };
}

/**
 * Reads plain rows. A plain row has the right number of fields and meets the conditions of its syntax (row-program.ts,
 * json-row-program.ts). Plain cells are numbers with up to 15 digits within the range of the column, and words listed
 * in the package. The kernel lists all other cells of a plain row as odd cells, which the column readers decode. It
 * declines all other rows, and never reports an error. The results are the same as those of `numberAt` and
 * `Dictionary`. The kernel is faster because it reads 16 bytes at a time and writes only results to memory.
 */
export class RowKernel {
  readonly #at: RowMemory;
  readonly #memory: WebAssembly.Memory;
  readonly #run: (rows: number, shift: number) => void;
  readonly #slack: number;
  readonly #options: RowKernelOptions;
  #all: Uint8Array;
  #buffer: Buffer;
  readonly #cell: OddCell;

  private constructor(
    options: RowKernelOptions,
    at: RowMemory,
    slack: number,
    { memory, exports }: ReturnType<typeof loadModule>,
  ) {
    this.#options = options;
    this.#at = at;
    this.#memory = memory;
    this.#run = exports.rows!;
    this.#slack = slack;
    this.#all = new Uint8Array(memory.buffer);
    this.#buffer = Buffer.from(memory.buffer);
    this.#cell = { bytes: this.#buffer, from: 0, to: 0, quoted: false, keepsText: true };
  }

  /** Creates a kernel. Returns null if a kernel is not possible or would take longer to create than it saves. */
  static open(options: RowKernelOptions): RowKernel | null {
    const { layout, syntax } = options;
    if (layout.fields > MAX_FIELDS) return null;
    // The kernel does not support two columns that read the same field.
    if (new Set(layout.columns).size < layout.columns.length) return null;
    const at = layOut(options);
    const slack = SLACK + FIELD_SLACK * layout.fields + syntax.between;
    const code = assemble(syntax.name, [syntax.program(at.fields, at.places)]);
    try {
      return new RowKernel(options, at, slack, loadModule(code, at.arena.build()));
    } catch (error) {
      // If there is not enough memory, the byte decoder works without a kernel.
      if (error instanceof RangeError) return null;
      throw error;
    }
  }

  /** Returns space for the bytes of a run. The caller fills the space, then calls `run`. */
  room(bytes: number): Uint8Array {
    const end = this.#at.bytes + bytes + this.#slack;
    if (end > this.#all.length) {
      this.#memory.grow(Math.ceil((end - this.#all.length) / PAGE));
      this.#all = new Uint8Array(this.#memory.buffer);
      this.#buffer = Buffer.from(this.#memory.buffer);
    }
    return this.#all.subarray(this.#at.bytes, this.#at.bytes + bytes);
  }

  /**
   * Returns space for the spans of the records: first byte and one past the last byte, as offsets in the block. The
   * caller fills the space.
   */
  records(rows: number): Int32Array {
    return new Int32Array(this.#memory.buffer, this.#at.places.records, rows * 2);
  }

  /**
   * Returns space for one state per row. The caller sets VALID for rows to read, and any other value for rows to skip.
   */
  states(rows: number): Uint8Array {
    return this.#all.subarray(this.#at.places.states, this.#at.places.states + rows);
  }

  /**
   * Decodes the rows into the batch, starting at row `first`. Returns the number of declined rows. `base`: block offset
   * of the first byte in the space that `room` returned.
   */
  run(rows: number, base: number, batch: ColumnBatch, first: number): number {
    this.#run(rows, this.#at.bytes - base);
    const { buffer } = this.#memory;
    for (const { input, at } of this.#at.inputs) {
      (input.data as Float32Array).set(new Float32Array(buffer, at, rows * input.width), first * input.width);
    }
    if (this.#at.inputs.length > 0) batch.encoded.fill(1, first, first + rows);
    for (const { column, kind, at } of this.#at.outputs) {
      const out = batch.columns[column]!;
      if (kind === 'number') out.numbers.set(new Float64Array(buffer, at, rows), first);
      else out.codes.set(new Int32Array(buffer, at, rows), first);
    }
    const [declined, odd] = new Int32Array(buffer, this.#at.places.left, 2);
    return declined! + this.#readOddCells(odd!, this.states(rows), batch, first);
  }

  /** Decodes the odd cells, and declines each row that has an invalid odd cell. Returns the number of these rows. */
  #readOddCells(count: number, states: Uint8Array, batch: ColumnBatch, first: number): number {
    const { readers, syntax, direct } = this.#options;
    const cells = new Int32Array(this.#memory.buffer, this.#at.places.odd, count * ODD_CELL);
    const cell = this.#cell;
    cell.bytes = this.#buffer;
    let declined = 0;
    for (let at = 0; at < cells.length; at += ODD_CELL) {
      const r = cells[at]!;
      if (states[r] !== VALID) continue;
      const row = first + r;
      const column = cells[at + 1]! >> 1;
      cell.quoted = (cells[at + 1]! & 1) === 1;
      cell.from = cells[at + 2]!;
      cell.to = cells[at + 3]!;
      const encoding = direct?.columns[column];
      // A column that is encoded directly never appears in the output.
      cell.keepsText = !encoding;
      const out = batch.columns[column]!;
      if (!syntax.readOdd(readers[column]!, cell, out, row)) {
        states[r] = DECLINED;
        declined++;
        // The decoder that reads this row next records its unseen categories again.
        for (const { unseenRows } of batch.columns) if (unseenRows.at(-1) === row) unseenRows.pop();
        continue;
      }
      if (!encoding) continue;
      const value = encodedValue(encoding, out, row);
      for (const place of encoding.places) {
        const { data, width } = direct!.inputs[place.input]!;
        (data as Float32Array)[row * width + place.column] = value;
      }
    }
    return declined;
  }

  /** Copies the texts of passthrough columns in the valid rows, and passes the texts of model columns to `take`. */
  texts(
    rows: number,
    batch: ColumnBatch,
    first: number,
    take: (column: number, text: string, row: number) => void,
  ): void {
    if (this.#at.texts.length + this.#at.echoes.length === 0) return;
    const states = this.states(rows);
    const each = (at: number, use: (text: string, r: number) => void): void => {
      const spans = new Int32Array(this.#memory.buffer, at, rows * 2);
      for (let r = 0; r < rows; r++) {
        if (states[r] === VALID) use(this.#buffer.toString('utf8', spans[r * 2]!, spans[r * 2 + 1]!), r);
      }
    };
    for (const { column, at } of this.#at.texts) each(at, (text, r) => take(column, text, first + r));
    for (const { passthrough, at } of this.#at.echoes) {
      const out = batch.passthrough[passthrough]!;
      each(at, (text, r) => {
        out[first + r] = text;
      });
    }
  }
}
