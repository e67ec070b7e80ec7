// The answer kernel: WebAssembly that converts probabilities to the bytes of plain predictions.
// A plain prediction has a row number, one of two classes, and a probability.

import type { ColumnBatch } from '../../core/batch.ts';
import type { Scores } from '../../inference/evaluate/evaluator.ts';
import type { Interpreter } from '../../inference/evaluate/prediction.ts';
import { Arena } from '../../wasm/arena.ts';
import { WasmFunction } from '../../wasm/function.ts';
import { assemble, loadModule } from '../../wasm/module.ts';
import { POWERS } from '../../wasm/powers-of-ten.ts';
import type { ByteWriter } from './byte-writer.ts';
import { EXACT_DECIMALS } from './number.ts';

/** The constant texts around the numbers of a row. */
interface AnswerPieces {
  beforeRow: string;
  /**
   * Text between the row number and the probability. `whenTrue` or `whenFalse` is used, depending on the prediction.
   */
  whenTrue: string;
  whenFalse: string;
  end: string;
}

/** Number of rows of an output after which compiling a kernel saves time. */
export const ANSWER_KERNEL_AFTER = 2048;
/** Maximum number of rows in a micro-batch. */
const ROWS = 512;
/** Maximum row number. Row numbers must fit into 32 bits. */
const MAX_ROW = 1e9;
/** Smallest probability that the kernel writes. JavaScript writes smaller numbers with an exponent. */
const SMALLEST = 1e-6;
/** Maximum number of digits of a row number. `NUMBER_BYTES`: maximum bytes of a probability. */
const ROW_DIGITS = 10;
const NUMBER_BYTES = 20;

/**
 * The fast path of a formatter: writes plain predictions byte-identically to the formatter, and declines all others.
 */
export class PlainAnswers {
  readonly #pieces: AnswerPieces;
  readonly #interpreter: Interpreter;
  #rowsLeft: number;
  #kernel: Kernel | null = null;
  #batch: ColumnBatch | null = null;
  #firstRow = 0;

  private constructor(pieces: AnswerPieces, interpreter: Interpreter, after: number) {
    this.#pieces = pieces;
    this.#interpreter = interpreter;
    this.#rowsLeft = after;
  }

  /** `after`: number of rows until the kernel is built. Returns null if the predictions of the model are not plain. */
  static of(pieces: AnswerPieces, i: Interpreter, after: number): PlainAnswers | null {
    return i.task === 'binary' && !i.hasPoints && !i.hasDecisions ? new PlainAnswers(pieces, i, after) : null;
  }

  /** Prepares a batch. Returns whether the kernel can write rows of this batch. */
  begin(batch: ColumnBatch, scores: Scores | null, firstRow: number): boolean {
    const { rows } = batch;
    if (!(scores?.values instanceof Float32Array) || rows > ROWS || firstRow + rows > MAX_ROW) return false;
    if (!this.#kernel) {
      this.#rowsLeft -= rows;
      if (this.#rowsLeft >= 0) return false;
      this.#kernel = new Kernel(this.#pieces);
    }
    this.#batch = batch;
    this.#firstRow = firstRow;
    this.#interpreter.probabilities(scores, rows, this.#kernel.values);
    return true;
  }

  /**
   * Writes the rows of the batch starting at `from`, up to the first rejected or declined row. Returns the index of
   * that row.
   */
  write(out: ByteWriter, from: number): number {
    const { rejected, rows } = this.#batch!;
    let to = from;
    while (to < rows && rejected[to] !== 1) to++;
    return to === from ? from : this.#kernel!.write(out, from, to, this.#firstRow + from);
  }
}

class Kernel {
  /** The probabilities of the rows in the batch, set by the caller. */
  readonly values: Float32Array;
  readonly #run: (from: number, to: number, row: number) => void;
  readonly #results: Int32Array;
  readonly #bytes: Uint8Array;
  readonly #outAt: number;

  constructor(pieces: AnswerPieces) {
    const arena = new Arena();
    const text = (piece: string): Piece => {
      const bytes = Buffer.from(piece);
      const at = arena.take(padded(bytes.length), (memory, to) => new Uint8Array(memory, to).set(bytes));
      return { at, length: bytes.length };
    };
    const all = [pieces.beforeRow, pieces.whenTrue, pieces.whenFalse, pieces.end].map(text) as PieceTuple;
    const places = {
      values: arena.take(ROWS * 4),
      powers: arena.take(POWERS.length * 8, (memory, at) => new Float64Array(memory, at, POWERS.length).set(POWERS)),
      digits: arena.take(64),
      results: arena.take(8),
      out: arena.take(ROWS * (all.reduce((n, p) => n + padded(p.length), 0) + ROW_DIGITS + NUMBER_BYTES) + 64),
    };
    const { memory, exports } = loadModule(assemble('answer-kernel', [answersFunction(all, places)]), arena.build());
    this.values = new Float32Array(memory.buffer, places.values, ROWS);
    this.#results = new Int32Array(memory.buffer, places.results, 2);
    this.#bytes = new Uint8Array(memory.buffer);
    this.#outAt = places.out;
    this.#run = exports.answers!;
  }

  write(out: ByteWriter, from: number, to: number, row: number): number {
    this.#run(from, to, row);
    const [stopped, end] = this.#results as unknown as [number, number];
    const length = end - this.#outAt;
    out.room(length).set(this.#bytes.subarray(this.#outAt, end), out.length);
    out.length += length;
    return stopped;
  }
}

interface Piece {
  at: number;
  length: number;
}
type PieceTuple = [beforeRow: Piece, whenTrue: Piece, whenFalse: Piece, end: Piece];

const padded = (length: number): number => Math.ceil(length / 16) * 16;

/**
 * answers(from, to, row) writes rows `from` to `to - 1`. `row`: row number of the first row. Results: the index of the
 * row at which it stopped, and the address after the last byte. A probability becomes the same decimal as in
 * `writeFloat32`, by the same arithmetic. The function is long because an emitter is most readable in the order of
 * its instructions.
 */
function answersFunction(
  [beforeRow, whenTrue, whenFalse, end]: PieceTuple,
  places: { values: number; powers: number; digits: number; results: number; out: number },
): WasmFunction {
  const f = new WasmFunction('answers', { r: 'i32', to: 'i32', row: 'i32' });
  const { r, to, row } = f.params;
  const { out, n, at, left, piece, decimals } = f.locals('i32', 'out', 'n', 'at', 'left', 'piece', 'decimals');
  const value = f.local('f32', 'value');
  const { size, power, scaled, nearest } = f.locals('f64', 'size', 'power', 'scaled', 'nearest');
  const powerOf = (shift: number): WasmFunction =>
    f.get(decimals).i32(shift).op('i32.add').i32(3).op('i32.shl').memory('f64.load', places.powers);
  /** Copies the bytes at `from` to `out` in steps of 16. */
  const copy = (length: number, from: () => void): void => {
    for (let k = 0; k < length; k += 16) {
      f.get(out);
      from();
      f.memory('v128.load', k).memory('v128.store', k);
    }
  };
  const constant = ({ at, length }: Piece): void => {
    copy(length, () => f.i32(at));
    f.bump(out, length);
  };
  /** Writes the last digit of `n` at `at` and removes it from `n`. */
  const digit = (): void => {
    f.get(at).get(n).i32(10).op('i32.rem_u').i32(48).op('i32.add').memory('i32.store8');
    f.get(n).i32(10).op('i32.div_u').set(n);
  };

  f.i32(places.out).set(out);
  f.block('stop', (stop) => {
    f.repeat(
      () => {
        f.block('written', (written) => {
          f.block('declined', (declined) => {
            f.get(r).i32(2).op('i32.shl').memory('f32.load', places.values).tee(value).op('f64.promote_f32').tee(size);
            f.f64(1).op('f64.lt', 'i32.eqz').leaveIf(declined);
            f.get(size).f64(SMALLEST).op('f64.ge', 'i32.eqz').leaveIf(declined);
            // Tries six significant digits, then up to three more.
            f.i32(5).set(decimals);
            f.repeat(
              () => f.bump(decimals, 1),
              () => {
                f.get(size);
                powerOf(-5).op('f64.mul').f64(1).op('f64.lt');
              },
            );
            f.i32(4).set(left);
            f.block('found', (found) => {
              f.repeat(
                () => {
                  powerOf(0).tee(power).get(size).op('f64.mul').tee(scaled).op('f64.ceil').tee(nearest);
                  f.f64(1).op('f64.sub').get(nearest).get(nearest).f64(0.5).op('f64.sub').get(scaled);
                  f.op('f64.gt', 'select').set(nearest);
                  f.get(decimals).i32(EXACT_DECIMALS).op('i32.gt_u');
                  f.when(() => {
                    f.get(scaled, scaled).op('f64.floor', 'f64.sub').f64(0.5).op('f64.sub', 'f64.abs').f64(1e-6);
                    f.op('f64.lt').leaveIf(declined);
                  });
                  f.get(nearest, power).op('f64.div', 'f32.demote_f64').get(value).op('f32.eq').leaveIf(found);
                  f.bump(decimals, 1).bump(left, -1);
                },
                () => f.get(left),
              );
              f.leave(declined);
            });

            constant(beforeRow);
            f.get(row).set(n).i32(places.digits + 16).set(at); // biome-ignore format: one line
            f.repeat(
              () => {
                f.bump(at, -1);
                digit();
              },
              () => f.get(n),
            );
            f.get(out).get(at).memory('v128.load').memory('v128.store');
            f.get(out).i32(places.digits + 16).get(at).op('i32.sub', 'i32.add').set(out); // biome-ignore format: one line

            f.i32(whenTrue.at).i32(whenFalse.at).get(size).f64(0.5).op('f64.gt', 'select').set(piece);
            copy(Math.max(whenTrue.length, whenFalse.length), () => f.get(piece));
            f.get(out).i32(whenTrue.length).i32(whenFalse.length).get(size).f64(0.5).op('f64.gt', 'select', 'i32.add');
            f.set(out);

            // Writes "0." and the digits without trailing zeros.
            f.get(nearest).op('i32.trunc_f64_u').set(n);
            f.block('done', (done) => {
              f.repeat(
                () => {
                  f.get(n).i32(10).op('i32.rem_u').leaveIf(done);
                  f.get(n).i32(10).op('i32.div_u').set(n);
                  f.bump(decimals, -1);
                },
                () => f.i32(1),
              );
            });
            f.get(out).i32(48).memory('i32.store8').get(out).i32(46).memory('i32.store8', 1).bump(out, 2);
            f.get(out, decimals).op('i32.add').tee(at);
            f.set(left);
            f.repeat(
              () => {
                f.bump(at, -1);
                digit();
              },
              () => f.get(at, out).op('i32.ne'),
            );
            f.get(left).set(out);
            constant(end);
            f.leave(written);
          });
          f.leave(stop);
        });
        f.bump(row, 1).bump(r, 1);
      },
      () => f.get(r, to).op('i32.ne'),
    );
  });
  f.i32(places.results).get(r).memory('i32.store').i32(places.results).get(out).memory('i32.store', 4);
  return f.end();
}
