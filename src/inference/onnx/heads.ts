// Traces all models that contribute to an output. An explanation adds up the effects of these models.
import type { Node, OnnxModel } from './graph.ts';
import { constant, constantOrNull, contextOf, type TraceContext, traceHead } from './trace.ts';
import { Untraceable } from './trace-columns.ts';
import type { Trace } from './traced-model.ts';

/**
 * The models that contribute to an output, for explanation. The caller compares their combined result with the actual
 * output.
 */
export interface TracedHeads {
  /** If `linear`, the output is the sum of weight × head; otherwise, it is an unknown function of the heads. */
  heads: readonly { trace: Trace; weight: number }[];
  linear: boolean;
  /** Logistic functions whose sum is the output; null if the output is not such a sum. */
  logistics: readonly Logistic[] | null;
}

/** weight / (1 + exp(-(slope × sum + offset))), where `sum` is the sum of a linear model. */
export interface Logistic {
  trace: Trace;
  weight: number;
  slope: number;
  offset: number;
}

/**
 * Traces every tree ensemble and linear model that contributes to the output. Also follows operators that native
 * evaluation does not support: Concat of both classes, Exp and Div of a calibration, averages of several models.
 */
export function traceHeads(
  model: OnnxModel,
  output: string,
  widths: ReadonlyMap<string, number>,
): { traced: TracedHeads; reason: null } | { traced: null; reason: string } {
  try {
    const walk = new HeadWalk(contextOf(model, widths, true));
    walk.visit(output, 1);
    if (walk.heads.size === 0) throw new Untraceable('the output comes from no model');
    return {
      traced: { heads: [...walk.heads.values()], linear: walk.linear, logistics: walk.logistics },
      reason: null,
    };
  } catch (e) {
    if (e instanceof Untraceable) return { traced: null, reason: e.message };
    throw e;
  }
}

/** Follows every path from the output back to a model, and multiplies the weights along the path. */
class HeadWalk {
  readonly heads = new Map<string, { trace: Trace; weight: number }>();
  linear = true;
  logistics: Logistic[] | null = [];
  /** Whether the walk is inside a logistic function. Models found there belong to that function. */
  #inside = false;
  readonly #context: TraceContext;
  #steps = 0;

  constructor(context: TraceContext) {
    this.#context = context;
  }

  /** @throws Untraceable */
  visit(name: string, weight: number): void {
    if (++this.#steps > MAX_HEAD_STEPS) throw new Untraceable('too many steps after the model');
    const c = this.#context;
    const node = c.producers.get(name);
    if (!node) throw new Untraceable(`output ${name} comes from no node`);
    const logistic = this.#inside ? null : this.#logistic(name, weight);
    if (logistic) {
      this.logistics?.push(logistic);
      this.#inside = true;
    }
    this.#follow(node, name, weight);
    if (logistic) this.#inside = false;
  }

  #follow(node: Node, name: string, weight: number): void {
    const c = this.#context;
    const computed = node.inputs.filter((i) => i !== '' && !this.#isConstant(i));
    const product = computed.length === 1 ? c.producers.get(computed[0]!) : undefined;
    if (isHead(node) || (node.op === 'Add' && product?.op === 'MatMul')) {
      if (!this.#inside) this.logistics = null;
      const known = this.heads.get(name);
      if (known) known.weight += weight;
      else this.heads.set(name, { trace: traceHead(c, name, []), weight });
      return;
    }
    if (this.#visitLinear(node, computed, weight)) return;
    this.linear = false;
    // Normalizer does not change two classes that already add up to 1. The comparison of outputs verifies that.
    if (!this.#inside && node.op !== 'Normalizer') this.logistics = null;
    if (!NONLINEAR.has(node.op)) throw new Untraceable(`${node.op} after the model`);
    for (const i of computed) this.visit(i, weight);
  }

  /** Follows an operator whose effect on the weights is known; returns false for other operators. */
  #visitLinear(node: Node, computed: readonly string[], weight: number): boolean {
    const [first] = node.inputs as [string];
    switch (node.op) {
      case 'Identity':
      case 'ZipMap':
      case 'Cast':
      case 'Reshape':
      case 'Squeeze':
      case 'Unsqueeze':
      case 'Flatten':
      case 'Gather':
      case 'ArrayFeatureExtractor':
      case 'Slice':
      case 'ReduceMean':
        this.visit(first, weight);
        return true;
      case 'Sum':
      case 'Add':
        for (const i of computed) this.visit(i, weight);
        return true;
      case 'Sub':
        for (const i of computed) this.visit(i, i === first ? weight : -weight);
        return true;
      case 'Mul':
        if (computed.length !== 1) return false;
        this.visit(computed[0]!, weight * this.#factor(node));
        return true;
      case 'Div':
        if (computed.length !== 1 || computed[0] !== first) return false;
        this.visit(first, weight / this.#factor(node));
        return true;
      case 'Concat': {
        // A Concat along the rows collects the terms of an average. A Concat of two classes side by side is followed
        // only to the second class.
        const axis = node.attributes.get('axis')?.i ?? 0;
        if (axis === 0) for (const i of computed) this.visit(i, weight / computed.length);
        else if (computed.length === 2) this.visit(computed[1]!, weight);
        else throw new Untraceable('Concat after the model');
        return true;
      }
      default:
        return false;
    }
  }

  /** The logistic function of a linear model that computes `name`; null if another function computes it. */
  #logistic(name: string, weight: number): Logistic | null {
    const { producers } = this.#context;
    const node = producers.get(name)!;
    if (node.op === 'LinearClassifier') {
      const trace = traceHead(this.#context, name, []);
      const is = trace.head.kind === 'linear' && trace.head.postTransform === 'LOGISTIC';
      return is ? { trace, weight, slope: 1, offset: 0 } : null;
    }
    if (node.op === 'Sigmoid') return this.#affine(node.inputs[0]!, { weight, slope: 1, offset: 0 });
    if (node.op !== 'Div' || this.#number(node.inputs[0]!) !== 1) return null;
    // The pattern 1 / (1 + exp(x)).
    const sum = producers.get(node.inputs[1]!);
    if (sum?.op !== 'Add') return null;
    const exp = sum.inputs.map((i) => producers.get(i)).find((n) => n?.op === 'Exp');
    if (!exp || !sum.inputs.some((i) => this.#number(i) === 1)) return null;
    return this.#affine(exp.inputs[0]!, { weight, slope: -1, offset: 0 });
  }

  /** Follows slope × x + offset back to the linear model that computes x. */
  #affine(name: string, { weight, slope, offset }: Omit<Logistic, 'trace'>): Logistic | null {
    const node = this.#context.producers.get(name);
    if (!node) return null;
    const [a, b] = node.inputs.map((i) => this.#number(i)) as [number | null, number | null | undefined];
    const [x, y] = node.inputs as [string, string];
    const number = a ?? b ?? null;
    const rest = a === null ? x : y;
    if (number !== null && node.op === 'Add')
      return this.#affine(rest, { weight, slope, offset: offset + slope * number });
    if (number !== null && node.op === 'Mul') return this.#affine(rest, { weight, slope: slope * number, offset });
    if (node.op === 'Neg') return this.#affine(x, { weight, slope: -slope, offset });
    if (PASSED.has(node.op)) return this.#affine(x, { weight, slope, offset });
    if (!isHead(node) && node.op !== 'Add') return null;
    const trace = traceHead(this.#context, name, []);
    if (trace.head.kind !== 'linear' || trace.head.postTransform !== 'NONE') return null;
    return { trace, weight, slope, offset };
  }

  #number(name: string): number | null {
    if (!this.#isConstant(name)) return null;
    const [one, ...more] = constant(this.#context, name).numbers();
    return one === undefined || more.length > 0 ? null : one;
  }

  /** The constant factor of Mul or Div. */
  #factor(node: Node): number {
    const name = node.inputs.find((i) => this.#isConstant(i)) ?? '';
    const [by, ...more] = constant(this.#context, name).numbers();
    if (by === undefined || more.length > 0) this.linear = false;
    return by ?? 1;
  }

  #isConstant(name: string): boolean {
    return constantOrNull(this.#context, name) !== undefined;
  }
}

const MAX_HEAD_STEPS = 2_000;
/** Operators that do not change the value of a sum. */
const PASSED = new Set(['Identity', 'Cast', 'Reshape', 'Squeeze', 'Unsqueeze', 'Flatten', 'Gather', 'ArrayFeatureExtractor', 'Slice']); // biome-ignore format: a list
/** Operators on scores whose effect is determined by comparing outputs. */
const NONLINEAR = new Set(['Sigmoid', 'Softmax', 'Exp', 'Div', 'Mul', 'Abs', 'ReduceSum', 'ReduceL1', 'Normalizer', 'Clip', 'Neg', 'Max', 'Min']); // biome-ignore format: a list
const isHead = (n: Node): boolean =>
  /^(Trees|TreeEnsemble|TreeEnsembleClassifier|TreeEnsembleRegressor|LinearClassifier|LinearRegressor|Gemm|MatMul)$/.test(
    n.op,
  );
