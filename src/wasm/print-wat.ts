// Prints an assembled module in the WebAssembly text format, for debugging. It reads the bytes that V8 compiles.

import { EXTRACT, type Instruction, MEMORY, PLAIN, SELECT, TYPE_CODES } from './instructions.ts';

const TYPE_OF = new Map(Object.entries(TYPE_CODES).map(([name, code]) => [code, name]));

/** Added to opcodes that follow the prefix 0xfd. */
const SIMD = 0x1_0000;
const V128_CONST = SIMD + 0x0c;

/** The key of an instruction in the lookup tables. */
function opcode({ code }: Pick<Instruction, 'code'>): number {
  const [first, low = 0, high = 0] = code;
  return first === 0xfd ? SIMD + (low & 127) + high * 128 : first!;
}

const table = <T extends Instruction>(all: Readonly<Record<string, T>>): Map<number, T> =>
  new Map(Object.values(all).map((i) => [opcode(i), i]));
const PLAIN_BY_CODE = table(PLAIN);
const MEMORY_BY_CODE = table(MEMORY);
const EXTRACT_BY_CODE = table(EXTRACT);
const BLOCKS: Readonly<Record<number, string>> = { 2: 'block', 3: 'loop', 4: 'if' };
const VARIABLES: Readonly<Record<number, string>> = { 32: 'local.get', 33: 'local.set', 34: 'local.tee' };

class Reader {
  at: number;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;

  constructor(bytes: Uint8Array, at = 0) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.at = at;
  }
  byte(): number {
    return this.#bytes[this.at++]!;
  }
  unsigned(): number {
    let n = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.byte();
      n += (byte & 127) * 2 ** shift;
      if (byte < 128) return n;
    }
  }
  signed(bits: 32 | 64): bigint {
    let n = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.byte();
      n |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(bits, byte & 64 ? n - (1n << (shift + 7n)) : n);
    }
  }
  float64(): number {
    this.at += 8;
    return this.#view.getFloat64(this.at - 8, true);
  }
  text(): string {
    const length = this.unsigned();
    this.at += length;
    return Buffer.from(this.#bytes.subarray(this.at - length, this.at)).toString();
  }
  items<T>(each: (i: number) => T): T[] {
    return Array.from({ length: this.unsigned() }, (_, i) => each(i));
  }
}

interface Names {
  module: string;
  locals: ReadonlyMap<number, ReadonlyMap<number, string>>;
  blocks: ReadonlyMap<number, ReadonlyMap<number, string>>;
}

interface Parsed extends Names {
  types: string[][];
  memory: string;
  /** Exported names of the functions. */
  functions: string[];
  /** Start offsets of the function bodies. */
  bodies: number[];
}

function nameMap(r: Reader): Map<number, string> {
  return new Map(r.items(() => [r.unsigned(), r.text()]));
}

function readNames(r: Reader, end: number): Names {
  let module = '';
  const maps = new Map<number, ReadonlyMap<number, ReadonlyMap<number, string>>>();
  while (r.at < end) {
    const id = r.byte();
    const next = r.unsigned() + r.at;
    if (id === 0) module = r.text();
    else if (id > 1) maps.set(id, new Map(r.items(() => [r.unsigned(), nameMap(r)])));
    r.at = next;
  }
  return { module, locals: maps.get(2) ?? new Map(), blocks: maps.get(3) ?? new Map() };
}

function parseModule(code: Uint8Array): Parsed {
  const r = new Reader(code, 8);
  const parsed: Parsed = { types: [], memory: '', functions: [], bodies: [], module: '', locals: new Map(), blocks: new Map() }; // biome-ignore format: one line
  while (r.at < code.length) {
    const id = r.byte();
    const end = r.unsigned() + r.at;
    if (id === 1) {
      parsed.types = r.items(() => {
        r.byte();
        const params = r.items(() => TYPE_OF.get(r.byte())!);
        r.byte();
        return params;
      });
    } else if (id === 2) {
      r.byte();
      const [module, name] = [r.text(), r.text()];
      r.byte();
      const limits = r.byte() === 0 ? `${r.unsigned()}` : `${r.unsigned()} ${r.unsigned()} shared`;
      parsed.memory = `(import "${module}" "${name}" (memory ${limits}))`;
    } else if (id === 7) {
      parsed.functions = r.items(() => {
        const name = r.text();
        r.byte();
        r.unsigned();
        return name;
      });
    } else if (id === 10) {
      parsed.bodies = r.items(() => {
        const length = r.unsigned();
        r.at += length;
        return r.at - length;
      });
    } else if (id === 0 && r.text() === 'name') Object.assign(parsed, readNames(r, end));
    r.at = end;
  }
  return parsed;
}

/** Converts a name into an identifier; invalid characters are replaced. */
const identifier = (name: string): string => `$${name.replaceAll(/[^\w.!#%&*+\-/:<=>?@\\^|~$]/g, '_')}`;

/** Prints a module. @param code a module that `assemble` returned */
export function printWat(code: Uint8Array): string {
  const module = parseModule(code);
  const lines = [`(module ${identifier(module.module)}`, `  ${module.memory}`];
  for (const [f, start] of module.bodies.entries()) {
    const name = module.functions[f]!;
    const names = module.locals.get(f) ?? new Map<number, string>();
    const localName = (i: number): string => (names.has(i) ? identifier(names.get(i)!) : String(i));
    const params = module.types[f]!.map((type, i) => `(param ${localName(i)} ${type})`);
    lines.push(`  (func ${identifier(name)} (export "${name}") ${params.join(' ')}`);
    const r = new Reader(code, start);
    let next = params.length;
    r.items(() => {
      // Each group declares exactly one local.
      r.unsigned();
      lines.push(`    (local ${localName(next++)} ${TYPE_OF.get(r.byte())})`);
    });
    lines.push(...instructions(r, localName, module.blocks.get(f) ?? new Map()), '  )');
  }
  return `${lines.join('\n')}\n)\n`;
}

/** One line per instruction, prefixed with its offset in the module, which stack traces contain as the last number. */
function instructions(r: Reader, localName: (i: number) => string, names: ReadonlyMap<number, string>): string[] {
  const lines: string[] = [];
  /** Labels of the open blocks. */
  const open: string[] = [];
  let blocks = 0;
  const target = (depth: number): string => {
    const name = open.at(-1 - depth) ?? '';
    // A name refers to the innermost open block with this name, so it is used only if this block is the target.
    return name !== '' && open.lastIndexOf(name) === open.length - 1 - depth ? name : String(depth);
  };
  for (;;) {
    const at = r.at;
    const line = (text: string, indent = open.length): void => {
      lines.push(`    (;0x${at.toString(16).padStart(4, '0')};) ${'  '.repeat(indent)}${text}`);
    };
    const first = r.byte();
    const code = first === 0xfd ? SIMD + r.unsigned() : first;
    const memory = MEMORY_BY_CODE.get(code);
    const lane = EXTRACT_BY_CODE.get(code);
    if (BLOCKS[code]) {
      const type = TYPE_OF.get(r.byte());
      const name = names.get(blocks++);
      const label = name === undefined ? '' : identifier(name);
      line([BLOCKS[code], label, type ? `(result ${type})` : ''].filter((part) => part !== '').join(' '));
      open.push(label);
    } else if (code === 0x05) line('else', open.length - 1);
    else if (code === 0x0b) {
      if (open.length === 0) return lines;
      open.pop();
      line('end');
    } else if (code === 0x0c || code === 0x0d) line(`${code === 0x0c ? 'br' : 'br_if'} ${target(r.unsigned())}`);
    else if (code === 0x0e) {
      const targets: string[] = [];
      r.items(() => targets.push(target(r.unsigned())));
      line(`br_table ${[...targets, target(r.unsigned())].join(' ')}`);
    } else if (VARIABLES[code]) line(`${VARIABLES[code]} ${localName(r.unsigned())}`);
    else if (code === 0x41) line(`i32.const ${r.signed(32)}`);
    else if (code === 0x42) line(`i64.const ${r.signed(64)}`);
    else if (code === 0x44) line(`f64.const ${floatText(r.float64())}`);
    else if (code === V128_CONST) line(`v128.const i8x16 ${Array.from({ length: 16 }, () => r.byte()).join(' ')}`);
    else if (memory) {
      r.unsigned();
      const offset = r.unsigned();
      line(offset === 0 ? memory.name : `${memory.name} offset=${offset}`);
    } else if (lane) line(`${lane.name} ${r.byte()}`);
    else if (code === SELECT) line('select');
    else line(PLAIN_BY_CODE.get(code)!.name);
  }
}

function floatText(x: number): string {
  if (Number.isNaN(x)) return 'nan';
  if (!Number.isFinite(x)) return x < 0 ? '-inf' : 'inf';
  return Object.is(x, -0) ? '-0' : String(x);
}
