// Inspects an unfamiliar file: finds out how it must be read for a model, and tries this on a sample without scoring it.

import type { TypedTable } from '../core/block.ts';
import { SluiceError } from '../core/errors.ts';
import { type FileFormat, refuseForeignContent } from '../core/file-format.ts';
import { type EncodingName, withoutBlanks } from '../core/input-declaration.ts';
import type { InputFormat } from '../engine/stream-spec.ts';
import { DELIMITERS, type DelimiterName } from '../formats/delimited/header.ts';
import { namedFormat } from '../formats/formats.ts';
import { type ColumnReader, columnReaders, numberIn } from '../inference/encode/column-reader.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { Source } from '../pipeline/pipeline-schema.ts';
import { endpoint, inputFormatOf } from '../runs/endpoint-specs.ts';
import { openSource } from '../runs/endpoints.ts';
import { declarationOf, refuseContradictions } from '../runs/spec.ts';
import { compatibleOffsets, firstMisfit } from './column-positions.ts';
import type { Guess, Inspection } from './inspection.ts';
import { conclude } from './inspection-verdict.ts';
import { matchNames, type NameMatch } from './match-names.ts';
import { asUtf8, oneChunk, openUnknown, type UnknownInput } from './open-unknown.ts';
import type { ReadingState } from './reading-plan.ts';
import {
  delimitedCells,
  INSPECTED_ROWS,
  jsonCells,
  type SampledRecords,
  type SampleTable,
  sampleRecords,
  textsOf,
  withoutLast,
} from './sample-records.ts';
import { declaringSource, type ReadingPlan } from './score-command.ts';
import { shapeOf, type TableShape } from './table-shape.ts';
import { guessEncoding } from './text-encoding.ts';
import { type FoundTextRules, findTextRules } from './text-rules.ts';
import { findLinesAfter, type LinesAfterTable } from './total-line.ts';
import { type Trial, trialDecode } from './trial-decode.ts';

export interface InspectRequest {
  file: string;
  model: ModelPackage;
  /** The model as the command line names it, and the registry if it does. */
  modelName: string;
  registry?: string | undefined;
  /** Output of the printed command. Default: derived from the file name. */
  output?: string | undefined;
}

/** Everything that was read of a file, before it is judged. */
export interface FileSample {
  request: InspectRequest;
  readers: readonly ColumnReader[];
  format: Guess<FileFormat>;
  compression: UnknownInput['compression'];
  encoding: Guess<EncodingName> | null;
  shape: TableShape | null;
  /** Delimiter of delimited text, else a comma. */
  delimiter: DelimiterName;
  records: SampledRecords;
  table: SampleTable;
  typed?: TypedTable | undefined;
  /** Whether the sample is the whole file. */
  whole: boolean;
  /** The last bytes of the text; null: not read. */
  end: Buffer | null;
}

/** Bytes at the end of a truncated sample that are not read, so that a record is never cut off. */
const MARGIN = 2 * 1024 * 1024;
const END_BYTES = 64 * 1024;
const LF = 10;

/**
 * @throws SluiceError input_not_found | input_unreadable | empty_input | truncated_input | foreign_content: content that
 * no declaration makes readable | limit_exceeded
 */
export async function inspectFile(request: InspectRequest): Promise<Inspection> {
  const unknown = await openUnknown(request.file);
  const readers = columnReaders(request.model.manifest);
  const sample =
    unknown.columnar === null
      ? await sampleText(request, unknown, readers)
      : await sampleColumns(request, unknown, unknown.columnar, readers);
  return judgeSample(sample);
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
    // A column without a value in the sample has no key in its lines.
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
  const encoding = guessEncoding(head, complete);
  const isWide = encoding.value.startsWith('utf-16');
  if (!isWide) refuseForeignContent(head);
  const text = await asUtf8(isWide && !complete ? head.subarray(0, head.length & ~1) : head, encoding.value);
  const json = jsonFormat(text);
  const limits = { rows: INSPECTED_ROWS, bytes: complete ? Infinity : Math.max(1, head.length - MARGIN) };
  const common = { request, readers, compression, encoding };
  if (json) {
    const records = await sampleRecords(oneChunk(text), { format: json.value }, limits);
    const whole = complete && records.complete;
    const table = jsonCells(records);
    return { ...common, format: json, shape: null, delimiter: 'comma', records, table, whole, end: null };
  }
  const shape = shapeOf(
    text,
    readers.map(({ name }) => name),
  );
  if (!shape) throw new SluiceError('wrong_delimiter', NO_DELIMITER);
  const delimiter = shape.delimiter.value;
  const width = (shape.header ?? shape.first ?? []).length;
  const names = shape.header === null ? Array.from({ length: width }, (_, i) => `field_${i + 1}`) : null;
  const input: InputFormat = {
    format: 'delimited',
    delimiter: DELIMITERS[delimiter],
    ...(names
      ? { declared: { columns: { names, rename: {}, ignore: [], constants: {} }, texts: null, encoding: null } }
      : {}),
  };
  const records = await sampleRecords(oneChunk(withoutLines(text, shape.skip)), input, limits);
  const table = delimitedCells(records, DELIMITERS[delimiter], shape.header, width);
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
    delimiter,
    records,
    table,
    whole: complete && records.complete,
    end: await endOfText(unknown, text, encoding.value),
  };
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
  // The end has no byte order mark, so the order is that of the start.
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

/** The text after its first lines. */
function withoutLines(text: Buffer, lines: number): Buffer {
  let start = 0;
  for (let i = 0; i < lines; i++) {
    const at = text.indexOf(LF, start);
    if (at < 0) return text.subarray(text.length);
    start = at + 1;
  }
  return text.subarray(start);
}

/** The conclusions about a sample, before questions are asked about them. */
export interface Conclusions {
  sample: FileSample;
  /** Names without the spaces that `trim` removes; null: no header row. */
  names: readonly string[] | null;
  matches: readonly NameMatch[];
  /** For a file without a header row: the offsets at which the columns of the model fit. */
  offsets: readonly number[];
  misfit: ColumnReader | null;
  rules: FoundTextRules;
  after: LinesAfterTable | null;
  state: ReadingState;
  /** The records of the sample that the command would read. */
  records: SampledRecords;
  table: SampleTable;
}

function judgeSample(sample: FileSample): Inspection {
  const { readers, table } = sample;
  const columns = readers.map(({ name }) => name);
  const { names: fileNames } = table;
  const isWithoutHeader = fileNames === null;
  const cells = Array.from({ length: table.width }, (_, i) => table.rows.map((row) => row[i]));
  const offsets = isWithoutHeader ? compatibleOffsets(readers, cells) : [];
  const misfit =
    isWithoutHeader && offsets.length === 0 && table.width >= readers.length ? firstMisfit(readers, cells) : null;
  const matches = fileNames === null ? byPosition(columns, offsets) : matchNames(columns, fileNames);
  const needsTrim = matches.some(({ match }) => match === 'spaces');
  const first = rulesOf(sample, table, matches, needsTrim);
  const after = linesAfter(sample, first, matches);
  const shorter = after && !after.isDoubtful && sample.whole ? withoutLastRows(sample, after.records) : null;
  const kept = shorter ?? { records: sample.records, table };
  const rules = shorter ? rulesOf(sample, shorter.table, matches, needsTrim) : first;
  const names = fileNames !== null && rules.trim ? fileNames.map(withoutBlanks) : fileNames;
  const state = stateOf(sample, { names, matches: settled(matches, table), rules, after });
  const conclusions = {
    sample,
    names,
    matches: settled(matches, table),
    offsets,
    misfit,
    rules,
    after,
    state,
    ...kept,
  };
  return conclude(conclusions, (plan) => tried(conclusions, plan));
}

const byPosition = (columns: readonly string[], offsets: readonly number[]): NameMatch[] =>
  columns.map((column, i) => ({
    column,
    at: offsets.length === 1 ? i + offsets[0]! : null,
    match: offsets.length === 1 ? 'position' : 'missing',
    confidence: 'medium',
    candidates: [],
  }));

/** Settles candidates with the same values in every row: then it does not matter which of them is read. */
function settled(matches: readonly NameMatch[], { names, rows }: SampleTable): NameMatch[] {
  return matches.map((match) => {
    const [first, ...others] = match.candidates;
    if (match.match !== 'open' || first === undefined || others.length === 0 || rows.length === 0) return match;
    const isSame = others.every((at) => names?.[at] === names?.[first] && rows.every((row) => row[at] === row[first]));
    return isSame ? { ...match, at: first, match: 'exact', confidence: 'medium', candidates: [] } : match;
  });
}

function rulesOf(
  { readers, request }: FileSample,
  table: SampleTable,
  matches: readonly NameMatch[],
  needsTrim: boolean,
): FoundTextRules {
  const columns = matches.flatMap(({ at }, i) =>
    at === null ? [] : [{ reader: readers[i]!, texts: textsOf(table, at) }],
  );
  return findTextRules(columns, request.model.manifest, needsTrim);
}

function linesAfter(
  { table, end, shape, whole, delimiter, readers }: FileSample,
  rules: FoundTextRules,
  matches: readonly NameMatch[],
): LinesAfterTable | null {
  if (!shape || !end || table.rows.length < 2) return null;
  const numbers = new Set(matches.flatMap(({ at }, i) => (readers[i]!.kind === 'number' && at !== null ? [at] : [])));
  return findLinesAfter({
    end,
    delimiter: DELIMITERS[delimiter],
    width: table.width,
    rows: whole ? table.rows.slice(0, -1) : table.rows,
    complete: whole,
    numberIn: (column, text) => (numbers.has(column) ? numberIn(text.trim(), rules.notation.value) : Number.NaN),
  });
}

function withoutLastRows({ records, table }: FileSample, count: number): Pick<Conclusions, 'records' | 'table'> {
  let kept = records;
  for (let i = 0; i < count && kept.count > 0; i++) kept = withoutLast(kept);
  const lost = records.count - kept.count;
  return { records: kept, table: { ...table, rows: table.rows.slice(0, table.rows.length - lost) } };
}

function stateOf(
  { request, format, compression, delimiter, encoding, shape, table }: FileSample,
  found: Pick<Conclusions, 'names' | 'matches' | 'rules' | 'after'>,
): ReadingState {
  const { file, modelName, registry, output } = request;
  const { rules, after } = found;
  return {
    base: {
      file,
      model: modelName,
      registry,
      output: output ?? `${namedFormat(file).stem}.scored.csv`,
      format: format.value,
      compression,
      delimiter,
      encoding: encoding?.value ?? 'utf-8',
    },
    names: found.names,
    width: table.width,
    assigned: new Map(found.matches.flatMap(({ column, at }) => (at === null ? [] : [[column, at] as const]))),
    skip: shape?.skip ?? 0,
    cut: after && !after.isDoubtful ? after.lines : 0,
    notation: rules.notation.value,
    trim: rules.trim,
    nullValues: rules.missingWords.map(({ text }) => text),
  };
}

/** Decodes the sample as the command of the plan would. */
function tried({ sample, records }: Conclusions, plan: ReadingPlan): Trial {
  const source = { ...declaringSource(plan), ...(plan.names === null ? {} : { header: false }) };
  const format = plan.format;
  const end = endpoint('-', { format, delimiter: plan.delimiter, ...source }, 'csv');
  refuseContradictions({ type: 'file', path: plan.file, ...source } as Source, format, []);
  const declared = declarationOf(source);
  const input: InputFormat = { ...inputFormatOf(end), ...(declared ? { declared } : {}) };
  const isHeaderUnused = plan.names !== null && records.header !== null;
  const read = isHeaderUnused ? { ...records, header: null } : records;
  return trialDecode(sample.request.model, read, input, sample.typed);
}
