// Words with which total lines begin, in the languages of common exports.
// This file has no imports, because every run of a file loads it to check the last line.

const TOTAL =
  /^[\s*#=-]*(?:grand |sub)?(?:totals?|sum|summe|summen|gesamt|gesamtsumme|insgesamt|anzahl|count|records?|rows?|итого|всего|somma|totale|suma|razem|ogółem|trailer|trl|footer|eof|σ|∑)(?![\p{L}\d])/u;
const ROWS_REPORTED = /^\(?\d{1,12} (?:rows?|records?|zeilen|datensätze)\b/i;

/** Whether a cell looks like the first cell of a total line, a trailer or a row count. */
export const isTotalWord = (cell: string): boolean => TOTAL.test(cell.toLowerCase()) || ROWS_REPORTED.test(cell);
