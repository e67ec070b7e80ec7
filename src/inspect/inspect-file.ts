// Inspects an unfamiliar file: determines how the file must be read for a model, and tests this with a sample, without scoring it.
import { withoutBlanks } from '../core/input-declaration.ts';
import { DELIMITERS } from '../formats/delimited/header.ts';
import { namedFormat } from '../formats/formats.ts';
import { numberIn } from '../inference/encode/column-reader.ts';
import { refuseDeclared, refuseUnknownNames } from './check-declared.ts';
import { compatibleOffsets, firstMisfit } from './column-positions.ts';
import type { Conclusions } from './conclusions.ts';
import { type FileSample, type InspectRequest, readSample } from './file-sample.ts';
import type { Inspection } from './inspection.ts';
import { conclude } from './inspection-verdict.ts';
import { type KnownNames, matchNames, type NameMatch } from './match-names.ts';
import type { ReadingState } from './reading-plan.ts';
import { type SampleTable, textsOf, withoutLast } from './sample-records.ts';
import { isListable } from './score-command.ts';
import { type FoundTextRules, findTextRules, numericColumns, type SpareTexts } from './text-rules.ts';
import { findLinesAfter, type LinesAfterTable } from './total-line.ts';
import { tryPlan } from './try-plan.ts';

/** Inspects a file. @throws the errors of `readSample`; SluiceError usage */
export async function inspectFile(request: InspectRequest): Promise<Inspection> {
  refuseDeclared(request);
  return judgeSample(await readSample(request));
}

/** The names that the caller declared. */
function knownNames({ declared = {} }: InspectRequest): KnownNames {
  const { rename = {}, ignore = [], constants = {} } = declared.columns ?? {};
  return {
    rename: new Map(Object.entries(rename)),
    constants: new Set(Object.keys(constants)),
    ignored: new Set(ignore === '*' ? [] : ignore),
  };
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
  if (fileNames) refuseUnknownNames(sample.request, fileNames);
  const known = knownNames(sample.request);
  const matches = fileNames === null ? byPosition(columns, offsets) : matchNames(columns, fileNames, known);
  const needsTrim = matches.some(
    ({ match, column, at }) =>
      match === 'spaces' || (match === 'declared' && at !== null && fileNames?.[at] !== known.rename.get(column)),
  );
  const first = rulesOf(sample, table, matches, needsTrim);
  const after = linesAfter(sample, first, matches);
  const shorter = after && !after.isDoubtful && sample.whole ? withoutLastRows(sample, after.records) : null;
  const kept = shorter ?? { records: sample.records, table };
  const rules = shorter ? rulesOf(sample, shorter.table, matches, needsTrim) : first;
  const names = fileNames !== null && rules.trim ? fileNames.map(withoutBlanks) : fileNames;
  const found = { names, matches: settled(matches, table), rules, after };
  const conclusions = { sample, ...found, offsets, misfit, state: stateOf(sample, found), ...kept };
  return conclude(conclusions, (plan) => tryPlan(conclusions, plan));
}

const byPosition = (columns: readonly string[], offsets: readonly number[]): NameMatch[] =>
  columns.map((column, i) => ({
    column,
    at: offsets.length === 1 ? i + offsets[0]! : null,
    match: offsets.length === 1 ? 'position' : 'missing',
    confidence: 'medium',
    candidates: [],
  }));

/**
 * If all candidates of a column have the same values in every row, assigns the first one, because it does not matter
 * which of them is read.
 */
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
  const { declared = {}, model } = request;
  const known = { ...declared, trim: declared.trim === true || needsTrim };
  return findTextRules(columns, spareTexts(table, matches), model.manifest, known);
}

/**
 * Input columns with texts that are not assigned to a model column. Empty if every model column has an input column.
 */
function spareTexts(table: SampleTable, matches: readonly NameMatch[]): (SpareTexts & { at: number })[] {
  if (matches.every(({ at }) => at !== null)) return [];
  const used = new Set(matches.map(({ at }) => at));
  return Array.from({ length: table.width }, (_, at) => at)
    .filter((at) => !used.has(at))
    .map((at) => ({ at, name: table.names?.[at] || `field ${at + 1}`, texts: textsOf(table, at) }));
}

function linesAfter(
  { table, end, shape, whole, delimiter, readers }: FileSample,
  rules: FoundTextRules,
  matches: readonly NameMatch[],
): LinesAfterTable | null {
  if (!shape || !end || table.rows.length < 2) return null;
  const numbers = new Set(matches.flatMap(({ at }, i) => (readers[i]!.kind === 'number' && at !== null ? [at] : [])));
  for (const column of spareTexts(table, matches)) if (numericColumns([column]).length > 0) numbers.add(column.at);
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

/**
 * How to exclude lines after the table that are certainly not applications. A single line is declared by its first
 * field, if a flag can contain this field. Otherwise the lines are removed.
 */
function endOf(after: LinesAfterTable | null): Pick<ReadingState, 'cut' | 'trailer'> {
  if (!after || after.isDoubtful) return { cut: 0, trailer: null };
  const { marker, lines } = after;
  const isDeclarable = marker !== null && !marker.startsWith('-') && isListable(marker);
  return isDeclarable ? { cut: 0, trailer: marker } : { cut: lines, trailer: null };
}

function stateOf(sample: FileSample, found: Pick<Conclusions, 'names' | 'matches' | 'rules' | 'after'>): ReadingState {
  const { request, format, compression, delimiter, encoding, shape, table } = sample;
  const { file, modelName, registry, output, declared = {} } = request;
  const { names: fields = null, ignore, constants = {} } = declared.columns ?? {};
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
      constants,
    },
    fields,
    ignoresUnused: ignore === '*',
    names: found.names,
    width: table.width,
    assigned: new Map(found.matches.flatMap(({ column, at }) => (at === null ? [] : [[column, at] as const]))),
    skip: shape?.skip ?? 0,
    headerLines: sample.headerLines,
    isHeaderUnfit: sample.isHeaderUnfit,
    ...endOf(after),
    notation: rules.notation.value,
    trim: rules.trim,
    nullValues: [...(declared.null_values ?? []), ...rules.missingWords.map(({ text }) => text)],
  };
}
