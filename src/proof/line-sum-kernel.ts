// The sums of lines in WebAssembly: finds line feeds and hashes what lies between them, sixteen bytes at a time.
import { LF } from '../core/ascii.ts';
import { PAGE } from '../core/wasm-page.ts';
import { LINE_SCRATCH } from '../io/source/line-kernel.ts';
import type { SlabMemory } from '../io/source/record-scanner.ts';
import { type Local, WasmFunction } from '../wasm/function.ts';
import { assemble, type WasmExports } from '../wasm/module.ts';
import { LINE_HASH, type LineSums } from './line-sums.ts';

const STEP = 16;
/** In memory: three sums, the number of lines and where the next begins, then what masks the bytes behind the end of a line. */
const MASKS = 64;
const STATE_BYTES = MASKS + 2 * STEP;
/** In memory of its own: the state, and the text. */
const STATE = 64;
const TEXT = STATE + 128;
/** Where the state is in the memory of slabs: behind what the scanner has. */
const SHARED_STATE = Math.ceil(LINE_SCRATCH / 64) * 64;
/** Of a line that is listed: its hash, and where it ends. */
const LISTED = 16;
/** Bytes of text that are taken at once, unless a line is longer. */
const PIECE = 128 * 1024;

/** The code of the kernel. `shared`: over memory that threads share. */
export const lineSumsCode = (shared: boolean): Uint8Array<ArrayBuffer> =>
  assemble('line-sums', [linesFunction()], { shared });

const modules = new Map<boolean, WebAssembly.Module>();

/** Compiled once, in well under a millisecond. */
function moduleFor(shared: boolean): WebAssembly.Module {
  const known = modules.get(shared);
  if (known) return known;
  const made = new WebAssembly.Module(lineSumsCode(shared));
  modules.set(shared, made);
  return made;
}

/** The kernel over one memory, with its state at `state`. */
class Kernel {
  readonly #run: (...args: number[]) => void;
  readonly #state: number;
  readonly #memory: WebAssembly.Memory;
  #sums: BigUint64Array;
  #counts: Int32Array;

  constructor(memory: WebAssembly.Memory, state: number, shared = false) {
    const { exports } = new WebAssembly.Instance(moduleFor(shared), { env: { memory } });
    this.#run = (exports as WasmExports).lines!;
    this.#memory = memory;
    this.#state = state;
    new Uint8Array(memory.buffer, state + MASKS, STEP).fill(255);
    [this.#sums, this.#counts] = this.#views();
  }

  /** Adds the lines of bytes `from`..`to - 1`, and gives where the first begins that does not end; as `linesFunction`. */
  add(from: number, to: number, last: boolean, out = 0): number {
    this.#run(from, to, last ? 1 : 0, out, this.#state);
    return this.#counts[1]!;
  }

  /** What was added since it was last asked. */
  take(): LineSums {
    const [s0, s1, s2] = this.#sums;
    const lines = this.#counts[0]!;
    this.#sums.fill(0n);
    this.#counts.fill(0);
    return { lines, s0: s0!, s1: s1!, s2: s2! };
  }

  /** The memory has grown. */
  grown(): void {
    [this.#sums, this.#counts] = this.#views();
  }

  #views(): [BigUint64Array, Int32Array] {
    const { buffer } = this.#memory;
    return [new BigUint64Array(buffer, this.#state, 3), new Int32Array(buffer, this.#state + 24, 2)];
  }
}

/** Adds text up, however it is cut; gives the sums whenever a block ends. */
export class LineSummer {
  readonly #memory = new WebAssembly.Memory({ initial: Math.ceil((TEXT + PIECE) / PAGE) + 1 });
  readonly #kernel = new Kernel(this.#memory, STATE);
  #room = PIECE;
  #bytes = new Uint8Array(this.#memory.buffer);
  /** Bytes of the text at hand: of a line that has not ended. */
  #held = 0;
  /** Nothing was added since it was last asked. */
  #fresh = true;
  #slabs: WebAssembly.Memory | null = null;
  #inPlace: Kernel | null = null;

  /** Blocks will lie in this memory, and need not be copied. */
  attach({ memory, scratch }: SlabMemory): void {
    if (memory === this.#slabs) return;
    this.#slabs = memory;
    const room = scratch >= SHARED_STATE + STATE_BYTES;
    this.#inPlace = memory && room ? new Kernel(memory, SHARED_STATE, true) : null;
  }

  add(bytes: Uint8Array): void {
    this.#fresh = false;
    for (let at = 0; at < bytes.length; ) {
      if (this.#held === this.#room) this.#grow();
      const n = Math.min(bytes.length - at, this.#room - this.#held);
      this.#bytes.set(at === 0 && n === bytes.length ? bytes : bytes.subarray(at, at + n), TEXT + this.#held);
      this.#held += n;
      at += n;
      this.#sum(false);
    }
  }

  /** The sums of what was added since it was last asked; bytes without a line feed are a line, too. */
  take(): LineSums {
    if (this.#held > 0) this.#sum(true);
    this.#fresh = true;
    return this.#kernel.take();
  }

  /** The same as to add and to take: `bytes` are the last of a block. */
  takeWith(bytes: Uint8Array): LineSums {
    const kernel = this.#inPlace;
    if (kernel === null || !this.#fresh || (bytes.buffer as unknown) !== this.#slabs!.buffer) {
      this.add(bytes);
      return this.take();
    }
    kernel.add(bytes.byteOffset, bytes.byteOffset + bytes.length, true);
    return kernel.take();
  }

  /** Keeps the line that has not ended. */
  #sum(last: boolean): void {
    const end = TEXT + this.#held;
    const next = this.#kernel.add(TEXT, end, last);
    this.#held = end - next;
    if (next > TEXT && this.#held > 0) this.#bytes.copyWithin(TEXT, next, end);
  }

  #grow(): void {
    this.#memory.grow(Math.ceil(this.#room / PAGE));
    this.#room *= 2;
    this.#bytes = new Uint8Array(this.#memory.buffer);
    this.#kernel.grown();
  }
}

/** Where each line of a text ends, and its hash. */
export interface HashedLines {
  hashes: BigUint64Array;
  /** One past the last byte, line feed included. */
  ends: Int32Array;
}

/** Lists the lines of a text that is in memory. */
export function hashLines(text: Uint8Array): HashedLines {
  let lines = text.length > 0 && text.at(-1) !== LF ? 1 : 0;
  for (let at = text.indexOf(LF); at >= 0; at = text.indexOf(LF, at + 1)) lines++;
  const out = Math.ceil((TEXT + text.length + STEP) / LISTED) * LISTED;
  const memory = new WebAssembly.Memory({ initial: Math.ceil((out + (lines + 1) * LISTED) / PAGE) });
  new Uint8Array(memory.buffer).set(text, TEXT);
  new Kernel(memory, STATE).add(TEXT, TEXT + text.length, true, out);
  const view = new DataView(memory.buffer);
  const hashes = new BigUint64Array(lines);
  const ends = new Int32Array(lines);
  for (let i = 0; i < lines; i++) {
    hashes[i] = view.getBigUint64(out + i * LISTED, true);
    ends[i] = view.getInt32(out + i * LISTED + 8, true) - TEXT;
  }
  return { hashes, ends };
}

type Names =
  | 'p'
  | 'start'
  | 'end'
  | 'count'
  | 'b'
  | 'h'
  | 'k'
  | 's0'
  | 's1'
  | 's2'
  | 'bytes'
  | 'sum'
  | 'keys'
  | 'first';
type Locals = Record<Names | 'out' | 'state', Local>;

/** Sixteen bytes are added to the sums of the line. */
function emitAdd(f: WasmFunction, { bytes, sum, keys }: Locals): void {
  f.get(bytes, keys).op('i32x4.dot_i16x8_s').get(sum).op('i32x4.add').set(sum);
}

/** Those before `end` only are added, zeros for the others. */
function emitAddEnd(f: WasmFunction, locals: Locals): void {
  const { p, end, bytes, state } = locals;
  f.get(bytes).get(state).get(end, p).op('i32.sub', 'i32.sub');
  f.memory('v128.load', MASKS + STEP)
    .op('v128.and')
    .set(bytes);
  emitAdd(f, locals);
}

/** The line from `start` to `end` is one more; the next begins. */
function emitLineEnd(
  f: WasmFunction,
  { p, start, end, count, b, h, k, s0, s1, s2, out, sum, keys, first }: Locals,
): void {
  const [x, y, z] = LINE_HASH.mix;
  f.get(sum)
    .lane('i64x2', 0)
    .i64(x)
    .op('i64.mul')
    .get(sum)
    .lane('i64x2', 1)
    .get(end, start)
    .op('i32.sub', 'i64.extend_i32_u', 'i64.xor');
  f.i64(y).op('i64.mul', 'i64.xor').tee(h).get(h).i64(32n).op('i64.shr_u', 'i64.xor').i64(z).op('i64.mul').tee(h);
  f.get(h).i64(29n).op('i64.shr_u', 'i64.xor').set(h);
  f.bump(count, 1).get(k).i64(1n).op('i64.add').set(k);
  f.get(s0, h).op('i64.add').set(s0);
  f.get(h, k).op('i64.mul').tee(b).get(s1).op('i64.add').set(s1);
  f.get(b, k).op('i64.mul').get(s2).op('i64.add').set(s2);
  f.get(out);
  f.when(() => f.get(out, h).memory('i64.store').get(out, end).memory('i32.store', 8).bump(out, LISTED));
  f.get(end).tee(start).set(p);
  f.bytes(0).set(sum).get(first).set(keys);
}

/**
 * lines(from, to, last, out, state): adds the lines of bytes `from`..`to - 1` to the state and writes where the first begins that does not
 * end; with `last` that is one, too. `out` not 0: each line is listed there.
 */
function linesFunction(): WasmFunction {
  const f = new WasmFunction('lines', { from: 'i32', to: 'i32', last: 'i32', out: 'i32', state: 'i32' });
  const { from, to, last, out, state } = f.params;
  const locals: Locals = {
    ...f.locals('i32', 'p', 'start', 'end', 'count'),
    ...f.locals('i64', 'b', 'h', 'k', 's0', 's1', 's2'),
    ...f.locals('v128', 'bytes', 'sum', 'keys', 'first'),
    out,
    state,
  };
  const { p, start, end, count, k, s0, s1, s2, bytes, keys, first } = locals;
  const next = f.local('v128', 'next');
  const breaks = f.local('i32', 'breaks');
  for (const [i, sum] of [s0, s1, s2].entries())
    f.get(state)
      .memory('i64.load', i * 8)
      .set(sum);
  f.get(state).memory('i32.load', 24).tee(count).op('i64.extend_i32_u').set(k);
  f.shorts(...LINE_HASH.keys)
    .tee(first)
    .set(keys);
  f.shorts(...LINE_HASH.next).set(next);
  f.get(from).tee(start).set(p);
  f.block('done', (done) => {
    f.repeat(
      () => {
        f.get(p, to).op('i32.ge_u').leaveIf(done);
        f.get(p).memory('v128.load').tee(bytes).bytes(LF).op('i8x16.eq', 'i8x16.bitmask').tee(breaks);
        f.when(() => {
          f.get(p, breaks).op('i32.ctz', 'i32.add').i32(1).op('i32.add').tee(end).get(to).op('i32.gt_u');
          // The line feed lies behind the text.
          f.when(() => f.i32(0).set(breaks));
        });
        f.get(breaks);
        f.when(
          () => {
            emitAddEnd(f, locals);
            emitLineEnd(f, locals);
          },
          () => {
            f.get(p).i32(STEP).op('i32.add').get(to).op('i32.gt_u');
            f.when(() => {
              // What is left of the text, without a line feed.
              f.get(last).op('i32.eqz').leaveIf(done);
              f.get(to).set(end);
              emitAddEnd(f, locals);
              emitLineEnd(f, locals);
              f.leave(done);
            });
            emitAdd(f, locals);
            f.get(keys, next).op('i16x8.add').set(keys);
            f.bump(p, STEP);
          },
        );
      },
      () => f.i32(1),
    );
  });
  // A text that ends with a whole step, and no line feed.
  f.get(last, start, to).op('i32.lt_u', 'i32.and');
  f.when(() => {
    f.get(to).set(end);
    emitLineEnd(f, locals);
  });
  for (const [i, sum] of [s0, s1, s2].entries())
    f.get(state)
      .get(sum)
      .memory('i64.store', i * 8);
  f.get(state, count).memory('i32.store', 24).get(state, start).memory('i32.store', 28);
  return f.end();
}
