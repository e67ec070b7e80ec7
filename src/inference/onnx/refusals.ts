// Why a graph cannot be served correctly, as far as the file alone shows it.
import { allNodes, allTensors, type Dimension, type ElementType, type OnnxModel } from './graph.ts';
import { zipMaps } from './zipmap.ts';

/** Operator sets ONNX Runtime has built in. */
const DOMAINS = new Set(['', 'ai.onnx.ml', 'com.microsoft']);
/** Element types the encoder can feed. */
const FEEDABLE = new Set<ElementType>(['float32', 'float64', 'int64', 'int32', 'bool', 'string']);
const NARROW = new Set<ElementType>(['bfloat16', 'float16']);

/**
 * The reasons why a graph cannot be served correctly, each with its fix; empty if it can.
 * Only what the file shows; raw scores show up when rows are scored.
 */
export function refusals(model: OnnxModel): string[] {
  const reasons: string[] = [];
  const custom = new Set<string>();
  for (const n of allNodes(model.graph)) {
    const name = `${n.domain}.${n.op}`;
    if (!DOMAINS.has(n.domain) && !model.functions.includes(name)) custom.add(name);
  }
  if (custom.size > 0) {
    reasons.push(
      `it uses custom operators (${[...custom].join(', ')}) that ONNX Runtime does not have: export with operators of ai.onnx and ai.onnx.ml only`,
    );
  }
  for (const t of allTensors(model.graph)) {
    if (t.external) {
      reasons.push(
        `tensor ${t.name} lies in another file: save the model as one file, onnx.save_model(model, path, save_as_external_data=False)`,
      );
      break;
    }
  }
  for (const i of model.graph.inputs) {
    if (i.type.kind !== 'tensor') reasons.push(`input ${i.name} is a ${i.type.kind}, not a tensor`);
    else if (NARROW.has(i.type.element)) {
      reasons.push(`input ${i.name} is ${i.type.element}, which loses digits of amounts: export with float32 inputs`);
    } else if (!FEEDABLE.has(i.type.element)) {
      reasons.push(`input ${i.name} is ${i.type.element}: export with float32, float64, int64, int32, bool or string`);
    }
    if (i.type.kind === 'tensor' && i.type.shape) reasons.push(...shapeProblems(i.name, i.type.shape));
  }
  if (model.graph.inputs.length === 0) reasons.push('it has no inputs');
  const chance = [...allNodes(model.graph)].find((n) => n.domain === '' && RANDOM.test(n.op));
  if (chance) {
    reasons.push(
      `it draws random numbers (${chance.op}), so the same application gets other scores each time: export it in evaluation mode`,
    );
  }
  const zips = new Set(zipMaps(model.graph).map((z) => z.output));
  for (const o of model.graph.outputs) {
    if (o.type.kind === 'tensor') {
      if (NARROW.has(o.type.element)) {
        reasons.push(`output ${o.name} is ${o.type.element}, which keeps 2 or 3 digits: export with float32`);
      }
    } else if (!zips.has(o.name)) {
      reasons.push(
        `output ${o.name} is a ${o.type.kind} that is not made by ZipMap and cannot be turned into a tensor: export with options={'zipmap': False}`,
      );
    }
  }
  return reasons;
}

const RANDOM = /^(Random(Normal|Uniform)(Like)?|Bernoulli|Multinomial)$/;

/** Rows are the first dimension and columns the second; nothing else can be filled from a table. */
function shapeProblems(name: string, shape: readonly Dimension[]): string[] {
  const [rows] = shape;
  if (shape.length === 0) {
    return [
      `input ${name} is a single value and no column of applications (a switch such as training?): make it a constant of the graph`,
    ];
  }
  if (shape.length > 2) {
    return [
      `input ${name} has ${shape.length} dimensions: applications are tables, export it as [rows, columns] and reshape inside the graph`,
    ];
  }
  if (typeof rows === 'number' && rows > 1) {
    return [
      `input ${name} takes exactly ${rows} rows at once: leave the number of rows open when exporting (torch.onnx.export: dynamic_axes={'${name}': {0: 'rows'}}; initial types: [None, columns])`,
    ];
  }
  return [];
}
