// Formats the rejects file: rejected rows with their position in the input, identifying columns and the reason.
import type { Rejection } from '../../core/batch.ts';
import { neutralField, quoteField } from './delimited-formatter.ts';

const PLACE_COLUMNS = ['input', 'row', 'line', 'byte_offset'];
const ERROR_COLUMNS = ['error_code', 'error_column', 'error_message'];

/** The columns that every rejects file has. */
export const REJECTS_COLUMNS: readonly string[] = [...PLACE_COLUMNS, ...ERROR_COLUMNS];

/**
 * The header row of a rejects file. `columns`: passthrough columns listed by name. The file contains no other input
 * values.
 */
export function rejectsHeader(columns: readonly string[]): string {
  const echoed = columns.map((name) => neutralField(name, ','));
  return `${[...PLACE_COLUMNS, ...echoed, ...ERROR_COLUMNS].join(',')}\n`;
}

/**
 * Position of a rejected row. `row` and `line` count from 1. `byteOffset` counts from 0 to the first byte of the
 * record; it is NaN in a columnar table.
 */
interface RejectedAt {
  row: number;
  line: number;
  byteOffset: number;
  /** Texts of the passthrough columns that could be read. */
  echoed: readonly (string | null)[];
}

/** Formats one line of the file, without the input name at its start. */
export function rejectLine(at: RejectedAt, r: Omit<Rejection, 'index'>): string {
  let echoed = '';
  for (const text of at.echoed) echoed += `${neutralField(text ?? '', ',')},`;
  const why = `${r.code},${neutralField(r.column ?? '', ',')},${quoteField(r.message, ',')}`;
  const byte = Number.isNaN(at.byteOffset) ? '' : at.byteOffset;
  return `${at.row},${at.line},${byte},${echoed}${why}\n`;
}
