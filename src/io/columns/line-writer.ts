// Rows of a batch of columns as lines of JSON, byte for byte as JSON.stringify gives an object a row.
import type { RowsAsText } from '../../core/block-columns.ts';
import type { Fragments } from './fragments.ts';
import type { BatchColumn, LineBatch } from './line-batch.ts';
import { NUMBER_BYTES, writeNumber } from './number-text.ts';

const OPEN = 123;
const CLOSE = 125;
const NEWLINE = 10;
/** Bytes that copying words of eight may write behind a line. */
const SLACK = 8;

/** What the loop over cells looks at instead of an object a column. */
const BY_CODE = 0;
const BY_CELL = 1;

const textOf = ({ fragments }: BatchColumn): number => (fragments ? BY_CODE : BY_CELL);

/** Most bytes a line of the batch can have. */
function longestLine({ columns, rows }: LineBatch): number {
  let bytes = 3 + SLACK;
  for (const { kind, fragments, key, ends } of columns) {
    let longest = NUMBER_BYTES;
    if (!fragments && kind === 'tokens') {
      longest = 0;
      for (let i = 0, from = 0; i < rows; from = ends[i++]!) longest = Math.max(longest, ends[i]! - from);
    }
    bytes += fragments ? fragments.longest : key.length + longest;
  }
  return bytes;
}

/** Writes the lines of one batch. */
export class LineWriter implements RowsAsText {
  readonly longest: number;
  #row = 0;
  readonly #batch: LineBatch;
  readonly #texts: Uint8Array;
  readonly #codes: readonly Int32Array[];
  readonly #fragments: readonly (Fragments | null)[];
  /** Of columns without words: their keys, as those have them. */
  readonly #keys: readonly Float64Array[];

  constructor(batch: LineBatch) {
    const { columns } = batch;
    this.#batch = batch;
    this.longest = longestLine(batch);
    this.#texts = Uint8Array.from(columns, textOf);
    this.#codes = columns.map((column) => column.codes);
    this.#fragments = columns.map((column) => column.fragments);
    this.#keys = columns.map((column) => column.keyWords);
  }

  get left(): number {
    return this.#batch.rows - this.#row;
  }

  write(to: Buffer): number {
    const { rows } = this.#batch;
    const view = new DataView(to.buffer, to.byteOffset, to.byteLength);
    const most = to.length - this.longest;
    let at = 0;
    while (this.#row < rows && at <= most) at = this.#line(this.#row++, to, view, at);
    return at;
  }

  #line(row: number, to: Buffer, view: DataView, start: number): number {
    const { columns } = this.#batch;
    const [texts, codes, fragments, keys] = [this.#texts, this.#codes, this.#fragments, this.#keys];
    let at = start;
    if (texts.length === 0) to[at++] = OPEN;
    for (let c = 0; c < texts.length; c++) {
      if (texts[c] === BY_CODE) {
        const { words, starts, lengths } = fragments[c]!;
        const code = codes[c]![row]!;
        const length = lengths[code]!;
        let word = starts[code]!;
        for (let k = 0; k < length; k += 8) view.setFloat64(at + k, words[word++]!, true);
        at += length;
      } else {
        const key = keys[c]!;
        const end = at + columns[c]!.key.length;
        for (let k = 0; k < key.length; k++, at += 8) view.setFloat64(at, key[k]!, true);
        at = writeCell(columns[c]!, row, to, end);
      }
    }
    to[at++] = CLOSE;
    to[at++] = NEWLINE;
    return at;
  }
}

function writeCell(column: BatchColumn, row: number, to: Buffer, at: number): number {
  const { kind, values } = column;
  return kind === 'numbers' ? writeNumber(to, at, values[row]!) : copyToken(column, row, to, at);
}

function copyToken({ tokens, ends }: BatchColumn, row: number, to: Buffer, at: number): number {
  const { bytes } = tokens;
  const end = ends[row]!;
  for (let p = row === 0 ? 0 : ends[row - 1]!; p < end; p++) to[at++] = bytes[p]!;
  return at;
}
