// The report about an unfamiliar file: findings with their confidence, and the command that scores it.
import type { ErrorCode } from '../core/errors.ts';

export type Confidence = 'high' | 'medium' | 'low';

/** A conclusion about the file, and the observation that supports it. */
export interface Guess<T> {
  value: T;
  confidence: Confidence;
  reason: string;
}

/** The reason of a conclusion that the caller declared. */
export const BY_DECLARATION = 'declared';

/** How the input column of a model column was found. */
export type MatchKind =
  | 'declared'
  | 'constant'
  | 'exact'
  | 'spaces'
  | 'style'
  | 'affix'
  | 'spelling'
  | 'position'
  | 'missing'
  | 'open';

export interface InspectedColumn {
  column: string;
  kind: string;
  /** Name in the input, or the position of a field without a name; null: no input column was found. */
  input: string | null;
  match: MatchKind;
  confidence: Confidence;
  /** Fractions of the inspected rows. `unseen`: null unless the model lists the values of the column. */
  missing: number | null;
  unseen: number | null;
  rejected: number;
}

/** A question that the file does not answer. */
export interface OpenQuestion {
  question: string;
  /** If the question is which column of the input feeds a model column: that model column. Otherwise null. */
  column: string | null;
  /** The answers, each with the flags that it adds to the command. */
  answers: { meaning: string; flags: string }[];
}

export interface CommandForAnswer {
  meaning: string;
  command: string;
}

export interface RejectedRow {
  row: number;
  column: string | null;
  code: ErrorCode;
  message: string;
}

/**
 * `ready`: the command scores every inspected row. `rejects`: the command rejects some rows. `open`: a question must be
 * answered first. `impossible`: no command can score the file correctly.
 */
export type InspectionVerdict = 'ready' | 'rejects' | 'open' | 'impossible';

export interface Inspection {
  file: string;
  model: string;
  verdict: InspectionVerdict;
  inspected: { rows: number; whole_file: boolean; end_of_file: boolean };
  format: Guess<string>;
  compression: string;
  encoding: Guess<string> | null;
  delimiter: Guess<string> | null;
  header: Guess<'row' | 'none'> | null;
  /** Number of lines in front of the header row or the first row. */
  skipped_lines: number;
  trailer: Guess<string> | null;
  numbers: Guess<string> | null;
  trim: boolean;
  null_values: { text: string; count: number; columns: string[] }[];
  columns: InspectedColumn[];
  ignored: string[];
  rejected: { rows: number; first: RejectedRow[] };
  /** Names and values of the first row, if columns are named by position; otherwise null. */
  first_row: { column: string; value: string }[] | null;
  notes: string[];
  questions: OpenQuestion[];
  problems: string[];
  /**
   * The command that scores the file. null: no command can be given, or each answer has its own command in
   * `alternatives`.
   */
  command: string | null;
  alternatives: CommandForAnswer[];
  /** Columns of the model for which no input column is known. */
  open_columns: string[];
  /**
   * The command with `?` in place of the name for every open column; null: it is not needed, or columns cannot be
   * named.
   */
  template: string | null;
}
