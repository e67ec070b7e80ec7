// Every kernel of the engine, made as a stream or a model makes it.
import { newBatch } from '../../src/core/batch.ts';
import { RowKernel } from '../../src/formats/decode/row-kernel.ts';
import { delimitedRows } from '../../src/formats/delimited/row-program.ts';
import { jsonRows } from '../../src/formats/json/json-row-program.ts';
import { PlainAnswers } from '../../src/formats/write/answer-kernel.ts';
import { Encoder } from '../../src/inference/encode/encoder.ts';
import { openNative } from '../../src/inference/evaluate/native/native-evaluator.ts';
import { planNative } from '../../src/inference/evaluate/native/native-plan.ts';
import { Interpreter } from '../../src/inference/evaluate/prediction.ts';
import { readOnnx } from '../../src/inference/onnx/graph.ts';
import type { Kernel } from '../../src/inference/trees/machine.ts';
import { ElementKernel } from '../../src/io/source/element-kernel.ts';
import { LineKernel } from '../../src/io/source/line-kernel.ts';
import { MANIFEST, READERS } from './decoding.ts';
import { type ForestSpec, forestFile, matrixManifest } from './forest.ts';

const FOREST: ForestSpec = {
  seed: 5,
  kind: 'classifier',
  trees: 11,
  leaves: 60,
  features: 6,
  targets: 3,
  weights: 'one',
  modes: ['BRANCH_LEQ', 'BRANCH_LT', 'BRANCH_EQ'],
  missing: true,
  base: 0,
  post: 'NONE',
};

function trees(kernel: Kernel, changes: Partial<ForestSpec> = {}): void {
  const spec = { ...FOREST, ...changes };
  const shapes = matrixManifest(spec).inputs.map((i) => ({ name: i.name, type: i.type, width: i.columns!.length }));
  openNative(planNative(readOnnx(forestFile(spec)), 'scores', shapes, kernel));
}

function row(quoting: boolean, direct: boolean): void {
  const kinds = READERS.map((r) => r.kind);
  const columns = READERS.map((_, c) => c + 1);
  const layout = { fields: columns.length + 1, columns, passthrough: [0] };
  const encoder = direct ? new Encoder(MANIFEST, kinds, 64) : null;
  const syntax = delimitedRows(',', quoting);
  const kernel = RowKernel.open({ readers: READERS, layout, syntax, capacity: 64, direct: encoder });
  if (!kernel) throw new Error('no row kernel');
}

function jsonRow(direct: boolean, anyOrder: boolean): void {
  const kinds = READERS.map((r) => r.kind);
  const members = ['id', ...READERS.map(({ name }) => name), 'a key that is longer than a vector'].map((name, at) => ({
    key: Buffer.from(JSON.stringify(name)),
    isText: READERS[at - 1]?.kind === 'text',
  }));
  const layout = { fields: members.length, columns: READERS.map((_, c) => c + 1), passthrough: [0] };
  const encoder = direct ? new Encoder(MANIFEST, kinds, 64) : null;
  const syntax = jsonRows(members, new Set(direct ? READERS : []), anyOrder);
  const kernel = RowKernel.open({ readers: READERS, layout, syntax, capacity: 64, direct: encoder });
  if (!kernel) throw new Error('no row kernel');
}

function line(delimiter: string | null): void {
  const memory = new WebAssembly.Memory({ initial: 2, maximum: 65_536, shared: true });
  new LineKernel(memory, 0, delimiter?.charCodeAt(0) ?? null);
}

function elements(): void {
  const memory = new WebAssembly.Memory({ initial: 2, maximum: 65_536, shared: true });
  new ElementKernel(memory, 0, { bytes: 1 << 20, depth: 32 });
}

function answer(): void {
  const output = { name: 'scores', type: 'float32', task: 'binary', positive_class: 1 };
  const interpreter = new Interpreter({ task: 'binary', output, columns: [], inputs: [] } as never);
  const pieces = { beforeRow: '{"row":', whenTrue: ',"class":"yes","p":', whenFalse: ',"class":"no","p":', end: '}\n' };
  const plain = PlainAnswers.of(pieces, interpreter, 0)!;
  plain.begin({ ...newBatch([], 1), rows: 1 }, { values: Float32Array.of(0.5, 0.5), width: 2 }, 1);
}

/** Name → makes it; `room`: where its emitters are, as a regular expression. */
export const KERNELS: Readonly<Record<string, { make: () => void; room: string }>> = {
  'row kernel': { make: () => row(true, true), room: 'src/formats/(?:decode|delimited|json)/' },
  'row kernel for columns': { make: () => row(false, false), room: 'src/formats/(?:decode|delimited|json)/' },
  'JSON row kernel': { make: () => jsonRow(true, false), room: 'src/formats/(?:decode|delimited|json)/' },
  'JSON row kernel for columns': { make: () => jsonRow(false, false), room: 'src/formats/(?:decode|delimited|json)/' },
  'JSON row kernel for any order': { make: () => jsonRow(true, true), room: 'src/formats/(?:decode|delimited|json)/' },
  'line kernel': { make: () => line(','), room: 'src/io/source/' },
  'line kernel without quotes': { make: () => line(null), room: 'src/io/source/' },
  'element kernel': { make: elements, room: 'src/io/source/' },
  'answer kernel': { make: answer, room: 'src/formats/write/' },
  'tree tables': { make: () => trees('quickscorer'), room: 'src/inference/trees/' },
  'tree walk': { make: () => trees('walk'), room: 'src/inference/trees/' },
  'tree tables of doubles': {
    make: () => trees('quickscorer', { double: true, aggregate: 'MAX', weights: 'all' }),
    room: 'src/inference/trees/',
  },
};

/** The modules that are compiled meanwhile. */
export function modulesOf(make: () => void): Uint8Array<ArrayBuffer>[] {
  const { Module } = WebAssembly;
  const found: Uint8Array<ArrayBuffer>[] = [];
  const Spy = class extends Module {
    constructor(code: Uint8Array<ArrayBuffer>) {
      super(code);
      found.push(code);
    }
  };
  const api = WebAssembly as { Module: typeof Module };
  api.Module = Spy;
  try {
    make();
  } finally {
    api.Module = Module;
  }
  return found;
}
