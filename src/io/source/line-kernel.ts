// A WebAssembly kernel that finds plain lines of delimited text in place in shared memory, sixteen bytes at a time.
import { CR, LF, QUOTE } from '../../core/ascii.ts';
import { WasmFunction } from '../../wasm/function.ts';
import { assemble } from '../../wasm/module.ts';

/** Maximum number of lines listed per call. */
const LINES = 4096;
/** Bytes of scratch memory: two results, then two numbers per line. */
export const LINE_SCRATCH = 64 + LINES * 8;

/**
 * A line is plain if it ends with LF or CRLF, has no other CR, is not blank, and is not too long. If quoting is
 * enabled, every quote must open or close a field or be doubled inside a quoted field, and a quoted field must not
 * contain line breaks. The kernel declines any other line, and the scanner reads it.
 */
export class LineKernel {
  /** Start of the first line that was not listed. All positions are relative to `at`. */
  next = 0;
  /** First byte and one past the last byte of each listed line. */
  readonly spans: Int32Array;
  readonly #run: (from: number, to: number, at: number, longest: number) => void;
  readonly #results: Int32Array;

  /** `scratch`: address of LINE_SCRATCH bytes for exclusive use. `delimiter`: null disables quoting. */
  constructor(memory: WebAssembly.Memory, scratch: number, delimiter: number | null) {
    const module = new WebAssembly.Module(assemble('line-kernel', [linesFunction(delimiter)], { shared: true }));
    const { exports } = new WebAssembly.Instance(module, { env: { memory } });
    this.#run = (from, to, at, longest) => exports.lines!(from, to, at, longest, scratch);
    this.#results = new Int32Array(memory.buffer, scratch, 2);
    this.spans = new Int32Array(memory.buffer, scratch + 64, LINES * 2);
  }

  /**
   * Lists the plain lines of at most `longest` bytes in the bytes `from` to `to - 1` relative to address `at`. Stops at
   * the first other line. Returns the number of lines.
   */
  find(from: number, to: number, at: number, longest: number): number {
    this.#run(at + from, at + to, at, longest);
    this.next = this.#results[1]!;
    return this.#results[0]!;
  }
}

/**
 * lines(from, to, at, longest, scratch) writes the number of lines, the start of the next line, and the spans of the
 * lines, all relative to `at`. The function is long because an emitter is most readable in the order of its
 * instructions.
 */
function linesFunction(delimiter: number | null): WasmFunction {
  const f = new WasmFunction('lines', { from: 'i32', to: 'i32', at: 'i32', longest: 'i32', scratch: 'i32' });
  const { from, to, at, longest, scratch } = f.params;
  const { p, start, end, out } = f.locals('i32', 'p', 'start', 'end', 'out');
  const { breaks, suspect, returns, followed } = f.locals('i32', 'breaks', 'suspect', 'returns', 'followed');
  const { quotes, inside, region } = f.locals('i32', 'quotes', 'inside', 'region');
  const { bytes, others } = f.locals('v128', 'bytes', 'others');
  /** Pops a vector and pushes the mask of its bytes that equal `byte`. */
  const which = (byte: number): WasmFunction => f.bytes(byte).op('i8x16.eq', 'i8x16.bitmask');
  /** Pushes the mask of the bytes in `others` that equal one of these bytes. */
  const any = (...ones: number[]): WasmFunction => {
    for (const [i, byte] of ones.entries()) {
      f.get(others).bytes(byte).op('i8x16.eq');
      if (i > 0) f.op('v128.or');
    }
    return f.op('i8x16.bitmask');
  };
  /**
   * Sets `suspect` to the mask of quotes and line breaks that make their line not plain. Opening and closing quotes
   * alternate; a doubled quote closes and opens again. `region` marks the bytes from each opening quote up to its
   * closing quote (exclusive). `inside`: whether the preceding byte is in a region.
   */
  const judgeQuotes = (delimiter: number): void => {
    f.get(quotes).set(region);
    for (const n of [1, 2, 4, 8]) f.get(region, region).i32(n).op('i32.shl', 'i32.xor').set(region);
    f.get(region).i32(0).get(inside).op('i32.sub', 'i32.xor').i32(0xffff).op('i32.and').set(region);
    // An opening quote must be at the start of the line, after a delimiter, or after the quote that it doubles.
    f.get(p).i32(1).op('i32.sub').memory('v128.load').set(others);
    f.get(quotes, region).op('i32.and');
    any(delimiter, LF, QUOTE).get(p, from).op('i32.eq', 'i32.or').i32(-1).op('i32.xor', 'i32.and');
    // A closing quote must be at the end of its field, or doubled.
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
        // Clears the bits of bytes after the end.
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
          // A CR without a following LF is suspect.
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
              // `followed` is the position of the line feed, `end` the end of the line's text.
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
