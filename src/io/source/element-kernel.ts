// A WebAssembly kernel that finds plain elements of a JSON array in place in shared memory, 64 bytes at a time.
import { LF, QUOTE } from '../../core/ascii.ts';
import { PAGE } from '../../core/slabs.ts';
import { type Local, WasmFunction } from '../../wasm/function.ts';
import { assemble } from '../../wasm/module.ts';
import type { RecordList } from './record-scanner.ts';

/** Maximum number of elements listed per call. */
const ELEMENTS = 2048;
/** Bytes per listed element: its first byte, one past its last byte, and the number of line feeds before it. */
const ENTRY = 12;
/** Bytes of scratch memory: the result counters, then the elements. */
export const ELEMENT_SCRATCH = 64 + ELEMENTS * ENTRY;

const BACKSLASH = 92;
const COMMA = 44;
const OPEN = 0x7b;
const CLOSE = 0x7d;
/** The bit in which `{` differs from `[`, and `}` from `]`. */
const BRACKET = 0x20;
/** A mask of every second bit. */
const ODD = 0xaaaa_aaaa_aaaa_aaaan;

/** Limits of one element: its length in bytes and its nesting depth. */
interface ElementLimits {
  bytes: number;
  depth: number;
}

/**
 * A plain element is a closed object or array within the depth and length limits, without a backslash outside strings.
 * Only one comma and white space separate it from the previous element. The kernel declines any other element, and the
 * scanner reads it. The method is the one of simdjson (Langdale and Lemire, "Parsing gigabytes of JSON per second",
 * VLDB J. 28, 2019): masks have one bit for each of 64 bytes, and the prefix XOR of the unescaped quotes marks the
 * bytes inside strings.
 */
export class ElementKernel {
  /** Position after the last listed element. All positions are relative to `at`. */
  next = 0;
  readonly #run: (from: number, to: number, at: number) => void;
  readonly #results: Int32Array;
  readonly #entries: Int32Array;

  /** `scratch`: address of ELEMENT_SCRATCH bytes for exclusive use. */
  constructor(memory: WebAssembly.Memory, scratch: number, limits: ElementLimits) {
    const module = new WebAssembly.Module(assemble('element-kernel', [elementsFunction(limits)], { shared: true }));
    const { exports } = new WebAssembly.Instance(module, { env: { memory } });
    this.#run = (from, to, at) => exports.elements!(from, to, at, scratch);
    this.#results = new Int32Array(memory.buffer, scratch, 3);
    this.#entries = new Int32Array(memory.buffer, scratch + 64, (ELEMENTS * ENTRY) / 4);
  }

  /**
   * Lists plain elements in the bytes `from` to `to - 1` relative to address `at`. The first element starts at `from`,
   * on line `line`. Returns the line on which the last listed element ends. If no element is plain, `next` is `from`.
   */
  find(from: number, to: number, at: number, line: number, records: RecordList): number {
    this.#run(at + from, at + to, at);
    const [count, next] = this.#results as unknown as [number, number, number];
    records.addElements(this.#entries, count, line);
    this.next = next;
    return line + this.#results[2]!;
  }
}

/** Bytes per copy if data must be copied. Small enough to stay in the CPU cache. */
const WINDOW = 64 * 1024;

/** An ElementKernel for bytes outside its memory, which are copied into its memory one window at a time. */
export class ElementWindow {
  readonly limits: ElementLimits;
  readonly kernel: ElementKernel;
  readonly #at = Math.ceil(ELEMENT_SCRATCH / 64) * 64;
  readonly #bytes: Uint8Array;

  constructor(limits: ElementLimits) {
    const pages = Math.ceil((this.#at + WINDOW) / PAGE) + 1;
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
    this.limits = limits;
    this.kernel = new ElementKernel(memory, 0, limits);
    this.#bytes = new Uint8Array(memory.buffer, this.#at, WINDOW);
  }

  /** Like `ElementKernel.find`, for bytes `from` to `to - 1` of a slab. */
  find(slab: Uint8Array, from: number, to: number, line: number, records: RecordList): number {
    const end = Math.min(to, from + WINDOW);
    this.#bytes.set(slab.subarray(from, end));
    return this.kernel.find(from, end, this.#at - from, line, records);
  }
}

/**
 * The kernel for the limits that were used last. It is shared, because its memory is too large to allocate per stream,
 * and nearly all streams of a process have the same limits.
 */
let last: ElementWindow | null = null;

/** The shared kernel for these limits; null: there is not enough memory. */
export function elementWindow(limits: ElementLimits): ElementWindow | null {
  if (last?.limits.bytes === limits.bytes && last.limits.depth === limits.depth) return last;
  try {
    last = new ElementWindow(limits);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
  return last;
}

/** The kernel function while it is emitted: its locals, and methods that emit the steps of its code. */
class Elements {
  readonly f = new WasmFunction('elements', { from: 'i32', to: 'i32', at: 'i32', scratch: 'i32' });
  /** Address of the current 64 bytes. */
  readonly p = this.f.local('i32', 'p');
  readonly start = this.f.local('i32', 'start');
  /** Address after the last listed element. `endLine`: number of line feeds before this address. */
  readonly end = this.f.local('i32', 'end');
  readonly endLine = this.f.local('i32', 'endLine');
  /** Number of line feeds before the current element. `lines`: number of line feeds before the current 64 bytes. */
  readonly line = this.f.local('i32', 'line');
  readonly lines = this.f.local('i32', 'lines');
  readonly out = this.f.local('i32', 'out');
  readonly depth = this.f.local('i32', 'depth');
  /** Address of the current brace or bracket. */
  readonly k = this.f.local('i32', 'k');
  readonly q = this.f.local('i32', 'q');
  readonly c = this.f.local('i32', 'c');
  readonly commas = this.f.local('i32', 'commas');
  // The following locals are bit masks with one bit per byte.
  readonly quotes = this.f.local('i64', 'quotes');
  readonly slashes = this.f.local('i64', 'slashes');
  readonly opens = this.f.local('i64', 'opens');
  readonly braces = this.f.local('i64', 'braces');
  readonly breaks = this.f.local('i64', 'breaks');
  readonly inside = this.f.local('i64', 'inside');
  readonly escapes = this.f.local('i64', 'escapes');
  readonly escaped = this.f.local('i64', 'escaped');
  /** All ones if the preceding byte is inside a string. `next`: 1 if the first byte is escaped. */
  readonly carry = this.f.local('i64', 'carry');
  readonly next = this.f.local('i64', 'next');
  readonly vectors = [0, 1, 2, 3].map((i) => this.f.local('v128', `bytes${i}`));
  readonly folded = [0, 1, 2, 3].map((i) => this.f.local('v128', `folded${i}`));

  /** Sets `to` to the mask of the bytes in the vectors that equal `byte`. */
  which(vectors: readonly Local[], byte: number, to: Local): void {
    const { f } = this;
    for (const [i, vector] of vectors.entries()) {
      f.get(vector).bytes(byte).op('i8x16.eq', 'i8x16.bitmask', 'i64.extend_i32_u');
      if (i > 0) f.i64(BigInt(16 * i)).op('i64.shl', 'i64.or');
    }
    f.set(to);
  }

  /** Computes the masks of the current 64 bytes, ignoring bytes after the end. */
  look(): void {
    const { f, p, vectors, folded, quotes, slashes, opens, braces, breaks, inside } = this;
    const { to } = f.params;
    for (const [i, vector] of vectors.entries()) {
      f.get(p).memory('v128.load', 16 * i).tee(vector).bytes(BRACKET).op('v128.or').set(folded[i]!); // biome-ignore format: one line
    }
    this.which(vectors, QUOTE, quotes);
    this.which(vectors, BACKSLASH, slashes);
    this.which(vectors, LF, breaks);
    this.which(folded, OPEN, opens);
    this.which(folded, CLOSE, braces);
    f.get(opens, braces).op('i64.or').set(braces);
    f.get(to, p).op('i32.sub').i32(64).op('i32.lt_u');
    f.when(() => {
      f.i64(1n).get(to, p).op('i32.sub', 'i64.extend_i32_u', 'i64.shl').i64(1n).op('i64.sub').set(inside);
      for (const bits of [quotes, slashes, braces, breaks]) f.get(bits, inside).op('i64.and').set(bits);
    });
  }

  /** Removes escaped quotes from `quotes`. A quote is escaped if a backslash precedes it that is not itself escaped. */
  unescape(): void {
    const { f, slashes, next, escapes, escaped, quotes } = this;
    f.get(slashes, next).op('i64.or').i64(0n).op('i64.ne');
    f.when(() => {
      f.get(slashes).get(next).i64(-1n).op('i64.xor', 'i64.and').set(escapes);
      f.get(escapes).i64(1n).op('i64.shl').i64(ODD).op('i64.or').get(escapes).op('i64.sub').i64(ODD).op('i64.xor');
      f.tee(escapes).get(slashes, next).op('i64.or', 'i64.xor').set(escaped);
      f.get(escapes, slashes).op('i64.and').i64(63n).op('i64.shr_u').set(next);
      f.get(quotes).get(escaped).i64(-1n).op('i64.xor', 'i64.and').set(quotes);
    });
  }

  /** Sets `inside` to the bytes from each opening quote up to its closing quote (exclusive). */
  findStrings(): void {
    const { f, quotes, inside, carry } = this;
    f.get(quotes).set(inside);
    for (const n of [1n, 2n, 4n, 8n, 16n, 32n]) f.get(inside, inside).i64(n).op('i64.shl', 'i64.xor').set(inside);
    f.get(inside, carry).op('i64.xor').set(inside);
    f.i64(0n).get(inside).i64(63n).op('i64.shr_u', 'i64.sub').set(carry);
  }

  /** Pushes the number of line feeds in the current 64 bytes before the current brace. */
  breaksBefore(): void {
    const { f, k, p, breaks } = this;
    f.get(breaks).i64(1n).get(k, p).op('i32.sub', 'i64.extend_i32_u', 'i64.shl').i64(1n).op('i64.sub', 'i64.and');
    f.op('i64.popcnt', 'i32.wrap_i64');
  }
}

/**
 * elements(from, to, at, scratch) writes three results: the number of elements, the position after the last element,
 * and the number of line feeds before this position. For each element it writes start, end, and the number of line
 * feeds before its start.
 */
function elementsFunction(limits: ElementLimits): WasmFunction {
  const x = new Elements();
  const { f, p, start, end, endLine, line, lines, out, depth, k, braces, opens, inside, slashes, breaks } = x;
  const { from, to, at, scratch } = f.params;
  f.get(from).tee(p).set(end).get(scratch).set(out);
  f.block('done', (done) => {
    f.repeat(
      () => {
        f.get(p, to).op('i32.ge_u').leaveIf(done);
        x.look();
        x.unescape();
        x.findStrings();
        f.get(inside).i64(-1n).op('i64.xor').tee(inside).get(slashes).op('i64.and').i64(0n).op('i64.ne').leaveIf(done);
        f.get(braces, inside).op('i64.and').set(braces);
        f.block('looked', (looked) => {
          f.repeat(
            () => {
              f.get(braces).i64(0n).op('i64.ne', 'i32.eqz').leaveIf(looked);
              f.get(p).get(braces).op('i64.ctz', 'i32.wrap_i64', 'i32.add').set(k);
              f.get(opens).get(k, p).op('i32.sub', 'i64.extend_i32_u', 'i64.shr_u', 'i32.wrap_i64').i32(1);
              f.op('i32.and').when(
                () => {
                  f.get(depth).op('i32.eqz');
                  f.when(() => {
                    betweenElements(x, () => f.leave(done));
                    f.get(lines);
                    x.breaksBefore();
                    f.op('i32.add').set(line).get(k).set(start);
                  });
                  f.bump(depth, 1).get(depth).i32(limits.depth).op('i32.gt_u').leaveIf(done);
                },
                () => {
                  f.get(depth).op('i32.eqz').leaveIf(done);
                  f.bump(depth, -1).get(depth).op('i32.eqz');
                  f.when(() => {
                    f.get(k).i32(1).op('i32.add').get(start).op('i32.sub').i32(limits.bytes).op('i32.gt_u').leaveIf(done); // biome-ignore format: one line
                    f.get(k).i32(1).op('i32.add').set(end).get(lines);
                    x.breaksBefore();
                    f.op('i32.add').set(endLine);
                    f.get(out, start, at).op('i32.sub').memory('i32.store', 64);
                    f.get(out, end, at).op('i32.sub').memory('i32.store', 68);
                    f.get(out, line).memory('i32.store', 72).bump(out, ENTRY);
                    f.get(out, scratch).op('i32.sub').i32(ELEMENTS * ENTRY).op('i32.eq').leaveIf(done); // biome-ignore format: one line
                  });
                },
              );
              f.get(braces).i64(1n).op('i64.sub').get(braces).op('i64.and').set(braces);
            },
            () => f.i32(1),
          );
        });
        f.get(lines, breaks).op('i64.popcnt', 'i32.wrap_i64', 'i32.add').set(lines).bump(p, 64);
      },
      () => f.i32(1),
    );
  });
  f.get(scratch, out, scratch).op('i32.sub').i32(ENTRY).op('i32.div_u').memory('i32.store');
  f.get(scratch, end, at).op('i32.sub').memory('i32.store', 4);
  f.get(scratch, endLine).memory('i32.store', 8);
  return f.end();
}

/**
 * Declines unless exactly one comma, and otherwise only white space, lies between the previous element (if any) and
 * `k`.
 */
function betweenElements({ f, k, q, end, c, commas }: Elements, decline: () => void): void {
  f.get(k, f.params.from).op('i32.ne');
  f.when(() => {
    f.get(end).set(q).i32(0).set(commas);
    f.block('between', (between) => {
      f.repeat(
        () => {
          f.get(q, k).op('i32.ge_u').leaveIf(between);
          f.get(q).memory('i32.load8_u').tee(c).i32(COMMA).op('i32.eq');
          f.when(
            () => f.bump(commas, 1),
            () => {
              // Bit mask of white space: tab, line feed, carriage return, and space (bit 32).
              f.get(c).i32(32).op('i32.gt_u');
              f.when(decline);
              f.i64(0x1_0000_2600n).get(c).op('i64.extend_i32_u', 'i64.shr_u', 'i32.wrap_i64').i32(1).op('i32.and');
              f.op('i32.eqz');
              f.when(decline);
            },
          );
          f.bump(q, 1);
        },
        () => f.i32(1),
      );
    });
    f.get(commas).i32(1).op('i32.ne');
    f.when(decline);
  });
}
