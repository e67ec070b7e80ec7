// What the assembler refuses, where it is emitted: nothing reaches WebAssembly that it would refuse, and some slips that it would not.

import { expect, test } from 'vitest';
import { type Local, WasmFunction } from '../../src/wasm/function.ts';
import { PLAIN, type PlainOp, type WasmType } from '../../src/wasm/instructions.ts';
import { assemble } from '../../src/wasm/module.ts';
import { InvalidKernel, type Label } from '../../src/wasm/type-stack.ts';
import fc from '../support/seeded-fast-check.ts';

interface Locals {
  i: Local;
  x: Local;
  v: Local;
}

const REFUSED: readonly (readonly [name: string, emit: (f: WasmFunction, l: Locals) => unknown, message: RegExp])[] = [
  ['an operand of a wrong type', (f, { x }) => f.i32(1).get(x).op('i32.add'), /i32\.add takes \[i32 i32\], but finds f64 where it takes i32; the stack has \[i32 f64\]/],
  ['too few operands', (f) => f.i32(1).op('i32.add'), /i32\.add takes \[i32 i32\], but an operand is missing/],
  ['operands in the wrong order', (f, { i, x }) => f.get(x, i).memory('f64.store'), /f64\.store takes \[i32 f64\]/],
  ['a number for a vector', (f, { i }) => f.get(i).op('i8x16.bitmask'), /takes \[v128\], but finds i32/],
  ['select of two types', (f, { i, x }) => f.get(i, x, i).op('select'), /select takes \[any any i32\]/],
  ['select by a double', (f, { i, x }) => f.get(i, i, x).op('select'), /but finds f64 where it takes i32/],
  ['set of another type', (f, { i }) => f.f64(1).set(i), /local\.set i takes \[i32\], but finds f64/],
  ['tee of nothing', (f, { i }) => f.tee(i), /local\.tee i takes \[i32\], but an operand is missing/],
  ['a local of another function', (f) => f.get(new WasmFunction('other', { y: 'i32' }).params.y!), /local\.get y, a local of other/],
  ['two locals of a name', (f) => f.local('i32', 'i'), /there are two locals i/],
  ['a lane beyond the vector', (f, { v }) => f.get(v).lane('f64x2', 2), /f64x2\.extract_lane has no lane 2/],
  ['a lane of a number', (f, { i }) => f.get(i).lane('i64x2', 0), /i64x2\.extract_lane takes \[v128\]/],
  ['a vector of the wrong length', (f) => f.shorts(1, 2, 3), /a vector of 8 numbers is made of 3/],
  ['an address of a wrong type', (f, { x }) => f.get(x).memory('i32.load'), /i32\.load takes \[i32\], but finds f64/],
  ['a store without an address', (f, { i }) => f.get(i).memory('i32.store'), /i32\.store takes \[i32 i32\], but an operand is missing/],
  ['an offset that is none', (f, { i }) => f.get(i).memory('i32.load', 1.5), /i32\.load at the offset 1\.5/],
  ['something left at the end', (f, { i }) => f.get(i).end(), /the end of function test leaves \[i32\] on the stack/],
  ['something left in a block', (f, { i }) => f.block('b', () => f.get(i)), /the end of block b leaves \[i32\].* in block b/],
  ['something taken from outside a block', (f, { i }) => f.get(i).block('b', () => f.set(i)), /local\.set i takes \[i32\], but an operand is missing/],
  ['a block without its result', (f) => f.block('b', () => {}, 'i32'), /the end of block b takes \[i32\], but an operand is missing/],
  ['a block with another result', (f, { x }) => f.block('b', () => f.get(x), 'i32'), /the end of block b takes \[i32\], but finds f64/],
  ['a branch without the result', (f) => f.block('b', (b) => f.leave(b), 'i32'), /br takes \[i32\], but an operand is missing/],
  ['an else that leaves something else', (f, { i, x }) => f.get(i).when(() => f.get(i), () => f.get(x), 'i32'), /the end of else.* takes \[i32\], but finds f64/],
  ['a result without an else', (f, { i }) => f.get(i).when(() => {}, undefined, 'i32'), /an if without an else leaves no i32/],
  ['an if on nothing', (f) => f.when(() => {}), /if takes \[i32\], but an operand is missing/],
  ['an if on a double', (f, { x }) => f.get(x).when(() => {}), /if takes \[i32\], but finds f64/],
  ['a loop that asks nothing', (f) => f.repeat(() => {}, () => {}), /br_if takes \[i32\], but an operand is missing.* in loop/],
  ['a loop that leaves something', (f, { i }) => f.repeat(() => f.get(i), () => f.i32(0)), /the end of loop.* leaves \[i32\]/],
  ['a branch on nothing', (f) => f.block('b', (b) => f.leaveIf(b)), /br_if takes \[i32\], but an operand is missing/],
  ['a branch to a block that is closed', (f) => { let gone!: Label; f.block('gone', (b) => { gone = b; }).block('b', () => f.leave(gone)); }, /br to gone, which is not open here/],
  ['a branch to a block of another function', (f) => { let far!: Label; new WasmFunction('other', {}).block('far', (b) => { far = b; f.block('b', () => f.i32(1).leaveIf(far)); }); }, /br_if to far, which is not open here/],
  ['a choice of branches on nothing', (f) => f.block('b', (b) => f.leaveAt([b], b)), /br_table takes \[i32\], but an operand is missing/],
  ['a choice of branches after which something is left', (f, { i }) => f.block('b', (b) => f.get(i, i).leaveAt([b], b)), /br to b leaves \[i32\] on the stack/],
  ['a jump that drops something', (f, { i }) => f.block('b', (b) => f.get(i).leave(b)), /br to b leaves \[i32\] on the stack/],
  ['a wrong type where nothing is reached', (f, { x }) => f.block('b', (b) => f.leave(b).get(x).op('i32.eqz')), /i32\.eqz takes \[i32\], but finds f64/],
  ['an end within a block', (f) => f.block('b', () => f.end()), /function test ends while another block is open/],
  ['no end', (f) => assemble('test', [f]), /test: end\(\) is missing/],
]; // biome-ignore format: a mistake a line

test.each(REFUSED)('%s is refused', (_, emit, message) => {
  const f = new WasmFunction('test', { i: 'i32' });
  const locals = { i: f.params.i!, x: f.local('f64', 'x'), v: f.local('v128', 'v') };
  expect(() => emit(f, locals)).toThrow(InvalidKernel);
  const again = new WasmFunction('test', { i: 'i32' });
  const others = { i: again.params.i!, x: again.local('f64', 'x'), v: again.local('v128', 'v') };
  expect(() => emit(again, others)).toThrow(message);
});

test('where nothing is reached, operands may be missing, as WebAssembly has it', () => {
  const f = new WasmFunction('test', { i: 'i32' });
  f.block('b', (b) =>
    f.leave(b).op('i32.add').set(f.params.i!).op('select', 'f64.abs', 'i32.trunc_f64_u').set(f.params.i!),
  );
  expect(WebAssembly.validate(assemble('test', [f.end()]))).toBe(true);
});

test('any sequence of instructions is taken exactly if WebAssembly takes it', () => {
  const ops = Object.keys(PLAIN) as PlainOp[];
  const types: readonly WasmType[] = ['i32', 'i64', 'f32', 'f64', 'v128'];
  const step = fc.oneof(
    fc.record({ get: fc.integer({ min: 0, max: 4 }) }),
    fc.record({ set: fc.integer({ min: 0, max: 4 }) }),
    fc.record({ op: fc.constantFrom(...ops, 'select' as const) }),
  );
  /** An instruction with operands of its types, and a place for its result. */
  const meant = fc.constantFrom(...ops).map((op) => {
    const { takes, gives } = PLAIN[op];
    return [...takes.map((t) => ({ get: types.indexOf(t) })), { op }, { set: types.indexOf(gives!) }];
  });
  const { validate } = WebAssembly;
  /** As the assembler encodes them, without its checks. */
  const unchecked = (steps: readonly { get?: number; set?: number; op?: PlainOp | 'select' }[]): number[] =>
    steps.flatMap(({ get, set, op }) =>
      get !== undefined
        ? [0x20, get]
        : set !== undefined
          ? [0x21, set]
          : op === 'select'
            ? [0x1b]
            : [...PLAIN[op!].code],
    );
  let taken = 0;
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          step.map((s) => [s]),
          meant,
        ),
        { minLength: 1, maxLength: 3 },
      ),
      (parts) => {
        const steps = parts.flat();
        const f = new WasmFunction('test', {});
        const locals = types.map((t) => f.local(t, t));
        let accepted = true;
        try {
          for (const { get, set, op } of steps as { get?: number; set?: number; op?: PlainOp }[]) {
            if (get !== undefined) f.get(locals[get]!);
            else if (set !== undefined) f.set(locals[set]!);
            else f.op(op!);
          }
          f.end();
        } catch (error) {
          if (!(error instanceof InvalidKernel)) throw error;
          accepted = false;
        }
        if (accepted) taken++;
        const code = unchecked(steps);
        const body = [5, 1, 0x7f, 1, 0x7e, 1, 0x7d, 1, 0x7c, 1, 0x7b, ...code, 0x0b];
        const module = [
          0,
          0x61,
          0x73,
          0x6d,
          1,
          0,
          0,
          0,
          1,
          4,
          1,
          0x60,
          0,
          0,
          3,
          2,
          1,
          0,
          10,
          body.length + 2,
          1,
          body.length,
          ...body,
        ];
        expect(validate(Uint8Array.from(module))).toBe(accepted);
      },
    ),
    { numRuns: 20_000, seed: 1 },
  );
  expect(taken).toBeGreaterThan(500);
});
