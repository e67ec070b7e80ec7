// The words of an Arrow dictionary. Writers extend a dictionary by further batches (deltas), so its words are in several pieces.
import type { Batch, DataType } from '@uwdata/flechette';

interface Piece {
  words: Batch<unknown>;
  /** Code of its first word. */
  first: number;
}

export class ArrowDictionary {
  readonly type: DataType;
  readonly pieces: Piece[] = [];
  /** Words. */
  count = 0;
  /** Bytes of all pieces. */
  bytes = 0;

  constructor(type: DataType) {
    this.type = type;
  }

  add(words: Batch<unknown>, bytes: number): void {
    this.pieces.push({ words, first: this.count });
    this.count += words.length;
    this.bytes += bytes;
  }

  /** The number of the piece that has the word of a code. */
  pieceOf(code: number): number {
    let [low, high] = [0, this.pieces.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.pieces[middle]!.first <= code) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
