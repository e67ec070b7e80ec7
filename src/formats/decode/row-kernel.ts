// The row kernel: plain rows, from bytes to numbers and codes in one pass of WebAssembly made for the columns of a stream.
import type { ColumnBatch, ColumnData } from '../../core/batch.ts';
import { PAGE } from '../../core/slabs.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import type { DirectEncoding, EncodedInput, Encoding } from '../../inference/encode/encoder.ts';
import { Arena } from '../../wasm/arena.ts';
import type { WasmFunction } from '../../wasm/function.ts';
import { assemble, loadModule } from '../../wasm/module.ts';
import { VALID } from './cells.ts';
import { placeDivisors } from './number-program.ts';
import type { RowField, RowPlaces } from './row-frame.ts';
import { placeMasks } from './row-locals.ts';
import type { Words } from './word-table.ts';

/** Vector loads may touch this many bytes after the last record, and this many more per field if a record has too few. */
const SLACK = 32;
const FIELD_SLACK = 20;
/** More fields make a function that takes longer to compile than it saves. */
const MAX_FIELDS = 400;

/** Which fields the rows have. */
interface RowLayout {
  fields: number;
  /** Per column of the model: its field. */
  columns: readonly number[];
  /** Per passthrough column: its field; -1: there is none. */
  passthrough: readonly number[];
}

/** How rows are written. */
export interface RowSyntax {
  /** Of the kernel, in stack traces. */
  readonly name: string;
  /** Longest text between two fields, bytes. */
  readonly between: number;
  /** The lookup of a column. */
  words(arena: Arena, reader: ColumnReader, encoding: Encoding | null): Words | null;
  /** The function rows(count, shift); see RowFrame. */
  program(fields: readonly RowField[], places: RowPlaces): WasmFunction;
}

interface RowKernelOptions {
  readers: readonly ColumnReader[];
  layout: RowLayout;
  syntax: RowSyntax;
  /** Rows of a run, at most. */
  capacity: number;
  /** Where numbers go instead of into columns. */
  direct: DirectEncoding | null;
}

/** Where everything lies in the memory of a kernel. */
interface RowMemory {
  readonly arena: Arena;
  readonly places: RowPlaces;
  readonly fields: readonly RowField[];
  /** Columns that are written as such. */
  readonly outputs: readonly { column: number; kind: ColumnData['kind']; at: number }[];
  /** Inputs of the model with columns that are written here, and their rows. */
  readonly inputs: readonly { input: EncodedInput; at: number }[];
  /** Where the cells lie that are read as texts: pairs of first byte and one past the last. */
  readonly texts: readonly { column: number; at: number }[];
  readonly echoes: readonly { passthrough: number; at: number }[];
  /** Where the bytes of a run begin: behind everything else. */
  readonly bytes: number;
}

function layOut({ readers, layout, capacity, direct, syntax }: RowKernelOptions): RowMemory {
  const arena = new Arena();
  const divisors = placeDivisors(arena);
  const masks = placeMasks(arena);
  const records = arena.take(capacity * 8);
  const states = arena.take(capacity);
  const left = arena.take(4);
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
    if (encoding) fields[field]!.model = { reader, words, encoding };
    else {
      const at = arena.take(capacity * (kind === 'number' ? 8 : 4));
      outputs.push({ column, kind, at });
      fields[field]!.model = { reader, words, at };
    }
  }
  const echoes = layout.passthrough.flatMap((field, passthrough) =>
    field < 0 ? [] : [{ passthrough, at: span(field) }],
  );
  const places = { records, states, left, masks, divisors, matrices };
  const inputs = matrices.filter((_, i) => used.has(i));
  return { arena, places, fields, outputs, inputs, texts, echoes, bytes: arena.take(0) };
}

/**
 * Reads plain rows: numbers are decimals of up to 15 digits within the column's range, words are ones the package lists, and
 * there are as many fields as there should be. What else is plain says the syntax (row-program.ts, json-row-program.ts).
 * Whatever is not is declined: the kernel never decides that something is a fault. It reads as `numberAt` and `Dictionary` do,
 * and is faster because it takes 16 bytes at a time and nothing but the results goes through memory.
 */
export class RowKernel {
  readonly #at: RowMemory;
  readonly #memory: WebAssembly.Memory;
  readonly #run: (rows: number, shift: number) => void;
  readonly #slack: number;
  #all: Uint8Array;
  #buffer: Buffer;

  private constructor(at: RowMemory, slack: number, { memory, exports }: ReturnType<typeof loadModule>) {
    this.#at = at;
    this.#memory = memory;
    this.#run = exports.rows!;
    this.#slack = slack;
    this.#all = new Uint8Array(memory.buffer);
    this.#buffer = Buffer.from(memory.buffer);
  }

  /** null where a kernel would not pay or cannot be had. */
  static open(options: RowKernelOptions): RowKernel | null {
    const { layout, syntax } = options;
    if (layout.fields > MAX_FIELDS) return null;
    // A field that two columns read.
    if (new Set(layout.columns).size < layout.columns.length) return null;
    const at = layOut(options);
    const slack = SLACK + FIELD_SLACK * layout.fields + syntax.between;
    const code = assemble(syntax.name, [syntax.program(at.fields, at.places)]);
    try {
      return new RowKernel(at, slack, loadModule(code, at.arena.build()));
    } catch (error) {
      // No memory: the byte decoder does without.
      if (error instanceof RangeError) return null;
      throw error;
    }
  }

  /** Room for the bytes of a run; the caller fills it, then calls `run`. */
  room(bytes: number): Uint8Array {
    const end = this.#at.bytes + bytes + this.#slack;
    if (end > this.#all.length) {
      this.#memory.grow(Math.ceil((end - this.#all.length) / PAGE));
      this.#all = new Uint8Array(this.#memory.buffer);
      this.#buffer = Buffer.from(this.#memory.buffer);
    }
    return this.#all.subarray(this.#at.bytes, this.#at.bytes + bytes);
  }

  /** First and one past the last byte of each record, as the block counts them; the caller writes them. */
  records(rows: number): Int32Array {
    return new Int32Array(this.#memory.buffer, this.#at.places.records, rows * 2);
  }

  /** One state per row; the caller sets them all: VALID for rows to be read, anything else for rows to be skipped. */
  states(rows: number): Uint8Array {
    return this.#all.subarray(this.#at.places.states, this.#at.places.states + rows);
  }

  /**
   * Reads the rows into rows `first`.. of the batch; gives how many are declined. `base`: what the block calls the first
   * byte in the room.
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
    return new Int32Array(buffer, this.#at.places.left, 1)[0]!;
  }

  /** Texts of passthrough columns, and of the model's text columns through `take`, for the valid rows. */
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
