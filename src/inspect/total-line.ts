// Recognises lines after the last application: totals, trailers and messages of the exporting program.
import type { Confidence } from './inspection.ts';
import { fieldsOf } from './sample-records.ts';
import { isTotalWord } from './total-words.ts';

export interface LinesAfterTable {
  /** Number of physical lines to remove from the end, including empty lines. */
  lines: number;
  /** Number of records in these lines. */
  records: number;
  confidence: Confidence;
  reason: string;
  /** Whether the line may also be an application, so that the user must decide. */
  isDoubtful: boolean;
  /**
   * First field of the only record, by which `--trailer` recognises it; null: there are several records, or the field
   * is empty.
   */
  marker: string | null;
}

export interface TableEnd {
  /** The last bytes of the text, as UTF-8. */
  end: Buffer;
  delimiter: string;
  width: number;
  /** Rows from the start of the table. If `complete`, they do not include the line to examine. */
  rows: readonly (readonly unknown[])[];
  /** Whether `rows` contains all rows of the table. */
  complete: boolean;
  /**
   * Returns the number in a cell; NaN: it is not a number, or the column is not a number column. `column`: index in the
   * file.
   */
  numberIn: (column: number, text: string) => number;
}

const MOST_LINES = 5;
const LF = 10;
/**
 * A line is suspicious if at least the fraction `MOSTLY_EMPTY` of its cells is empty, and at most the fraction
 * `SELDOM_EMPTY` in other rows.
 */
const MOSTLY_EMPTY = 0.5;
const SELDOM_EMPTY = 0.25;
const FEWEST_ROWS = 5;
const SMALL_DIFFERENCE = 1e-6;

/** Finds lines after the last application; null: the table ends with an application. */
export function findLinesAfter(table: TableEnd): LinesAfterTable | null {
  const lines = lastLines(table.end);
  let found: LinesAfterTable | null = null;
  let removed = 0;
  let records = 0;
  for (let i = lines.length - 1; i >= 0 && removed < MOST_LINES; i--) {
    removed++;
    const line = lines[i]!;
    if (line.trim() === '') continue;
    const verdict = judge(line, table);
    if (!verdict || (found && verdict.isDoubtful)) break;
    const marker = records === 0 ? fieldsOf(Buffer.from(line), table.delimiter)?.[0]?.[0]?.trim() : null;
    found = { ...verdict, lines: removed, records: ++records, marker: marker || null };
    if (verdict.isDoubtful) break;
  }
  return found;
}

/** The last lines, in order. The first line of `end` may be incomplete, so it is omitted. */
function lastLines(end: Buffer): string[] {
  const lines: string[] = [];
  let stop = end.at(-1) === LF ? end.length - 1 : end.length;
  while (stop >= 0 && lines.length <= MOST_LINES) {
    const at = stop === 0 ? -1 : end.lastIndexOf(LF, stop - 1);
    lines.unshift(end.toString('utf8', at + 1, stop).replace(/\r$/, ''));
    stop = at;
  }
  return lines.slice(1);
}

type Judged = Pick<LinesAfterTable, 'confidence' | 'reason' | 'isDoubtful'>;

function judge(line: string, table: TableEnd): Judged | null {
  const { width, rows, complete } = table;
  const cells = fieldsOf(Buffer.from(line), table.delimiter)?.[0];
  if (!cells || cells.length === 0) return null;
  const word = cells.findIndex(isTotalWord);
  const isShort = cells.length !== width;
  const sum = complete && !isShort ? sumColumn(cells, table) : null;
  const isEmptier = isMostlyEmpty(cells) && emptyShare(rows) <= SELDOM_EMPTY;
  const isNewWord = word >= 0 && !rows.some((row) => row[word] === cells[word]);
  if (isNewWord && (isShort || isEmptier || sum !== null)) {
    return { confidence: 'high', reason: 'the last line begins with a word for a total', isDoubtful: false };
  }
  if (sum !== null) {
    return {
      confidence: 'high',
      reason: `field ${sum + 1} of the last line is the sum of its column`,
      isDoubtful: false,
    };
  }
  if (isNewWord && word === 0) {
    return { confidence: 'low', reason: 'the first field of the last line is a word for a total', isDoubtful: true };
  }
  if (!isShort && isEmptier && rows.length >= FEWEST_ROWS) {
    return {
      confidence: 'low',
      reason: 'most fields of the last line are empty, unlike in other rows',
      isDoubtful: true,
    };
  }
  return null;
}

/**
 * Why the last record is certainly a total line; null: the record may be an application. The conditions are stricter
 * than in `findLinesAfter`, because the row was already scored, and users would get used to false warnings and ignore
 * them.
 */
export function certainTotal(table: TableEnd): string | null {
  const { delimiter, width, rows, complete } = table;
  const line = lastLines(table.end).findLast((text) => text.trim() !== '');
  const cells = line === undefined ? undefined : fieldsOf(Buffer.from(line), delimiter)?.[0];
  if (!cells || rows.length < FEWEST_ROWS) return null;
  const first = cells.findIndex((cell) => cell.trim() !== '');
  const isWord = first >= 0 && isTotalWord(cells[first]!) && !rows.some((row) => row[first] === cells[first]);
  const isShort = cells.length !== width;
  const isEmptier = isMostlyEmpty(cells) && emptyShare(rows) <= SELDOM_EMPTY;
  if (isWord && (isShort || isEmptier)) return 'it begins with a word for a total';
  if (!complete || isShort || !(isWord || isEmptier)) return null;
  const sum = sumColumn(cells, table);
  return sum === null ? null : `its field ${sum + 1} is the sum of the column`;
}

const isMostlyEmpty = (cells: readonly string[]): boolean =>
  cells.filter((cell) => cell === '').length >= MOSTLY_EMPTY * cells.length;

/** The index of a field that is the sum of its column over all other rows; null: there is none. */
function sumColumn(cells: readonly string[], { rows, numberIn }: TableEnd): number | null {
  if (rows.length < FEWEST_ROWS) return null;
  for (const [i, cell] of cells.entries()) {
    const total = numberIn(i, cell);
    if (Number.isNaN(total) || total === 0) continue;
    let [sum, largest] = [0, 0];
    for (const row of rows) {
      const text = row[i];
      const value = typeof text === 'string' ? numberIn(i, text) : Number.NaN;
      if (Number.isNaN(value)) continue;
      sum += value;
      largest = Math.max(largest, Math.abs(value));
    }
    const isSum = Math.abs(sum - total) <= SMALL_DIFFERENCE * Math.abs(total);
    if (isSum && Math.abs(total) > largest) return i;
  }
  return null;
}

function emptyShare(rows: readonly (readonly unknown[])[]): number {
  let [cells, empty] = [0, 0];
  for (const row of rows.slice(0, 1000)) {
    cells += row.length;
    empty += row.filter((cell) => cell === '').length;
  }
  return cells === 0 ? 0 : empty / cells;
}
