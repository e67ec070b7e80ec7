// Declarations about an input: column names, encoding, number format, and texts that represent missing values.

export const ENCODINGS = ['utf-8', 'latin1', 'windows-1251', 'windows-1252', 'utf-16', 'utf-16le', 'utf-16be'] as const;
export type EncodingName = (typeof ENCODINGS)[number];

export const DECIMALS = ['point', 'comma'] as const;
export const THOUSANDS = ['point', 'comma', 'space', 'apostrophe'] as const;

/** The notation of numbers. */
export interface NumberNotation {
  decimal: (typeof DECIMALS)[number];
  /** Separator of groups of three digits; null: none. */
  thousands: (typeof THOUSANDS)[number] | null;
}

/** How texts are read in addition to the package's rules; the same for all columns of the model. */
export interface TextRules extends NumberNotation {
  /** Ignore blanks around a value. */
  trim: boolean;
  /** Texts that represent missing values, in addition to those of the package. */
  nullValues: readonly string[];
}

/** Declared names of columns, and their mapping to the model. */
export interface DeclaredColumns {
  /** Names of the fields if the input has no header row; null: it has one. */
  names: readonly string[] | null;
  /** Name of a model or passthrough column → its name in the input. */
  rename: Readonly<Record<string, string>>;
  /** Names of ignored input columns; '*': all unused ones. */
  ignore: readonly string[] | '*';
  /** Model column → its constant value in all applications, as a JSON value. */
  constants: Readonly<Record<string, ConstantValue>>;
}

type ConstantValue = string | number | boolean;

/** null: no declaration. Plain data that can be sent to workers. */
export interface InputDeclaration {
  columns: DeclaredColumns | null;
  texts: TextRules | null;
  /** Original encoding of the bytes, which were converted to UTF-8; used in messages. */
  encoding: Exclude<EncodingName, 'utf-8'> | null;
}

/** Space, tab, and the no-break space, which is frequent in exports of spreadsheets. */
const isBlank = (code: number): boolean => code === 32 || code === 9 || code === 0xa0;

/** The text without leading and trailing blanks. */
export function withoutBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return start === 0 && end === text.length ? text : text.slice(start, end);
}

/**
 * Parses `passthrough` from a comma-separated text: names in order without duplicates; `*` means all columns that the
 * model does not read.
 */
export const passthroughNames = (text: string | undefined): string[] | '*' =>
  text === '*' ? '*' : [...new Set((text ?? '').split(',').filter((name) => name !== ''))];
