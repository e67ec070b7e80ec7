// The sums of lines in WebAssembly: finds line feeds and hashes what lies between them, sixteen bytes at a time.
import { LF } from '../core/ascii.ts';
import { PAGE } from '../core/wasm-page.ts';
import { type Local, WasmFunction } from '../wasm/function.ts';
import { assemble } from '../wasm/module.ts';
import { LINE_HASH, type LineSums } from './line-sums.ts';

const STEP = 16;
/** In memory: three sums and the number of lines, then what masks the bytes behind the end of a line, the keys of words, then the text. */
const STATE = 64;
const MASKS = 128;
const KEYS = 160;
const NEXT = 176;
const TEXT = 192;
/** Of a line that is listed: its hash, and where it ends. */
const LISTED = 16;
/** Bytes of text that are taken at once, unless a line is longer. */
const PIECE = 128 * 1024;

/** Compiled in well under a millisecond, once a file. */
const compile = (): WebAssembly.Module => new WebAssembly.Module(assemble('line-sums', [linesFunction()]));

/** Adds text up, however it is cut; gives the sums whenever a block ends. */
export class LineSummer {
  readonly #memory = new WebAssembly.Memory({ initial: Math.ceil((TEXT + PIECE) / PAGE) + 1 });
  readonly #run: (from: number, to: number, last: number, out: number) => void;
  #room = PIECE;
  #view: DataView;
  #bytes: Uint8Array;
  /** Bytes of the text at hand: of a line that has not ended. */
  #held = 0;

  constructor() {
    const { exports } = new WebAssembly.Instance(compile(), { env: { memory: this.#memory } }) as unknown as {
      exports: { lines(...args: number[]): void };
    };
    this.#run = exports.lines;
    this.#view = new DataView(this.#memory.buffer);
    this.#bytes = new Uint8Array(this.#memory.buffer);
    placeConstants(this.#memory.buffer);
  }

  add(bytes: Uint8Array): void {
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
    const [s0, s1, s2] = [0, 8, 16].map((at) => this.#view.getBigUint64(STATE + at, true));
    const lines = this.#view.getInt32(STATE + 24, true);
    this.#bytes.fill(0, STATE, STATE + 32);
    return { lines, s0: s0!, s1: s1!, s2: s2! };
  }

  /** Keeps the line that has not ended. */
  #sum(last: boolean): void {
    const end = TEXT + this.#held;
    this.#run(TEXT, end, last ? 1 : 0, 0);
    const next = this.#view.getInt32(STATE + 28, true);
    this.#held = end - next;
    if (next > TEXT && this.#held > 0) this.#bytes.copyWithin(TEXT, next, end);
  }

  #grow(): void {
    this.#memory.grow(Math.ceil(this.#room / PAGE));
    this.#room *= 2;
    this.#view = new DataView(this.#memory.buffer);
    this.#bytes = new Uint8Array(this.#memory.buffer);
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
  const { exports } = new WebAssembly.Instance(compile(), { env: { memory } });
  const bytes = new Uint8Array(memory.buffer);
  placeConstants(memory.buffer);
  bytes.set(text, TEXT);
  (exports as Record<string, (...args: number[]) => void>).lines!(TEXT, TEXT + text.length, 1, out);
  const view = new DataView(memory.buffer);
  const hashes = new BigUint64Array(lines);
  const ends = new Int32Array(lines);
  for (let i = 0; i < lines; i++) {
    hashes[i] = view.getBigUint64(out + i * LISTED, true);
    ends[i] = view.getInt32(out + i * LISTED + 8, true) - TEXT;
  }
  return { hashes, ends };
}

function placeConstants(memory: ArrayBuffer): void {
  new Uint8Array(memory, MASKS, STEP).fill(255);
  new Uint32Array(memory, KEYS, 4).set(LINE_HASH.keys);
  new Uint32Array(memory, NEXT, 4).set(LINE_HASH.next);
}

type Names = 'p' | 'start' | 'end' | 'count' | 'b' | 'h' | 'k' | 's0' | 's1' | 's2' | 'bytes' | 'sum' | 'keys' | 'out';
type Locals = Record<Names, Local>;

/** Sixteen bytes are added to the sums of the line; `masked`: those before `end` only, zeros for the others. */
function emitAdd(f: WasmFunction, { p, end, bytes, sum, keys }: Locals, masked: boolean): void {
  if (masked) {
    f.get(bytes)
      .i32(MASKS + STEP)
      .get(end, p);
    f.op('i32.sub', 'i32.sub').memory('v128.load').op('v128.and').set(bytes);
  }
  f.get(bytes, keys).op('i64x2.extmul_low_i32x4_u').get(bytes, keys).op('i64x2.extmul_high_i32x4_u', 'i64x2.add');
  f.get(sum).op('i64x2.add').set(sum);
}

function emitBegin(f: WasmFunction, { sum, keys }: Locals): void {
  f.bytes(0).set(sum).i32(KEYS).memory('v128.load').set(keys);
}

/** The line from `start` to `end` is one more; the next begins. */
function emitLineEnd(f: WasmFunction, locals: Locals): void {
  const { p, start, end, count, b, h, k, s0, s1, s2, out, sum } = locals;
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
  emitBegin(f, locals);
}

/**
 * lines(from, to, last, out): adds the lines of bytes `from`..`to - 1` to the state and writes where the first begins that does not end;
 * with `last` that is one, too. `out` not 0: each line is listed there.
 */
function linesFunction(): WasmFunction {
  const f = new WasmFunction('lines', { from: 'i32', to: 'i32', last: 'i32', out: 'i32' });
  const { from, to, last, out } = f.params;
  const locals: Locals = {
    ...f.locals('i32', 'p', 'start', 'end', 'count'),
    ...f.locals('i64', 'b', 'h', 'k', 's0', 's1', 's2'),
    ...f.locals('v128', 'bytes', 'sum', 'keys'),
    out,
  };
  const { p, start, end, count, k, s0, s1, s2, bytes, keys } = locals;
  const next = f.local('v128', 'next');
  const breaks = f.local('i32', 'breaks');
  for (const [i, sum] of [s0, s1, s2].entries())
    f.i32(STATE)
      .memory('i64.load', i * 8)
      .set(sum);
  f.i32(STATE).memory('i32.load', 24).tee(count).op('i64.extend_i32_u').set(k);
  f.i32(NEXT).memory('v128.load').set(next);
  f.get(from).tee(start).set(p);
  emitBegin(f, locals);
  f.block('done', (done) => {
    f.repeat(
      () => {
        f.get(p, to).op('i32.ge_u').leaveIf(done);
        f.get(p).memory('v128.load').tee(bytes).bytes(LF).op('i8x16.eq', 'i8x16.bitmask').set(breaks);
        f.get(p, breaks).op('i32.ctz', 'i32.add').i32(1).op('i32.add').set(end);
        f.get(breaks).op('i32.eqz').get(end, to).op('i32.gt_u', 'i32.or');
        f.when(
          () => {
            f.get(p).i32(STEP).op('i32.add').tee(end).get(to).op('i32.gt_u');
            f.when(() => {
              // What is left of the text, without a line feed.
              f.get(last).op('i32.eqz').leaveIf(done);
              f.get(to).set(end);
              emitAdd(f, locals, true);
              emitLineEnd(f, locals);
              f.leave(done);
            });
            emitAdd(f, locals, false);
            f.get(keys, next).op('i32x4.add').set(keys);
            f.bump(p, STEP);
          },
          () => {
            emitAdd(f, locals, true);
            emitLineEnd(f, locals);
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
    f.i32(STATE)
      .get(sum)
      .memory('i64.store', i * 8);
  f.i32(STATE).get(count).memory('i32.store', 24).i32(STATE).get(start).memory('i32.store', 28);
  return f.end();
}
