// Shared state for emitting a row kernel: the function, its locals, and bit masks for vectors.

import type { Arena } from '../../wasm/arena.ts';
import { type Local, WasmFunction } from '../../wasm/function.ts';

/** Size of a vector, bytes. A number or word is read as one vector if it fits. */
export const VECTOR = 16;

/**
 * Writes 17 masks to the kernel's memory and returns their address. All bits of the first n bytes of mask n are set.
 */
export const placeMasks = (arena: Arena): number =>
  arena.take((VECTOR + 1) * 16, (memory, at) => {
    for (let n = 0; n <= VECTOR; n++) new Uint8Array(memory, at + n * 16, n).fill(0xff);
  });

/**
 * The function rows(count, shift) that is being emitted. The address of a byte is its offset in the block plus `shift`.
 */
export class RowLocals {
  readonly f = new WasmFunction('rows', { count: 'i32', shift: 'i32' });
  readonly count = this.f.params.count;
  readonly shift = this.f.params.shift;
  readonly row = this.f.local('i32', 'row');
  /**
   * Address of the first byte of the current field. `q`: one past its last byte. `end`: one past the last byte of the
   * record.
   */
  readonly p = this.f.local('i32', 'p');
  readonly q = this.f.local('i32', 'q');
  readonly end = this.f.local('i32', 'end');
  /** 1 in a quoted field. */
  readonly quoted = this.f.local('i32', 'quoted');
  /** 1 once an examined column of the row has a value. A row that ends with 0 is declined. */
  readonly valued = this.f.local('i32', 'valued');
  // The following locals are scratch variables of a single emitting function.
  readonly c = this.f.local('i32', 'c');
  readonly length = this.f.local('i32', 'length');
  readonly slot = this.f.local('i32', 'slot');
  readonly at = this.f.local('i32', 'at');
  readonly negative = this.f.local('i32', 'negative');
  /** Number of declined rows. */
  readonly left = this.f.local('i32', 'left');
  /** Used bytes of the list of odd cells. `oddBefore`: used bytes before the current row. */
  readonly odd = this.f.local('i32', 'odd');
  readonly oddBefore = this.f.local('i32', 'oddBefore');
  /** The first 16 bytes of the current field. */
  readonly head = this.f.local('v128', 'head');
  readonly digits = this.f.local('v128', 'digits');
  readonly value = this.f.local('f64', 'value');
  /** Address of the current row in each matrix. */
  readonly matrixRows: readonly Local[];
  readonly #masks: number;

  constructor(matrices: number, masks: number) {
    this.matrixRows = Array.from({ length: matrices }, (_, i) => this.f.local('i32', `matrix${i}`));
    this.#masks = masks;
  }

  /** Replaces the mask number on the stack by the mask. */
  mask(): WasmFunction {
    return this.f.i32(4).op('i32.shl').memory('v128.load', this.#masks);
  }

  /** Pushes the byte at `p`. */
  byte(): WasmFunction {
    return this.f.get(this.p).memory('i32.load8_u');
  }

  /** Pushes the offset of the row's entry in an array whose entries have 2^shift bytes. */
  entry(shift: number): WasmFunction {
    return this.f.get(this.row).i32(shift).op('i32.shl');
  }
}
