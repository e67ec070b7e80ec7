// Reads a text or JSON value as the value of a model column. All entry points use these rules.
import { type ColumnData, type ColumnKind, MISSING, UNSEEN } from '../../core/batch.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { type NumberNotation, type TextRules, withoutBlanks } from '../../core/input-declaration.ts';
import { categoriesOf } from '../../model/package/category-files.ts';
import type { ColumnSpec, InputSpec, Manifest } from '../../model/package/manifest.ts';

// Number notations that an input can declare, such as 1.234,56 or 1'234.56 or 1 234,56.

const MARKS = { point: '.', comma: ',' } as const;
const GROUPS = { point: /\./, comma: /,/, space: /[ \u00a0\u202f]/, apostrophe: /['\u2019]/ } as const;
const DIGITS = /^\d*$/;
/** Sign, digits with marks, and exponent. The positions of the marks are checked separately. */
const PARTS = /^([+-]?)([\d., \u00a0\u202f'\u2019]+)((?:[eE][+-]?\d+)?)$/;

export const PLAIN_NOTATION: NumberNotation = { decimal: 'point', thousands: null };

/**
 * Converts the number to a decimal point without separators; null if the text does not follow the notation. A separator
 * must be followed by three digits: 1.23 is invalid if the point separates thousands.
 */
function plainNumber(text: string, { decimal, thousands }: NumberNotation): string | null {
  const parts = PARTS.exec(text);
  if (!parts) return null;
  const [whole, fraction, ...more] = parts[2]!.split(MARKS[decimal]);
  if (more.length > 0 || !DIGITS.test(fraction ?? '')) return null;
  const digits = withoutGroups(whole!, thousands);
  if (digits === null) return null;
  return `${parts[1]}${digits}${fraction === undefined ? '' : `.${fraction}`}${parts[3]}`;
}

function withoutGroups(whole: string, thousands: NumberNotation['thousands']): string | null {
  if (DIGITS.test(whole)) return whole;
  if (thousands === null) return null;
  const [first, ...rest] = whole.split(GROUPS[thousands]);
  if (first!.length < 1 || first!.length > 3 || !DIGITS.test(first!)) return null;
  return rest.every((group) => group.length === 3 && DIGITS.test(group)) ? first + rest.join('') : null;
}

/** All notations except the plain one. Notations that need fewer declarations come first. */
export const LOCAL_NOTATIONS: readonly NumberNotation[] = (['point', 'comma'] as const).flatMap((decimal) =>
  [null, 'point', 'comma', 'space', 'apostrophe'].flatMap((mark) => {
    const thousands = mark as NumberNotation['thousands'];
    return mark === decimal || (decimal === 'point' && mark === null) ? [] : [{ decimal, thousands }];
  }),
);

const said = ({ decimal, thousands }: NumberNotation): string =>
  [decimal === 'comma' ? 'decimal: comma' : null, thousands === null ? null : `thousands: ${thousands}`]
    .filter((x) => x !== null)
    .join(' with ');

/** Whether the declarations of `a` are a proper subset of those of `b`. */
export const isPartOfNotation = (a: NumberNotation, b: NumberNotation): boolean =>
  a !== b &&
  (a.decimal === b.decimal || a.decimal === PLAIN_NOTATION.decimal) &&
  (a.thousands === b.thousands || a.thousands === PLAIN_NOTATION.thousands);

/**
 * The declarations that would make `text` a number, as text for a message; null if there are none. `isNumber` tests
 * numbers in plain notation.
 */
function notationThatReads(text: string, isNumber: (plain: string) => boolean): string | null {
  const ways = LOCAL_NOTATIONS.filter((notation) => {
    const plain = plainNumber(text, notation);
    return plain !== null && isNumber(plain);
  });
  // Drops a notation if a subset of its declarations suffices.
  const fewest = ways.filter((way) => !ways.some((other) => isPartOfNotation(other, way)));
  return fewest.length === 0 ? null : fewest.map(said).join(', or ');
}

// Hints for rejected texts name the declarations that would accept the text. A hint never contains the text itself.

/** Maximum length of a text that is tested for other notations and for words that mean missing. */
const LONGEST = 64;
/** Words for missing values that exports of other programs contain. */
const NOTHING = new Set([
  'null',
  '(null)',
  '\\n',
  'nil',
  'none',
  'n/a',
  '#n/a',
  'na',
  'n.a.',
  'k.a.',
  'nan',
  '-',
  '--',
  '.',
  '?',
  'missing',
  '<na>',
]);

/** Whether exports of other programs use this text for a missing value. */
export const isMissingWord = (text: string): boolean => text.length <= LONGEST && NOTHING.has(text.toLowerCase());

interface Refused {
  text: string;
  rules: TextRules | null;
  /** Whether the column would accept this text unchanged. */
  takes: (text: string) => boolean;
  /** Whether the column is a number column. */
  number: boolean;
}

/** Returns the hint ` (… declare …)`; an empty text if no declaration helps. */
function declarationFor({ text, rules, takes, number }: Refused): string {
  if (text.length > LONGEST) return '';
  const trimmed = withoutBlanks(text);
  const blanks = trimmed !== text && rules?.trim !== true ? ['trim'] : [];
  if (takes(trimmed)) return asked(blanks);
  if (trimmed === '' || isMissingWord(trimmed)) return asked([...blanks, 'null_values']);
  const notation = number ? notationThatReads(trimmed, takes) : null;
  return notation === null ? '' : asked([...blanks, notation]);
}

const asked = (options: readonly string[]): string =>
  options.length === 0 ? '' : ` (if it is meant so, declare ${options.join(' and ')})`;

/** The error for a value that its column rejects. The message never contains the value. */
export interface CellFault {
  readonly code: ErrorCode;
  readonly message: string;
}

/**
 * Accepts decimal notation only: no spaces, separators, hexadecimal numbers or words. Matching is linear, because each
 * digit can match in only one way.
 */
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
/** A number in JSON. Its text has no plus sign and no leading zeros, which would be lost as a number. */
const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/**
 * The plain text of a number, for all of its spellings in JSON: 12 for 12.0. A text that is not a number, or a whole
 * number beyond 2^53, is returned unchanged.
 */
export function numberText(text: string): string {
  if (!JSON_NUMBER.test(text)) return text;
  const number = Number(text);
  return Number.isFinite(number) && (!Number.isInteger(number) || Number.isSafeInteger(number)) ? String(number) : text;
}

/** From this magnitude on, numbers become infinite as float32. */
const FLOAT32_LIMIT = 3.4028235677973366e38;

/** The number that the text represents in this notation; NaN if it represents none. */
export function numberIn(text: string, notation: NumberNotation): number {
  const isPlain = notation.decimal === PLAIN_NOTATION.decimal && notation.thousands === PLAIN_NOTATION.thousands;
  const plain = isPlain ? text : plainNumber(text, notation);
  return plain !== null && NUMBER.test(plain) ? Number(plain) : Number.NaN;
}

export const DEFAULT_TRUE = ['true', 'True', 'TRUE', '1'];
export const DEFAULT_FALSE = ['false', 'False', 'FALSE', '0'];

export class ColumnReader {
  readonly name: string;
  /** Representation in a batch. A category column without a list of values is represented as text. */
  readonly kind: ColumnKind;
  readonly missingTexts: ReadonlySet<string>;
  /** Whether some text for missing values is also a number. Texts for missing values must then be checked first. */
  readonly missingNumbers: boolean;
  /** For category columns: value → index. For boolean columns: text → 1 or 0. */
  readonly codes: ReadonlyMap<string, number>;
  /** For category columns: the values in index order. */
  readonly values: readonly string[];
  readonly min: number;
  readonly max: number;
  readonly wholeNumbers: boolean;
  /** Whether spaces around a value are ignored. A text that is a known value including its spaces is not trimmed. */
  readonly trims: boolean;
  /**
   * Whether a number or boolean of a typed format can represent values of the column without loss. A number cannot
   * represent leading zeros, as in 0230. A category or text column therefore accepts numbers only if every known value
   * is the plain text of a number.
   */
  readonly takesNumbers: boolean;
  readonly takesBooleans: boolean;
  /** Declared number notation; null for the plain notation, digits with a point. */
  readonly notation: NumberNotation | null;
  /**
   * Numbers of a number column that mean missing, however they are written, because a text for missing values is this
   * number.
   */
  readonly nullNumbers: ReadonlySet<number>;
  /**
   * Whether the strings of the column are decimals of a typed table. Such strings are numbers, so declarations about
   * texts do not apply.
   */
  readonly fromDecimals: boolean;
  /** Whether a text that `numberAt` can read has that value, unless the text means missing. */
  readonly readsPlainNumbers: boolean;
  /** Whether all texts that are neither a category nor a word for missing are unseen values with the same encoding. */
  readonly scoresUnseen: boolean;
  /** The same for a column of any kind, for the numbers of typed formats. */
  readonly #nullNumbers: ReadonlySet<number>;
  /** Whether a text may be another spelling of a number that is a category or a truth value. */
  readonly #respells: boolean;
  readonly #rules: TextRules | null;
  readonly #spec: ColumnSpec;
  readonly #missing: CellFault | null;
  readonly #unseen: CellFault | null;
  readonly #faults: Record<'number' | 'whole' | 'range' | 'boolean' | 'type' | 'notText' | 'nul' | 'unsafe', CellFault>;

  /**
   * `rules`: the declarations of the input; if null, only the rules of the package apply. `anyNumbers`: the package
   * declares `numbers: accept`. `fromDecimals`: the strings of the column are decimals of a typed table.
   */
  constructor(
    spec: ColumnSpec,
    inputs: readonly InputSpec[],
    rules: TextRules | null = null,
    { anyNumbers = false, fromDecimals = false } = {},
  ) {
    this.fromDecimals = fromDecimals;
    this.#spec = spec;
    this.#rules = rules;
    this.trims = rules?.trim === true;
    this.notation = rules && (rules.decimal !== 'point' || rules.thousands !== null) ? rules : null;
    this.name = spec.name;
    const listed = categoriesOf(spec);
    this.kind = spec.kind === 'category' && !listed ? 'text' : spec.kind;
    const missingTexts = new Set([...(spec.missing?.values ?? ['']), ...(rules?.nullValues ?? [])]);
    this.missingTexts = missingTexts;
    this.missingNumbers = [...this.missingTexts].some((text) => !Number.isNaN(this.#numberOf(text)));
    const nullNumbers = [
      // The notation is that of the input. The package is written in plain notation.
      ...(spec.missing?.values ?? []).map((text) => numberIn(text, PLAIN_NOTATION)),
      ...(rules?.nullValues ?? []).map((text) => this.#numberOf(text)),
    ];
    this.#nullNumbers = new Set(nullNumbers.filter((n) => !Number.isNaN(n)));
    this.nullNumbers = this.kind === 'number' ? this.#nullNumbers : new Set();
    const anyMissing = this.missingNumbers || this.nullNumbers.size > 0;
    this.readsPlainNumbers = this.kind === 'number' && !this.notation && !anyMissing && !fromDecimals;
    this.values = listed?.values ?? [];
    const { values } = this;
    this.takesNumbers = !isWord(this.kind) || anyNumbers || (values.length > 0 && areAll(values, isNumberText));
    this.#respells = (this.kind === 'category' || this.kind === 'boolean') && this.takesNumbers;
    if (this.#respells) {
      for (const text of spec.missing?.values ?? []) missingTexts.add(numberText(text));
      for (const text of rules?.nullValues ?? []) missingTexts.add(this.#plainTextOf(text));
    }
    this.takesBooleans = this.kind === 'boolean' || (values.length > 0 && areAll(values, isBooleanText));
    this.codes =
      spec.kind === 'boolean'
        ? new Map([
            ...(spec.false_values ?? DEFAULT_FALSE).map((v): [string, number] => [v, 0]),
            ...(spec.true_values ?? DEFAULT_TRUE).map((v): [string, number] => [v, 1]),
          ])
        : (listed?.index ?? new Map());
    const types = new Set(inputs.map((i) => i.type));
    this.wholeNumbers = spec.kind === 'number' && (types.has('int64') || types.has('int32'));
    const limit = types.has('float32')
      ? FLOAT32_LIMIT
      : types.has('int32')
        ? 2 ** 31 - 1
        : types.has('int64')
          ? Number.MAX_SAFE_INTEGER
          : Number.MAX_VALUE;
    const range = Array.isArray(spec.range) ? { min: spec.range[0], max: spec.range[1] } : (spec.range ?? {});
    this.min = Math.max(range.min ?? -Infinity, -limit);
    this.max = Math.min(range.max ?? Infinity, limit);
    const fault = (code: ErrorCode, message: string): CellFault => ({ code, message });
    this.#missing = spec.missing?.as === 'error' ? fault('missing_value', 'a value is required') : null;
    this.#unseen =
      (spec.unseen ?? 'error') === 'error' ? fault('unseen_category', 'not a known category of the model') : null;
    // Kernels do not know the words for missing values if missing values are an error.
    this.scoresUnseen = this.kind === 'category' && !this.#unseen && !this.#missing && !this.trims && !this.#respells;
    this.#faults = {
      number: fault('bad_number', 'not a plain decimal number'),
      whole: fault('bad_number', 'not a whole number'),
      range: fault('number_out_of_range', 'outside the allowed range'),
      boolean: fault('bad_boolean', 'neither true nor false'),
      type: fault('bad_type', `a ${spec.kind} column does not accept this JSON type`),
      notText: fault('bad_type', `the values of this ${spec.kind} column are text: send a string`),
      unsafe: fault('bad_type', 'a whole number this large must be sent as a string'),
      nul: fault('invalid_character', 'contains a NUL character'),
    };
  }

  /** Reads a text field into row `i` of the batch column. Returns null if the field is valid. */
  readText(text: string, out: ColumnData, i: number): CellFault | null {
    if (this.missingTexts.has(text)) return this.readMissing(out, i);
    if (this.trims && !this.codes.has(text)) {
      const trimmed = withoutBlanks(text);
      if (trimmed !== text) return this.readText(trimmed, out, i);
    }
    if (this.kind !== 'number') return this.#readWord(text, out, i, this.#respells);
    const value = this.#numberOf(text);
    if (Number.isNaN(value)) return this.#advised(this.#faults.number, text);
    return this.readNumber(value, out, i);
  }

  /** Reads a text that does not mean missing. `respells`: it may be another spelling of a number. */
  #readWord(text: string, out: ColumnData, i: number, respells: boolean): CellFault | null {
    switch (this.kind) {
      case 'boolean':
      case 'category': {
        const code = this.codes.get(text);
        if (code !== undefined) {
          out.codes[i] = code;
          return null;
        }
        const plain = respells ? this.#respelled(text) : null;
        if (plain !== null) return this.readText(plain, out, i);
        if (this.kind === 'boolean') return this.#advised(this.#faults.boolean, text);
        if (text.includes('\0')) return this.#faults.nul;
        // The text is stored for outputs that show the value; the model never gets it.
        out.texts[i] = text;
        const fault = this.readUnseen(out, i);
        return fault && this.#advised(fault, text);
      }
      default:
        if (text.includes('\0')) return this.#faults.nul;
        out.texts[i] = text;
        return null;
    }
  }

  /**
   * The category, the truth value or the text for a missing value that is the same number as `text`: 12 for 12.0. Null
   * if there is none. pandas writes whole numbers of a column with gaps as 12.0, and a typed format has the number.
   */
  #respelled(text: string): string | null {
    const plain = this.#plainTextOf(text);
    return plain !== text && (this.codes.has(plain) || this.missingTexts.has(plain)) ? plain : null;
  }

  /** The plain text of a number in the column's notation; other texts are returned unchanged. */
  #plainTextOf(text: string): string {
    const number = this.notation ? plainNumber(text, this.notation) : text;
    return number === null ? text : numberText(number);
  }

  /** The number in the column's notation; NaN if the text is not a number. */
  #numberOf(text: string): number {
    return numberIn(text, this.notation ?? PLAIN_NOTATION);
  }

  /** Adds a hint to the error, if some declaration would accept the text. */
  #advised({ code, message }: CellFault, text: string): CellFault {
    const number = this.kind === 'number';
    const takes = (t: string) => this.missingTexts.has(t) || (number ? NUMBER.test(t) : this.codes.has(t));
    return { code, message: message + declarationFor({ text, rules: this.#rules, takes, number }) };
  }

  /** Reads a parsed JSON value into row `i`. A native value and the same value as a string are treated alike. */
  readNative(value: unknown, out: ColumnData, i: number): CellFault | null {
    if (value === null || value === undefined) return this.readMissing(out, i);
    if (typeof value === 'string' && !this.fromDecimals) return this.readText(value, out, i);
    if (typeof value === 'string') return this.readNative(Number(value), out, i);
    if (typeof value === 'number') {
      if (this.kind === 'number') return this.readNumber(value, out, i);
      if (!this.takesNumbers) return this.#faults.notText;
      if (Number.isInteger(value) && !Number.isSafeInteger(value)) return this.#faults.unsafe;
      // A number has no notation: the declared separators do not apply to its plain text.
      return this.#nullNumbers.has(value) ? this.readMissing(out, i) : this.#readWord(String(value), out, i, false);
    }
    if (typeof value === 'boolean') {
      if (this.kind === 'number') return this.#faults.type;
      if (!this.takesBooleans) return this.#faults.notText;
      if (this.kind !== 'boolean') return this.readText(String(value), out, i);
      out.codes[i] = value ? 1 : 0;
      return null;
    }
    return this.#faults.type;
  }

  readNumber(value: number, out: ColumnData, i: number): CellFault | null {
    if (this.nullNumbers.size > 0 && this.nullNumbers.has(value)) return this.readMissing(out, i);
    if (!(value >= this.min && value <= this.max)) return this.#faults.range;
    if (this.wholeNumbers && !Number.isInteger(value)) return this.#faults.whole;
    out.numbers[i] = value;
    return null;
  }

  readMissing(out: ColumnData, i: number): CellFault | null {
    if (this.#missing) return this.#missing;
    if (this.kind === 'number') out.numbers[i] = NaN;
    else if (this.kind === 'text') out.texts[i] = null;
    else out.codes[i] = MISSING;
    return null;
  }

  readUnseen(out: ColumnData, i: number): CellFault | null {
    if (this.#unseen) return this.#unseen;
    out.unseenRows.push(i);
    // Without a value of its own, an unseen category has the encoding of a missing value.
    if (this.#missing && this.#spec.unseen === 'missing') return this.#missing;
    out.codes[i] = UNSEEN;
    return null;
  }
}

const isWord = (kind: ColumnKind): boolean => kind === 'category' || kind === 'text';

/**
 * Caches whether all values of a list pass a test. A list of categories may have a hundred thousand values and several
 * readers.
 */
const answers = new WeakMap<readonly string[], Map<(text: string) => boolean, boolean>>();

function areAll(values: readonly string[], test: (text: string) => boolean): boolean {
  const known = answers.get(values) ?? new Map<(text: string) => boolean, boolean>();
  const answer = known.get(test) ?? values.every(test);
  answers.set(values, known.set(test, answer));
  return answer;
}

/**
 * Whether converting the text to a number and back yields the same text, so that the conversion loses no information.
 */
export const isNumberText = (text: string): boolean => String(Number(text)) === text && Number.isFinite(Number(text));
const isBooleanText = (text: string): boolean => text === 'true' || text === 'false';

/** Creates one reader per column, in package order. `decimals`: columns whose strings are decimals of a typed table. */
export function columnReaders(
  manifest: Manifest,
  rules: TextRules | null = null,
  decimals: readonly string[] = [],
): ColumnReader[] {
  const anyNumbers = manifest.numbers === 'accept';
  return manifest.columns.map((c) => {
    const inputs = manifest.inputs.filter((i) => i.column === c.name || i.columns?.includes(c.name));
    return new ColumnReader(c, inputs, rules, { anyNumbers, fromDecimals: decimals.includes(c.name) });
  });
}
