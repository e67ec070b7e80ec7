// The file formats, compressions and delimiters Sluice knows, and the endings of file names that stand for them: one list for every door.
import path from 'node:path';

/** Formats that are text, one record after the other: they can be streamed through a pipe and an upload. */
export const TEXT_FORMATS = ['csv', 'tsv', 'ndjson', 'json'] as const;
export const FILE_FORMATS = [...TEXT_FORMATS, 'parquet'] as const;
export const COMPRESSIONS = ['none', 'gzip', 'zstd'] as const;
export const DELIMITER_NAMES = ['tab', 'comma', 'semicolon', 'pipe'] as const;

export type FileFormat = (typeof FILE_FORMATS)[number];

const FORMAT_BY_ENDING: Record<string, FileFormat> = {
  '.csv': 'csv',
  '.tsv': 'tsv',
  '.tab': 'tsv',
  '.ndjson': 'ndjson',
  '.jsonl': 'ndjson',
  '.json': 'json',
  '.parquet': 'parquet',
};
const COMPRESSION_BY_ENDING: Record<string, (typeof COMPRESSIONS)[number]> = { '.gz': 'gzip', '.zst': 'zstd' };

/** What the name of a file says about its content. */
export interface NamedFormat {
  /** null: the ending stands for no known format, or there is none. */
  format: FileFormat | null;
  compression: (typeof COMPRESSIONS)[number];
  /** The ending in front of that of the compression, with its point; empty: there is none. */
  ending: string;
}

export function formatByName(file: string): NamedFormat {
  const outer = path.extname(file);
  const compression = COMPRESSION_BY_ENDING[outer.toLowerCase()] ?? 'none';
  const ending = compression === 'none' ? outer : path.extname(file.slice(0, -outer.length));
  const known = ending.toLowerCase();
  return {
    format: Object.hasOwn(FORMAT_BY_ENDING, known) ? FORMAT_BY_ENDING[known]! : null,
    compression,
    ending,
  };
}
