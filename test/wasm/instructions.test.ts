// Every instruction of the assembler's table does what JavaScript says it does, on numbers at all edges.
import { expect, test } from 'vitest';
import { type Op, WasmFunction } from '../../src/wasm/function.ts';
import { EXTRACT, type LaneShape, MEMORY, type MemoryOp, PLAIN, type WasmType } from '../../src/wasm/instructions.ts';
import { assemble, loadModule } from '../../src/wasm/module.ts';

type Value = number | bigint | Uint8Array;
type Reference = (...operands: never[]) => Value;

const SAMPLES: Readonly<Record<WasmType, readonly Value[]>> = {
  i32: [0, 1, -1, 2, 7, 31, 32, 48, 255, 65_535, 0x7fff_ffff, -0x8000_0000],
  i64: [0n, 1n, -1n, 63n, 64n, 0x9e37_79b9_7f4a_7c15n - (1n << 64n), (1n << 63n) - 1n, -(1n << 63n)],
  f32: [0, -0, 1, -1.5, 0.5, 3e38, 1e-45, Infinity, -Infinity, NaN].map(Math.fround),
  f64: [0, -0, 1, -1, 0.1, -2.5, 4_294_967_295, 1e22, 5e-324, 1.7e308, Infinity, -Infinity, NaN],
  v128: [
    new Uint8Array(16),
    new Uint8Array(16).fill(255),
    Uint8Array.from({ length: 16 }, (_, i) => i * 17),
    Uint8Array.from({ length: 16 }, (_, i) => (i % 3 === 0 ? 34 : 128 + i)),
    Uint8Array.from({ length: 16 }, (_, i) => (i % 4 === 3 ? 127 : 7 * i)),
  ],
};

const u = (x: number): number => x >>> 0;
const u64 = (x: bigint): bigint => BigInt.asUintN(64, x);
const bit = (x: boolean): number => (x ? 1 : 0);
const bytewise =
  (f: (...bytes: number[]) => number): Reference =>
  (...vectors: Uint8Array[]) =>
    vectors[0]!.map((_, i) => f(...vectors.map((v) => v[i]!)));
const shorts = (v: Uint8Array): Int16Array => new Int16Array(v.slice().buffer);
const ints = (v: Uint8Array): Int32Array => new Int32Array(v.slice().buffer);
const longs = (v: Uint8Array): BigInt64Array => new BigInt64Array(v.slice().buffer);
const floats = (v: Uint8Array): Float32Array => new Float32Array(v.slice().buffer);
const asBytes = (view: ArrayBufferView): Uint8Array => new Uint8Array(view.buffer);
const clamp = (x: number): number => Math.max(-32_768, Math.min(32_767, x));
const traps = (): never => {
  throw new WebAssembly.RuntimeError('trap');
};
const ctz = (bits: number, x: bigint): number => {
  for (let n = 0; n < bits; n++) if ((x >> BigInt(n)) & 1n) return n;
  return bits;
};

const REFERENCES: Readonly<Record<keyof typeof PLAIN, Reference>> = {
  'i32.eqz': (a: number) => bit(a === 0),
  'i32.eq': (a: number, b: number) => bit(a === b),
  'i32.ne': (a: number, b: number) => bit(a !== b),
  'i32.lt_u': (a: number, b: number) => bit(u(a) < u(b)),
  'i32.gt_u': (a: number, b: number) => bit(u(a) > u(b)),
  'i32.le_u': (a: number, b: number) => bit(u(a) <= u(b)),
  'i32.ge_u': (a: number, b: number) => bit(u(a) >= u(b)),
  'i32.ctz': (a: number) => ctz(32, BigInt(a)),
  'i32.add': (a: number, b: number) => (a + b) | 0,
  'i32.sub': (a: number, b: number) => (a - b) | 0,
  'i32.mul': (a: number, b: number) => Math.imul(a, b),
  'i32.div_u': (a: number, b: number) => (b === 0 ? traps() : Math.floor(u(a) / u(b)) | 0),
  'i32.rem_u': (a: number, b: number) => (b === 0 ? traps() : (u(a) % u(b)) | 0),
  'i32.and': (a: number, b: number) => a & b,
  'i32.or': (a: number, b: number) => a | b,
  'i32.xor': (a: number, b: number) => a ^ b,
  'i32.shl': (a: number, b: number) => a << b,
  'i32.shr_u': (a: number, b: number) => (a >>> b) | 0,
  'i32.wrap_i64': (a: bigint) => Number(BigInt.asIntN(32, a)),
  'i32.trunc_f64_u': (a: number) => (a > -1 && a < 2 ** 32 ? Math.trunc(a) | 0 : traps()),
  'i64.ctz': (a: bigint) => BigInt(ctz(64, a)),
  'i64.popcnt': (a: bigint) => BigInt(u64(a).toString(2).replaceAll('0', '').length),
  'i64.ne': (a: bigint, b: bigint) => bit(a !== b),
  'i64.sub': (a: bigint, b: bigint) => BigInt.asIntN(64, a - b),
  'i64.and': (a: bigint, b: bigint) => a & b,
  'i64.or': (a: bigint, b: bigint) => a | b,
  'i64.shl': (a: bigint, b: bigint) => BigInt.asIntN(64, a << (u64(b) % 64n)),
  'i64.extend_i32_u': (a: number) => BigInt(u(a)),
  'i64.add': (a: bigint, b: bigint) => BigInt.asIntN(64, a + b),
  'i64.mul': (a: bigint, b: bigint) => BigInt.asIntN(64, a * b),
  'i64.xor': (a: bigint, b: bigint) => a ^ b,
  'i64.shr_u': (a: bigint, b: bigint) => BigInt.asIntN(64, u64(a) >> (u64(b) % 64n)),
  'f32.eq': (a: number, b: number) => bit(a === b),
  'f32.ne': (a: number, b: number) => bit(a !== b),
  'f32.lt': (a: number, b: number) => bit(a < b),
  'f32.gt': (a: number, b: number) => bit(a > b),
  'f32.add': (a: number, b: number) => Math.fround(a + b),
  'f32.demote_f64': (a: number) => Math.fround(a),
  'f64.promote_f32': (a: number) => a,
  'f64.ne': (a: number, b: number) => bit(a !== b),
  'f64.lt': (a: number, b: number) => bit(a < b),
  'f64.gt': (a: number, b: number) => bit(a > b),
  'f64.le': (a: number, b: number) => bit(a <= b),
  'f64.ge': (a: number, b: number) => bit(a >= b),
  'f64.abs': (a: number) => Math.abs(a),
  'f64.neg': (a: number) => -a,
  'f64.ceil': (a: number) => Math.ceil(a),
  'f64.floor': (a: number) => Math.floor(a),
  'f64.trunc': (a: number) => Math.trunc(a),
  'f64.add': (a: number, b: number) => a + b,
  'f64.sub': (a: number, b: number) => a - b,
  'f64.mul': (a: number, b: number) => a * b,
  'f64.div': (a: number, b: number) => a / b,
  'i8x16.bitmask': (v: Uint8Array) => v.reduce((bits, byte, i) => bits | ((byte >> 7) << i), 0),
  'v128.any_true': (v: Uint8Array) => bit(v.some((byte) => byte !== 0)),
  'i8x16.eq': bytewise((a, b) => (a === b ? 255 : 0)),
  'i8x16.gt_u': bytewise((a, b) => (a! > b! ? 255 : 0)),
  'i8x16.sub': bytewise((a, b) => a! - b!),
  'v128.and': bytewise((a, b) => a! & b!),
  'v128.andnot': bytewise((a, b) => a! & ~b!),
  'v128.or': bytewise((a, b) => a! | b!),
  'v128.xor': bytewise((a, b) => a! ^ b!),
  'v128.bitselect': bytewise((a, b, mask) => (a! & mask!) | (b! & ~mask!)),
  'i16x8.shr_u': (v: Uint8Array, by: number) => asBytes(shorts(v).map((x) => (x & 0xffff) >>> (by & 15))),
  'i16x8.add': (a: Uint8Array, b: Uint8Array) => asBytes(shorts(a).map((x, i) => x + shorts(b)[i]!)),
  'i16x8.mul': (a: Uint8Array, b: Uint8Array) => asBytes(shorts(a).map((x, i) => x * shorts(b)[i]!)),
  'i16x8.narrow_i32x4_s': (a: Uint8Array, b: Uint8Array) => asBytes(Int16Array.from([...ints(a), ...ints(b)], clamp)),
  'i32x4.add': (a: Uint8Array, b: Uint8Array) => asBytes(ints(a).map((x, i) => x + ints(b)[i]!)),
  'i64x2.add': (a: Uint8Array, b: Uint8Array) => asBytes(longs(a).map((x, i) => x + longs(b)[i]!)),
  'i32x4.sub': (a: Uint8Array, b: Uint8Array) => asBytes(ints(a).map((n, i) => n - ints(b)[i]!)),
  'f32x4.ge': (a: Uint8Array, b: Uint8Array) =>
    asBytes(floats(a).reduce((mask, x, i) => mask.fill(x >= floats(b)[i]! ? -1 : 0, i, i + 1), new Int32Array(4))),
  'i32x4.dot_i16x8_s': (a: Uint8Array, b: Uint8Array) => {
    const [x, y] = [shorts(a), shorts(b)];
    return asBytes(Int32Array.from({ length: 4 }, (_, i) => x[i * 2]! * y[i * 2]! + x[i * 2 + 1]! * y[i * 2 + 1]!));
  },
  'f64x2.convert_low_i32x4_s': (v: Uint8Array) => asBytes(Float64Array.from(ints(v).subarray(0, 2))),
};

/** Where operands lie, 16 bytes each, and where the result goes. */
const OPERANDS = 64;
const RESULT = 256;

function write(memory: ArrayBufferLike, at: number, type: WasmType, value: Value): void {
  const view = new DataView(memory);
  if (type === 'i32') view.setInt32(at, value as number, true);
  else if (type === 'i64') view.setBigInt64(at, value as bigint, true);
  else if (type === 'f32') view.setFloat32(at, value as number, true);
  else if (type === 'f64') view.setFloat64(at, value as number, true);
  else new Uint8Array(memory).set(value as Uint8Array, at);
}

function read(memory: ArrayBufferLike, at: number, type: WasmType): Value {
  const view = new DataView(memory);
  if (type === 'i32') return view.getInt32(at, true);
  if (type === 'i64') return view.getBigInt64(at, true);
  if (type === 'f32') return view.getFloat32(at, true);
  if (type === 'f64') return view.getFloat64(at, true);
  return new Uint8Array(memory).slice(at, at + 16);
}

/** Emits: takes the number on the stack and stores it as the result. There is no i64.store: its halves are stored. */
function store(f: WasmFunction, type: WasmType, op: () => void): void {
  const result = f.local(type, 'result');
  op();
  f.set(result);
  if (type !== 'i64') f.i32(0).get(result).memory(`${type}.store`, RESULT);
  else {
    f.i32(0).get(result).op('i32.wrap_i64').memory('i32.store', RESULT);
    f.i32(0)
      .get(result)
      .i64(32n)
      .op('i64.shr_u', 'i32.wrap_i64')
      .memory('i32.store', RESULT + 4);
  }
}

/** A module of one function that leaves a number of the type: gives what runs it on operands. */
function machine(
  gives: WasmType,
  emit: (f: WasmFunction) => void,
): (types: readonly WasmType[], operands: readonly Value[]) => Value {
  const f = new WasmFunction('test', {});
  store(f, gives, () => emit(f));
  const code = assemble('test', [f.end()]);
  expect(WebAssembly.validate(code)).toBe(true);
  const { memory, exports } = loadModule(code, new Uint8Array(512));
  return (types, operands) => {
    for (const [i, value] of operands.entries()) write(memory.buffer, OPERANDS + i * 16, types[i]!, value);
    exports.test!();
    return read(memory.buffer, RESULT, gives);
  };
}

const tuples = (types: readonly WasmType[]): Value[][] =>
  types.reduce<Value[][]>((all, type) => all.flatMap((t) => SAMPLES[type].map((v) => [...t, v])), [[]]);

const outcome = (run: () => Value): unknown => {
  try {
    return run();
  } catch (error) {
    return (error as Error).constructor.name;
  }
};

const operands = (f: WasmFunction, types: readonly WasmType[]): void => {
  for (const [i, type] of types.entries()) f.i32(0).memory(`${type}.load`, OPERANDS + i * 16);
};

test.each(Object.keys(PLAIN) as (keyof typeof PLAIN)[])('%s', (op) => {
  const { takes, gives } = PLAIN[op];
  const run = machine(gives!, (f) => {
    operands(f, takes);
    f.op(op);
  });
  for (const values of tuples(takes)) {
    const wanted = outcome(() => REFERENCES[op](...(values as never[])));
    expect(
      outcome(() => run(takes, values)),
      `${op} ${values.join(' ')}`,
    ).toEqual(wanted);
  }
});

test.each(['i32', 'i64', 'f32', 'f64', 'v128'] as const)('select of two %s', (type) => {
  const types = [type, type, 'i32'] as const;
  const run = machine(type, (f) => {
    operands(f, types);
    f.op('select');
  });
  const [a, b] = SAMPLES[type].slice(1) as [Value, Value];
  for (const c of SAMPLES.i32) expect(run(types, [a, b, c])).toEqual(c === 0 ? b : a);
});

const WIDTHS: Readonly<Record<string, number>> = { i32: 4, i64: 8, f32: 4, f64: 8, v128: 16 };
const NARROW: Readonly<Record<string, number>> = { 8: 1, 16: 2 };
const bytesOf = (op: MemoryOp): number => {
  const [, type, narrow] = /^(\w+)\.[a-z]+(\d*)/.exec(op)!;
  return NARROW[narrow!] ?? WIDTHS[type!]!;
};
const OFFSETS = [0, 1, 127, 128, 16_000];

test.each(Object.keys(MEMORY) as MemoryOp[])('%s touches its bytes and no other, at any offset', (op) => {
  const { takes, gives } = MEMORY[op];
  const width = bytesOf(op);
  for (const offset of OFFSETS) {
    const f = new WasmFunction('test', { at: 'i32', from: 'i32', to: 'i32' });
    const { at, from, to } = f.params;
    if (gives === 'i64') {
      // Halves, as above.
      f.get(to, from).memory(op, offset).op('i32.wrap_i64').memory('i32.store');
      f.get(to, from).memory(op, offset).i64(32n).op('i64.shr_u', 'i32.wrap_i64').memory('i32.store', 4);
    } else if (gives) f.get(to, from).memory(op, offset).memory(`${gives}.store`);
    else f.get(to, at).memory(`${takes[1]!}.load`).memory(op, offset);
    const { memory, exports } = loadModule(assemble('test', [f.end()]), new Uint8Array(65_536));
    const bytes = new Uint8Array(memory.buffer);
    const source = Uint8Array.from({ length: 16 }, (_, i) => 129 + i * 3);
    bytes.set(source, 64);
    bytes.set(source, 128 + offset);
    const before = bytes.slice();
    if (gives) {
      exports.test!(0, 128, 40_000);
      // Zero-extended to the width of its type.
      expect([...bytes.subarray(40_000, 40_016)]).toEqual([...source.map((b, i) => (i < width ? b : 0))]);
      continue;
    }
    exports.test!(64, 0, 40_000);
    before.set(source.subarray(0, width), 40_000 + offset);
    expect(Buffer.compare(bytes, before)).toBe(0);
  }
});

test.each(Object.keys(EXTRACT) as LaneShape[])('%s: every lane', (shape) => {
  const { lanes, gives } = EXTRACT[shape];
  for (let i = 0; i < lanes; i++) {
    const run = machine(gives!, (f) => {
      operands(f, ['v128']);
      f.lane(shape, i);
    });
    const v = SAMPLES.v128[3] as Uint8Array;
    expect(run(['v128'], [v])).toEqual(read(v.slice().buffer, i * WIDTHS[gives!]!, gives!));
  }
});

test('constants of every size', () => {
  const edges = [0, 1, -1, 63, 64, -64, -65, 8191, 8192, -8192, -8193, 2 ** 20, 2 ** 31 - 1, -(2 ** 31)];
  for (const n of edges) expect(machine('i32', (f) => f.i32(n))([], [])).toBe(n);
  for (const n of [...edges.map(BigInt), ...(SAMPLES.i64 as bigint[]), 1n << 31n, 1n << 32n, -(1n << 33n)]) {
    expect(machine('i64', (f) => f.i64(n))([], [])).toBe(n);
  }
  for (const n of SAMPLES.f64) expect(machine('f64', (f) => f.f64(n as number))([], [])).toEqual(n);
  expect(machine('v128', (f) => f.bytes(34))([], [])).toEqual(new Uint8Array(16).fill(34));
  expect(machine('v128', (f) => f.ones())([], [])).toEqual(new Uint8Array(16).fill(255));
  const numbers = [1, -1, 2561, 32_767, -32_768, 0, 100, 10_000];
  expect(machine('v128', (f) => f.shorts(...numbers))([], [])).toEqual(asBytes(Int16Array.from(numbers)));
});

test('locals, blocks, loops and branches', () => {
  const factorial = machine('i32', (f) => {
    const { n, product } = f.locals('i32', 'n', 'product');
    f.i32(10).tee(n).set(product);
    f.repeat(
      () => f.bump(n, -1).get(product, n).op('i32.mul').set(product),
      () => f.get(n).i32(1).op('i32.ne'),
    );
    f.get(product);
  });
  expect(factorial([], [])).toBe(3_628_800);
  // The state of each path through two blocks, an if and an else.
  const paths = machine('i32', (f) => {
    f.block(
      'outer',
      (outer) => {
        f.block('inner', (inner) => {
          f.i32(0).memory('i32.load', OPERANDS).leaveIf(inner);
          f.i32(1).leave(outer);
        });
        f.i32(0).memory('i32.load', OPERANDS + 16);
        f.when(
          () => f.i32(2),
          () => f.i32(3),
          'i32',
        );
      },
      'i32',
    );
  });
  const types = ['i32', 'i32'] as const;
  expect([paths(types, [0, 0]), paths(types, [1, 1]), paths(types, [1, 0])]).toEqual([1, 2, 3]);
});

test('every name of an instruction is one that op, memory or lane takes', () => {
  const names: Op[] = [...(Object.keys(PLAIN) as Op[]), 'select'];
  for (const [name, { name: own }] of Object.entries({ ...PLAIN, ...MEMORY })) expect(own).toBe(name);
  expect(new Set(names).size).toBe(names.length);
});
