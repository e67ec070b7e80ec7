// Writes values of columns as JSON text, with lossless text for dates, times, decimals and bytes.
// Strings and numbers are formatted as by JSON.stringify. Also lays out dictionary words as fragments of JSON lines.
import { digitsOf, writeDigits } from '../../core/ascii.ts';
import type { WordList } from '../../core/block.ts';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const QUOTE = 34;
const BACKSLASH = 92;
const SPACE = 32;
const ASCII = 127;

/** Maximum bytes of a token per byte of its text. `QUOTE_BYTES`: bytes of the quotes around a token. */
export const ESCAPED_BYTES = 6;
export const QUOTE_BYTES = 2;

/**
 * Marks a text that is not UTF-8: the token is this byte, which never occurs in UTF-8, between quotes. The row is
 * rejected as `invalid_utf8`, as in text formats. A replacement character would silently change the value.
 */
const NOT_UTF8 = 0xff;

/** Whether the token in `bytes[start..end)` marks a text that is not UTF-8. */
export const isBrokenText = (bytes: Uint8Array, start: number, end: number): boolean =>
  end - start === 3 && bytes[start + 1] === NOT_UTF8;

/**
 * Writes `from[start..end)` as a token and returns one past its last byte. `to` must have space for a token in which
 * every byte is escaped.
 */
export function writeTextToken(to: Buffer, at: number, from: Uint8Array, start: number, end: number): number {
  let o = at;
  to[o++] = QUOTE;
  for (let p = start; p < end; p++) {
    const c = from[p]!;
    if (c < SPACE || c > ASCII || c === QUOTE || c === BACKSLASH)
      return writeEscaped(to, at, from.subarray(start, end));
    to[o++] = c;
  }
  to[o++] = QUOTE;
  return o;
}

function writeEscaped(to: Buffer, at: number, bytes: Uint8Array): number {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    to[at] = QUOTE;
    to[at + 1] = NOT_UTF8;
    to[at + 2] = QUOTE;
    return at + 3;
  }
  return at + to.write(JSON.stringify(text), at);
}

// The functions below format dates, times and decimals as ISO 8601 or plain digits, for both Parquet and Arrow.

/** Units per second of a time or timestamp. */
export type PerSecond = 1 | 1_000 | 1_000_000 | 1_000_000_000;

const DAY_SECONDS = 86_400n;
/** Number of days from 0000-03-01 to 1970-01-01, and in 400 years (proleptic Gregorian calendar). */
const EPOCH_DAYS = 719_468;
const ERA_DAYS = 146_097;

const two = (n: number): string => String(n).padStart(2, '0');

/**
 * Formats a day, counted from 1970-01-01, as `2024-02-29`. Supports every 32-bit day, unlike a JavaScript Date. Years
 * outside 0 to 9999 have a sign and six digits, as in ISO 8601. Algorithm: H. Hinnant, "chrono-Compatible Low-Level
 * Date Algorithms", civil_from_days.
 */
export function dateText(day: number): string {
  const shifted = day + EPOCH_DAYS;
  const era = Math.floor(shifted / ERA_DAYS);
  const ofEra = shifted - era * ERA_DAYS;
  const yearOfEra = Math.floor(
    (ofEra - Math.floor(ofEra / 1460) + Math.floor(ofEra / 36_524) - Math.floor(ofEra / 146_096)) / 365,
  );
  const ofYear = ofEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const shiftedMonth = Math.floor((5 * ofYear + 2) / 153);
  const date = ofYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1;
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9;
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0);
  const digits =
    year >= 0 && year <= 9999
      ? String(year).padStart(4, '0')
      : `${year < 0 ? '-' : '+'}${String(Math.abs(year)).padStart(6, '0')}`;
  return `${digits}-${two(month)}-${two(date)}`;
}

/**
 * Formats a time of day as `12:34:56.123000`. `fraction`: units of 1/`perSecond` s. The number of decimals depends on
 * the unit only.
 */
function clockText(seconds: number, fraction: bigint, perSecond: PerSecond): string {
  const time = `${two(Math.floor(seconds / 3600))}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return perSecond === 1 ? time : `${time}.${String(fraction).padStart(String(perSecond).length - 1, '0')}`;
}

/** Formats a time of day, given in units since midnight. */
export function timeText(units: bigint, perSecond: PerSecond): string {
  const per = BigInt(perSecond);
  return clockText(Number(units / per), units % per, perSecond);
}

/**
 * Formats a timestamp, given in units since 1970-01-01T00:00. `utc`: the timestamp is an instant and its text ends with
 * Z; otherwise it is a local time.
 */
export function timestampText(units: bigint, perSecond: PerSecond, utc: boolean): string {
  const per = BigInt(perSecond);
  const perDay = DAY_SECONDS * per;
  const ofDay = ((units % perDay) + perDay) % perDay;
  const day = Number((units - ofDay) / perDay);
  return `${dateText(day)}T${timeText(ofDay, perSecond)}${utc ? 'Z' : ''}`;
}

/** Formats a duration as `PT1.5S` (ISO 8601). */
export function durationText(units: bigint, perSecond: PerSecond): string {
  const size = units < 0n ? -units : units;
  const per = BigInt(perSecond);
  let fraction = size % per === 0n ? '' : `.${String(size % per).padStart(String(perSecond).length - 1, '0')}`;
  while (fraction.endsWith('0')) fraction = fraction.slice(0, -1);
  return `${units < 0n ? '-' : ''}PT${size / per}${fraction}S`;
}

/** Maximum absolute scale of a decimal. The formats allow at most 76. */
const MOST_SCALE = 1000;

/** @throws Error */
export function checkScale(scale: number): void {
  if (!(Math.abs(scale) <= MOST_SCALE)) throw new Error('a decimal has an impossible scale');
}

/** Formats an unscaled value with `scale` digits after the point; a negative scale appends zeros. */
export function decimalText(unscaled: bigint, scale: number): string {
  checkScale(scale);
  if (scale <= 0) return String(unscaled * 10n ** BigInt(-scale));
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0');
  return `${unscaled < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

/**
 * Formats Parquet's INTERVAL, which has twelve bytes (months, days and milliseconds), in the same way as Avro's
 * duration.
 */
export function intervalText(view: DataView, at: number): string {
  const [months, days, ms] = [0, 4, 8].map((by) => view.getUint32(at + by, true)) as [number, number, number];
  return `P${months}M${days}DT${ms / 1000}S`;
}

export const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');

/** Formats the 16 bytes of a UUID. */
export const uuidText = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');

/**
 * Token for a floating-point number that JSON cannot represent, as in ProtoJSON: `"NaN"`, `"Infinity"`, `"-Infinity"`.
 */
export const nonFiniteToken = (value: number): string => `"${value}"`;

// The functions below format integers, and numbers with up to two decimals, without creating a string.

/** Upper bound of integers and of hundredths. A decimal of up to 15 digits is the shortest text of its double. */
const MOST = 1e15;
const CENTS = 100;
const HALF = 1e8;

/** Maximum length of a number's text, bytes. */
export const NUMBER_BYTES = 26;

/**
 * Writes a number as JSON: NaN as null, an infinity as a string. Returns one past the last byte. `to` must have space
 * for NUMBER_BYTES.
 */
export function writeNumber(to: Uint8Array, at: number, value: number): number {
  if (Number.isInteger(value) && value < MOST && value > -MOST) return writeSigned(to, at, value);
  const cents = Math.round(value * CENTS);
  if (cents / CENTS === value && cents < MOST && cents > -MOST) return writeCents(to, at, cents);
  const text = numberToken(value);
  for (let i = 0; i < text.length; i++) to[at++] = text.charCodeAt(i);
  return at;
}

/** Formats a number as a JSON token; NaN, which marks a null, becomes `null`. */
export function numberToken(value: number): string {
  if (Number.isNaN(value)) return 'null';
  if (!Number.isFinite(value)) return nonFiniteToken(value);
  return Object.is(value, -0) ? '-0' : String(value);
}

function writeSigned(to: Uint8Array, at: number, value: number): number {
  if (value > 0 || Object.is(value, 0)) return writeWhole(to, at, value);
  to[at] = 45;
  return writeWhole(to, at + 1, -value);
}

/** Writes a non-integer, given in hundredths. */
function writeCents(to: Uint8Array, at: number, cents: number): number {
  const size = Math.abs(cents);
  if (cents < 0) to[at++] = 45;
  const whole = Math.floor(size / CENTS);
  const end = writeWhole(to, at, whole);
  const rest = size - whole * CENTS;
  to[end] = 46;
  const tens = (rest / 10) | 0;
  to[end + 1] = 48 + tens;
  if (rest === tens * 10) return end + 2;
  to[end + 2] = 48 + rest - tens * 10;
  return end + 3;
}

/** Writes a non-negative integer below MOST. */
function writeWhole(to: Uint8Array, at: number, value: number): number {
  if (value >= HALF) {
    const high = Math.floor(value / HALF);
    const end = writeWhole(to, at, high);
    return writeDigits(to, end, value - high * HALF, 8);
  }
  return writeDigits(to, at, value, digitsOf(value));
}

// Dictionary words as fragments of JSON lines. A fragment is a key followed by a token, laid out for copying.

let lists = 0;

/** A growable buffer of concatenated JSON tokens. */
export class TokenArena {
  bytes: Buffer;
  length = 0;

  constructor(capacity = 256) {
    this.bytes = Buffer.allocUnsafeSlow(capacity);
  }

  /** Ensures space for this many more bytes. */
  room(bytes: number): Buffer {
    if (this.length + bytes > this.bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(this.bytes.length * 2, this.length + bytes));
      larger.set(this.bytes.subarray(0, this.length));
      this.bytes = larger;
    }
    return this.bytes;
  }

  ascii(text: string): void {
    this.room(text.length).write(text, this.length, 'latin1');
    this.length += text.length;
  }

  copy(): TokenArena {
    const copy = new TokenArena(this.length + 'null'.length);
    copy.bytes.set(this.bytes.subarray(0, this.length));
    copy.length = this.length;
    return copy;
  }

  utf8(text: string): void {
    const most = text.length * 3;
    this.length += this.room(most).write(text, this.length);
  }
}

const NONE_TOO_LONG: ReadonlySet<number> = new Set();

/** A list of tokens, followed by `null`. */
export class Fragments {
  /** Number of tokens, including `null`. */
  readonly count: number;
  /** Longest fragment (key and token), bytes. */
  readonly longest: number;
  /** Codes of words that were too long to copy. Their tokens are `null`. */
  readonly tooLong: ReadonlySet<number>;
  readonly #key: Uint8Array;
  readonly #tokens: Uint8Array;
  readonly #ends: Int32Array;
  #list: WordList | null = null;
  #layout: FragmentLayout | null = null;

  /** `ends`: one past the last byte of each token in the arena. The list takes ownership of the arena. */
  constructor(key: Uint8Array, arena: TokenArena, ends: Int32Array, tooLong = NONE_TOO_LONG) {
    const count = ends.length + 1;
    const { length } = arena;
    arena.ascii('null');
    this.#key = key;
    this.#tokens = arena.bytes.subarray(0, arena.length);
    arena.length = length;
    this.#ends = new Int32Array(count);
    this.#ends.set(ends);
    this.#ends[count - 1] = this.#tokens.length;
    this.count = count;
    this.tooLong = tooLong;
    let longest = 0;
    for (let i = 0, from = 0; i < count; from = this.#ends[i++]!) longest = Math.max(longest, this.#ends[i]! - from);
    this.longest = key.length + longest;
  }

  /** Length of a token, bytes. */
  tokenBytes(code: number): number {
    return this.#ends[code]! - (code === 0 ? 0 : this.#ends[code - 1]!);
  }

  /** The tokens as a word list for readers. */
  get list(): WordList {
    this.#list ??= { id: ++lists, bytes: this.#tokens, ends: this.#ends };
    return this.#list;
  }

  /** The fragments, laid out for copying. */
  get layout(): FragmentLayout {
    this.#layout ??= layoutOf(this.#key, this.#tokens, this.#ends);
    return this.#layout;
  }
}

/** Fragments in units of 8 bytes. */
export interface FragmentLayout {
  /**
   * The bytes of the fragments as doubles. Copying a NaN could change its bits, but no UTF-8 text has the bits of a
   * NaN.
   */
  readonly words: Float64Array;
  /** For each fragment: the index of its first unit in `words`. `lengths`: its length in bytes. */
  readonly starts: Int32Array;
  readonly lengths: Int32Array;
}

function layoutOf(key: Uint8Array, tokens: Uint8Array, ends: Int32Array): FragmentLayout {
  const count = ends.length;
  const starts = new Int32Array(count);
  const lengths = new Int32Array(count);
  const words = new Float64Array((tokens.length + count * (key.length + 7)) >> 3);
  const out = new Uint8Array(words.buffer);
  let at = 0;
  for (let i = 0, from = 0; i < count; i++) {
    const end = ends[i]!;
    starts[i] = at >> 3;
    lengths[i] = key.length + end - from;
    out.set(key, at);
    at += key.length;
    while (from < end) out[at++] = tokens[from++]!;
    at = (at + 7) & ~7;
  }
  return { words, starts, lengths };
}

export function fragmentsOf(key: Uint8Array, words: readonly string[]): Fragments {
  const tokens = new TokenArena();
  const ends = words.map((word) => {
    tokens.ascii(word);
    return tokens.length;
  });
  return new Fragments(key, tokens, Int32Array.from(ends));
}
