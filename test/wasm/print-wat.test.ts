// The text of a kernel is the kernel: read back it gives the same bytes, and its numbers are those of a stack trace.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { WasmFunction } from '../../src/wasm/function.ts';
import { EXTRACT, MEMORY, PLAIN, SELECT, TYPE_CODES, type WasmType } from '../../src/wasm/instructions.ts';
import { assemble, loadModule } from '../../src/wasm/module.ts';
import { printWat } from '../../src/wasm/print-wat.ts';
import { scratch } from '../support/cli.ts';
import { KERNELS, modulesOf } from '../support/kernels.ts';
import { testNeeding } from '../support/tools.ts';

/** A function with something of everything in it. */
function sample(): WasmFunction {
  const f = new WasmFunction('sample', { from: 'i32', to: 'i32' });
  const { from, to } = f.params;
  const { v } = f.locals('v128', 'v');
  f.block('all done', (done) => {
    f.repeat(
      () => {
        f.get(from).memory('v128.load', 16).bytes(34).op('i8x16.eq').tee(v).op('v128.any_true').leaveIf(done);
        f.get(to).f64(-0).f64(1e300).op('f64.add').memory('f64.store', 300);
      },
      () => f.bump(from, -16).get(from),
    );
    f.i64(-5n).get(v).lane('i64x2', 1).op('i64.xor', 'i32.wrap_i64');
    f.when(() => f.leave(done));
  });
  return f.end();
}

const plainText = (wat: string): string => wat.replaceAll(/\(;0x[0-9a-f]+;\) /g, '');

test('the text of a function', () => {
  expect(plainText(printWat(assemble('sample-kernel', [sample()])))).toBe(`(module $sample-kernel
  (import "env" "memory" (memory 1))
  (func $sample (export "sample") (param $from i32) (param $to i32)
    (local $v v128)
    block $all_done
      loop
        local.get $from
        v128.load offset=16
        v128.const i8x16 34 34 34 34 34 34 34 34 34 34 34 34 34 34 34 34
        i8x16.eq
        local.tee $v
        v128.any_true
        br_if $all_done
        local.get $to
        f64.const -0
        f64.const 1e+300
        f64.add
        f64.store offset=300
        local.get $from
        i32.const -16
        i32.add
        local.set $from
        local.get $from
        br_if 0
      end
      i64.const -5
      local.get $v
      i64x2.extract_lane 1
      i64.xor
      i32.wrap_i64
      if
        br $all_done
      end
    end
  )
)
`);
});

const leb = (n: bigint, signed: boolean): number[] => {
  const last = signed ? n >= -64n && n < 64n : n < 128n;
  return last ? [Number(n & 127n)] : [Number(n & 127n) | 128, ...leb(n >> 7n, signed)];
};
const double = (text: string): number => (text === 'nan' ? NaN : Number(text.replace('inf', 'Infinity')));
const all = { ...PLAIN, ...MEMORY, ...Object.fromEntries(Object.values(EXTRACT).map((i) => [i.name, i])) };

/** The bodies of the functions of a text, without their locals: a small assembler of its own. */
function codeOf(wat: string): number[][] {
  const bodies: number[][] = [];
  let locals: string[] = [];
  let open: string[] = [];
  for (const line of plainText(wat).split('\n')) {
    const [word = '', ...rest] = line.trim().split(' ');
    const result = /\(result (\w+)\)/.exec(line)?.[1] as WasmType | undefined;
    const code = bodies.at(-1)!;
    if (word === '(func') {
      bodies.push([]);
      open = [];
      locals = [...line.matchAll(/\(param (\S+)/g)].map((m) => m[1]!);
    } else if (word === '(local') locals.push(rest[0]!);
    else if (word.startsWith('(') || word.startsWith(')') || word === '') continue;
    else if (word === 'block' || word === 'loop' || word === 'if') {
      open.push(rest[0] ?? '');
      code.push({ block: 2, loop: 3, if: 4 }[word], result ? TYPE_CODES[result] : 0x40);
    } else if (word === 'end' || word === 'else') {
      if (word === 'end') open.pop();
      code.push(word === 'end' ? 0x0b : 0x05);
    } else if (word === 'br' || word === 'br_if' || word === 'br_table') {
      const depths = rest.map((to) => (to.startsWith('$') ? open.length - 1 - open.lastIndexOf(to) : Number(to)));
      code.push({ br: 0x0c, br_if: 0x0d, br_table: 0x0e }[word]);
      if (word === 'br_table') code.push(...leb(BigInt(depths.length - 1), false));
      for (const depth of depths) code.push(...leb(BigInt(depth), false));
    } else if (word.startsWith('local.')) {
      code.push({ get: 0x20, set: 0x21, tee: 0x22 }[word.slice(6)]!, ...leb(BigInt(locals.indexOf(rest[0]!)), false));
    } else if (word === 'i32.const' || word === 'i64.const') {
      code.push(word === 'i32.const' ? 0x41 : 0x42, ...leb(BigInt(rest[0]!), true));
    } else if (word === 'f64.const') {
      code.push(0x44, ...new Uint8Array(Float64Array.of(double(rest[0]!)).buffer));
    } else if (word === 'v128.const') code.push(0xfd, 0x0c, ...rest.slice(1).map(Number));
    else if (word === 'select') code.push(SELECT);
    else {
      const instruction = all[word as keyof typeof all]!;
      code.push(...instruction.code);
      if ('align' in instruction) {
        code.push(instruction.align as number, ...leb(BigInt(/offset=(\d+)/.exec(line)?.[1] ?? 0), false));
      } else if ('lanes' in instruction) code.push(Number(rest[0]));
    }
  }
  return bodies;
}

test.each(Object.keys(KERNELS))('the text of a kernel says what the kernel does: %s', (name) => {
  const modules = modulesOf(KERNELS[name]!.make);
  expect(modules.length).toBe(1);
  for (const code of modules) {
    const wat = printWat(code);
    const bodies = codeOf(wat);
    expect(bodies.length).toBe(wat.match(/\(func /g)!.length);
    // All instructions of a function, as they stand in the module, up to its end.
    for (const body of bodies) {
      expect(body.length).toBeGreaterThan(60);
      expect(Buffer.from(code).includes(Buffer.from([...body, 0x0b]))).toBe(true);
    }
  }
});

testNeeding(['wabt'], 'wabt reads the text of every kernel', () => {
  const folder = scratch();
  for (const [name, { make }] of Object.entries(KERNELS)) {
    for (const code of modulesOf(make)) {
      const file = path.join(folder, 'kernel.wat');
      writeFileSync(file, printWat(code));
      execFileSync('wat2wasm', ['--enable-threads', file, '-o', `${file}.wasm`]);
      const read = readFileSync(`${file}.wasm`);
      expect(WebAssembly.validate(read), name).toBe(true);
      for (const body of codeOf(printWat(code))) expect(read.includes(Buffer.from([...body, 0x0b])), name).toBe(true);
    }
  }
});

test('a fault in a kernel has its names in the stack trace, and its place is a line of the text', () => {
  const f = new WasmFunction('divide', { a: 'i32', b: 'i32' });
  f.i32(0).get(f.params.a, f.params.b).op('i32.div_u').memory('i32.store');
  const code = assemble('some-kernel', [f.end()]);
  const { exports } = loadModule(code, new Uint8Array(16));
  let trace = '';
  try {
    exports.divide!(1, 0);
  } catch (error) {
    trace = (error as Error).stack!;
  }
  const [, at] = /some-kernel\.divide \(wasm:\/\/wasm\/some-kernel-\w+:wasm-function\[0\]:(0x[0-9a-f]+)\)/.exec(trace)!;
  const line = printWat(code)
    .split('\n')
    .find((text) => text.includes(`(;0x${at!.slice(2).padStart(4, '0')};)`));
  expect(line).toContain('i32.div_u');
});

test('SLUICE_DUMP_WAT writes every kernel that is assembled', () => {
  const folder = path.join(scratch(), 'kernels');
  const script = `
    import { WasmFunction } from './src/wasm/function.ts';
    import { assemble } from './src/wasm/module.ts';
    for (let i = 0; i < 2; i++) assemble('small', [new WasmFunction('nothing', { rows: 'i32' }).end()]);
    assemble('small', [new WasmFunction('something', {}).i32(0).i32(1).memory('i32.store').end()]);
  `;
  execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, SLUICE_DUMP_WAT: folder },
  });
  const files = readdirSync(folder).sort();
  expect(files.map((file) => file.replace(/[0-9a-f]{8}/, '#'))).toEqual(['small-#.wat', 'small-#.wat']);
  expect(files.map((file) => readFileSync(path.join(folder, file), 'utf8')).join('')).toContain('(func $nothing');
});
