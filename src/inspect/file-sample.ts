// Reads the start of an unfamiliar file as records and cells, with the format, encoding and delimiter that the file appears to have.

import type { TypedTable } from '../core/block.ts';
import { SluiceError, tooMany } from '../core/errors.ts';
import { type FileFormat, refuseForeignContent } from '../core/file-format.ts';
import type { EncodingName } from '../core/input-declaration.ts';
import { ownValue } from '../core/own-keys.ts';
import type { InputFormat } from '../engine/stream-spec.ts';
import { DELIMITERS, type DelimiterName, splitHeader } from '../formats/delimited/header.ts';
import { namedFormat } from '../formats/formats.ts';
import { type ColumnReader, columnReaders } from '../inference/encode/column-reader.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { endpoint } from '../runs/endpoint-specs.ts';
import { openSource } from '../runs/endpoints.ts';
import type { DeclaringSource } from '../runs/spec.ts';
import { BY_DECLARATION, type Guess } from './inspection.ts';
import { asUtf8, oneChunk, openUnknown, type UnknownInput } from './open-unknown.ts';
import {
  delimitedCells,
  INSPECTED_ROWS,
  jsonCells,
  MOST_COLUMNS,
  recordAt,
  type SampledRecords,
  type SampleTable,
  sampleRecords,
  withoutFirst,
} from './sample-records.ts';
import { shapeOf, type TableShape } from './table-shape.ts';
import { guessEncoding } from './text-encoding.ts';

/**
 * The declarations of the caller about the file, which are not questioned. If only a thousands separator is declared,
 * the inspection finds the decimal separator.
 */
export type DeclaredReading = DeclaringSource & {
  delimiter?: DelimiterName | undefined;
  skip_lines?: number | undefined;
};

export interface InspectRequest {
  file: string;
  model: ModelPackage;
  /** The reference of the model on the command line. `registry`: the registry, if the command line names one. */
  modelName: string;
  registry?: string | undefined;
  /** Output of the printed command. Default: derived from the file name. */
  output?: string | undefined;
  declared?: DeclaredReading | undefined;
}

/** Everything that was read from a file, before any conclusions are drawn. */
export interface FileSample {
  request: InspectRequest;
  readers: readonly ColumnReader[];
  format: Guess<FileFormat>;
  compression: UnknownInput['compression'];
  encoding: Guess<EncodingName> | null;
  shape: TableShape | null;
  /** Number of physical lines up to the end of the header row, for a command that removes these lines. */
  headerLines: number;
  /** Whether the number of fields in rows differs from the header, so that columns must be named by position. */
  isHeaderUnfit: boolean;
  /** The delimiter of delimited text; for other formats, a comma. */
  delimiter: DelimiterName;
  records: SampledRecords;
  table: SampleTable;
  typed?: TypedTable | undefined;
  /** Whether the sample is the whole file. */
  whole: boolean;
  /** The last bytes of the text; null: they were not read. */
  end: Buffer | null;
}

/** Number of bytes at the end of a truncated sample that are not read, so that a record is never cut. */
const MARGIN = 2 * 1024 * 1024;
const END_BYTES = 64 * 1024;
const LF = 10;

/**
 * Reads the start of a file, and its end if possible.
 * @throws SluiceError input_not_found | input_unreadable | empty_input | truncated_input | foreign_content (no
 * declaration can make the content readable) | limit_exceeded
 */
export async function readSample(request: InspectRequest): Promise<FileSample> {
  const unknown = await openUnknown(request.file);
  const readers = columnReaders(request.model.manifest);
  return unknown.columnar === null
    ? sampleText(request, unknown, readers)
    : sampleColumns(request, unknown, unknown.columnar, readers);
}

async function sampleColumns(
  request: InspectRequest,
  { compression }: UnknownInput,
  format: 'parquet' | 'arrow',
  readers: readonly ColumnReader[],
): Promise<FileSample> {
  const source = await openSource(endpoint(request.file, { format, compression }, format));
  try {
    const records = await sampleRecords(source.chunks, source.input, { rows: INSPECTED_ROWS, bytes: Infinity });
    const typed = source.chunks.columns;
    const cells = jsonCells(records);
    // The JSON lines of the sample contain no key for a column without any value.
    const names = typed?.names ?? cells.names ?? [];
    const places = names.map((name) => cells.names!.indexOf(name));
    const rows = cells.rows.map((row) => places.map((at) => row[at]));
    return {
      request,
      readers,
      format: { value: format, confidence: 'high', reason: 'by the first bytes' },
      compression,
      encoding: null,
      shape: null,
      ...NO_HEADER,
      delimiter: 'comma',
      records,
      table: { names, width: names.length, rows },
      typed,
      whole: records.complete,
      end: null,
    };
  } finally {
    await source.close();
  }
}

async function sampleText(
  request: InspectRequest,
  unknown: UnknownInput,
  readers: readonly ColumnReader[],
): Promise<FileSample> {
  const { head, complete, compression } = unknown;
  const { declared = {} } = request;
  const encoding: Guess<EncodingName> =
    declared.encoding === undefined
      ? guessEncoding(head, complete)
      : { value: declared.encoding, confidence: 'high', reason: BY_DECLARATION };
  const isWide = encoding.value.startsWith('utf-16');
  if (!isWide) refuseForeignContent(head);
  const text = await asUtf8(isWide && !complete ? head.subarray(0, head.length & ~1) : head, encoding.value);
  const json = declared.delimiter === undefined ? jsonFormat(text) : null;
  const limits = { rows: INSPECTED_ROWS, bytes: complete ? Infinity : Math.max(1, head.length - MARGIN) };
  const common = { request, readers, compression, encoding };
  if (json) {
    const records = await sampleRecords(oneChunk(text), { format: json.value }, limits);
    const whole = complete && records.complete;
    const table = jsonCells(records);
    return { ...common, ...NO_HEADER, format: json, shape: null, delimiter: 'comma', records, table, whole, end: null };
  }
  const { names: fields, rename = {} } = declared.columns ?? {};
  const columns = readers.map(({ name }) => ownValue(rename, name) ?? name);
  const shape = shapeOf(text, columns, {
    delimiter: declared.delimiter,
    headless: fields !== undefined,
    skip: declared.skip_lines ?? 0,
  });
  if (!shape) throw new SluiceError('foreign_content', NO_DELIMITER);
  const delimiter = shape.delimiter.value;
  const width = (shape.header ?? shape.first ?? []).length;
  if (width > MOST_COLUMNS) throw tooMany('columns', MOST_COLUMNS);
  if (fields && fields.length !== width) {
    throw new SluiceError('usage', `columns: ${fields.length} names are declared, the file has ${width} fields`);
  }
  const names = shape.header === null ? Array.from({ length: width }, (_, i) => `field_${i + 1}`) : null;
  const input: InputFormat = {
    format: 'delimited',
    delimiter: DELIMITERS[delimiter],
    ...(names
      ? { declared: { columns: { names, rename: {}, ignore: [], constants: {} }, texts: null, encoding: null } }
      : {}),
  };
  const sampled = await sampleRecords(oneChunk(withoutLines(text, shape.skip)), input, limits);
  refuseOtherHeader(sampled, shape);
  const hasRuler = shape.header !== null && sampled.count > 0 && isRuler(recordAt(sampled, 0));
  const records = hasRuler ? withoutFirst(sampled) : sampled;
  const cells = delimitedCells(records, DELIMITERS[delimiter], fields ?? shape.header, width);
  const table = fittedNames(cells);
  const headerRow = shape.header === null ? 0 : 1 + linesWithin(sampled.header?.bytes) + (hasRuler ? 1 : 0);
  const isTab = delimiter === 'tab' || namedFormat(request.file).format === 'tsv';
  const format = {
    value: isTab ? ('tsv' as const) : ('csv' as const),
    confidence: 'high' as const,
    reason: 'text with delimiters',
  };
  return {
    ...common,
    format,
    shape,
    headerLines: shape.at + headerRow,
    isHeaderUnfit: hasRuler || table.names?.length !== cells.names?.length,
    delimiter,
    records,
    table,
    whole: complete && records.complete,
    end: await endOfText(unknown, text, encoding.value),
  };
}

const NO_HEADER = { headerLines: 0, isHeaderUnfit: false };

/**
 * Checks that the scanner finds the same header row.
 * @throws SluiceError header_mismatch if it finds another one because of line breaks or quotes
 */
function refuseOtherHeader({ header }: SampledRecords, { header: cells, delimiter, at }: TableShape): void {
  if (cells === null || header === null) return;
  const found = splitHeader(header.bytes, DELIMITERS[delimiter.value]);
  if (found.length === cells.length && found.every((cell, i) => cell === cells[i])) return;
  throw new SluiceError(
    'header_mismatch',
    `the header row in line ${at + 1} ends unlike the other lines, or its quotes are not closed`,
  );
}

/** Number of line breaks inside a record. */
const linesWithin = (record: Buffer | undefined): number => record?.filter((byte) => byte === LF).length ?? 0;

/** Whether a line only separates the header from the rows, as in the output of query tools. */
const isRuler = (record: Buffer): boolean => /^[-=+|;,\t ]+$/.test(record.toString('latin1')) && record.includes('--');

/**
 * The table with a name for every field of its rows. Some programs write a trailing delimiter only in rows or only in
 * the header. Some write row names in a column without a name.
 */
function fittedNames(table: SampleTable): SampleTable {
  const { names, rows, width } = table;
  const [usual = width] =
    [...Map.groupBy(rows, (row) => row.length)].toSorted((a, b) => b[1].length - a[1].length)[0] ?? [];
  if (names === null || usual === width) return table;
  const whole = rows.filter((row) => row.length === usual);
  if (usual === width - 1 && names.at(-1) === '') return { ...table, names: names.slice(0, -1), width: usual };
  if (usual !== width + 1) return table;
  if (whole.every((row) => row.at(-1) === '')) return { ...table, names: [...names, ''], width: usual };
  const areRowNames = whole.length > 1 && new Set(whole.map((row) => row[0])).size === whole.length;
  return areRowNames ? { ...table, names: ['', ...names], width: usual } : table;
}

const NO_DELIMITER =
  'the text has no delimiter that Sluice reads: most lines must have the same number of fields, separated by commas, semicolons, tabs or |';

async function endOfText(
  { complete, end, head }: UnknownInput,
  text: Buffer,
  encoding: EncodingName,
): Promise<Buffer | null> {
  if (complete) return text.subarray(Math.max(0, text.length - END_BYTES));
  if (end === null) return null;
  // The end of the file has no byte order mark, so the byte order of the start is used.
  if (encoding === 'utf-16') return asUtf8(end, head[0] === 0xff ? 'utf-16le' : 'utf-16be');
  return asUtf8(end, encoding);
}

/** Recognises JSON by its first characters. */
function jsonFormat(text: Buffer): Guess<'json' | 'ndjson'> | null {
  const start = text.toString('utf8', 0, 4096).trimStart();
  if (/^\[\s*[{\]]/.test(start)) return { value: 'json', confidence: 'high', reason: 'it starts with an array' };
  if (!/^\{\s*["}]/.test(start)) return null;
  const at = text.indexOf(LF);
  const line = text.toString('utf8', 0, at < 0 ? text.length : at).trim();
  try {
    JSON.parse(line);
    return { value: 'ndjson', confidence: 'high', reason: 'the first line is a JSON object' };
  } catch {
    return { value: 'json', confidence: 'high', reason: 'it starts with a JSON object of several lines' };
  }
}

/** The text without its first lines. */
function withoutLines(text: Buffer, lines: number): Buffer {
  let start = 0;
  for (let i = 0; i < lines; i++) {
    const at = text.indexOf(LF, start);
    if (at < 0) return text.subarray(text.length);
    start = at + 1;
  }
  return text.subarray(start);
}
