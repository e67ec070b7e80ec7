// One column of a Parquet file, read page by page: what is left of a page is kept between batches.
import type { DataPageHeader, PageHeader, SchemaElement } from 'hyparquet';
import { Fragments, TokenArena } from './fragments.ts';
import type { BatchColumn } from './line-batch.ts';
import { NUMBER_BYTES, writeNumber } from './number-text.ts';
import type { ChunkPlace, Page, PageReader } from './parquet-pages.ts';
import { plainValues } from './parquet-pages.ts';
import { type Meaning, meaningOf, widthOf } from './parquet-types.ts';
import { RunDecoder } from './run-decoder.ts';
import { ESCAPED_BYTES, QUOTE_BYTES, writeTextToken } from './token-text.ts';

type DataPageHeaderV2 = NonNullable<PageHeader['data_page_header_v2']>;

/** More numbers than that are written anew each time: looking for their texts would miss the cache. */
const MOST_NUMBER_TEXTS = 4096;

/** What holds the values of the page at hand. */
type Values = 'plain' | 'codes';

export class ParquetColumn {
  /** Rows of the page at hand that were not taken. */
  left = 0;
  readonly #element: SchemaElement;
  #meaning: Meaning;
  readonly #width: number;
  readonly #optional: boolean;
  readonly #key: Uint8Array;
  readonly #pages: PageReader;
  readonly #levels = new RunDecoder();
  readonly #codes = new RunDecoder();
  readonly #level: Int32Array;
  readonly #code: Int32Array;
  #hasLevels = false;
  #values: Values = 'plain';
  #plain: Uint8Array = new Uint8Array(0);
  #view: DataView<ArrayBufferLike> = new DataView(new ArrayBuffer(0));
  /** Where the next plain value begins. */
  #at = 0;
  /** -1: there is no dictionary. */
  #words = -1;
  /** null: there is none, or its words are numbers and too many to keep their texts near. */
  #dictionary: Fragments | null = null;
  /** Of a dictionary of numbers that doubles hold. */
  #numbers: Float64Array | null = null;

  /** `rows`: most that are taken at once. */
  constructor(element: SchemaElement, key: Uint8Array, pages: PageReader, rows: number) {
    this.#level = new Int32Array(rows);
    this.#code = new Int32Array(rows);
    this.#element = element;
    this.#meaning = meaningOf(element, false);
    this.#width = widthOf(element);
    this.#optional = element.repetition_type !== 'REQUIRED';
    this.#key = key;
    this.#pages = pages;
    if (this.#meaning.kind !== 'booleans') return;
    this.#dictionary = wordsOf(key, ['false', 'true']);
    this.#words = 2;
  }

  /** Before the first row group: whether the model reads it. */
  set forModel(forModel: boolean) {
    this.#meaning = meaningOf(this.#element, forModel);
  }

  /** A row group begins. */
  begin(place: ChunkPlace): void {
    this.#pages.begin(place);
    this.left = 0;
    if (this.#meaning.kind === 'booleans') return;
    this.#dictionary = this.#numbers = null;
    this.#words = -1;
  }

  /** Reads the next page with rows; gives the bytes it has in the file. @throws Error */
  async load(): Promise<number> {
    let stored = 0;
    while (this.left === 0) {
      const page = await this.#pages.next();
      stored += page.stored;
      const { data_page_header: v1, data_page_header_v2: v2, dictionary_page_header: words, type } = page.header;
      if (type === 'DICTIONARY_PAGE' && words) this.#takeDictionary(page.bytes, words.num_values);
      else if (v2) this.#takePage2(page, v2);
      else if (v1) this.#takePage1(page, v1);
    }
    return stored;
  }

  /** The next rows of the page at hand. @throws Error: there are fewer values */
  take(out: BatchColumn, rows: number): void {
    const level = this.#hasLevels && !this.#levels.skipAll(1, rows) ? this.#level : null;
    let present = rows;
    if (level) {
      this.#levels.fill(level, rows);
      for (let i = 0; i < rows; i++) present -= 1 - level[i]!;
    }
    if (this.#values === 'codes') this.#takeCodes(out, rows, present, level);
    else if (this.#meaning.kind === 'numbers') this.#takeNumbers(out, rows, level, this.#meaning);
    else this.#takeTokens(out, rows, level);
    this.left -= rows;
  }

  #takeCodes(out: BatchColumn, rows: number, present: number, level: Int32Array | null): void {
    const { codes, values } = out;
    const none = this.#words;
    if (none < 0) throw new Error('a page has codes, and its column no dictionary');
    const found = level ? this.#code : codes;
    this.#codes.fill(found, present);
    for (let i = 0; i < present; i++) if (found[i]! >>> 0 >= none) throw new Error('a code is not in its dictionary');
    if (level) for (let i = 0, next = 0; i < rows; i++) codes[i] = level[i] === 1 ? found[next++]! : none;
    out.fragments = this.#dictionary;
    const numbers = this.#numbers;
    out.kind = numbers ? 'numbers' : 'coded';
    if (numbers) for (let i = 0; i < rows; i++) values[i] = numbers[codes[i]!]!;
  }

  #takeNumbers(out: BatchColumn, rows: number, level: Int32Array | null, of: NumbersMeaning): void {
    const began = this.#at;
    const { next, odd } = of.take(out.values, rows, { view: this.#view, at: began, level });
    out.kind = 'numbers';
    out.fragments = null;
    if (odd) this.#takeTokens(out, rows, level);
    this.#at = next;
  }

  #takeTokens(out: BatchColumn, rows: number, level: Int32Array | null): void {
    const { tokens, ends } = out;
    tokens.length = 0;
    for (let i = 0; i < rows; i++) {
      if (level?.[i] === 0) tokens.ascii('null');
      else this.#at = this.#writeToken(tokens, this.#view, this.#plain, this.#at);
      ends[i] = tokens.length;
    }
    out.kind = 'tokens';
    out.fragments = null;
  }

  /** Writes the plain value at `at` as a token; where the next one begins. */
  #writeToken(to: TokenArena, view: DataView, bytes: Uint8Array, at: number): number {
    const meaning = this.#meaning;
    const from = this.#width > 0 ? at : at + 4;
    const length = this.#width > 0 ? this.#width : view.getInt32(at, true);
    const end = from + length;
    if (length < 0 || end > bytes.length) throw new Error('a page ends before its values');
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
    if (!(count >= 0 && count <= bytes.length)) throw new Error('a dictionary has no size that can be');
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#words = count;
    this.#numbers = this.#meaning.kind === 'numbers' ? this.#exactNumbers(view, count, this.#meaning) : null;
    this.#dictionary = null;
    if (this.#numbers && count > MOST_NUMBER_TEXTS) return;
    const tokens = new TokenArena(bytes.length + NUMBER_BYTES);
    const ends = new Int32Array(count);
    for (let i = 0, at = 0; i < count; i++) {
      at = this.#writeToken(tokens, view, bytes, at);
      ends[i] = tokens.length;
    }
    this.#dictionary = new Fragments(this.#key, tokens, ends);
  }

  /** The numbers of a dictionary, and none behind them; null: a double does not hold one of them. */
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

  /** `again` sets the levels back. */
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
    if (!(rows >= 0 && present >= 0)) throw new Error('a page has no size that can be');
    this.left = rows;
    this.#values = 'codes';
    if (encoding === 'RLE_DICTIONARY' || encoding === 'PLAIN_DICTIONARY') {
      // A page of nothing but nulls may have no codes at all.
      this.#codes.reset(bytes, Math.min(at + 1, bytes.length), bytes.length, bytes[at] ?? 0);
    } else if (this.#meaning.kind === 'booleans') {
      if (encoding === 'RLE') this.#codes.reset(bytes, Math.min(at + 4, bytes.length), bytes.length, 1);
      else if (encoding === 'PLAIN') this.#codes.resetPacked(bytes, at, bytes.length);
      else throw new Error(`its values are in the encoding ${encoding}`);
    } else {
      this.#values = 'plain';
      const layout = { encoding, type: this.#element.type ?? '', width: this.#width };
      const other = plainValues(bytes, at, present, layout);
      this.#plain = other ?? bytes;
      this.#at = other ? 0 : at;
      this.#view = new DataView(this.#plain.buffer, this.#plain.byteOffset, this.#plain.byteLength);
    }
  }
}

function wordsOf(key: Uint8Array, words: readonly string[]): Fragments {
  const tokens = new TokenArena();
  const ends = words.map((word) => {
    tokens.ascii(word);
    return tokens.length;
  });
  return new Fragments(key, tokens, Int32Array.from(ends));
}

type NumbersMeaning = Extract<Meaning, { kind: 'numbers' }>;

/** Encodings for which it has to be known how many values there are. */
const isRare = (encoding: string): boolean => encoding.startsWith('DELTA') || encoding === 'BYTE_STREAM_SPLIT';
