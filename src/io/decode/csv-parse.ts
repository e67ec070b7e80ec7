// csv-parse, loaded when the first record needs it: most streams have none, and its ten modules are a twelfth of the start of a worker.
import { createRequire } from 'node:module';
import type * as CsvParse from 'csv-parse/sync';

let loaded: typeof CsvParse | null = null;

/** `parse` of csv-parse/sync. @throws CsvError */
export function parseCsv(bytes: Buffer, options: CsvParse.Options): string[][] {
  loaded ??= createRequire(import.meta.url)('csv-parse/sync') as typeof CsvParse;
  return loaded.parse(bytes, options) as unknown as string[][];
}
