// Traces the linear heads: LinearClassifier and LinearRegressor, Gemm, and MatMul with an Add.
import type { RealType } from './feature.ts';
import type { Node, Tensor } from './graph.ts';
import { Untraceable } from './trace-columns.ts';
import { columnsOf, constant, type TraceContext } from './trace-context.ts';
import type { OutputStep, Trace } from './traced-model.ts';

export function linearNode(c: TraceContext, node: Node, output: readonly OutputStep[]): Trace {
  const x = columnsOf(c, node.inputs[0]!);
  const coefficients = node.attributes.get('coefficients')?.floats ?? [];
  const targets = coefficients.length / x.features.length;
  const classifier = node.op === 'LinearClassifier';
  const intercepts = node.attributes.get('intercepts')?.floats ?? new Array<number>(targets).fill(0);
  if (!Number.isInteger(targets) || targets < 1 || intercepts.length !== targets) {
    throw new Untraceable(`${node.op} has ${coefficients.length} coefficients for ${x.features.length} features`);
  }
  const labels =
    node.attributes.get('classlabels_strings')?.strings.length || node.attributes.get('classlabels_ints')?.ints.length;
  return {
    features: x.features,
    type: 'float32',
    head: {
      kind: 'linear',
      coefficients,
      intercepts,
      targets,
      type: 'float32',
      secondClass: classifier && targets === 1 && labels === 2,
      postTransform: node.attributes.get('post_transform')?.s || 'NONE',
    },
    output,
  };
}

/** Gemm, or MatMul with the Add that follows it. */
export function matrix(c: TraceContext, node: Node, add: Tensor | null, output: readonly OutputStep[]): Trace {
  const x = columnsOf(c, node.inputs[0]!);
  const weights = constant(c, node.inputs[1]!);
  const flag = (name: string): boolean => (node.attributes.get(name)?.i ?? 0) !== 0;
  const one = (name: string): boolean => (node.attributes.get(name)?.f ?? 1) === 1;
  if (flag('transA') || !one('alpha') || !one('beta')) throw new Untraceable('Gemm with transA, alpha or beta');
  const [rows, columns] = weights.dims.length === 2 ? weights.dims : [weights.dims[0] ?? 0, 1];
  const targets = flag('transB') ? rows! : columns!;
  const width = flag('transB') ? columns! : rows!;
  if (width !== x.features.length) throw new Untraceable(`${node.op} takes ${width} of ${x.features.length} features`);
  const w = weights.numbers();
  const bias = add ?? (node.op === 'Gemm' && node.inputs[2] ? constant(c, node.inputs[2]) : null);
  const b = bias?.numbers() ?? [0];
  if (b.length !== 1 && b.length !== targets) throw new Untraceable('an intercept of another shape');
  const type = real(weights.element);
  return {
    features: x.features,
    type: x.type,
    head: {
      kind: 'linear',
      coefficients: Array.from({ length: targets * width }, (_, i) =>
        flag('transB') ? w[i]! : w[(i % width) * targets + Math.floor(i / width)]!,
      ),
      intercepts: Array.from({ length: targets }, (_, t) => b[b.length === 1 ? 0 : t]!),
      targets,
      type,
      secondClass: false,
      postTransform: 'NONE',
    },
    // Steps after double arithmetic are in double until a Cast says otherwise.
    output: type === 'float64' ? inDouble(output) : output,
  };
}

function inDouble(output: readonly OutputStep[]): OutputStep[] {
  let type: RealType = 'float64';
  return output.map((s) => {
    if (s.op === 'cast') type = s.type;
    return s.op === 'sigmoid' || s.op === 'softmax' || s.op === 'l1' ? { ...s, type } : s;
  });
}

/** The type of arithmetic that is traced. @throws Untraceable */
export function real(element: string): RealType {
  if (element === 'float32' || element === 'float64') return element;
  throw new Untraceable(`arithmetic in ${element}`);
}
