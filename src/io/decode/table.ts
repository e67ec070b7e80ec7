// A small CSV file read whole: the files that come with a package.
import { parse } from 'csv-parse/sync';

export interface Table {
  header: string[];
  rows: string[][];
}

/** Comma-separated, with a header row. @throws Error of csv-parse */
export function readTable(text: string | Buffer): Table {
  const [header = [], ...rows] = parse(text, {
    bom: true,
    skip_empty_lines: true,
    record_delimiter: ['\r\n', '\n', '\r'],
  }) as string[][];
  return { header, rows };
}
