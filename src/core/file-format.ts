// The file formats, compressions and delimiters Sluice knows, and what the name of a file says of them: one list for every door.

/** Formats that are text, one record after the other. */
export const TEXT_FORMATS = ['csv', 'tsv', 'ndjson', 'json'] as const;
export type TextFormat = (typeof TEXT_FORMATS)[number];

/** Formats that can be read while they arrive; a Parquet file is read from its end. */
export const STREAM_FORMATS = [...TEXT_FORMATS, 'arrow'] as const;

export const FILE_FORMATS = [...TEXT_FORMATS, 'parquet', 'arrow'] as const;
export type FileFormat = (typeof FILE_FORMATS)[number];

/** Whether a format holds columns instead of records. */
export const isColumnar = (format: FileFormat): format is 'parquet' | 'arrow' =>
  format === 'parquet' || format === 'arrow';

/** Endings of Arrow files that have a table of contents at their end; others are streams. */
const ARROW_FILE_ENDINGS = new Set(['.arrow', '.feather']);

export const COMPRESSIONS = ['none', 'gzip', 'zstd'] as const;
export type Compression = (typeof COMPRESSIONS)[number];

export const DELIMITER_NAMES = ['tab', 'comma', 'semicolon', 'pipe'] as const;

const FORMAT_ENDINGS = new Map<string, FileFormat>([
  ['.csv', 'csv'],
  ['.tsv', 'tsv'],
  ['.tab', 'tsv'],
  ['.ndjson', 'ndjson'],
  ['.jsonl', 'ndjson'],
  ['.json', 'json'],
  ['.parquet', 'parquet'],
  ['.arrow', 'arrow'],
  ['.arrows', 'arrow'],
  ['.feather', 'arrow'],
]);
const COMPRESSION_ENDINGS = new Map<string, Compression>([
  ['.gz', 'gzip'],
  ['.zst', 'zstd'],
]);

/** Endings a file can have, for messages. */
export const KNOWN_ENDINGS = `${[...FORMAT_ENDINGS.keys()].join(', ')}, each also with .gz or .zst`;

interface NamedFormat {
  /** null: the name has no ending, or one that is no format. */
  format: FileFormat | null;
  compression: Compression;
  /** The ending that should say the format, with its point; empty where the name has none. */
  ending: string;
  /** File name without folder and endings. */
  stem: string;
}

/** Whether an Arrow output of this name is a file, which can be read from anywhere, and no stream. */
export const isArrowFile = (name: string): boolean => ARROW_FILE_ENDINGS.has(namedFormat(name).ending.toLowerCase());

/** What the name of a file says; endings in any case. */
export function namedFormat(file: string): NamedFormat {
  const name = file.slice(Math.max(file.lastIndexOf('/'), file.lastIndexOf('\\')) + 1);
  const last = endingOf(name);
  const compression = COMPRESSION_ENDINGS.get(last.toLowerCase()) ?? 'none';
  const plain = compression === 'none' ? name : name.slice(0, -last.length);
  const ending = endingOf(plain);
  return {
    format: FORMAT_ENDINGS.get(ending.toLowerCase()) ?? null,
    compression,
    ending,
    stem: ending === '' ? plain : plain.slice(0, -ending.length),
  };
}

/** From the last point on; a point in front of a name makes no ending. */
function endingOf(name: string): string {
  const at = name.lastIndexOf('.');
  return at > 0 ? name.slice(at) : '';
}

/** Formats of the values of a topic. */
export const RECORD_FORMATS = ['json', 'avro', 'json_schema', 'protobuf'] as const;
export type RecordFormatName = (typeof RECORD_FORMATS)[number];
