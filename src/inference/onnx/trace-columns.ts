// Defines how each preprocessing operator transforms the columns that pass through it.
import type { Attribute, Node, Tensor } from './graph.ts';
import { applyStep, type Cell, extend, type Feature, type FeatureStep, type FeatureType } from './traced-model.ts';

/** Thrown if a graph cannot be traced. The message is the reason for using ONNX Runtime. */
export class Untraceable extends Error {}

/** The columns of a tensor [rows, ...dims]. The dimensions of a row are flattened. */
export interface Columns {
  features: readonly Feature[];
  dims: readonly number[];
  type: FeatureType;
}

/** Maximum number of traced columns of a tensor, because a damaged file can declare far more. */
const MAX_COLUMNS = 65_536;
export function limited(columns: number): number {
  if (!(columns <= MAX_COLUMNS)) throw new Untraceable(`a tensor of ${columns} columns`);
  return columns;
}

interface Call {
  node: Node;
  opset: number;
  columns(input: number): Columns;
  /** The constant tensor of an input; null if the input is missing or not a constant. */
  constant(input: number): Tensor | null;
  /** The constant text that a chain of nodes produces; null if the text is not a constant. */
  text(input: number): string | null;
  /** Whether the trace only explains outputs of ONNX Runtime. Rows on which the graph fails then never occur. */
  answered: boolean;
}
type Trace = (call: Call) => Columns;

const attribute = (call: Call, name: string): Attribute | undefined => call.node.attributes.get(name);
const map = (x: Columns, step: (i: number) => FeatureStep): Columns => {
  const features = x.features.map((f, i) => extend(f, step(i)));
  return { features, dims: x.dims, type: features[0]?.type ?? x.type };
};
const product = (dims: readonly number[]): number => dims.reduce((a, b) => a * b, 1);
/** Entry i of a list that has either one number, or one number per column. */
const broadcast = (values: readonly number[], i: number, width: number): number => {
  if (values.length !== 1 && values.length !== width) throw new Untraceable('numbers of another shape');
  return values[values.length === 1 ? 0 : i]!;
};

const CASTS: Readonly<Record<number, FeatureType>> = {
  1: 'float32', 6: 'int32', 7: 'int64', 8: 'string', 9: 'bool', 11: 'float64',
}; // biome-ignore format: the table reads better packed

const cast: Trace = (call) => {
  const type = CASTS[attribute(call, 'to')?.i ?? 0];
  const x = call.columns(0);
  if (type === undefined || (x.type === 'string') !== (type === 'string'))
    throw new Untraceable('a Cast between text and numbers');
  return type === x.type ? x : map(x, () => ({ op: 'cast', type }));
};

const concat: Trace = (call) => {
  const parts = call.node.inputs.map((_, i) => call.columns(i));
  const axis = attribute(call, 'axis')?.i ?? 1;
  const rank = parts[0]!.dims.length;
  const type = parts[0]!.type;
  const flat = parts.every(
    (p) => p.type === type && p.dims.length === rank && p.dims.slice(0, -1).every((d) => d === 1),
  );
  if ((axis !== -1 && axis !== rank) || !flat) throw new Untraceable('a Concat that is not of columns');
  limited(parts.reduce((n, p) => n + p.features.length, 0));
  const features = parts.flatMap((p) => p.features);
  return { features, dims: [...parts[0]!.dims.slice(0, -1), features.length], type };
};

/** Supports a Reshape that leaves the rows in the first dimension. */
const reshape: Trace = (call) => {
  const x = call.columns(0);
  const shape = call.constant(1)?.numbers() ?? attribute(call, 'shape')?.ints;
  if (!shape || shape.length < 1) throw new Untraceable('a Reshape to a computed shape');
  const rest = shape.slice(1).map((d, i) => (d === 0 ? (x.dims[i] ?? 0) : d));
  const width = x.features.length;
  const free = rest.indexOf(-1);
  if (free >= 0 && shape[0] !== -1) rest[free] = width / product(rest.filter((d) => d !== -1));
  if ((shape[0] !== -1 && shape[0] !== 0) || product(rest) !== width)
    throw new Untraceable('a Reshape that mixes rows');
  return { ...x, dims: rest };
};

const flatten: Trace = (call) => {
  const x = call.columns(0);
  if ((attribute(call, 'axis')?.i ?? 1) !== 1) throw new Untraceable('a Flatten that mixes rows');
  return { ...x, dims: [x.features.length] };
};

const axesOf = (call: Call): readonly number[] => call.constant(1)?.numbers() ?? attribute(call, 'axes')?.ints ?? [];

const squeeze: Trace = (call) => {
  const x = call.columns(0);
  const axes = axesOf(call).map((a) => (a < 0 ? a + x.dims.length + 1 : a));
  if (axes.length === 0 || axes.some((a) => a < 1 || x.dims[a - 1] !== 1)) throw new Untraceable('a Squeeze of rows');
  return { ...x, dims: x.dims.filter((_, i) => !axes.includes(i + 1)) };
};

const unsqueeze: Trace = (call) => {
  const x = call.columns(0);
  const rank = x.dims.length + 1 + axesOf(call).length;
  const axes = axesOf(call).map((a) => (a < 0 ? a + rank : a));
  if (axes.some((a) => a < 1)) throw new Untraceable('an Unsqueeze of rows');
  const dims: number[] = [];
  const rest = [...x.dims];
  for (let i = 1; i < rank; i++) dims.push(axes.includes(i) ? 1 : rest.shift()!);
  return { ...x, dims };
};

const pick = (x: Columns, picked: readonly number[]): Columns => {
  if (x.dims.slice(0, -1).some((d) => d !== 1)) throw new Untraceable('columns of a nested tensor');
  const features = picked.map((i) => x.features[i < 0 ? i + x.features.length : i]);
  if (features.some((f) => f === undefined)) throw new Untraceable('a column that does not exist');
  return { features: features as Feature[], dims: [...x.dims.slice(0, -1), features.length], type: x.type };
};

const gather: Trace = (call) => {
  const axis = attribute(call, 'axis')?.i ?? 0;
  const indices = call.constant(1);
  if (!indices || axis === 0) throw new Untraceable('a Gather of rows');
  const from = call.columns(0);
  if (axis !== -1 && axis !== from.dims.length) throw new Untraceable('a Gather that is not of columns');
  const x = pick(from, indices.numbers());
  return indices.dims.length === 0 ? { ...x, dims: x.dims.slice(0, -1) } : x;
};

const extract: Trace = (call) => {
  const indices = call.constant(1);
  if (!indices) throw new Untraceable('an ArrayFeatureExtractor by computed columns');
  return pick(call.columns(0), indices.numbers());
};

const slice: Trace = (call) => {
  const of = (i: number, name: string): readonly number[] | undefined =>
    call.constant(i)?.numbers() ?? attribute(call, name)?.ints;
  const [starts, ends, axes, steps] = [of(1, 'starts'), of(2, 'ends'), of(3, 'axes'), of(4, 'steps')];
  const x = call.columns(0);
  if (starts?.length !== 1 || ends?.length !== 1 || (axes?.[0] !== 1 && axes?.[0] !== -1) || (steps?.[0] ?? 1) !== 1) {
    throw new Untraceable('a Slice that is not of columns');
  }
  const width = x.features.length;
  const bound = (n: number): number => Math.min(width, Math.max(0, n < 0 ? n + width : n));
  const [from, to] = [bound(starts[0]!), bound(ends[0]!)];
  return pick(
    x,
    Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i),
  );
};

const imputer: Trace = (call) => {
  const x = call.columns(0);
  const floats = attribute(call, 'imputed_value_floats')?.floats ?? [];
  const whole = floats.length === 0;
  const values = whole ? (attribute(call, 'imputed_value_int64s')?.ints ?? []) : floats;
  const replaced = whole
    ? (attribute(call, 'replaced_value_int64')?.i ?? 0)
    : (attribute(call, 'replaced_value_float')?.f ?? 0);
  return map(x, (i) => ({ op: 'impute', type: x.type, replaced, value: broadcast(values, i, x.features.length) }));
};

const scaler: Trace = (call) => {
  const x = call.columns(0);
  const offsets = attribute(call, 'offset')?.floats ?? [];
  const scales = attribute(call, 'scale')?.floats ?? [];
  return map(x, (i) => ({
    op: 'scale',
    type: 'float32',
    from: x.type,
    offset: broadcast(offsets, i, x.features.length),
    scale: broadcast(scales, i, x.features.length),
  }));
};

const oneHot: Trace = (call) => {
  const x = call.columns(0);
  const texts = attribute(call, 'cats_strings')?.strings ?? [];
  const categories: readonly Cell[] = x.type === 'string' ? texts : (attribute(call, 'cats_int64s')?.ints ?? []);
  if ((attribute(call, 'zeros')?.i ?? 1) !== 1 && !call.answered)
    throw new Untraceable('a OneHotEncoder that fails on unknown categories');
  if (categories.length === 0) throw new Untraceable('a OneHotEncoder without categories');
  limited(x.features.length * categories.length);
  return {
    // If a category is listed twice, the last entry is valid.
    features: x.features.flatMap((f) =>
      categories.map((category, i) =>
        extend(f, categories.lastIndexOf(category) === i
          ? { op: 'equals', type: 'float32', category }
          : { op: 'map', type: 'float32', table: new Map(), otherwise: 0 }),
      ),
    ),
    dims: [...x.dims, categories.length],
    type: 'float32',
  }; // biome-ignore format: the choice reads better as one
};

/** Supports LabelEncoder with keys and values, as in ai.onnx.ml 2 and later. */
const labels: Trace = (call) => {
  const x = call.columns(0);
  const list = (prefix: string): { type: FeatureType; cells: readonly Cell[] } | null => {
    const a = (suffix: string): Attribute | undefined => attribute(call, `${prefix}_${suffix}`);
    if (a('strings')?.strings.length) return { type: 'string', cells: a('strings')!.strings };
    if (a('int64s')?.ints.length) return { type: 'int64', cells: a('int64s')!.ints };
    if (a('floats')?.floats.length) return { type: 'float32', cells: a('floats')!.floats };
    return null;
  };
  const [keys, values] = [list('keys'), list('values')];
  if (!keys || keys.cells.length !== values?.cells.length || keys.type !== x.type)
    throw new Untraceable('this form of LabelEncoder');
  const otherwise =
    values.type === 'string'
      ? attribute(call, 'default_string')?.s || '_Unused'
      : values.type === 'int64'
        ? (attribute(call, 'default_int64')?.i ?? -1)
        : (attribute(call, 'default_float')?.f ?? -0);
  const table = new Map<Cell, Cell>();
  for (const [i, key] of keys.cells.entries()) if (!table.has(key)) table.set(key, values.cells[i]!);
  return map(x, () => ({ op: 'map', type: values.type, table, otherwise }));
};

/** ONNX Runtime rejects NaN in a Binarizer, so missing values must have been imputed before. */
const binarizer: Trace = (call) => {
  const x = call.columns(0);
  const imputed = (f: Feature): boolean => f.steps.some((s) => s.op === 'impute' && Number.isNaN(s.replaced));
  const real = x.type === 'float32' || x.type === 'float64';
  if (real && !x.features.every(imputed)) throw new Untraceable('a Binarizer that fails on missing values');
  return map(x, () => ({ op: 'binarize', type: x.type, threshold: attribute(call, 'threshold')?.f ?? 0 }));
};

/** Supports Add, Sub, Mul and Div with a constant on either side. */
const arithmetic =
  (op: 'add' | 'sub' | 'mul' | 'div'): Trace =>
  (call) => {
    const right = call.constant(1);
    const by = right ?? call.constant(0);
    if (!by) throw new Untraceable(`${call.node.op} of two columns`);
    const x = call.columns(right ? 0 : 1);
    if (x.type === 'string' || x.type === 'bool' || by.element !== x.type)
      throw new Untraceable(`${call.node.op} in ${x.type}`);
    const values = by.numbers();
    if (x.dims.length !== 1) throw new Untraceable(`${call.node.op} of a nested tensor`);
    return map(x, (i) => ({ op, type: x.type, by: broadcast(values, i, x.features.length), swapped: !right }));
  };

/** Supports Where(IsNaN(x), constant, x), which is how exporters write an imputation. */
const where: Trace = (call) => {
  const [condition, value, x] = [call.columns(0), call.constant(1), call.columns(2)];
  if (x.type === 'string') return whereText(call, condition, x);
  const isMissing = condition.features.every((f, i) => {
    const of = x.features[i];
    const steps = f.steps.slice(0, -1);
    return (
      f.steps.at(-1)?.op === 'isnan' &&
      of !== undefined &&
      f.source?.input === of.source?.input &&
      f.source?.column === of.source?.column &&
      steps.length === of.steps.length &&
      steps.every((s, k) => s === of.steps[k])
    );
  });
  if (!isMissing || !value || value.element !== x.type) throw new Untraceable('a Where that is not an imputation');
  const values = value.numbers();
  return map(x, (i) => ({
    op: 'impute',
    type: x.type,
    replaced: Number.NaN,
    value: broadcast(values, i, x.features.length),
  }));
};

/**
 * Supports Where(x is a marker, constant, x) on texts, which is how exporters write SimpleImputer. The condition is
 * LabelEncoder(marker → 1, otherwise 0), followed by a Cast to bool.
 */
function whereText(call: Call, condition: Columns, x: Columns): Columns {
  const to = call.text(1);
  const [flag] = condition.features;
  const [text] = x.features;
  if (to === null || !flag || !text || condition.features.length !== 1 || x.features.length !== 1)
    throw new Untraceable('a Where that is not an imputation');
  const [map, cast, ...more] = flag.steps.slice(text.steps.length);
  const same =
    flag.source?.input === text.source?.input &&
    flag.source?.column === text.source?.column &&
    text.steps.every((s, i) => s === flag.steps[i]);
  if (
    !same ||
    map?.op !== 'map' ||
    map.otherwise !== 0 ||
    cast?.op !== 'cast' ||
    cast.type !== 'bool' ||
    more.length > 0
  )
    throw new Untraceable('a Where that is not an imputation');
  const marked = [...map.table].filter(([, v]) => v !== 0).map(([k]) => String(k));
  const features = [marked.reduce((f, from) => extend(f, { op: 'replace', type: 'string', from, to }), text)];
  return { ...x, features };
}

const clip: Trace = (call) => {
  const x = call.columns(0);
  const bound = (i: number, name: string, otherwise: number): number =>
    call.constant(i)?.numbers()[0] ?? attribute(call, name)?.f ?? otherwise;
  if (x.type === 'string' || [1, 2].some((i) => call.node.inputs[i] && !call.constant(i)))
    throw new Untraceable('this form of Clip');
  return map(x, () => ({ op: 'clip', type: x.type, low: bound(1, 'min', -Infinity), high: bound(2, 'max', Infinity) }));
};

/**
 * Supports Less and Greater between one column and the edges of bins, or between several columns and one number each.
 */
const comparison =
  (op: 'less' | 'greater'): Trace =>
  (call) => {
    const x = call.columns(0);
    const by = call.constant(1);
    if (!by || x.type === 'string' || x.type === 'bool') throw new Untraceable(`${call.node.op} of two columns`);
    const edges = by.numbers();
    const features = x.features.length === 1 ? edges.map(() => x.features[0]!) : x.features;
    return map({ ...x, features, dims: [features.length] }, (i) => ({
      op,
      type: 'bool',
      by: broadcast(edges, i, features.length),
    }));
  };

/**
 * A column times 0 is the same constant for every application, because numbers are finite and missing values were
 * imputed before. Exporters use this to create columns of ones from the first available column.
 */
function asConstant(f: Feature): Feature {
  const zero = f.steps.findIndex((s) => s.op === 'mul' && s.by === 0);
  const imputed = f.steps.slice(0, zero).some((s) => s.op === 'impute' && Number.isNaN(s.replaced));
  if (zero < 0 || !imputed) return f;
  const constant = f.steps.slice(zero + 1).reduce((x: Cell, s) => applyStep(s, x), 0);
  return { source: null, steps: [], constant, type: f.type };
}

/** The bin of a value. Exporters write binning as ArgMax over functions of one value. */
const argmax: Trace = (call) => {
  const axis = attribute(call, 'axis')?.i ?? 0;
  const x = call.columns(0);
  const of = x.features.map(asConstant);
  const source = of[0]?.source ?? null;
  const same = of.every(
    (f) => f.source === null || (f.source.input === source?.input && f.source.column === source.column),
  );
  if ((axis !== 1 && axis !== -1) || !same || source === null || x.dims.length !== 1)
    throw new Untraceable('an ArgMax over columns of the application');
  const feature: Feature = {
    source,
    steps: [{ op: 'argmax', type: 'int64', of }],
    constant: 0,
    type: 'int64',
  };
  return { features: [feature], dims: [1], type: 'int64' };
};

/** The operators that can precede a model, as `domain.Operator`. Operators of ai.onnx have no domain. */
export const columnOps: Readonly<Record<string, Trace>> = {
  Identity: (call) => call.columns(0),
  Cast: cast,
  Concat: concat,
  Reshape: reshape,
  Flatten: flatten,
  Squeeze: squeeze,
  Unsqueeze: unsqueeze,
  Gather: gather,
  Slice: slice,
  Add: arithmetic('add'),
  Sub: arithmetic('sub'),
  Mul: arithmetic('mul'),
  Div: arithmetic('div'),
  IsNaN: (call) => map(call.columns(0), () => ({ op: 'isnan', type: 'bool' })),
  Not: (call) => map(call.columns(0), () => ({ op: 'not', type: 'bool' })),
  Where: where,
  Clip: clip,
  Less: comparison('less'),
  Greater: comparison('greater'),
  ArgMax: argmax,
  'ai.onnx.ml.ArrayFeatureExtractor': extract,
  'ai.onnx.ml.Imputer': imputer,
  'ai.onnx.ml.Scaler': scaler,
  'ai.onnx.ml.OneHotEncoder': oneHot,
  'ai.onnx.ml.LabelEncoder': labels,
  'ai.onnx.ml.Binarizer': binarizer,
};
