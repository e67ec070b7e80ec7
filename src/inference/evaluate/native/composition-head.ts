// A head that combines the scores of several models in float32, with the same steps as ONNX Runtime.
import type { EncodedInput } from '../../encode/encoder.ts';
import type { Binary, CombineStep, Unary } from '../../onnx/composition.ts';
import { expf } from '../../trees/float.ts';
import { Unsupported } from '../../trees/unsupported.ts';
import { CAPACITY, type Head } from './feature-source.ts';
import { l1, mlasLogistic, softmax } from './output.ts';

const f = Math.fround;
const UNARY: Readonly<Record<Unary, (x: number) => number>> = {
  exp: (x) => expf(f(x)),
  log: Math.log,
  neg: (x) => -x,
  abs: Math.abs,
  sigmoid: mlasLogistic,
  truncate: Math.trunc,
  isnonzero: (x) => (x === 0 ? 0 : 1),
  not: (x) => (x === 0 ? 1 : 0),
};
/**
 * An operand's numbers, and the distances between them by row and by column. A distance of 0 means that all rows or
 * columns use the same number.
 */
interface Strides {
  readonly data: Float32Array;
  readonly row: number;
  readonly column: number;
}

/**
 * Computes `rows` × `width` results. Each operation has its own loop, because calling a function for each number would
 * cost more than the operation.
 */
type BinaryLoop = (out: Float32Array, width: number, rows: number, x: Strides, y: Strides) => void;

const add: BinaryLoop = (out, width, rows, x, y) => {
  for (let r = 0, o = 0; r < rows; r++) {
    let [i, j] = [r * x.row, r * y.row];
    for (let k = 0; k < width; k++, i += x.column, j += y.column) out[o++] = x.data[i]! + y.data[j]!;
  }
};
const sub: BinaryLoop = (out, width, rows, x, y) => {
  for (let r = 0, o = 0; r < rows; r++) {
    let [i, j] = [r * x.row, r * y.row];
    for (let k = 0; k < width; k++, i += x.column, j += y.column) out[o++] = x.data[i]! - y.data[j]!;
  }
};
const mul: BinaryLoop = (out, width, rows, x, y) => {
  for (let r = 0, o = 0; r < rows; r++) {
    let [i, j] = [r * x.row, r * y.row];
    for (let k = 0; k < width; k++, i += x.column, j += y.column) out[o++] = x.data[i]! * y.data[j]!;
  }
};
const div: BinaryLoop = (out, width, rows, x, y) => {
  for (let r = 0, o = 0; r < rows; r++) {
    let [i, j] = [r * x.row, r * y.row];
    for (let k = 0; k < width; k++, i += x.column, j += y.column) out[o++] = x.data[i]! / y.data[j]!;
  }
};
const equal: BinaryLoop = (out, width, rows, x, y) => {
  for (let r = 0, o = 0; r < rows; r++) {
    let [i, j] = [r * x.row, r * y.row];
    for (let k = 0; k < width; k++, i += x.column, j += y.column) out[o++] = x.data[i]! === y.data[j]! ? 1 : 0;
  }
};
/** The loop for rarely used operations, which calls a function for each number. */
const other =
  (f: (x: number, y: number) => number): BinaryLoop =>
  (out, width, rows, x, y) => {
    for (let r = 0, o = 0; r < rows; r++)
      for (let k = 0; k < width; k++)
        out[o++] = f(x.data[r * x.row + k * x.column]!, y.data[r * y.row + k * y.column]!);
  };
const BINARY: Readonly<Record<Binary, BinaryLoop>> = {
  add,
  sub,
  mul,
  div,
  equal,
  pow: other((x, y) => x ** y),
  max: other(Math.max),
  min: other(Math.min),
  less: other((x, y) => (x < y ? 1 : 0)),
  greater: other((x, y) => (x > y ? 1 : 0)),
};

/** An operand: its numbers, numbers per row, and whether all rows share one set of numbers. */
interface Operand {
  readonly data: Float32Array;
  readonly width: number;
  readonly shared: boolean;
}

const stridesOf = ({ data, width, shared }: Operand): Strides => ({
  data,
  row: shared ? 0 : width,
  column: width === 1 ? 0 : 1,
});

export interface CombinationPlan {
  readonly constants: readonly (readonly number[])[];
  readonly steps: readonly CombineStep[];
  readonly result: number;
}

const plural = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

/** @throws Unsupported */
export function compositionHead(parts: readonly Head[], { constants, steps, result }: CombinationPlan): Head {
  if (parts.some((p) => p.double)) throw new Unsupported('models in double precision are combined');
  const operands: Operand[] = [
    ...parts.map((p): Operand => ({ data: new Float32Array(CAPACITY * p.width), width: p.width, shared: false })),
    ...constants.map((values): Operand => ({ data: Float32Array.from(values), width: values.length, shared: true })),
    ...steps.map(({ width }): Operand => ({ data: new Float32Array(CAPACITY * width), width, shared: false })),
  ];
  const first = parts.length + constants.length;
  const runs = steps.map((step, i) =>
    runOf(
      step,
      operands[first + i]!,
      step.of.map((o) => operands[o]!),
    ),
  );
  const out = operands[result]!;
  const slots = parts.flatMap((p) => p.slots);
  return {
    width: out.width,
    double: false,
    capacity: CAPACITY,
    slots,
    description: `${plural(parts.length, 'model')} combined by ${plural(steps.length, 'step')}: ${parts[0]!.description}`,
    score(inputs: readonly EncodedInput[], from, to, scores) {
      const rows = to - from;
      for (const [p, part] of parts.entries()) {
        for (let done = 0; done < rows; done += part.capacity) {
          const n = Math.min(part.capacity, rows - done);
          part.score(inputs, from + done, from + done + n, operands[p]!.data.subarray(done * part.width));
        }
      }
      for (const run of runs) run(rows);
      scores.set(out.data.subarray(0, rows * out.width));
    },
  };
}

/** Computes a step for the first `rows` rows. */
function runOf(step: CombineStep, out: Operand, of: readonly Operand[]): (rows: number) => void {
  const { data, width } = out;
  const operands = of.map(stridesOf);
  const [x, y, z] = operands as [Strides, Strides, Strides];
  switch (step.op) {
    case 'where':
      return (rows) => {
        for (let r = 0, o = 0; r < rows; r++) {
          for (let k = 0; k < width; k++) {
            const chosen = x.data[r * x.row + k * x.column] === 0 ? z : y;
            data[o++] = chosen.data[r * chosen.row + k * chosen.column]!;
          }
        }
      };
    case 'columns':
      return place(
        data,
        width,
        step.columns.map((c) => ({ ...x, from: c * x.column })),
      );
    case 'concat':
      return place(
        data,
        width,
        of.flatMap((v, i) => Array.from({ length: v.width }, (_, c) => ({ ...operands[i]!, from: c }))),
      );
    case 'sum':
    case 'mean': {
      const zero: Strides = { data: new Float32Array(1), row: 0, column: 0 };
      const [own, count]: [Strides, Strides] = [stridesOf(out), { ...zero, data: Float32Array.of(of.length) }];
      return (rows) => {
        add(data, width, rows, x, zero);
        for (const v of operands.slice(1)) add(data, width, rows, own, v);
        if (step.op === 'mean') div(data, width, rows, own, count);
      };
    }
    case 'rowsum':
    case 'argmax':
      return overRow(step.op, data, x, of[0]!.width);
    case 'softmax':
    case 'l1': {
      const apply = step.op === 'softmax' ? softmax(false, width) : l1(width);
      return (rows) => {
        data.set(x.data.subarray(0, rows * width));
        apply(data, rows);
      };
    }
    default: {
      if (of.length === 2) {
        const loop = BINARY[step.op as Binary];
        return (rows) => loop(data, width, rows, x, y);
      }
      const convert = UNARY[step.op as Unary];
      return (rows) => {
        for (let i = 0; i < rows * width; i++) data[i] = convert(x.data[i]!);
      };
    }
  }
}

/** Places columns side by side. */
function place(
  data: Float32Array,
  width: number,
  columns: readonly (Strides & { from: number })[],
): (rows: number) => void {
  return (rows) => {
    for (const [k, { data: source, row, from }] of columns.entries())
      for (let r = 0, i = from, o = k; r < rows; r++, i += row, o += width) data[o] = source[i]!;
  };
}

/** Reduces all columns of a row to one number. */
function overRow(op: 'rowsum' | 'argmax', data: Float32Array, x: Strides, columns: number): (rows: number) => void {
  return (rows) => {
    for (let r = 0; r < rows; r++) {
      const from = r * x.row;
      let sum = 0;
      let best = 0;
      for (let k = 0; k < columns; k++) {
        sum = f(sum + x.data[from + k]!);
        if (x.data[from + k]! > x.data[from + best]!) best = k;
      }
      data[r] = op === 'rowsum' ? sum : best;
    }
  };
}
