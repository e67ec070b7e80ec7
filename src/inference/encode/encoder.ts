// Encodes a columnar batch into the arrays of the ONNX inputs: either one float matrix with codes, or one input per
// column.
import { type ColumnBatch, type ColumnData, type ColumnKind, UNSEEN } from '../../core/batch.ts';
import { SluiceError } from '../../core/errors.ts';
import { categoriesOf } from '../../model/package/category-files.ts';
import type { ColumnSpec, InputSpec, Manifest } from '../../model/package/manifest.ts';

export type InputArray = Float32Array | Float64Array | BigInt64Array | Int32Array | Uint8Array | string[];

/** An ONNX input in row-major order. `encode` sets its first `rows * width` entries. */
export interface EncodedInput {
  readonly name: string;
  readonly type: InputSpec['type'];
  readonly width: number;
  readonly data: InputArray;
}

/** Encodes rows `from` to `to - 1` of a column. */
type Fill = (batch: ColumnBatch, from: number, to: number) => void;

/** How the values of a column become numbers, for decoders that write the numbers directly. */
export interface Encoding {
  /** Positions of the column in the float32 inputs: index of the input, and column within that input. */
  readonly places: readonly { input: number; column: number }[];
  /** The number that replaces a missing value; NaN if nothing replaces it. */
  readonly missing: number;
  /** For booleans and categories: the number for code c is at index c - UNSEEN. */
  readonly values: readonly number[] | null;
}

/** The number that a model gets for row `row` of a column. */
export const encodedValue = ({ missing, values }: Encoding, { numbers, codes }: ColumnData, row: number): number => {
  if (values) return values[codes[row]! - UNSEEN]!;
  const number = numbers[row]!;
  return Number.isNaN(number) ? missing : number;
};

/** The interface of an encoder for decoders that write numbers directly into the inputs. */
export interface DirectEncoding {
  readonly inputs: readonly EncodedInput[];
  /** One entry per package column; null if some input takes the column as another type than float32. */
  readonly columns: readonly (Encoding | null)[];
}

/**
 * Evaluators always get whole groups of this many rows, so that tensors have no tail. For a tail, ONNX Runtime's vector
 * loops use different code: with Logistic, about 1 of 100 rows gets other bits. The bits of a row would thus depend on
 * the number of rows in its batch.
 */
const ROW_GROUP = 16;

/**
 * Number of rows that are encoded for all columns before the next rows, so that their cache lines stay in the L1 cache.
 */
const TILE_ROWS = 64;

/** Number of rows that an evaluator computes for `rows` rows, in whole groups. */
export const paddedRows = (rows: number): number => Math.ceil(rows / ROW_GROUP) * ROW_GROUP;

/** Encodes batches. The arrays are reused: each call of `encode` overwrites the result of the previous call. */
export class Encoder implements DirectEncoding {
  /** Arrays with `paddedRows(capacity)` rows. */
  readonly inputs: readonly EncodedInput[];
  readonly columns: readonly (Encoding | null)[];
  /** Encoders of the columns that decoders may write directly, and of the other columns. */
  readonly #direct: readonly Fill[];
  readonly #others: readonly Fill[];

  /**
   * `kinds[i]`: representation of column i in batches. `capacity`: rows of the largest batch. `kept`: columns that no
   * decoder may write directly, because the batch must contain their values.
   */
  constructor(manifest: Manifest, kinds: readonly ColumnKind[], capacity: number, kept: readonly boolean[] = []) {
    const uses = manifest.columns.map(
      (): { fill: Fill; type: InputSpec['type']; input: number; column: number }[] => [],
    );
    const index = new Map(manifest.columns.map((c, i) => [c.name, i]));
    this.inputs = manifest.inputs.map((input, at) => {
      const names = input.columns ?? [input.column!];
      const data = allocate(input.type, paddedRows(capacity) * names.length);
      names.forEach((name, j) => {
        const i = index.get(name)!;
        const own = fill(manifest.columns[i]!, kinds[i]!, i, input.type, data, j, names.length);
        uses[i]!.push({ fill: own, type: input.type, input: at, column: j });
      });
      return { name: input.name, type: input.type, width: names.length, data };
    });
    this.columns = uses.map((own, i) =>
      kept[i] !== true && own.length > 0 && own.every((u) => u.type === 'float32')
        ? { places: own, ...encodingOf(manifest.columns[i]!, kinds[i]!, 'float32') }
        : null,
    );
    const fillsOf = (direct: boolean): Fill[] =>
      uses.flatMap((own, i) => ((this.columns[i] !== null) === direct ? own.map((u) => u.fill) : []));
    this.#direct = fillsOf(true);
    this.#others = fillsOf(false);
  }

  /**
   * Encodes the values of the batch that no decoder has encoded. Rejected rows and padding rows become copies of the
   * first valid row.
   */
  encode(batch: ColumnBatch): readonly EncodedInput[] {
    const { encoded, rows } = batch;
    this.#fill(this.#others, batch, 0, rows);
    for (let from = encoded.indexOf(0); from >= 0 && from < rows; ) {
      const to = encoded.indexOf(1, from);
      const end = to < 0 ? rows : Math.min(to, rows);
      this.#fill(this.#direct, batch, from, end);
      from = encoded.indexOf(0, end);
    }
    const valid = batch.rejected.indexOf(0);
    for (const r of batch.rejections) this.#copyRow(valid, r.index);
    for (let r = batch.rows; r < paddedRows(batch.rows); r++) this.#copyRow(valid, r);
    return this.inputs;
  }

  #fill(fills: readonly Fill[], batch: ColumnBatch, first: number, last: number): void {
    for (let from = first; from < last; from += TILE_ROWS) {
      const to = Math.min(last, from + TILE_ROWS);
      for (const f of fills) f(batch, from, to);
    }
  }

  #copyRow(from: number, to: number): void {
    for (const { data, width } of this.inputs) {
      if (Array.isArray(data)) for (let j = 0; j < width; j++) data[to * width + j] = data[from * width + j]!;
      else data.copyWithin(to * width, from * width, (from + 1) * width);
    }
  }
}

function allocate(type: InputSpec['type'], n: number): InputArray {
  switch (type) {
    case 'float32':
      return new Float32Array(n);
    case 'float64':
      return new Float64Array(n);
    case 'int64':
      return new BigInt64Array(n);
    case 'int32':
      return new Int32Array(n);
    case 'bool':
      return new Uint8Array(n);
    case 'string':
      return new Array<string>(n).fill('');
  }
}

/**
 * Creates the encoder of one column of one input. Codes are encoded by table lookup, so that the loop over rows does
 * not branch on strings.
 */
function fill(
  spec: ColumnSpec,
  kind: ColumnKind,
  column: number,
  type: InputSpec['type'],
  data: InputArray,
  offset: number,
  width: number,
): Fill {
  if (type === 'string') {
    const out = data as string[];
    const text = stringOf(spec, kind, replacement(spec));
    return (batch, from, to) => {
      const c = batch.columns[column]!;
      for (let r = from; r < to; r++) out[r * width + offset] = batch.rejected[r] === 1 ? '' : text(c, r);
    };
  }
  const { missing: missingNumber, values } = encodingOf(spec, kind, type);
  if (kind === 'number') {
    const missingBig = type === 'int64' ? BigInt(missingNumber) : 0n;
    if (data instanceof BigInt64Array) {
      return (batch, from, to) => {
        const v = batch.columns[column]!.numbers;
        for (let r = from; r < to; r++) {
          const x = v[r]!;
          data[r * width + offset] = Number.isInteger(x) ? BigInt(x) : missingBig;
        }
      };
    }
    const out = data as Float32Array;
    if (Number.isNaN(missingNumber)) {
      return (batch, from, to) => {
        const v = batch.columns[column]!.numbers;
        for (let r = from, o = from * width + offset; r < to; r++, o += width) out[o] = v[r]!;
      };
    }
    return (batch, from, to) => {
      const v = batch.columns[column]!.numbers;
      for (let r = from, o = from * width + offset; r < to; r++, o += width) {
        const x = v[r]!;
        out[o] = Number.isNaN(x) ? missingNumber : x;
      }
    };
  }
  if (data instanceof BigInt64Array) {
    const big = values!.map((v) => BigInt(Number.isNaN(v) ? 0 : v));
    return (batch, from, to) => {
      const codes = batch.columns[column]!.codes;
      for (let r = from; r < to; r++) data[r * width + offset] = big[codes[r]! - UNSEEN]!;
    };
  }
  const lookup = Float64Array.from(values!);
  const out = data as Float32Array;
  return (batch, from, to) => {
    const codes = batch.columns[column]!.codes;
    for (let r = from, o = from * width + offset; r < to; r++, o += width) out[o] = lookup[codes[r]! - UNSEEN]!;
  };
}

/** The replacement of a missing value; undefined if there is none. */
const replacement = ({ missing }: ColumnSpec): string | number | boolean | undefined =>
  missing?.as === undefined || missing.as === 'nan' || missing.as === 'error' ? undefined : missing.value;

/** How values of a column become numbers of a type. @throws SluiceError model_invalid */
function encodingOf(spec: ColumnSpec, kind: ColumnKind, type: InputSpec['type']): Omit<Encoding, 'places'> {
  const instead = replacement(spec);
  const what = `column ${spec.name}`;
  const missing =
    instead === undefined ? (type === 'float32' || type === 'float64' ? NaN : 0) : numberOf(instead, spec, what);
  if (instead === undefined && spec.missing?.as !== 'error' && Number.isNaN(missing) === false) {
    throw new SluiceError(
      'model_invalid',
      `${what}: ${type} has no NaN; set the replacement of missing values (missing: {as: value, value: …})`,
    );
  }
  if (kind === 'number') return { missing, values: null };
  const unseen = spec.unseen === 'value' ? numberOf(spec.unseen_value!, spec, what) : missing;
  const coded =
    kind === 'boolean'
      ? [numberOf(spec.false_as ?? 0, undefined, what), numberOf(spec.true_as ?? 1, undefined, what)]
      : categoriesOf(spec)!.codes!;
  return { missing, values: [unseen, missing, ...coded] };
}

function numberOf(value: string | number | boolean, spec: ColumnSpec | undefined, what: string): number {
  const known = typeof value === 'string' && spec ? categoriesOf(spec) : null;
  const code = known?.codes?.[known.index.get(value as string) ?? -1];
  if (code !== undefined) return code;
  const n = typeof value === 'boolean' ? Number(value) : typeof value === 'number' ? value : Number.NaN;
  if (Number.isNaN(n) && !(typeof value === 'string' && /^nan$/i.test(value))) {
    throw new SluiceError('model_invalid', `${what}: ${JSON.stringify(value)} is not a number that the model accepts`);
  }
  return n;
}

/** Creates the function that returns the text of a value, for string inputs. */
function stringOf(
  spec: ColumnSpec,
  kind: ColumnKind,
  missing: string | number | boolean | undefined,
): (c: ColumnData, r: number) => string {
  const replaced = missing === undefined ? '' : String(missing);
  switch (kind) {
    case 'text':
      return (c, r) => c.texts[r] ?? replaced;
    case 'number':
      return (c, r) => (Number.isNaN(c.numbers[r]) ? replaced : String(c.numbers[r]));
    case 'boolean': {
      const words = [replaced, replaced, String(spec.false_as ?? 'False'), String(spec.true_as ?? 'True')];
      return (c, r) => words[c.codes[r]! - UNSEEN]!;
    }
    case 'category': {
      const unseen = spec.unseen === 'value' ? String(spec.unseen_value) : replaced;
      const words = [unseen, replaced, ...(categoriesOf(spec)?.values ?? [])];
      return (c, r) => words[c.codes[r]! - UNSEEN]!;
    }
  }
}
