// Decodes columnar blocks, each dictionary once.
// If the columns of a block do not match the model, the text of the block is decoded instead.
import { isUtf8 } from 'node:buffer';
import { QUOTE } from '../../core/ascii.ts';
import type { ColumnBatch, ColumnData } from '../../core/batch.ts';
import { newColumns } from '../../core/batch.ts';
import { type BlockColumns, type CellRun, type ColumnRun, RECORD_OK, runsOf, type WordList } from '../../core/block.ts';
import type { CellFault, ColumnReader } from '../../inference/encode/column-reader.ts';
import { MOST_WORDS } from '../decode/cells.ts';
import { beginBatch, type Decoder, notTextMessage, type RecordSlice, reject, rejectFaulty } from '../decode/decoder.ts';
import { Dictionary, UNKNOWN_WORD, WORD_SLACK } from '../decode/dictionary.ts';
import { InputNames } from '../decode/input-names.ts';
import { JsonDecoder, type JsonLayout } from '../json/json-decoder.ts';
import { asText } from './column-text.ts';
import { isBrokenText, numberToken } from './json-text.ts';

/** For each model column and each passthrough column: the index of its column in the block, or -1 if it is missing. */
interface Places {
  model: readonly number[];
  echoed: readonly number[];
}

/** Decodes columns with the same results as a JsonDecoder for the equivalent records. */
export class ColumnsDecoder implements Decoder {
  /** Decodes blocks without columns, or whose columns do not match the model. */
  readonly records: Decoder;
  readonly #readers: readonly ColumnReader[];
  readonly #layout: JsonLayout;
  readonly #columns: readonly ColumnCells[];
  readonly #echoes: readonly EchoedCells[];
  /** Input names of the model columns and of passthrough columns listed by name. */
  readonly #readNames: ReadonlySet<string>;
  /** Column names for which `#places` was computed. */
  #names: readonly string[] = [];
  #places: Places | null = null;
  readonly #broken = new BrokenTexts();
  #last: BlockColumns | null = null;
  #runs: readonly ColumnRun[] = [];
  #text: { of: BlockColumns | undefined; records: RecordSlice } | null = null;

  constructor(readers: readonly ColumnReader[], layout: JsonLayout, records: Decoder) {
    this.#readers = readers;
    this.#layout = layout;
    this.records = records;
    this.#columns = readers.map((reader) => new ColumnCells(reader));
    const { passthrough, declared } = layout;
    const input = new InputNames(declared);
    const read = [...readers.map(({ name }) => name), ...(passthrough === '*' ? [] : passthrough)];
    this.#readNames = new Set(read.map((name) => input.inInput(name)));
    this.#echoes = passthrough === '*' ? [] : passthrough.map(() => new EchoedCells());
  }

  decode(block: RecordSlice, from: number, to: number, batch: ColumnBatch): void {
    const places = block.columns ? this.#placesOf(block.columns) : null;
    if (!block.columns || !places) {
      this.records.decode(block.columns ? this.#asText(block) : block, from, to, batch);
      return;
    }
    beginBatch(batch, to - from);
    for (let i = from; i < to; i++) {
      if (block.faults[i] !== RECORD_OK) rejectFaulty(batch, i - from, block.faults[i]!);
    }
    let first = 0;
    for (const { rows, cells } of this.#runsOf(block.columns)) {
      const start = Math.max(from, first);
      const end = Math.min(to, first + rows);
      if (start < end) {
        const slice = { block, first, from: start, to: end, row: start - from };
        for (const cell of cells) if (this.#broken.has(cell)) rejectBroken(cell, slice, batch);
        places.model.forEach((at, c) => {
          this.#columns[c]!.read(cells[at]!, slice, batch, batch.columns[c]!);
        });
        places.echoed.forEach((at, p) => {
          if (at >= 0) this.#echoes[p]!.read(cells[at]!, slice, batch.passthrough[p]!);
        });
        if (this.#layout.passthrough === '*') echoNothing(block, from, start, end, batch);
      }
      first += rows;
    }
  }

  /** The block as text, for use if every record is invalid, or if columns outside the model are passed through. */
  #asText(block: RecordSlice): RecordSlice {
    const known = this.#text;
    if (known !== null && known.of === block.columns) return known.records;
    const records = asText(block, {
      // Overwrites the text of the previous block, which is finished. New shared memory would be freed late.
      into: known?.records.slab,
      unread: (name, cells) => !this.#isRead(name) && !this.#broken.has(cells),
    });
    this.#text = { of: block.columns, records };
    return records;
  }

  /** Whether the values of a column are needed. For other columns, only UTF-8 validity is checked. */
  #isRead(name: string): boolean {
    const { passthrough } = this.#layout;
    return passthrough === '*' || this.#readNames.has(name);
  }

  /** The runs of a block, cached because a block is read in several micro-batches. */
  #runsOf(columns: BlockColumns): readonly ColumnRun[] {
    if (this.#last !== columns) [this.#last, this.#runs] = [columns, runsOf(columns)];
    return this.#runs;
  }

  /**
   * The indexes of the columns. null: the names do not match the model (then every record is invalid), or further
   * columns are passed through.
   */
  #placesOf({ names }: BlockColumns): Places | null {
    if (sameNames(names, this.#names)) return this.#places;
    this.#names = names;
    const { passthrough, declared } = this.#layout;
    const meant = new InputNames(declared);
    const model = this.#readers.map((reader) => names.indexOf(meant.inInput(reader.name)));
    const echoed = passthrough === '*' ? [] : passthrough.map((name) => names.indexOf(meant.inInput(name)));
    const isModel = new Set(model);
    const echoesMore =
      passthrough === '*' && names.some((name, i) => !isModel.has(i) && meant.meaning(name, new Set()) !== null);
    const unfit = echoesMore || model.includes(-1) || new JsonDecoder(this.#readers, this.#layout).refusesKeys(names);
    this.#places = unfit ? null : { model, echoed };
    return this.#places;
  }
}

/** Maximum number of word lists with a cached result. A stream has one or two word lists per column. */
const MOST_LISTS = 10_000;

/** Reports whether cells contain a text that is not UTF-8. Each word list and each run of tokens is examined once. */
class BrokenTexts {
  readonly #lists = new Map<number, boolean>();
  readonly #runs = new WeakMap<CellRun, boolean>();

  has(cells: CellRun): boolean {
    if (cells.kind === 'numbers') return false;
    if (cells.kind === 'tokens') return remembered(this.#runs, cells, () => !isUtf8(cells.bytes));
    if (this.#lists.size > MOST_LISTS) this.#lists.clear();
    return remembered(this.#lists, cells.words.id, () => !isUtf8(cells.words.bytes));
  }
}

function remembered<K>(
  known: { get(key: K): boolean | undefined; set(key: K, answer: boolean): unknown },
  key: K,
  find: () => boolean,
): boolean {
  const answer = known.get(key) ?? find();
  known.set(key, answer);
  return answer;
}

function rejectBroken(cells: CellRun, { first, from, to, row }: CellSlice, batch: ColumnBatch): void {
  if (cells.kind === 'numbers') return;
  const { bytes, ends } = cells.kind === 'coded' ? cells.words : cells;
  for (let i = from; i < to; i++) {
    const at = cells.kind === 'coded' ? cells.codes[i - first]! : i - first;
    const start = at === 0 ? 0 : ends[at - 1]!;
    if (isBrokenText(bytes, start, ends[at]!)) {
      reject(batch, row + i - from, 'invalid_utf8', null, notTextMessage(undefined));
    }
  }
}

/** Converts a number for the column readers: NaN becomes null (a missing value), an infinity becomes its text. */
function valueOfNumber(value: number): unknown {
  if (Number.isNaN(value)) return null;
  return Number.isFinite(value) ? value : String(value);
}

/** Sets empty passthrough values for valid records, because they have only model columns. */
function echoNothing({ faults }: RecordSlice, first: number, from: number, to: number, batch: ColumnBatch): void {
  for (let i = from; i < to; i++) if (faults[i] === RECORD_OK) batch.passthrough[0]![i - first] = '';
}

const sameNames = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((name, i) => name === b[i]);

/**
 * Records `from` to `to - 1` of a block, which become the rows of a batch starting at `row`. `first`: the record of the
 * first cell in the run.
 */
interface CellSlice {
  block: RecordSlice;
  first: number;
  from: number;
  to: number;
  row: number;
}

/** The decoded words of a word list for one column. */
class WordMeanings {
  readonly id: number;
  readonly faults: (CellFault | null)[] = [];
  /** The decoded words, in the layout of a batch with one word per row. */
  readonly cells: ColumnData;
  /** 1: the column reader must be called for every row with this word, because it records the row. */
  readonly asked: Uint8Array;
  readonly texts: unknown[];
  readonly plain: boolean;

  constructor(reader: ColumnReader, words: WordList) {
    this.id = words.id;
    this.texts = wordTexts(words).map((token) => JSON.parse(token));
    const count = this.texts.length;
    this.cells = newColumns([reader.kind], count)[0]!;
    this.asked = new Uint8Array(count);
    for (let w = 0; w < count; w++) {
      const fault = reader.readNative(this.texts[w], this.cells, w);
      this.faults.push(fault);
      if (fault || this.cells.unseenRows.at(-1) === w) this.asked[w] = 1;
    }
    this.plain = !this.asked.includes(1);
  }
}

function copyMeant(to: ColumnData['codes'], row: number, words: Int32Array, meant: ColumnData['codes']): void {
  for (let i = 0; i < words.length; i++) to[row + i] = meant[words[i]!]!;
}

/** The tokens of a word list. */
function wordTexts({ bytes, ends }: WordList): string[] {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from(ends, (end, i) => all.toString('utf8', i === 0 ? 0 : ends[i - 1]!, end));
}

/** Reads one column of the model. */
class ColumnCells {
  readonly #reader: ColumnReader;
  #words: WordMeanings | null = null;
  #known: Dictionary | null = null;

  constructor(reader: ColumnReader) {
    this.#reader = reader;
  }

  read(cells: CellRun, slice: CellSlice, batch: ColumnBatch, out: ColumnData): void {
    if (cells.kind === 'numbers') this.#numbers(cells.values, slice, batch, out);
    else if (cells.kind === 'coded') this.#codes(cells, slice, batch, out);
    else this.#tokens(cells, slice, batch, out);
  }

  #ask(value: unknown, batch: ColumnBatch, out: ColumnData, row: number): void {
    if (batch.rejected[row] === 1) return;
    const fault = this.#reader.readNative(value, out, row);
    if (fault) reject(batch, row, fault.code, this.#reader.name, fault.message);
  }

  #numbers(values: Float64Array, slice: CellSlice, batch: ColumnBatch, out: ColumnData): void {
    const { kind, min, max, wholeNumbers, nullNumbers } = this.#reader;
    const { first, from, to } = slice;
    const plain = kind === 'number' && nullNumbers.size === 0;
    const { numbers } = out;
    for (let i = from - first, row = slice.row; i < to - first; i++, row++) {
      const value = values[i]!;
      if (plain && value >= min && value <= max && !(wholeNumbers && !Number.isInteger(value))) numbers[row] = value;
      else this.#ask(valueOfNumber(value), batch, out, row);
    }
  }

  #codes({ codes, words }: CellRun & { kind: 'coded' }, slice: CellSlice, batch: ColumnBatch, out: ColumnData): void {
    if (this.#words?.id !== words.id) this.#words = new WordMeanings(this.#reader, words);
    const { cells, asked, texts, plain } = this.#words;
    const { first, from, to, row } = slice;
    const kind = this.#reader.kind;
    const found = codes.subarray(from - first, to - first);
    // A separate loop per kind, because most cells of a table pass through here.
    if (kind === 'number') for (let i = 0; i < found.length; i++) out.numbers[row + i] = cells.numbers[found[i]!]!;
    else if (kind === 'text') for (let i = 0; i < found.length; i++) out.texts[row + i] = cells.texts[found[i]!]!;
    else copyMeant(out.codes, row, found, cells.codes);
    if (plain) return;
    for (let i = 0; i < found.length; i++) {
      const word = found[i]!;
      if (asked[word] === 1) this.#ask(texts[word], batch, out, row + i);
    }
  }

  #tokens(cells: CellRun & { kind: 'tokens' }, slice: CellSlice, batch: ColumnBatch, out: ColumnData): void {
    const { kind } = this.#reader;
    if (kind === 'boolean' || kind === 'category') this.#known ??= knownWords(this.#reader);
    const known = this.#known;
    const { bytes, ends } = cells;
    const view = new DataView(bytes.buffer);
    const last = view.byteLength - WORD_SLACK;
    for (let i = slice.from, row = slice.row; i < slice.to; i++, row++) {
      const at = i - slice.first;
      const start = bytes.byteOffset + (at === 0 ? 0 : ends[at - 1]!);
      if (known && start < last && view.getUint8(start) === QUOTE) {
        const code = known.find(view, start + 1, bytes.byteOffset + ends[at]! - 1);
        if (code !== UNKNOWN_WORD) {
          out.codes[row] = code;
          continue;
        }
      }
      if (batch.rejected[row] !== 1) this.#ask(valueOfToken(tokenAt(cells, at)), batch, out, row);
    }
  }
}

/**
 * The categories of a column that need no JSON escapes and do not mean a missing value; empty if there are too many.
 */
function knownWords({ codes, missingTexts }: ColumnReader): Dictionary {
  if (codes.size > MOST_WORDS) return new Dictionary([]);
  return new Dictionary([...codes].filter(([word]) => !word.includes('\\') && !missingTexts.has(word)));
}

/** Replaces the token of a text that is not UTF-8. Its row was already rejected. */
const BROKEN_TOKEN = '"\u{fffd}"';

/** Reads the tokens of one passthrough column. */
class EchoedCells {
  #list = -1;
  #words: readonly string[] = [];

  read(cells: CellRun, slice: CellSlice, out: (string | null)[]): void {
    if (cells.kind === 'coded' && cells.words.id !== this.#list) {
      this.#list = cells.words.id;
      this.#words = wordTexts(cells.words);
    }
    for (let i = slice.from, row = slice.row; i < slice.to; i++, row++) {
      if (slice.block.faults[i] !== RECORD_OK) continue;
      const at = i - slice.first;
      if (cells.kind === 'numbers') out[row] = numberToken(cells.values[at]!);
      else {
        const token = cells.kind === 'coded' ? this.#words[cells.codes[at]!]! : tokenAt(cells, at);
        out[row] = token === BROKEN_TOKEN ? null : token;
      }
    }
  }
}

function tokenAt({ bytes, ends }: CellRun & { kind: 'tokens' }, at: number): string {
  const start = at === 0 ? 0 : ends[at - 1]!;
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, ends[at]! - start).toString('utf8');
}

/** The value of a JSON token. */
const valueOfToken = (token: string): unknown =>
  token.startsWith('"') && !token.includes('\\') ? token.slice(1, -1) : JSON.parse(token);
