// The rejects file: which rows were not scored, where they stand in the input, and why. It holds no value of the input.
import type { Rejection } from '../../core/batch.ts';
import { neutralField, quoteField } from './delimited.ts';

export const REJECTS_HEADER = 'row,line,byte_offset,error_code,error_column,error_message\n';

/** One line of the rejects file. `row` and `line` from 1, `byteOffset` from 0 at the record's first byte. */
export function rejectLine(row: number, line: number, byteOffset: number, r: Omit<Rejection, 'index'>): string {
  return `${row},${line},${byteOffset},${r.code},${neutralField(r.column ?? '', ',')},${quoteField(r.message, ',')}\n`;
}
