// Plain lines of delimited text, found where they lie in shared memory, sixteen bytes at a time.
import { CR, LF, QUOTE } from '../../core/ascii.ts';
import { WasmFunction } from '../../wasm/function.ts';
import { assemble } from '../../wasm/module.ts';

/** Lines that are listed at once. */
const LINES = 4096;
/** Bytes of memory that are written to: two numbers, then two for each line. */
export const LINE_SCRATCH = 64 + LINES * 8;

/**
 * A line is plain if it ends with LF or CRLF, has no other CR, is not blank and not longer than allowed, and if all its quotes, where
 * quotes mean something, open a field, close one or are doubled in one, with no line break between. Any other line is declined:
 * the scanner reads it.
 */
export class LineKernel {
  /** Where the line begins that was not listed; in bytes from `at`, as everything. */
  next = 0;
  /** First and one past the last byte of each line listed. */
  readonly spans: Int32Array;
  readonly #run: (from: number, to: number, at: number, longest: number) => void;
  readonly #results: Int32Array;

  /** `scratch`: LINE_SCRATCH bytes of the memory for exclusive use. `delimiter` null: quotes have no meaning. */
  constructor(memory: WebAssembly.Memory, scratch: number, delimiter: number | null) {
    const module = new WebAssembly.Module(assemble('line-kernel', [linesFunction(delimiter)], { shared: true }));
    const { exports } = new WebAssembly.Instance(module, { env: { memory } });
    this.#run = (from, to, at, longest) => exports.lines!(from, to, at, longest, scratch);
    this.#results = new Int32Array(memory.buffer, scratch, 2);
    this.spans = new Int32Array(memory.buffer, scratch + 64, LINES * 2);
  }

  /** Lists plain lines of bytes `from`..`to - 1` behind address `at`, of at most `longest` bytes; gives how many. */
  find(from: number, to: number, at: number, longest: number): number {
    this.#run(at + from, at + to, at, longest);
    this.next = this.#results[1]!;
    return this.#results[0]!;
  }
}

/**
 * lines(from, to, at, longest, scratch): writes how many lines, where the next begins, and their spans, all from `at` on. Long as it is, because
 * an emitter reads best in the order of its instructions.
 */
function linesFunction(delimiter: number | null): WasmFunction {
  const f = new WasmFunction('lines', { from: 'i32', to: 'i32', at: 'i32', longest: 'i32', scratch: 'i32' });
  const { from, to, at, longest, scratch } = f.params;
  const { p, start, end, out } = f.locals('i32', 'p', 'start', 'end', 'out');
  const { breaks, suspect, returns, followed } = f.locals('i32', 'breaks', 'suspect', 'returns', 'followed');
  const { quotes, inside, region } = f.locals('i32', 'quotes', 'inside', 'region');
  const { bytes, others } = f.locals('v128', 'bytes', 'others');
  /** Which of the bytes on the stack are this one. */
  const which = (byte: number): WasmFunction => f.bytes(byte).op('i8x16.eq', 'i8x16.bitmask');
  /** Which of `others` are one of these. */
  const any = (...ones: number[]): WasmFunction => {
    for (const [i, byte] of ones.entries()) {
      f.get(others).bytes(byte).op('i8x16.eq');
      if (i > 0) f.op('v128.or');
    }
    return f.op('i8x16.bitmask');
  };
  /**
   * suspect = quotes that are not plain. Opening, closing and doubled ones alternate; `region` are the bytes from an
   * opening one to before the closing one (a doubled one closes and opens), `inside` whether the last byte before is in
   * one.
   */
  const judgeQuotes = (delimiter: number): void => {
    f.get(quotes).set(region);
    for (const n of [1, 2, 4, 8]) f.get(region, region).i32(n).op('i32.shl', 'i32.xor').set(region);
    f.get(region).i32(0).get(inside).op('i32.sub', 'i32.xor').i32(0xffff).op('i32.and').set(region);
    // An opening quote is at the beginning of the line, or after a delimiter or the quote that it doubles.
    f.get(p).i32(1).op('i32.sub').memory('v128.load').set(others);
    f.get(quotes, region).op('i32.and');
    any(delimiter, LF, QUOTE).get(p, from).op('i32.eq', 'i32.or').i32(-1).op('i32.xor', 'i32.and');
    // One that closes is followed by the end of its field, or doubled.
    f.get(p).memory('v128.load', 1).set(others);
    f.get(region).i32(-1).op('i32.xor').get(quotes).op('i32.and');
    any(delimiter, LF, CR, QUOTE).i32(-1).op('i32.xor', 'i32.and').op('i32.or');
    f.get(bytes).set(others);
    any(LF, CR).get(region).op('i32.and', 'i32.or').set(suspect);
    f.get(region).i32(15).op('i32.shr_u').set(inside);
  };
  f.get(from).tee(start).set(p).get(scratch).set(out);
  f.block('done', (done) => {
    f.repeat(
      () => {
        f.get(p, to).op('i32.ge_u').leaveIf(done);
        f.get(p).memory('v128.load').tee(bytes);
        which(LF).set(breaks);
        // What lies behind the end.
        f.get(to, p).op('i32.sub').i32(16).op('i32.lt_u');
        f.when(() =>
          f.get(breaks).i32(1).get(to, p).op('i32.sub', 'i32.shl').i32(1).op('i32.sub', 'i32.and').set(breaks),
        );
        f.i32(0).set(suspect);
        if (delimiter !== null) {
          f.get(bytes);
          which(QUOTE).tee(quotes).get(inside).op('i32.or');
          f.when(() => judgeQuotes(delimiter));
        }
        f.get(bytes);
        which(CR).tee(returns);
        f.when(() => {
          // A CR that no LF follows, as far as can be seen, is suspect.
          f.get(p).memory('v128.load', 1);
          which(LF).set(followed);
          f.get(followed).i32(-1).op('i32.xor').get(returns).op('i32.and').get(suspect).op('i32.or').set(suspect);
        });
        f.get(suspect);
        f.when(() => {
          f.i32(0)
            .get(suspect)
            .op('i32.sub')
            .get(suspect)
            .op('i32.and')
            .i32(1)
            .op('i32.sub')
            .get(breaks)
            .op('i32.and')
            .set(breaks);
        });
        f.get(breaks);
        f.when(() => {
          f.repeat(
            () => {
              f.get(p, breaks).op('i32.ctz', 'i32.add').tee(end).get(start).op('i32.eq').leaveIf(done);
              // `followed` is the line feed, `end` where the line ends.
              f.get(end)
                .tee(followed)
                .get(end)
                .i32(1)
                .op('i32.sub')
                .memory('i32.load8_u')
                .i32(CR)
                .op('i32.eq', 'i32.sub');
              f.tee(end).get(start).op('i32.eq').leaveIf(done);
              f.get(end, start).op('i32.sub').get(longest).op('i32.gt_u').leaveIf(done);
              f.get(out, start, at).op('i32.sub').memory('i32.store', 64);
              f.get(out, end, at).op('i32.sub').memory('i32.store', 68);
              f.get(followed).i32(1).op('i32.add').set(start);
              f.bump(out, 8);
              f.get(out, scratch)
                .op('i32.sub')
                .i32(LINES * 8)
                .op('i32.eq')
                .leaveIf(done);
              f.get(breaks).i32(1).op('i32.sub').get(breaks).op('i32.and').set(breaks);
            },
            () => f.get(breaks),
          );
        });
        f.get(suspect).leaveIf(done);
        f.bump(p, 16);
      },
      () => f.i32(1),
    );
  });
  f.get(scratch, out, scratch).op('i32.sub').i32(3).op('i32.shr_u').memory('i32.store');
  f.get(scratch, start, at).op('i32.sub').memory('i32.store', 4);
  return f.end();
}
