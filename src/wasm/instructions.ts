// The instructions that kernels use: opcode, operand types and result type.
// Source of the opcodes and signatures: WebAssembly core specification.

export type WasmType = 'i32' | 'i64' | 'f32' | 'f64' | 'v128';

/** The encoding of value types in a module. */
export const TYPE_CODES: Readonly<Record<WasmType, number>> = {
  i32: 0x7f,
  i64: 0x7e,
  f32: 0x7d,
  f64: 0x7c,
  v128: 0x7b,
};

/** The signature of an instruction: the last operand is on top of the stack. */
export interface Signature {
  readonly name: string;
  readonly takes: readonly WasmType[];
  readonly gives: WasmType | null;
}

export interface Instruction extends Signature {
  readonly code: readonly number[];
}

interface MemoryInstruction extends Instruction {
  /** Exponent of the natural alignment. */
  readonly align: number;
}

interface LaneInstruction extends Instruction {
  readonly lanes: number;
}

/** `signature` has the form "operands -> result". */
function plain<N extends string>(
  signature: string,
  codes: Readonly<Record<N, readonly number[]>>,
): Record<N, Instruction> {
  const [before, after] = signature.split('->') as [string, string];
  const takes = (before.match(/\w+/g) ?? []) as WasmType[];
  const gives = (after.trim() || null) as WasmType | null;
  const table = {} as Record<N, Instruction>;
  for (const name of Object.keys(codes) as N[]) table[name] = { name, code: codes[name], takes, gives };
  return table;
}

// biome-ignore format: the table reads better packed
export const PLAIN = {
  ...plain('i32 -> i32', { 'i32.eqz': [0x45], 'i32.ctz': [0x68] }),
  ...plain('i32 i32 -> i32', {
    'i32.eq': [0x46], 'i32.ne': [0x47], 'i32.lt_u': [0x49], 'i32.gt_u': [0x4b], 'i32.le_u': [0x4d], 'i32.ge_u': [0x4f],
    'i32.add': [0x6a], 'i32.sub': [0x6b], 'i32.mul': [0x6c], 'i32.div_u': [0x6e], 'i32.rem_u': [0x70],
    'i32.and': [0x71], 'i32.or': [0x72], 'i32.xor': [0x73], 'i32.shl': [0x74], 'i32.shr_u': [0x76],
  }),
  ...plain('i64 -> i64', { 'i64.ctz': [0x7a], 'i64.popcnt': [0x7b] }),
  ...plain('i64 i64 -> i32', { 'i64.ne': [0x52] }),
  ...plain('i64 i64 -> i64', {
    'i64.add': [0x7c], 'i64.sub': [0x7d], 'i64.mul': [0x7e], 'i64.and': [0x83], 'i64.or': [0x84], 'i64.xor': [0x85],
    'i64.shl': [0x86], 'i64.shr_u': [0x88],
  }),
  ...plain('i32 -> i64', { 'i64.extend_i32_u': [0xad] }),
  ...plain('f32 f32 -> i32', { 'f32.eq': [0x5b], 'f32.ne': [0x5c], 'f32.lt': [0x5d], 'f32.gt': [0x5e] }),
  ...plain('f32 f32 -> f32', { 'f32.add': [0x92] }),
  ...plain('f64 f64 -> i32', {
    'f64.ne': [0x62], 'f64.lt': [0x63], 'f64.gt': [0x64], 'f64.le': [0x65], 'f64.ge': [0x66],
  }),
  ...plain('f64 -> f64', {
    'f64.abs': [0x99], 'f64.neg': [0x9a], 'f64.ceil': [0x9b], 'f64.floor': [0x9c], 'f64.trunc': [0x9d],
  }),
  ...plain('f64 f64 -> f64', { 'f64.add': [0xa0], 'f64.sub': [0xa1], 'f64.mul': [0xa2], 'f64.div': [0xa3] }),
  ...plain('i64 -> i32', { 'i32.wrap_i64': [0xa7] }),
  ...plain('f64 -> i32', { 'i32.trunc_f64_u': [0xab] }),
  ...plain('f64 -> f32', { 'f32.demote_f64': [0xb6] }),
  ...plain('f32 -> f64', { 'f64.promote_f32': [0xbb] }),
  ...plain('v128 -> i32', { 'i8x16.bitmask': [0xfd, 0x64], 'v128.any_true': [0xfd, 0x53] }),
  ...plain('v128 -> v128', { 'f64x2.convert_low_i32x4_s': [0xfd, 0xfe, 0x01] }),
  ...plain('v128 v128 -> v128', {
    'i8x16.eq': [0xfd, 0x23], 'i8x16.gt_u': [0xfd, 0x28], 'i8x16.sub': [0xfd, 0x71], 'f32x4.ge': [0xfd, 0x46],
    'v128.and': [0xfd, 0x4e], 'v128.andnot': [0xfd, 0x4f], 'v128.or': [0xfd, 0x50], 'v128.xor': [0xfd, 0x51],
    'i32x4.add': [0xfd, 0xae, 0x01], 'i32x4.sub': [0xfd, 0xb1, 0x01], 'i64x2.add': [0xfd, 0xce, 0x01],
    'i16x8.add': [0xfd, 0x8e, 0x01], 'i16x8.mul': [0xfd, 0x95, 0x01], 'i16x8.narrow_i32x4_s': [0xfd, 0x85, 0x01], 'i32x4.dot_i16x8_s': [0xfd, 0xba, 0x01],
  }),
  ...plain('v128 i32 -> v128', { 'i16x8.shr_u': [0xfd, 0x8d, 0x01] }),
  ...plain('v128 v128 v128 -> v128', { 'v128.bitselect': [0xfd, 0x52] }),
};
export type PlainOp = keyof typeof PLAIN;

/**
 * Selects one of two operands of the same type: the first if the i32 on top of the stack is not zero, else the second.
 */
export const SELECT = 0x1b;

const load = (name: string, type: WasmType, align: number, ...code: number[]): MemoryInstruction => ({
  name,
  code,
  takes: ['i32'],
  gives: type,
  align,
});
const store = (name: string, type: WasmType, align: number, ...code: number[]): MemoryInstruction => ({
  name,
  code,
  takes: ['i32', type],
  gives: null,
  align,
});

export type MemoryOp =
  | `${WasmType}.load`
  | 'i32.load8_u'
  | 'i32.load16_u'
  | `${'i32' | 'i64' | 'f32' | 'f64' | 'v128'}.store`
  | 'i32.store8'
  | 'i32.store16';

export const MEMORY: Readonly<Record<MemoryOp, MemoryInstruction>> = {
  'i32.load': load('i32.load', 'i32', 2, 0x28),
  'i64.load': load('i64.load', 'i64', 3, 0x29),
  'f32.load': load('f32.load', 'f32', 2, 0x2a),
  'f64.load': load('f64.load', 'f64', 3, 0x2b),
  'v128.load': load('v128.load', 'v128', 4, 0xfd, 0x00),
  'i32.load8_u': load('i32.load8_u', 'i32', 0, 0x2d),
  'i32.load16_u': load('i32.load16_u', 'i32', 1, 0x2f),
  'i32.store': store('i32.store', 'i32', 2, 0x36),
  'i64.store': store('i64.store', 'i64', 3, 0x37),
  'f32.store': store('f32.store', 'f32', 2, 0x38),
  'f64.store': store('f64.store', 'f64', 3, 0x39),
  'v128.store': store('v128.store', 'v128', 4, 0xfd, 0x0b),
  'i32.store8': store('i32.store8', 'i32', 0, 0x3a),
  'i32.store16': store('i32.store16', 'i32', 1, 0x3b),
};

export type LaneShape = 'i64x2' | 'f64x2';

const lane = (shape: LaneShape, gives: WasmType, lanes: number, code: number): LaneInstruction => ({
  name: `${shape}.extract_lane`,
  code: [0xfd, code],
  takes: ['v128'],
  gives,
  lanes,
});

/** Instructions that extract one number of a vector. */
export const EXTRACT: Readonly<Record<LaneShape, LaneInstruction>> = {
  i64x2: lane('i64x2', 'i64', 2, 0x1d),
  f64x2: lane('f64x2', 'f64', 2, 0x21),
};
