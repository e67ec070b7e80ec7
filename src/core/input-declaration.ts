// The declarations of an input's owner: names, encoding, number format and texts for missing values.

export const ENCODINGS = ['utf-8', 'latin1', 'windows-1252', 'utf-16', 'utf-16le', 'utf-16be'] as const;
export type EncodingName = (typeof ENCODINGS)[number];

export const DECIMALS = ['point', 'comma'] as const;
export const THOUSANDS = ['point', 'comma', 'space', 'apostrophe'] as const;

/** How numbers are written. */
export interface NumberNotation {
  decimal: (typeof DECIMALS)[number];
  /** Between groups of three digits; null: nothing is. */
  thousands: (typeof THOUSANDS)[number] | null;
}

/** What texts mean beyond what the package says; the same for all columns of the model. */
export interface TextRules extends NumberNotation {
  /** Blanks around a value do not count. */
  trim: boolean;
  /** Texts for missing values, in addition to those of the package. */
  nullValues: readonly string[];
}

/** Which names the input has, and which of them mean what. */
export interface DeclaredColumns {
  /** Names of the fields, where the input has no header row. */
  names: readonly string[] | null;
  /** Column of the model, or passthrough column → its name in the input. */
  rename: Readonly<Record<string, string>>;
  /** Names of ignored input columns; '*': all unused ones. */
  ignore: readonly string[] | '*';
  /** Model column → its value in every application, as JSON could contain it. */
  constants: Readonly<Record<string, ConstantValue>>;
}

type ConstantValue = string | number | boolean;

/** null: as if nothing were declared. Plain data: it goes to workers. */
export interface InputDeclaration {
  columns: DeclaredColumns | null;
  texts: TextRules | null;
  /** Encoding of the bytes before they became UTF-8, for messages. */
  encoding: Exclude<EncodingName, 'utf-8'> | null;
}

/** Space, tab, and the space that does not break lines, of which exports of spreadsheets are full. */
const isBlank = (code: number): boolean => code === 32 || code === 9 || code === 0xa0;

/** The text without the blanks around it. */
export function withoutBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return start === 0 && end === text.length ? text : text.slice(start, end);
}

/** The value of `passthrough` if it is a single text: each name once, in the given order; `*` means every column outside the model. */
export const passthroughNames = (text: string | undefined): string[] | '*' =>
  text === '*' ? '*' : [...new Set((text ?? '').split(',').filter((name) => name !== ''))];
