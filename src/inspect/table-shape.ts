// Finds the delimiter, the header row and the lines in front of it in delimited text.

import { QUOTE } from '../core/ascii.ts';
import { DELIMITERS, type DelimiterName, simplified, splitHeader } from '../formats/delimited/header.ts';
import { BY_DECLARATION, type Guess } from './inspection.ts';

/**
 * Maximum number of lines and bytes that are examined. The header row must be among the first `MOST_PREAMBLE` lines.
 */
const EXAMINED_LINES = 200;
const EXAMINED_BYTES = 1024 * 1024;
const MOST_PREAMBLE = 50;
/** Minimum fraction of the model's columns that a line must contain to be the header row. */
const HEADER_SHARE = 0.3;
/** Minimum fraction of lines with the most frequent number of fields for a delimiter to be plausible. */
const REGULAR = 0.6;
/** Maximum number of lines that a record with line breaks in quoted fields may span. */
const MOST_WRAPPED = 20;
const LF = 10;
const CR = 13;
const EMPTY = Buffer.alloc(0);

export interface TableShape {
  delimiter: Guess<DelimiterName>;
  /** Number of lines in front of the header row, or of the first row. */
  skip: number;
  /**
   * Index of the line on which the header row or the first row begins. It is larger than `skip` if only empty lines
   * precede the row.
   */
  at: number;
  /** Maximum number of cells in a line in front of `at`. A line with many cells may contain column names. */
  cellsBefore: number;
  /** Cells of the header row; null: the file has no header row. */
  header: string[] | null;
  headerGuess: Guess<'row' | 'none'>;
  /** Cells of the first data row; null: the file has no data rows. */
  first: string[] | null;
}

/** The first lines, without line breaks. */
function linesOf(text: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  const end = Math.min(text.length, EXAMINED_BYTES);
  for (let start = 0; start < end && lines.length < EXAMINED_LINES; ) {
    let at = text.indexOf(LF, start);
    // In files of the classic Mac OS, lines end with a carriage return alone.
    if (at < 0 && text.indexOf(CR, start) >= 0) at = text.indexOf(CR, start);
    const stop = at < 0 || at > end ? end : at;
    lines.push(text.subarray(start, text[stop - 1] === CR && stop > start ? stop - 1 : stop));
    start = stop + 1;
  }
  return lines;
}

/** The line, followed by further lines if a quoted field continues on them. */
function recordFrom(lines: readonly Buffer[], at: number): Buffer {
  let record = lines[at]!;
  for (let i = at + 1; i < lines.length && i < at + MOST_WRAPPED && quotesIn(record) % 2 === 1; i++) {
    record = Buffer.concat([record, Buffer.of(LF), lines[i]!]);
  }
  return quotesIn(record) % 2 === 1 ? lines[at]! : record;
}

const quotesIn = (line: Buffer): number => line.filter((byte) => byte === QUOTE).length;

function cellsOf(line: Buffer, delimiter: string): string[] {
  try {
    return splitHeader(line, delimiter);
  } catch {
    return [];
  }
}

const NAMES = Object.keys(DELIMITERS) as DelimiterName[];

export interface DeclaredShape {
  /** The declared delimiter; undefined: it must be found. */
  delimiter?: DelimiterName | undefined;
  /** Whether the file is declared to have no header row. */
  headless: boolean;
  /** Declared number of lines in front of the table. */
  skip: number;
}

/**
 * Finds the shape of a table; null: no supported delimiter is plausible. `columns`: names of the model's columns in the
 * file.
 */
export function shapeOf(text: Buffer, columns: readonly string[], declared: DeclaredShape): TableShape | null {
  // Skipped lines become empty lines, which are ignored. The indexes of all other lines stay the same.
  const lines = linesOf(text).map((line, i) => (i < declared.skip ? EMPTY : line));
  const delimiters = declared.delimiter === undefined ? NAMES : [declared.delimiter];
  const announced = /^sep=(.)$/i.exec(lines[0]?.toString('utf8') ?? '')?.[1];
  const named = declared.headless ? null : byNames(lines, columns, delimiters);
  const found = named ?? byRegularity(lines, { announced, columns: columns.length, delimiters, ...declared });
  if (!found) return null;
  const skip = Math.max(found.skip, declared.skip);
  if (declared.delimiter === undefined) return { ...found, skip };
  return { ...found, skip, delimiter: { value: declared.delimiter, confidence: 'high', reason: BY_DECLARATION } };
}

/** Finds the line and the delimiter with the largest number of the model's columns. */
function byNames(
  lines: readonly Buffer[],
  columns: readonly string[],
  delimiters: readonly DelimiterName[],
): TableShape | null {
  const wanted = new Set(columns.map(simplified));
  let best: { at: number; delimiter: DelimiterName; cells: string[]; found: number } | null = null;
  for (const at of lines.slice(0, MOST_PREAMBLE).keys()) {
    const record = recordFrom(lines, at);
    for (const delimiter of delimiters) {
      const cells = cellsOf(record, DELIMITERS[delimiter]);
      const found = new Set(cells.map(simplified).filter((name) => wanted.has(name))).size;
      if (found > (best?.found ?? 0)) best = { at, delimiter, cells, found };
    }
  }
  if (!best || best.found < Math.max(1, HEADER_SHARE * columns.length)) return null;
  const { delimiter, cells, at, found } = best;
  const reason = `line ${at + 1} has the names of ${found} of ${columns.length} model columns`;
  const next = lines.slice(at + 1).find((line) => line.length > 0);
  return {
    delimiter: { value: delimiter, confidence: 'high', reason: `it separates the names of the header` },
    skip: skipTo(lines, at),
    at,
    cellsBefore: cellsBefore(lines, at, delimiter),
    header: cells,
    headerGuess: { value: 'row', confidence: 'high', reason },
    first: next ? cellsOf(next, DELIMITERS[delimiter]) : null,
  };
}

/** Number of lines to skip. It is 0 if all lines in front of `at` are empty, because empty lines are not records. */
const skipTo = (lines: readonly Buffer[], at: number): number =>
  lines.slice(0, at).some((line) => line.toString('utf8').trim() !== '') ? at : 0;

const cellsBefore = (lines: readonly Buffer[], at: number, delimiter: DelimiterName): number =>
  Math.max(0, ...lines.slice(0, at).map((line) => cellsOf(line, DELIMITERS[delimiter]).length));

interface Regularity {
  delimiter: DelimiterName;
  fields: number;
  share: number;
  rows: string[][];
}

/** Finds the delimiter that divides most lines into the same number of fields. */
function byRegularity(
  lines: readonly Buffer[],
  sought: DeclaredShape & {
    announced: string | undefined;
    columns: number;
    delimiters: readonly DelimiterName[];
  },
): TableShape | null {
  const { announced, columns, delimiters, headless } = sought;
  const filled = lines.filter((line) => line.length > 0);
  let best: (Regularity & { score: number }) | null = null;
  for (const delimiter of delimiters) {
    const found = regularityOf(filled, delimiter);
    if (!found || (found.share < REGULAR && sought.delimiter === undefined)) continue;
    const bonus = (DELIMITERS[delimiter] === announced ? 2 : 0) + (found.fields === columns ? 1 : 0);
    const score = found.share - foreignShare(found) + bonus;
    if (!best || score > best.score) best = { ...found, score };
  }
  if (!best) return null;
  const { delimiter, fields, share } = best;
  const at = lines.findIndex((line) => cellsOf(line, DELIMITERS[delimiter]).length === fields);
  const rows = best.rows.slice(best.rows.findIndex((row) => row.length === fields));
  const head = rows[0] ?? [];
  const isHeader = !headless && looksLikeHeader(head, rows.slice(1));
  const reason = `${Math.round(100 * share)} % of the first lines have ${fields} fields`;
  return {
    delimiter: { value: delimiter, confidence: share > 0.9 ? 'high' : 'medium', reason },
    skip: skipTo(lines, at),
    at,
    cellsBefore: cellsBefore(lines, at, delimiter),
    header: isHeader ? head : null,
    headerGuess: isHeader
      ? { value: 'row', confidence: 'medium', reason: 'the first line has no number, the lines after it have' }
      : headless
        ? { value: 'none', confidence: 'high', reason: BY_DECLARATION }
        : { value: 'none', confidence: 'medium', reason: 'the first line has no model column and looks like a row' },
    first: (isHeader ? rows[1] : head) ?? null,
  };
}

function regularityOf(lines: readonly Buffer[], delimiter: DelimiterName): Regularity | null {
  const rows = lines.map((line) => cellsOf(line, DELIMITERS[delimiter]));
  const counts = Map.groupBy(rows, (row) => row.length);
  const [fields, same] = [...counts].reduce((a, b) => (b[1].length > a[1].length ? b : a), [0, [] as string[][]]);
  return fields < 2 ? null : { delimiter, fields, share: same.length / rows.length, rows };
}

/**
 * The fraction of cells that contain a delimiter other than `delimiter` and the comma. Such cells are probably several
 * cells.
 */
function foreignShare({ delimiter, rows }: Regularity): number {
  const others = NAMES.filter((name) => name !== delimiter && name !== 'comma').map((name) => DELIMITERS[name]);
  const cells = rows.flat();
  const mixed = cells.filter((cell) => others.some((other) => cell.includes(other))).length;
  return cells.length === 0 ? 0 : mixed / cells.length;
}

const startsAsNumber = (cell: string): boolean => /^\s*[+-]?\d/.test(cell);

function looksLikeHeader(head: readonly string[], rows: readonly (readonly string[])[]): boolean {
  if (head.some(startsAsNumber) || new Set(head).size < head.length) return false;
  return head.some((_, i) => {
    const below = rows.map((row) => row[i] ?? '').filter((cell) => cell !== '');
    return below.length > 0 && below.filter(startsAsNumber).length >= 0.8 * below.length;
  });
}
