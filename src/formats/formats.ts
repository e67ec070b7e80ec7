// The registry of file formats.
// To add a format, create its folder and add a line here; its name is in core/file-format.ts.
import type { Compression, FileFormat } from '../core/file-format.ts';
import type { TableFormat } from './columns/table-format.ts';

interface Format {
  /** The name of the format in messages. */
  title: string;
  endings: readonly string[];
  mediaType: string;
  /** How the records of the format are split and decoded. Tables are read as columns, or as NDJSON lines. */
  records: 'delimited' | 'json' | 'ndjson';
  /** Loads a columnar format. null: the format is text, which the engine's decoders and formatters handle. */
  table: (() => Promise<TableFormat>) | null;
}

const parquet = async () => (await import('./parquet/parquet-format.ts')).PARQUET;
const arrow = async () => (await import('./arrow/arrow-format.ts')).ARROW;

const FORMATS = {
  csv: { title: 'CSV', endings: ['.csv'], mediaType: 'text/csv', records: 'delimited', table: null },
  tsv: { title: 'TSV', endings: ['.tsv', '.tab'], mediaType: 'text/tab-separated-values', records: 'delimited', table: null },
  ndjson: { title: 'NDJSON', endings: ['.ndjson', '.jsonl'], mediaType: 'application/x-ndjson', records: 'ndjson', table: null },
  json: { title: 'JSON', endings: ['.json'], mediaType: 'application/json', records: 'json', table: null },
  parquet: { title: 'a Parquet file', endings: ['.parquet'], mediaType: 'application/vnd.apache.parquet', records: 'ndjson', table: parquet },
  arrow: { title: 'Arrow', endings: ['.arrow', '.arrows', '.feather'], mediaType: 'application/vnd.apache.arrow.stream', records: 'ndjson', table: arrow },
} satisfies Record<FileFormat, Format>; // biome-ignore format: one line each

type Columnar = { [F in FileFormat]: (typeof FORMATS)[F]['table'] extends null ? never : F }[FileFormat];

export const formatEntry = (name: FileFormat): Format => FORMATS[name];

/** Whether a format is columnar. */
export const isColumnar = (name: FileFormat): name is Columnar => FORMATS[name].table !== null;

/** Whether a format is csv or tsv. An input in these formats may lack a header row. */
export const isDelimited = (name: FileFormat): boolean => FORMATS[name].records === 'delimited';

const FORMAT_ENDINGS = new Map(
  Object.entries(FORMATS).flatMap(([name, { endings }]) => endings.map((ending) => [ending, name as FileFormat])),
);
const COMPRESSION_ENDINGS = new Map<string, Compression>([
  ['.gz', 'gzip'],
  ['.zst', 'zstd'],
]);

/** Supported file extensions, for messages. */
export const KNOWN_ENDINGS = `${[...FORMAT_ENDINGS.keys()].join(', ')}, each also with .gz or .zst`;

interface NamedFormat {
  /** null: the name has no extension, or an unknown one. */
  format: FileFormat | null;
  compression: Compression;
  /** The extension that defines the format, including its dot; empty if the name has no extension. */
  ending: string;
  /** File name without folder and extensions. */
  stem: string;
}

/** Format and compression according to the extensions of a file name, in any letter case. */
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

/**
 * The text starting at the last dot; empty if the name has no extension. A dot at the start of a name does not begin an
 * extension.
 */
function endingOf(name: string): string {
  const at = name.lastIndexOf('.');
  return at > 0 ? name.slice(at) : '';
}
