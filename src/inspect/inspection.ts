// The report about an unfamiliar file: findings with their confidence, and the command that scores it.
import type { ErrorCode } from '../core/errors.ts';

export type Confidence = 'high' | 'medium' | 'low';

/** A conclusion about the file, and the observation behind it. */
export interface Guess<T> {
  value: T;
  confidence: Confidence;
  reason: string;
}

/** The reason of what the caller declared. */
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
  /** Name in the input, or the position of a field without a name; null: not found. */
  input: string | null;
  match: MatchKind;
  confidence: Confidence;
  /** Shares of the inspected rows. `unseen`: null unless the model lists the values of the column. */
  missing: number | null;
  unseen: number | null;
  rejected: number;
}

/** A decision that the file does not answer. */
export interface OpenQuestion {
  question: string;
  /** The column of the model whose input column is asked for; null: another question. */
  column: string | null;
  /** The answers, and the flags that each adds to the command. */
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
 * `ready`: the command scores every inspected row. `rejects`: it rejects some of them. `open`: a question must be
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
  /** Lines in front of the header or the first row. */
  skipped_lines: number;
  trailer: Guess<string> | null;
  numbers: Guess<string> | null;
  trim: boolean;
  null_values: { text: string; count: number; columns: string[] }[];
  columns: InspectedColumn[];
  ignored: string[];
  rejected: { rows: number; first: RejectedRow[] };
  /** Names and values of the first row, if names depend on positions. */
  first_row: { column: string; value: string }[] | null;
  notes: string[];
  questions: OpenQuestion[];
  problems: string[];
  /** null: none, or one for each answer in `alternatives`. */
  command: string | null;
  alternatives: CommandForAnswer[];
  /** Columns of the model for which no input column is known. */
  open_columns: string[];
  /** The command with `?` for the name of every open column; null: not needed, or no name can be declared. */
  template: string | null;
}
