// Traces a graph that consists of several models (voting, bagging, calibration, AdaBoost): the trace of each model, and
// the steps that combine their scores.
import type { Node, OnnxModel, Tensor } from './graph.ts';
import { constantOrNull, contextOf, type TraceContext, traceHead } from './trace.ts';
import { Untraceable } from './trace-columns.ts';
import type { Trace } from './traced-model.ts';

/** Functions of one number, and functions of two numbers. */
export type Unary = 'exp' | 'log' | 'neg' | 'abs' | 'sigmoid' | 'truncate' | 'isnonzero' | 'not';
export type Binary = 'add' | 'sub' | 'mul' | 'div' | 'pow' | 'max' | 'min' | 'equal' | 'less' | 'greater';

/**
 * A step computes `width` numbers per row from earlier values. `of` contains the indexes of these values, counting
 * first the parts, then the constants, then the steps. A value with one number per row is used for every column; a
 * constant is used for every row.
 */
export type CombineStep = { readonly width: number } & (
  | { readonly op: Unary; readonly of: readonly [number] }
  | { readonly op: Binary; readonly of: readonly [number, number] }
  | { readonly op: 'where'; readonly of: readonly [condition: number, yes: number, no: number] }
  /** Columns of several values side by side. */
  | { readonly op: 'concat'; readonly of: readonly number[] }
  | { readonly op: 'columns'; readonly of: readonly [number]; readonly columns: readonly number[] }
  /** Functions over all columns of a row. */
  | { readonly op: 'softmax' | 'l1' | 'argmax' | 'rowsum'; readonly of: readonly [number] }
  /** The sum of several values. The mean divides this sum by the number of values. */
  | { readonly op: 'sum' | 'mean'; readonly of: readonly number[] }
);

/** A graph that combines models. */
export interface Composition {
  readonly parts: readonly Trace[];
  readonly constants: readonly (readonly number[])[];
  readonly steps: readonly CombineStep[];
  /** Index of the value that is the output. */
  readonly result: number;
}

/** Maximum number of combining steps. */
const MAX_STEPS = 20_000;

const BINARY: Readonly<Record<string, Binary>> = {
  Add: 'add', Sub: 'sub', Mul: 'mul', Div: 'div', Pow: 'pow', Max: 'max', Min: 'min', Equal: 'equal', Less: 'less', Greater: 'greater',
}; // biome-ignore format: the table reads better packed
const UNARY: Readonly<Record<string, Unary>> = {
  Exp: 'exp', Log: 'log', Neg: 'neg', Abs: 'abs', Sigmoid: 'sigmoid', Not: 'not',
}; // biome-ignore format: the table reads better packed
const PASSED = new Set(['Identity', 'Reshape', 'Flatten', 'Squeeze', 'Unsqueeze', 'ZipMap']);
const HEADS =
  /^(TreeEnsemble|TreeEnsembleClassifier|TreeEnsembleRegressor|LinearClassifier|LinearRegressor|Gemm|MatMul)$/;

/**
 * Traces `output` back to the models that contribute to it.
 * @param widthOf number of scores of a traced model
 * @throws Untraceable
 */
export function traceComposition(
  model: OnnxModel,
  output: string,
  widths: ReadonlyMap<string, number>,
  widthOf: (trace: Trace) => number,
): Composition {
  const walk = new CompositionWalk(contextOf(model, widths, false), widthOf);
  const value = walk.valueOf(output);
  if (value.stacked) throw new Untraceable('the output is a stack of scores');
  return walk.finish(value.index);
}

/** An operand: a model, a constant or a step, with its index among operands of this kind. */
interface Value {
  index: { kind: 'part' | 'constant' | 'step'; at: number };
  width: number;
  /** Scores that are stacked along a new first axis, as exporters write bagging; otherwise null. */
  stacked: readonly Value[] | null;
}

type Unfinished = { op: string; of: readonly Value[]; width: number; columns?: readonly number[] };

class CompositionWalk {
  readonly #c: TraceContext;
  readonly #widthOf: (trace: Trace) => number;
  readonly #known = new Map<string, Value>();
  readonly #parts: Trace[] = [];
  readonly #constants: (readonly number[])[] = [];
  readonly #steps: Unfinished[] = [];
  #depth = 0;

  constructor(context: TraceContext, widthOf: (trace: Trace) => number) {
    this.#c = context;
    this.#widthOf = widthOf;
  }

  finish(result: Value['index']): Composition {
    const [parts, constants] = [this.#parts.length, this.#constants.length];
    const indexOf = ({ kind, at }: Value['index']): number =>
      kind === 'part' ? at : kind === 'constant' ? parts + at : parts + constants + at;
    if (parts === 0) throw new Untraceable('the output comes from no model');
    return {
      parts: this.#parts,
      constants: this.#constants,
      steps: this.#steps.map(({ of, ...step }) => ({ ...step, of: of.map((v) => indexOf(v.index)) }) as CombineStep),
      result: indexOf(result),
    };
  }

  valueOf(name: string): Value {
    const known = this.#known.get(name);
    if (known) return known;
    if (++this.#depth > 500) throw new Untraceable('the steps after the models are nested too deep');
    const value = this.#valueOf(name);
    this.#depth--;
    this.#known.set(name, value);
    return value;
  }

  #valueOf(name: string): Value {
    const constant = constantOrNull(this.#c, name);
    if (constant) return this.#constant(constant);
    const node = this.#c.producers.get(name);
    if (!node) throw new Untraceable(`${name} comes from no node`);
    if (HEADS.test(node.op) || this.#isMatrix(node)) {
      const trace = traceHead(this.#c, name, []);
      return {
        index: { kind: 'part', at: this.#parts.push(trace) - 1 },
        width: this.#widthOf(trace),
        stacked: null,
      };
    }
    return this.#combined(node);
  }

  /** Whether the node is a linear model that is written as MatMul and Add. */
  #isMatrix(node: Node): boolean {
    const before = node.op === 'Add' ? node.inputs.map((i) => this.#c.producers.get(i)?.op) : [];
    return before.includes('MatMul') && node.inputs.some((i) => constantOrNull(this.#c, i) !== undefined);
  }

  #constant(tensor: Tensor): Value {
    if (tensor.element === 'string' || tensor.element === 'float64')
      throw new Untraceable(`constants of ${tensor.element}`);
    const values = tensor.numbers();
    const dims = tensor.dims.filter((d) => d !== 1);
    if (dims.length > 1 || values.length === 0) throw new Untraceable('a constant with several rows');
    return {
      index: { kind: 'constant', at: this.#constants.push([...values]) - 1 },
      width: values.length,
      stacked: null,
    };
  }

  #step(op: CombineStep['op'], of: readonly Value[], width: number, more: { columns?: readonly number[] } = {}): Value {
    if (this.#steps.length > MAX_STEPS) throw new Untraceable('too many steps after the models');
    if (of.some((v) => v.stacked)) throw new Untraceable(`${op} of stacked scores`);
    if (of.length === 1 && op !== 'columns' && of[0]!.index.kind === 'constant')
      throw new Untraceable(`${op} of a constant`);
    return {
      index: { kind: 'step', at: this.#steps.push({ op, of, width, ...more }) - 1 },
      width,
      stacked: null,
    };
  }

  /** An elementwise step. All widths must be equal or 1. */
  #each(op: CombineStep['op'], of: readonly Value[]): Value {
    const width = Math.max(...of.map((v) => v.width));
    if (of.some((v) => v.width !== 1 && v.width !== width)) throw new Untraceable(`${op} of different widths`);
    return this.#step(op, of, width);
  }

  #combined(node: Node): Value {
    const op = node.domain === '' || node.domain === 'ai.onnx.ml' ? node.op : `${node.domain}.${node.op}`;
    const int = (name: string, otherwise: number): number => node.attributes.get(name)?.i ?? otherwise;
    const inputs = (): Value[] => node.inputs.filter((i) => i !== '').map((i) => this.valueOf(i));
    const first = (): Value => this.valueOf(node.inputs[0]!);
    if (PASSED.has(op)) return first();
    if (Object.hasOwn(UNARY, op)) return this.#each(UNARY[op]!, [first()]);
    if (Object.hasOwn(BINARY, op) && node.inputs.length === 2) return this.#each(BINARY[op]!, inputs());
    switch (op) {
      case 'Cast':
        return this.#cast(first(), int('to', 0));
      case 'Where':
        return this.#each('where', inputs());
      case 'Sum': {
        const all = inputs();
        return all.length === 1 ? all[0]! : this.#each('sum', all);
      }
      case 'Concat':
        return this.#concat(inputs(), int('axis', 1));
      case 'ReduceMean':
      case 'ReduceSum':
        return this.#reduce(node, first());
      case 'ArgMax':
        if (Math.abs(int('axis', 0)) !== 1 || int('select_last_index', 0) !== 0)
          throw new Untraceable('ArgMax over rows');
        return this.#step('argmax', [first()], 1);
      case 'Softmax':
        if (Math.abs(int('axis', -1)) !== 1) throw new Untraceable('Softmax over rows');
        return this.#step('softmax', [first()], first().width);
      case 'Normalizer':
        if (node.attributes.get('norm')?.s !== 'L1') throw new Untraceable('a Normalizer that is not L1');
        return this.#step('l1', [first()], first().width);
      case 'ArrayFeatureExtractor':
      case 'Gather':
        return this.#pick(node, first(), op === 'Gather' ? int('axis', 0) : 1);
      case 'ConstantOfShape':
        return this.#filled(node);
      default:
        throw new Untraceable(`${op} after the models`);
    }
  }

  /** Element types of ONNX: 1 is float32, 9 is bool, 6 and 7 are integers. */
  #cast(value: Value, to: number): Value {
    if (to === 1) return value;
    if (to === 6 || to === 7) return this.#each('truncate', [value]);
    if (to === 9) return this.#each('isnonzero', [value]);
    throw new Untraceable('a Cast of the scores to double or text');
  }

  #concat(values: readonly Value[], axis: number): Value {
    if (values.some((v) => v.stacked)) throw new Untraceable('Concat of stacked scores');
    if (axis === 0) return { ...values[0]!, stacked: values };
    if (axis !== 1 && axis !== -1) throw new Untraceable('Concat of rows');
    return this.#step(
      'concat',
      values,
      values.reduce((n, v) => n + v.width, 0),
    );
  }

  #reduce(node: Node, value: Value): Value {
    const axes =
      node.attributes.get('axes')?.ints ??
      (node.inputs[1] ? constantOrNull(this.#c, node.inputs[1])?.numbers() : null) ??
      [];
    const [axis, ...more] = axes;
    if (axis === undefined || more.length > 0) throw new Untraceable(`${node.op} over several axes`);
    if (value.stacked) {
      if (axis !== 0) throw new Untraceable(`${node.op} within stacked scores`);
      return this.#each(node.op === 'ReduceMean' ? 'mean' : 'sum', value.stacked);
    }
    if (node.op === 'ReduceMean' || Math.abs(axis) !== 1) throw new Untraceable(`${node.op} after the models`);
    return this.#step('rowsum', [value], 1);
  }

  #pick(node: Node, value: Value, axis: number): Value {
    const columns = constantOrNull(this.#c, node.inputs[1]!)?.numbers();
    if (!columns || (axis !== 1 && axis !== -1)) throw new Untraceable(`${node.op} by computed columns`);
    if (columns.some((c) => !(c >= 0 && c < value.width))) throw new Untraceable('a column that does not exist');
    return this.#step('columns', [value], columns.length, { columns });
  }

  /** A constant in the shape of other scores. */
  #filled(node: Node): Value {
    if (this.#c.producers.get(node.inputs[0]!)?.op !== 'Shape') throw new Untraceable('a computed shape');
    const value = node.attributes.get('value')?.tensor?.numbers()[0] ?? 0;
    return { index: { kind: 'constant', at: this.#constants.push([value]) - 1 }, width: 1, stacked: null };
  }
}
