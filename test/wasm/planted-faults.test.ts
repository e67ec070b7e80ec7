// A mistake in an emitter throws where it is made: the stack trace names the file and the line of the emitter.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { WasmFunction } from '../../src/wasm/function.ts';
import { InvalidKernel } from '../../src/wasm/type-stack.ts';
import { KERNELS } from '../support/kernels.ts';

type Method = 'op' | 'get' | 'set' | 'tee' | 'i32' | 'f64' | 'shorts' | 'lane' | 'memory' | 'when' | 'repeat' | 'block' | 'leave' | 'leaveIf' | 'end'; // biome-ignore format: one line
// Whatever the method takes.
type Args = never[];
type Emit = (this: WasmFunction, ...args: Args) => WasmFunction;

interface Fault {
  kernel: string;
  method: Method;
  /** Which calls are meant; the one in the middle of them is altered. */
  where?: (args: unknown[]) => boolean;
  /** Emits something else. */
  alter: (f: WasmFunction, args: unknown[], emit: (...args: unknown[]) => WasmFunction) => WasmFunction;
}

const proto = WasmFunction.prototype as unknown as Record<Method, Emit>;

/** Makes the kernel with call number `at` of the method altered; gives the number of calls there are. */
function plant({ kernel, method, where = () => true, alter }: Fault, at: number): number {
  const original = proto[method];
  let calls = 0;
  proto[method] = function (...args) {
    const emit = (...changed: unknown[]) => original.apply(this, changed as Args);
    if (!where(args)) return emit(...args);
    return calls++ === at ? alter(this, args, emit) : emit(...args);
  };
  try {
    KERNELS[kernel]!.make();
  } finally {
    proto[method] = original;
  }
  return calls;
}

/** The frame of the emitter: the first that is neither the assembler nor this test. */
function emitterOf(error: Error): { file: string; line: number; text: string } {
  for (const frame of error.stack!.split('\n')) {
    const found = /\(?(?:file:\/\/)?([^\s()]+\.ts):(\d+):\d+\)?$/.exec(frame);
    const file = found && path.relative(process.cwd(), found[1]!);
    if (!file || file.startsWith('src/wasm/') || file.startsWith('test/')) continue;
    const line = Number(found[2]);
    return { file, line, text: readFileSync(file, 'utf8').split('\n')[line - 1] ?? '' };
  }
  throw new Error(`no emitter in ${error.stack}`, { cause: error });
}

function thrownBy(make: () => void): Error | null {
  try {
    make();
    return null;
  } catch (error) {
    return error as Error;
  }
}

const named = (name: string) => (args: unknown[]) => args.length === 1 && args[0] === name;
const typed =
  (...types: string[]) =>
  (args: unknown[]) =>
    args.length === types.length && args.every((a, i) => (a as { type: string }).type === types[i]);
const otherType = (f: WasmFunction, local: unknown) =>
  f.variables.find((v) => v.type !== (local as { type: string }).type)!;
const foreign = new WasmFunction('foreign', { x: 'i32' }).params.x!;
const skip = (f: WasmFunction): WasmFunction => f;

const FAULTS: Readonly<Record<string, Fault>> = {
  'an instruction for another type': { kernel: 'row kernel', method: 'op', where: named('i32.sub'), alter: (_, __, emit) => emit('f64.sub') },
  'an instruction that is missing': { kernel: 'row kernel', method: 'op', where: named('i32.add'), alter: skip },
  'an operand that is missing': { kernel: 'row kernel', method: 'get', where: typed('i32'), alter: skip },
  'operands that are swapped': { kernel: 'row kernel', method: 'get', where: typed('f64', 'i32'), alter: (_, [a, b], emit) => emit(b, a) },
  'a wrong local read': { kernel: 'line kernel', method: 'get', where: typed('i32', 'i32'), alter: (f, [a, b], emit) => emit(a, otherType(f, b)) },
  'a wrong local written': { kernel: 'answer kernel', method: 'set', where: typed('f64'), alter: (f, [a], emit) => emit(otherType(f, a)) },
  'a wrong local kept': { kernel: 'tree walk', method: 'tee', alter: (f, [a], emit) => emit(otherType(f, a)) },
  'a local of another function': { kernel: 'tree tables', method: 'get', where: typed('i32'), alter: (_, __, emit) => emit(foreign) },
  'a number too many': { kernel: 'line kernel', method: 'i32', alter: (f, [n], emit) => emit(n).get(f.variables[0]!) },
  'a constant of another type': { kernel: 'answer kernel', method: 'f64', alter: (f) => f.i32(1) },
  'a vector of seven numbers': { kernel: 'row kernel', method: 'shorts', alter: (_, args, emit) => emit(...args.slice(1)) },
  'a lane that is not there': { kernel: 'row kernel', method: 'lane', alter: (_, [of], emit) => emit(of, 2) },
  'a lane of another shape': { kernel: 'row kernel', method: 'lane', where: ([of]) => of === 'f64x2', alter: (_, [, i], emit) => emit('i64x2', i) },
  'a load of another type': { kernel: 'tree tables', method: 'memory', where: ([op]) => op === 'v128.load', alter: (_, [, at], emit) => emit('f64.load', at) },
  'a store of another type': { kernel: 'tree walk', method: 'memory', where: ([op]) => String(op).endsWith('.store'), alter: (_, [, at], emit) => emit('v128.store', at) },
  'an offset below zero': { kernel: 'row kernel for columns', method: 'memory', alter: (_, [op], emit) => emit(op, -4) },
  'a store in the place of a load': { kernel: 'line kernel without quotes', method: 'memory', where: ([op]) => op === 'i32.load8_u', alter: (_, [, at], emit) => emit('i32.store8', at) },
  'a branch on nothing': { kernel: 'answer kernel', method: 'leave', alter: (f, [label]) => f.leaveIf(label as never) },
  'a branch to a block that is closed': { kernel: 'row kernel', method: 'leaveIf', alter: (f, _, emit) => { let gone: unknown; f.block('gone', (label) => { gone = label; }); return emit(gone); } },
  'a loop that asks nothing': { kernel: 'tree tables of doubles', method: 'repeat', alter: (_, [body], emit) => emit(body, () => {}) },
  'an if on nothing': { kernel: 'line kernel', method: 'when', alter: (f, [then], emit) => f.block('gone', (label) => f.leaveIf(label)) && emit(then) },
  'a block that leaves something': { kernel: 'row kernel', method: 'block', alter: (f, [name, body], emit) => emit(name, (label: unknown) => { (body as (l: unknown) => void)(label); f.i32(0); }) },
  'a result that is missing': { kernel: 'answer kernel', method: 'block', alter: (_, [name], emit) => emit(name, () => {}, 'i32') },
  'an end that is missing': { kernel: 'tree walk', method: 'end', alter: skip },
  'an end too many': { kernel: 'line kernel', method: 'end', alter: (f, _, emit) => emit() && f.end() },
}; // biome-ignore format: a fault a line

test.each(Object.entries(FAULTS))('a planted fault in a kernel names our file and line: %s', (_, fault) => {
  const calls = plant({ ...fault, alter: (_f, args, emit) => emit(...args) }, -1);
  expect(calls).toBeGreaterThan(0);
  const error = thrownBy(() => plant(fault, calls >> 1));
  expect(error).toBeInstanceOf(InvalidKernel);
  const { file, text } = emitterOf(error!);
  expect(`${file} ${error!.message}`).toMatch(new RegExp(`^${KERNELS[fault.kernel]!.room}[a-z-]+\\.ts `));
  expect(text).toMatch(
    fault.method === 'end' ? /assemble\(|\.end\(\)/ : /\bf$|\bf\b.*\.|^\s*\.|\b(?:x\.\w+|look)\(.*\)\./,
  );
});

const HEIGHT: Partial<Record<Method, number>> = { get: 1, set: -1, i32: 1, f64: 1 };

test.each(Object.keys(KERNELS))('whatever number is missing, or stays, in a kernel, it is found: %s', (kernel) => {
  const { room } = KERNELS[kernel]!;
  for (const method of Object.keys(HEIGHT) as Method[]) {
    const calls = plant({ kernel, method, alter: skip }, -1);
    // All of a small kernel, some of a large one.
    for (let at = 0; at < calls; at += Math.ceil(calls / 40)) {
      const error = thrownBy(() => plant({ kernel, method, alter: skip }, at));
      expect(error, `${method} ${at}`).toBeInstanceOf(InvalidKernel);
      expect(emitterOf(error!).file, error!.message).toMatch(new RegExp(`^${room}`));
    }
  }
});
