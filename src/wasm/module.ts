// Assembles functions into a module, with names for stack traces, profilers and debuggers.
import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { PAGE } from '../core/slabs.ts';
import { ByteList, type WasmFunction } from './function.ts';
import { TYPE_CODES } from './instructions.ts';
import type { printWat } from './print-wat.ts';

// If SLUICE_DUMP_WAT names a folder, each assembled kernel is also written to this folder as text, to compare it with
// stack traces and profiles.

type Printer = { printWat: typeof printWat };

const FOLDER = process.env.SLUICE_DUMP_WAT;

/** Writes a kernel as text. Identical kernels of several streams or workers share a file. */
function dumpWat(name: string, code: Uint8Array): void {
  if (!FOLDER) return;
  // The printer is loaded on first use. It is loaded synchronously, because kernels are assembled synchronously. The
  // extension is computed, because the build does not rewrite paths in strings.
  const { printWat } = createRequire(import.meta.url)(`./print-wat${path.extname(import.meta.url)}`) as Printer;
  const { crc32 } = process.getBuiltinModule('node:zlib');
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(path.join(FOLDER, `${name}-${crc32(code).toString(16).padStart(8, '0')}.wat`), printWat(code));
}

export type WasmExports = Record<string, (...args: number[]) => void>;

/**
 * Loads an assembled module with a memory that starts with `image`. The memory has an additional page, so that vector
 * loads near the end of the image stay in bounds.
 * @throws RangeError if there is not enough memory; WebAssembly.CompileError if the engine does not support SIMD
 */
export function loadModule(code: Uint8Array, image: Uint8Array): { memory: WebAssembly.Memory; exports: WasmExports } {
  const memory = new WebAssembly.Memory({ initial: Math.ceil(image.length / PAGE) + 1 });
  new Uint8Array(memory.buffer).set(image);
  const module = new WebAssembly.Module(new Uint8Array(code));
  return { memory, exports: new WebAssembly.Instance(module, { env: { memory } }).exports };
}

/**
 * Assembles functions into a module that imports one memory of any size (`env.memory`) and exports every function by
 * name. `name`: name of the module in stack traces. If SLUICE_DUMP_WAT is set, the module is also written as text.
 */
export function assemble(
  name: string,
  functions: readonly WasmFunction[],
  { shared = false }: { shared?: boolean } = {},
): Uint8Array<ArrayBuffer> {
  const bytes = new ByteList(4096).put([0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
  const section = (id: number, content: ByteList) => bytes.byte(id).nested(content);
  const vector = (
    items: readonly WasmFunction[],
    each: (list: ByteList, f: WasmFunction, i: number) => void,
  ): ByteList => {
    const list = new ByteList().unsigned(items.length);
    for (const [i, f] of items.entries()) each(list, f, i);
    return list;
  };
  section(
    1,
    vector(functions, (list, f) => {
      const types = f.paramTypes;
      list
        .byte(0x60)
        .unsigned(types.length)
        .put(types.map((t) => TYPE_CODES[t]))
        .byte(0);
    }),
  );
  const limits = shared ? new ByteList().put([3, 1]).unsigned(PAGE) : new ByteList().put([0, 1]);
  section(2, new ByteList().byte(1).text('env').text('memory').byte(2).append(limits.view()));
  section(
    3,
    vector(functions, (list, _, i) => list.unsigned(i)),
  );
  section(
    7,
    vector(functions, (list, f, i) => list.text(f.name).byte(0).unsigned(i)),
  );
  section(
    10,
    vector(functions, (list, f) => list.nested(f.body())),
  );
  section(0, nameSection(name, functions));
  const code = bytes.view().slice();
  dumpWat(name, code);
  return code;
}

/** The custom section `name`, with subsections for the names of the module, its functions, locals and blocks. */
function nameSection(name: string, functions: readonly WasmFunction[]): ByteList {
  const named = (names: readonly string[]): ByteList => {
    const list = new ByteList();
    let count = 0;
    for (const [i, text] of names.entries()) {
      if (text === '') continue;
      list.unsigned(i).text(text);
      count++;
    }
    return new ByteList().unsigned(count).append(list.view());
  };
  const each = (namesOf: (f: WasmFunction) => readonly string[]): ByteList => {
    const list = new ByteList().unsigned(functions.length);
    for (const [i, f] of functions.entries()) list.unsigned(i).append(named(namesOf(f)).view());
    return list;
  };
  return new ByteList()
    .text('name')
    .byte(0)
    .nested(new ByteList().text(name))
    .byte(1)
    .nested(named(functions.map((f) => f.name)))
    .byte(2)
    .nested(each((f) => f.variables.map((v) => v.name)))
    .byte(3)
    .nested(each((f) => f.blocks));
}
