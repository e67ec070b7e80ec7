// What the parts of a row kernel's function share: the function itself, its locals, and masks that cut vectors off.

import type { Arena } from '../../wasm/arena.ts';
import { type Local, WasmFunction } from '../../wasm/function.ts';

/** Bytes of a vector: a number or a word is looked at as one where it fits. */
export const VECTOR = 16;

/** Vectors whose first 0 to 16 bytes are ones; gives their address. */
export const placeMasks = (arena: Arena): number =>
  arena.take((VECTOR + 1) * 16, (memory, at) => {
    for (let n = 0; n <= VECTOR; n++) new Uint8Array(memory, at + n * 16, n).fill(0xff);
  });

/** rows(count, shift): the address of a byte of the block is its number there plus `shift`. */
export class RowLocals {
  readonly f = new WasmFunction('rows', { count: 'i32', shift: 'i32' });
  readonly count = this.f.params.count;
  readonly shift = this.f.params.shift;
  readonly row = this.f.local('i32', 'row');
  /** First byte of the field at hand, one past its last, and one past the last of the record. */
  readonly p = this.f.local('i32', 'p');
  readonly q = this.f.local('i32', 'q');
  readonly end = this.f.local('i32', 'end');
  /** 1 in a field in quotes. */
  readonly quoted = this.f.local('i32', 'quoted');
  /** 1 once the row has a value that counts: one without is declined. */
  readonly valued = this.f.local('i32', 'valued');
  // What follows means something within one step only.
  readonly c = this.f.local('i32', 'c');
  readonly length = this.f.local('i32', 'length');
  readonly slot = this.f.local('i32', 'slot');
  readonly at = this.f.local('i32', 'at');
  readonly negative = this.f.local('i32', 'negative');
  /** Rows that are declined. */
  readonly left = this.f.local('i32', 'left');
  /** First vector of the field at hand. */
  readonly head = this.f.local('v128', 'head');
  readonly digits = this.f.local('v128', 'digits');
  readonly value = this.f.local('f64', 'value');
  /** The row's place in each of the matrices. */
  readonly matrixRows: readonly Local[];
  readonly #masks: number;

  constructor(matrices: number, masks: number) {
    this.matrixRows = Array.from({ length: matrices }, (_, i) => this.f.local('i32', `matrix${i}`));
    this.#masks = masks;
  }

  /** Emits: the mask whose number is on the stack. */
  mask(): WasmFunction {
    return this.f.i32(4).op('i32.shl').memory('v128.load', this.#masks);
  }

  /** Emits: the byte at p. */
  byte(): WasmFunction {
    return this.f.get(this.p).memory('i32.load8_u');
  }

  /** Emits: offset of the row's entry in an array of entries of 2^shift bytes. */
  entry(shift: number): WasmFunction {
    return this.f.get(this.row).i32(shift).op('i32.shl');
  }
}
