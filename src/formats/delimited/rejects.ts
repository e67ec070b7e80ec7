// The rejects file: the rejected rows with their position in the input, their identifying columns and the reason.
import type { Rejection } from '../../core/batch.ts';
import { neutralField, quoteField } from './delimited-formatter.ts';

/** `columns`: the passthrough columns that are named; of the input, nothing else is in the list. */
export function rejectsHeader(columns: readonly string[]): string {
  const echoed = columns.map((name) => neutralField(name, ','));
  return `${['input,row,line,byte_offset', ...echoed, 'error_code,error_column,error_message'].join(',')}\n`;
}

/** Position of a rejected row: `row` and `line` from 1, `byteOffset` from 0 at the record's first byte, NaN in a table. */
interface RejectedAt {
  row: number;
  line: number;
  byteOffset: number;
  /** Texts of the passthrough columns, as far as they could be read. */
  echoed: readonly (string | null)[];
}

/** One line of the list, without the input in front. */
export function rejectLine(at: RejectedAt, r: Omit<Rejection, 'index'>): string {
  let echoed = '';
  for (const text of at.echoed) echoed += `${neutralField(text ?? '', ',')},`;
  const why = `${r.code},${neutralField(r.column ?? '', ',')},${quoteField(r.message, ',')}`;
  const byte = Number.isNaN(at.byteOffset) ? '' : at.byteOffset;
  return `${at.row},${at.line},${byte},${echoed}${why}\n`;
}
