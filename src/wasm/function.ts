// A small WebAssembly assembler: just the instructions that decoders and tree evaluators use, emitted at load and specialised to
// a model.

import { PAGE } from '../core/page.ts';

export type WasmType = 'i32' | 'i64' | 'f32' | 'f64' | 'v128';
const TYPE: Record<WasmType, number> = { i32: 0x7f, i64: 0x7e, f32: 0x7d, f64: 0x7c, v128: 0x7b };

/** Plain instructions by name; numbers from the WebAssembly core specification. */
const OPS = {
  'i32.eqz': [0x45], 'i32.eq': [0x46], 'i32.ne': [0x47], 'i32.lt_u': [0x49], 'i32.gt_u': [0x4b], 'i32.le_u': [0x4d], 'i32.ge_u': [0x4f],
  'f32.ne': [0x5c], 'f32.lt': [0x5d], 'f32.gt': [0x5e], 'f64.ne': [0x62], 'f64.lt': [0x63], 'f64.gt': [0x64],
  'i32.ctz': [0x68], 'i32.add': [0x6a], 'i32.sub': [0x6b], 'i32.mul': [0x6c], 'i32.and': [0x71], 'i32.or': [0x72],
  'i32.xor': [0x73], 'i32.shl': [0x74], 'i32.shr_u': [0x76], 'i64.ctz': [0x7a], 'i64.mul': [0x7e], 'i64.shr_u': [0x88], 'f32.add': [0x92],
  'f32.eq': [0x5b], 'i32.div_u': [0x6e], 'i32.rem_u': [0x70], 'f64.abs': [0x99], 'f64.ceil': [0x9b], 'f64.floor': [0x9c], 'f64.sub': [0xa1],
  'f64.mul': [0xa2], 'i32.trunc_f64_u': [0xab], 'f32.demote_f64': [0xb6], 'f64.promote_f32': [0xbb],
  'f64.eq': [0x61], 'f64.le': [0x65], 'f64.ge': [0x66], 'f64.neg': [0x9a], 'f64.trunc': [0x9d], 'f64.div': [0xa3],
  'i8x16.eq': [0xfd, 0x23], 'i8x16.bitmask': [0xfd, 0x64],
  'i8x16.gt_u': [0xfd, 0x28], 'i8x16.sub': [0xfd, 0x71], 'v128.andnot': [0xfd, 0x4f], 'v128.or': [0xfd, 0x50], 'v128.xor': [0xfd, 0x51],
  'v128.bitselect': [0xfd, 0x52], 'v128.any_true': [0xfd, 0x53], 'i16x8.shr_u': [0xfd, 0x8d, 0x01],
  'i16x8.mul': [0xfd, 0x95, 0x01], 'i16x8.narrow_i32x4_s': [0xfd, 0x85, 0x01], 'i32x4.dot_i16x8_s': [0xfd, 0xba, 0x01],
  'f64x2.convert_low_i32x4_s': [0xfd, 0xfe, 0x01], 'i64.xor': [0x85],
  'f64.add': [0xa0], 'i32.wrap_i64': [0xa7], select: [0x1b], 'v128.and': [0xfd, 0x4e],
} as const; // biome-ignore format: the table reads better packed
export type Op = keyof typeof OPS;

const LANE = { i32x4: 0x1b, i64x2: 0x1d, f64x2: 0x21 } as const;

/** Loads and stores: opcode and the exponent of the natural alignment. */
const MEMORY = {
  'i32.load': [[0x28], 2], 'i64.load': [[0x29], 3], 'f32.load': [[0x2a], 2], 'f64.load': [[0x2b], 3],
  'i32.load8_u': [[0x2d], 0], 'i32.store8': [[0x3a], 0], 'i32.load16_u': [[0x2f], 1], 'i32.store': [[0x36], 2], 'f32.store': [[0x38], 2], 'f64.store': [[0x39], 3],
  'i32.store16': [[0x3b], 1], 'v128.load': [[0xfd, 0x00], 4], 'v128.store': [[0xfd, 0x0b], 4],
} as const; // biome-ignore format: the table reads better packed
export type MemoryOp = keyof typeof MEMORY;

/** LEB128, unsigned. */
function unsigned(n: number): number[] {
  const out: number[] = [];
  do {
    const byte = n & 127;
    n >>>= 7;
    out.push(n === 0 ? byte : byte | 128);
  } while (n !== 0);
  return out;
}

/** LEB128, signed, 64 bits. */
function signed(n: bigint): number[] {
  const out: number[] = [];
  while (BigInt.asIntN(32, n) !== n) {
    out.push(Number(n & 127n) | 128);
    n >>= 7n;
  }
  return [...out, ...signed32(Number(n))];
}

/** LEB128, signed, 32 bits. */
function signed32(n: number): number[] {
  const out: number[] = [];
  for (;;) {
    const byte = n & 127;
    n >>= 7;
    if ((n === 0 && (byte & 64) === 0) || (n === -1 && (byte & 64) !== 0)) {
      out.push(byte);
      return out;
    }
    out.push(byte | 128);
  }
}

/** One function in the making. Every method appends instructions and gives the function back. */
export class WasmFunction {
  readonly name: string;
  readonly params: readonly WasmType[];
  /** Blocks that are open where the next instruction goes. */
  #depth = 0;
  readonly #locals: WasmType[] = [];
  readonly #code: number[] = [];

  constructor(name: string, params: readonly WasmType[]) {
    this.name = name;
    this.params = params;
  }

  /** Index of a new local variable. */
  local(type: WasmType): number {
    this.#locals.push(type);
    return this.params.length + this.#locals.length - 1;
  }

  op(...names: Op[]): this {
    for (const n of names) this.#code.push(...OPS[n]);
    return this;
  }

  get(...locals: number[]): this {
    for (const l of locals) this.#code.push(0x20, ...unsigned(l));
    return this;
  }

  set(local: number): this {
    this.#code.push(0x21, ...unsigned(local));
    return this;
  }

  tee(local: number): this {
    this.#code.push(0x22, ...unsigned(local));
    return this;
  }

  i32(n: number): this {
    this.#code.push(0x41, ...signed32(n | 0));
    return this;
  }

  i64(n: bigint): this {
    this.#code.push(0x42, ...signed(BigInt.asIntN(64, n)));
    return this;
  }

  f64(n: number): this {
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setFloat64(0, n, true);
    this.#code.push(0x44, ...bytes);
    return this;
  }

  /** A vector of sixteen times the same byte. */
  bytes(byte: number): this {
    this.#code.push(0xfd, 0x0c, ...new Array<number>(16).fill(byte));
    return this;
  }

  /** A vector of eight numbers of 16 bits. */
  shorts(...numbers: readonly number[]): this {
    const bytes = numbers.flatMap((n) => [n & 255, (n >> 8) & 255]);
    this.#code.push(0xfd, 0x0c, ...bytes);
    return this;
  }

  /** A vector of all ones. */
  ones(): this {
    this.#code.push(0xfd, 0x0c, ...new Array<number>(16).fill(255));
    return this;
  }

  lane(of: 'i32x4' | 'i64x2' | 'f64x2', index: number): this {
    this.#code.push(0xfd, LANE[of], index);
    return this;
  }

  memory(op: MemoryOp, offset = 0): this {
    const [code, align] = MEMORY[op];
    this.#code.push(...code, align, ...unsigned(offset));
    return this;
  }

  /** local += n */
  bump(local: number, n: number): this {
    return this.get(local).i32(n).op('i32.add').set(local);
  }

  /** Runs the body, then again as long as `again` leaves a non-zero number on the stack. */
  repeat(body: () => void, again: () => void): this {
    this.#code.push(0x03, 0x40);
    this.#depth++;
    body();
    again();
    this.#depth--;
    this.#code.push(0x0d, 0x00, 0x0b);
    return this;
  }

  /** Takes a number from the stack: the body runs if it is not zero. */
  when(body: () => void): this {
    this.#code.push(0x04, 0x40);
    this.#depth++;
    body();
    this.#depth--;
    this.#code.push(0x0b);
    return this;
  }

  /** A body that `leave` and `leaveIf` with the label it is given go to the end of. */
  block(body: (label: number) => void): this {
    this.#code.push(0x02, 0x40);
    body(++this.#depth);
    this.#depth--;
    this.#code.push(0x0b);
    return this;
  }

  leave(label: number): this {
    this.#code.push(0x0c, ...unsigned(this.#depth - label));
    return this;
  }

  /** Takes a number from the stack: leaves if it is not zero. */
  leaveIf(label: number): this {
    this.#code.push(0x0d, ...unsigned(this.#depth - label));
    return this;
  }

  /** Function body as the code section holds it. */
  body(): number[] {
    const locals = this.#locals.flatMap((t) => [1, TYPE[t]]);
    const inner = [...unsigned(this.#locals.length), ...locals, ...this.#code, 0x0b];
    return [...unsigned(inner.length), ...inner];
  }
}

export type WasmExports = Record<string, (...args: number[]) => void>;

/**
 * Loads an assembled module over a memory that begins with `image`. A page more: vector loads near the end stay inside.
 * @throws RangeError where there is no memory, WebAssembly.CompileError where there is no SIMD
 */
export function loadModule(code: Uint8Array, image: Uint8Array): { memory: WebAssembly.Memory; exports: WasmExports } {
  const memory = new WebAssembly.Memory({ initial: Math.ceil(image.length / PAGE) + 1 });
  new Uint8Array(memory.buffer).set(image);
  const module = new WebAssembly.Module(new Uint8Array(code));
  return { memory, exports: new WebAssembly.Instance(module, { env: { memory } }).exports };
}

/** Assembles functions over one imported memory (`env.memory`), of any size; every function is exported by its name. */
export function assemble(functions: readonly WasmFunction[], shared = false): Uint8Array<ArrayBuffer> {
  const text = (s: string): number[] => [...unsigned(s.length), ...new TextEncoder().encode(s)];
  const vector = (items: number[][]): number[] => [...unsigned(items.length), ...items.flat()];
  const section = (id: number, content: number[]): number[] => [id, ...unsigned(content.length), ...content];
  return Uint8Array.from(
    [
      [0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      section(1, vector(functions.map((f) => [0x60, ...vector(f.params.map((p) => [TYPE[p]])), 0]))),
      section(2, vector([[...text('env'), ...text('memory'), 2, ...(shared ? [3, 1, ...unsigned(PAGE)] : [0, 1])]])),
      section(3, vector(functions.map((_, i) => unsigned(i)))),
      section(7, vector(functions.map((f, i) => [...text(f.name), 0, ...unsigned(i)]))),
      section(10, vector(functions.map((f) => f.body()))),
    ].flat(),
  );
}
