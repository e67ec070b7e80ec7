// Reads one column of a Parquet file page by page. Rows of a page that were not taken yet are kept for the next batch.
import type { DataPageHeader, PageHeader, SchemaElement } from 'hyparquet';
import { SluiceError } from '../../core/errors.ts';
import {
  ESCAPED_BYTES,
  Fragments,
  fragmentsOf,
  NUMBER_BYTES,
  QUOTE_BYTES,
  TokenArena,
  writeNumber,
  writeTextToken,
} from '../columns/json-text.ts';
import type { BatchColumn, RowMarks, SizedColumn } from '../columns/line-batch.ts';
import type { TableBudget } from '../columns/table-limits.ts';
import type { ChunkPlace, Page, PageReader } from './parquet-pages.ts';
import { plainValues } from './parquet-pages.ts';
import { type Meaning, meaningOf, widthOf } from './parquet-types.ts';
import { RunDecoder } from './run-decoder.ts';

type DataPageHeaderV2 = NonNullable<PageHeader['data_page_header_v2']>;

/**
 * Maximum number of words in a dictionary of numbers whose texts are cached. With a larger dictionary each cell is
 * formatted, because lookups would miss the CPU cache.
 */
const MOST_NUMBER_TEXTS = 4096;

/**
 * Maximum size of a dictionary of texts that is sent to the workers as a word list. With a larger dictionary, the text
 * of each cell is written.
 */
const MOST_LISTED_BYTES = 4 * 1024 * 1024;
/**
 * Maximum rows of a page. The size of a page in bytes does not bound the work, because repeated values take no bytes.
 */
const MOST_PAGE_ROWS = 2 ** 26;
/** If a page has at most this many bytes left, they are used as the upper bound of the text bytes of the next rows. */
const FEW_BYTES = 64 * 1024;

/** Representation of the values in the current page. */
type Values = 'plain' | 'codes';

interface ParquetColumnOptions {
  pages: PageReader;
  /** Maximum number of rows per call of `take`. */
  rows: number;
  /** Maximum text length of a record, bytes; longer texts are not copied. */
  recordBytes: number;
  budget: TableBudget;
}

/** The texts of a dictionary that is too large for a word list, as stored in its page: each text follows its length. */
interface PlainWords {
  bytes: Uint8Array;
  view: DataView;
  /** Start of each text in `bytes`. */
  starts: Int32Array;
  /** Length of the longest text that is copied, bytes. */
  longest: number;
}

export class ParquetColumn implements SizedColumn {
  /** Rows of the current page that were not taken yet. */
  left = 0;
  readonly #element: SchemaElement;
  #meaning: Meaning;
  readonly #width: number;
  readonly #optional: boolean;
  readonly #key: Uint8Array;
  readonly #pages: PageReader;
  readonly #recordBytes: number;
  readonly #budget: TableBudget;
  readonly #levels = new RunDecoder();
  readonly #codes = new RunDecoder();
  readonly #level: Int32Array;
  readonly #code: Int32Array;
  #hasLevels = false;
  #values: Values = 'plain';
  #plain: Uint8Array = new Uint8Array(0);
  #view: DataView<ArrayBufferLike> = new DataView(new ArrayBuffer(0));
  /** Start of the next plain value. */
  #at = 0;
  /** Number of words in the dictionary; -1: the column has no dictionary. */
  #words = -1;
  /** The words of the dictionary. null: the column has no dictionary, or a dictionary of too many numbers. */
  #dictionary: Fragments | null = null;
  #plainWords: PlainWords | null = null;
  /** The values of a dictionary of numbers, if doubles represent all values exactly. */
  #numbers: Float64Array | null = null;

  constructor(element: SchemaElement, key: Uint8Array, { pages, rows, recordBytes, budget }: ParquetColumnOptions) {
    this.#recordBytes = recordBytes;
    this.#budget = budget;
    this.#level = new Int32Array(rows);
    this.#code = new Int32Array(rows);
    this.#element = element;
    this.#meaning = meaningOf(element, false);
    this.#width = widthOf(element);
    this.#optional = element.repetition_type !== 'REQUIRED';
    this.#key = key;
    this.#pages = pages;
    if (this.#meaning.kind !== 'booleans') return;
    this.#dictionary = fragmentsOf(key, ['false', 'true']);
    this.#words = 2;
  }

  /** Sets whether the model reads the column. Must be set before the first row group begins. */
  set forModel(forModel: boolean) {
    this.#meaning = meaningOf(this.#element, forModel);
  }

  /** Starts a row group. */
  begin(place: ChunkPlace): void {
    this.#pages.begin(place);
    this.left = 0;
    if (this.#meaning.kind === 'booleans') return;
    this.#dictionary = this.#numbers = this.#plainWords = null;
    this.#words = -1;
  }

  /** Reads the next page that has rows. Returns the number of stored bytes read. @throws Error */
  async load(): Promise<number> {
    let stored = 0;
    while (this.left === 0) {
      const page = await this.#pages.next();
      stored += page.stored;
      this.#budget.addBytes(page.bytes.length);
      const { data_page_header: v1, data_page_header_v2: v2, dictionary_page_header: words, type } = page.header;
      if (type === 'DICTIONARY_PAGE' && words) {
        this.#takeDictionary(page.bytes, words.num_values);
        this.#pages.keepDictionary();
      } else if (v2) this.#takePage2(page, v2);
      else if (v1) this.#takePage1(page, v1);
    }
    return stored;
  }

  /** Number of text bytes that taking the next rows would copy. */
  textBytes(rows: number): number {
    if (this.#values === 'codes' || this.#width > 0 || this.#meaning.kind === 'booleans') {
      return this.#values === 'codes' ? rows * (this.#plainWords?.longest ?? 0) : this.#width * rows;
    }
    const left = this.#plain.length - this.#at;
    if (left <= FEW_BYTES) return left;
    // The sum is an upper bound, because rows without a value have no text.
    let at = this.#at;
    for (let i = 0; i < rows && at + 4 <= this.#plain.length; i++) {
      const length = this.#view.getInt32(at, true);
      if (length < 0) break;
      at += 4 + length;
    }
    return Math.min(at, this.#plain.length) - this.#at;
  }

  /**
   * Fills `out` with the next rows of the current page. A text that `marks` rejects as too long becomes `null`.
   * @throws Error if the page has fewer values
   */
  take(out: BatchColumn, rows: number, marks: RowMarks): void {
    out.repeats = false;
    const level = this.#hasLevels && !this.#levels.skipAll(1, rows) ? this.#level : null;
    let present = rows;
    if (level) {
      this.#levels.fill(level, rows);
      for (let i = 0; i < rows; i++) present -= 1 - level[i]!;
    }
    if (this.#values === 'codes') this.#takeCodes(out, rows, { present, level, marks });
    else if (this.#meaning.kind === 'numbers') this.#takeNumbers(out, rows, level, this.#meaning);
    else this.#takeTokens(out, rows, { level, marks });
    this.left -= rows;
  }

  #takeCodes(out: BatchColumn, rows: number, taking: Taking & { present: number }): void {
    const { present, level, marks } = taking;
    const { codes, values } = out;
    const none = this.#words;
    if (none < 0) throw new Error('a page has codes, but its column has no dictionary');
    const found = level ? this.#code : codes;
    this.#codes.fill(found, present);
    for (let i = 0; i < present; i++) if (found[i]! >>> 0 >= none) throw new Error('a code is not in its dictionary');
    if (level) for (let i = 0, next = 0; i < rows; i++) codes[i] = level[i] === 1 ? found[next++]! : none;
    if (this.#plainWords) {
      this.#takeWords(out, rows, this.#plainWords, taking);
      return;
    }
    out.fragments = this.#dictionary;
    const tooLong = this.#dictionary?.tooLong;
    if (tooLong && tooLong.size > 0) for (let i = 0; i < rows; i++) if (tooLong.has(codes[i]!)) marks.mark(i);
    const numbers = this.#numbers;
    out.kind = numbers ? 'numbers' : 'coded';
    if (numbers) for (let i = 0; i < rows; i++) values[i] = numbers[codes[i]!]!;
  }

  /** Writes the texts of cells whose codes are in `out.codes`, from a dictionary that is too large for a word list. */
  #takeWords(out: BatchColumn, rows: number, { bytes, view, starts }: PlainWords, { marks }: Taking): void {
    const { tokens, ends, codes } = out;
    tokens.length = 0;
    for (let i = 0; i < rows; i++) {
      const start = starts[codes[i]!];
      if (start === undefined || !marks.admits(i, this.#lengthAt(view, start))) tokens.ascii('null');
      else this.#writeToken(tokens, view, bytes, start);
      ends[i] = tokens.length;
    }
    out.kind = 'tokens';
    out.repeats = true;
    out.fragments = null;
  }

  /** Length of the plain value at `at`, bytes. */
  #lengthAt(view: DataView, at: number): number {
    return this.#width > 0 ? this.#width : view.getInt32(at, true);
  }

  #takeNumbers(out: BatchColumn, rows: number, level: Int32Array | null, of: NumbersMeaning): void {
    const began = this.#at;
    const { next, odd } = of.take(out.values, rows, { view: this.#view, at: began, level });
    out.kind = 'numbers';
    out.fragments = null;
    if (odd) this.#takeTokens(out, rows, { level, marks: null });
    this.#at = next;
  }

  #takeTokens(
    out: BatchColumn,
    rows: number,
    { level, marks }: { level: Int32Array | null; marks: RowMarks | null },
  ): void {
    const { tokens, ends } = out;
    tokens.length = 0;
    for (let i = 0; i < rows; i++) {
      if (level?.[i] === 0) tokens.ascii('null');
      else if (marks?.admits(i, this.#lengthAt(this.#view, this.#at)) === false) {
        tokens.ascii('null');
        this.#at = this.#endOf(this.#view, this.#plain, this.#at);
      } else this.#at = this.#writeToken(tokens, this.#view, this.#plain, this.#at);
      ends[i] = tokens.length;
    }
    out.kind = 'tokens';
    out.fragments = null;
  }

  /** One past the last byte of the plain value at `at`. @throws Error if the page is too short */
  #endOf(view: DataView, bytes: Uint8Array, at: number): number {
    const length = this.#lengthAt(view, at);
    const end = at + length + (this.#width > 0 ? 0 : 4);
    if (length < 0 || end > bytes.length) throw new Error('a page ends before its values');
    return end;
  }

  /** Writes the plain value at `at` as a token; returns the start of the next value. */
  #writeToken(to: TokenArena, view: DataView, bytes: Uint8Array, at: number): number {
    const meaning = this.#meaning;
    const end = this.#endOf(view, bytes, at);
    const from = this.#width > 0 ? at : at + 4;
    const length = end - from;
    if (meaning.kind === 'texts') {
      const room = to.room(length * ESCAPED_BYTES + QUOTE_BYTES);
      to.length = writeTextToken(room, to.length, bytes, from, end);
    } else if (meaning.kind === 'numbers') {
      const odd = meaning.odd(view, from);
      if (odd !== null) to.ascii(odd);
      else to.length = writeNumber(to.room(NUMBER_BYTES), to.length, meaning.read(view, from));
    } else if (meaning.kind === 'others') to.utf8(meaning.token(view, from, length));
    return end;
  }

  #takeDictionary(bytes: Uint8Array, count: number): void {
    if (!(count >= 0 && count <= bytes.length)) throw new Error('a dictionary has an impossible size');
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#words = count;
    this.#numbers = this.#meaning.kind === 'numbers' ? this.#exactNumbers(view, count, this.#meaning) : null;
    this.#dictionary = this.#plainWords = null;
    if (this.#numbers && count > MOST_NUMBER_TEXTS) return;
    if (!this.#numbers && bytes.length > MOST_LISTED_BYTES) {
      this.#plainWords = this.#startsOf(bytes.slice(), count);
      return;
    }
    const tokens = new TokenArena(bytes.length + NUMBER_BYTES);
    const ends = new Int32Array(count);
    const tooLong = new Set<number>();
    for (let i = 0, at = 0; i < count; i++) {
      if (this.#lengthAt(view, at) > this.#recordBytes) {
        tooLong.add(i);
        tokens.ascii('null');
        at = this.#endOf(view, bytes, at);
      } else at = this.#writeToken(tokens, view, bytes, at);
      ends[i] = tokens.length;
    }
    this.#dictionary = new Fragments(this.#key, tokens, ends, tooLong);
  }

  #startsOf(bytes: Uint8Array, count: number): PlainWords {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const starts = new Int32Array(count);
    let longest = 0;
    for (let i = 0, at = 0; i < count; i++) {
      starts[i] = at;
      const end = this.#endOf(view, bytes, at);
      longest = Math.max(longest, end - at);
      at = end;
    }
    return { bytes, view, starts, longest: Math.min(longest, this.#recordBytes) };
  }

  /** The numbers of a dictionary, followed by NaN for nulls; null: doubles cannot represent all of them exactly. */
  #exactNumbers(view: DataView, count: number, { read, odd }: NumbersMeaning): Float64Array | null {
    const numbers = new Float64Array(count + 1).fill(Number.NaN);
    for (let i = 0; i < count; i++) {
      if (odd(view, i * this.#width) !== null) return null;
      numbers[i] = read(view, i * this.#width);
    }
    return numbers;
  }

  #takePage1({ bytes }: Page, { num_values: rows, encoding, definition_level_encoding: how }: DataPageHeader): void {
    let at = 0;
    let nulls = 0;
    this.#hasLevels = this.#optional;
    if (this.#optional) {
      if (how !== 'RLE') throw new Error(`its levels are in the encoding ${how}`);
      const length = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getInt32(0, true);
      at = 4 + length;
      this.#levels.reset(bytes, 4, at, 1);
      if (isRare(encoding)) nulls = this.#nullsOf(rows, () => this.#levels.reset(bytes, 4, at, 1));
    }
    this.#takeValues(bytes, at, { rows, present: rows - nulls, encoding });
  }

  #takePage2({ bytes, levels }: Page, header: DataPageHeaderV2): void {
    const { num_values: rows, num_nulls: nulls, encoding, repetition_levels_byte_length: repeated } = header;
    this.#hasLevels = this.#optional && nulls > 0;
    if (this.#hasLevels) this.#levels.reset(bytes, repeated, levels, 1);
    this.#takeValues(bytes, levels, { rows, present: rows - nulls, encoding });
  }

  /** Counts the nulls in the next rows. `again` must reset the levels. */
  #nullsOf(rows: number, again: () => void): number {
    let nulls = 0;
    const most = this.#level.length;
    for (let from = 0; from < rows; from += most) {
      const n = Math.min(most, rows - from);
      this.#levels.fill(this.#level, n);
      for (let i = 0; i < n; i++) nulls += 1 - this.#level[i]!;
    }
    again();
    return nulls;
  }

  #takeValues(bytes: Uint8Array, at: number, of: { rows: number; present: number; encoding: string }): void {
    const { rows, present, encoding } = of;
    if (!(rows >= 0 && present >= 0 && present <= rows)) throw new Error('a page has an impossible size');
    if (rows > MOST_PAGE_ROWS)
      throw new SluiceError('limit_exceeded', `a Parquet page has more than ${MOST_PAGE_ROWS} rows`);
    this.left = rows;
    this.#values = 'codes';
    if (encoding === 'RLE_DICTIONARY' || encoding === 'PLAIN_DICTIONARY') {
      // A page that contains only nulls may have no bytes of codes.
      this.#codes.reset(bytes, Math.min(at + 1, bytes.length), bytes.length, bytes[at] ?? 0);
    } else if (this.#meaning.kind === 'booleans') {
      if (encoding === 'RLE') this.#codes.reset(bytes, Math.min(at + 4, bytes.length), bytes.length, 1);
      else if (encoding === 'PLAIN') this.#codes.resetPacked(bytes, at, bytes.length);
      else throw new Error(`its values are in the encoding ${encoding}`);
    } else {
      this.#values = 'plain';
      const layout = { encoding, type: this.#element.type ?? '', width: this.#width };
      const other = plainValues(bytes, at, present, layout, (more) => this.#pages.reserve(more));
      this.#plain = other ?? bytes;
      this.#at = other ? 0 : at;
      this.#view = new DataView(this.#plain.buffer, this.#plain.byteOffset, this.#plain.byteLength);
    }
  }
}

/** Options for taking cells. `level`: 0 for each row without a value; null: every row has a value. */
interface Taking {
  level: Int32Array | null;
  marks: RowMarks;
}

type NumbersMeaning = Extract<Meaning, { kind: 'numbers' }>;

/** Whether decoding a page in this encoding requires the number of values that are present. */
const isRare = (encoding: string): boolean => encoding.startsWith('DELTA') || encoding === 'BYTE_STREAM_SPLIT';
