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

/** Rules for reading texts, in addition to the rules of the package. They apply to all columns of the model. */
export interface TextRules extends NumberNotation {
  /** Whether to ignore blanks around a value. */
  trim: boolean;
  /** Texts that represent missing values, in addition to those of the package. */
  nullValues: readonly string[];
}

/** Declared column names, and their mapping to the columns of the model. */
export interface DeclaredColumns {
  /** Names of the fields if the input has no header row; null: it has a header row. */
  names: readonly string[] | null;
  /** The name of a column in the input, by the name of the model or passthrough column. */
  rename: Readonly<Record<string, string>>;
  /** Names of ignored input columns; '*': all columns that are not used. */
  ignore: readonly string[] | '*';
  /** Constant values, as JSON values, by the name of the model column. They apply to all applications. */
  constants: Readonly<Record<string, ConstantValue>>;
}

type ConstantValue = string | number | boolean;

/** The declarations about an input; null: there is none. This is plain data that can be sent to workers. */
export interface InputDeclaration {
  columns: DeclaredColumns | null;
  texts: TextRules | null;
  /** The original encoding of the input, for messages. The bytes were already converted to UTF-8. */
  encoding: Exclude<EncodingName, 'utf-8'> | null;
}

/** Whether a character is a space, a tab, or a no-break space, which is frequent in exports of spreadsheets. */
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
 * Parses a comma-separated list of passthrough columns. Returns the names in order without duplicates, or `*`, which
 * means all columns that the model does not read.
 */
export const passthroughNames = (text: string | undefined): string[] | '*' =>
  text === '*' ? '*' : [...new Set((text ?? '').split(',').filter((name) => name !== ''))];
