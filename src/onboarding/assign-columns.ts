// Which training column feeds which input of the graph.
import type { SessionInput } from '../inference/evaluate/session.ts';
import type { InputSpec } from '../model/package/manifest.ts';
import type { RegisterOptions, Sources } from './draft.ts';
import { type EncodingFile, NO_ENCODING } from './encoding-file.ts';
import { type Findings, plural, refusal } from './findings.ts';
import type { TrainingTable } from './training-table.ts';

const INPUT_TYPES = new Set(['float32', 'float64', 'int64', 'int32', 'bool', 'string']);

/** The outcome column, or null. @throws SluiceError registration_refused when the one named is not in the table */
export function outcomeOf({ options, table, findings }: Sources): string | null {
  if (options.outcome !== undefined) {
    if (table.header.includes(options.outcome)) return options.outcome;
    throw refusal(`the training table has no outcome column ${options.outcome} (it has ${table.header.join(', ')})`);
  }
  if (!table.header.includes('ok')) {
    findings.info('The training table has no outcome column ok; --outcome names another.');
    return null;
  }
  findings.info('Outcome column: ok.');
  return 'ok';
}

/** Columns the encoding speaks of and the table does not have. @throws SluiceError registration_refused */
export function checkNames(encoding: EncodingFile, header: readonly string[]): void {
  for (const part of ['codes', 'missing', 'unseen', 'booleans'] as const) {
    const unknown = Object.keys(encoding[part]).filter((c) => c !== '*' && !header.includes(c));
    if (unknown.length > 0) {
      throw refusal(
        `--encoding names ${unknown.join(', ')} in ${part}, which the training table does not have (it has ${header.join(', ')})`,
      );
    }
  }
}

/** What the columns of one input are chosen from. */
interface Offer {
  readonly table: TrainingTable;
  readonly encoding: EncodingFile;
  readonly outcome: string | null;
  /** Columns that are neither outcome, index nor ignored. */
  readonly candidates: readonly string[];
  /** true: the graph has one input, which may be a matrix of all columns. */
  readonly sole: boolean;
  readonly findings: Findings;
}

/**
 * Assigns the columns of the training table to the inputs of the graph.
 * @throws SluiceError registration_refused when that cannot be known
 */
export function assignColumns(sources: Sources, outcome: string | null): InputSpec[] {
  const { options, table, probe, findings } = sources;
  const encoding = options.encoding ?? NO_ENCODING;
  const ignore = checkedIgnore(options, table);
  const named = new Set([...(encoding.order ?? []), ...Object.values(encoding.inputs ?? {}).flat()]);
  const index = table.header.filter((h) => isIndex(h, table) && !named.has(h));
  for (const h of index)
    findings.info(
      `The column ${h === '' ? 'without a name' : h} numbers the rows, as pandas writes its index; it is left out.`,
    );
  const taken = new Set([outcome, ...ignore, ...index]);
  const candidates = table.header.filter((h) => !taken.has(h));
  const { inputs } = probe.opened;
  const offer: Offer = { table, encoding, outcome, candidates, sole: inputs.length === 1, findings };
  const assigned = inputs.map((input) => assignInput(input, offer));
  const used = new Set(assigned.flatMap((i) => i.columns ?? [i.column!]));
  if (outcome !== null && used.has(outcome)) {
    throw refusal(`the model takes the outcome column ${outcome} as an input`);
  }
  const unused = candidates.filter((c) => !used.has(c));
  if (unused.length > 0) findings.info(`The model does not use ${unused.join(', ')}; applications are sent without.`);
  return assigned;
}

function checkedIgnore({ ignore = [] }: RegisterOptions, table: TrainingTable): readonly string[] {
  const unknown = ignore.find((name) => name !== '' && !table.header.includes(name));
  if (unknown === undefined) return ignore;
  throw refusal(
    `--ignore names ${unknown}, which the training table does not have (it has ${table.header.join(', ')})`,
  );
}

/** The columns of one input: those the encoding names, all of them for a sole matrix, else the one of the same name. */
function assignInput(input: SessionInput, offer: Offer): InputSpec {
  const { encoding, candidates } = offer;
  const base = { name: input.name, type: input.type as InputSpec['type'] };
  if (!INPUT_TYPES.has(input.type)) throw refusal(`input ${input.name} is ${input.type}`);
  const named = encoding.inputs?.[input.name];
  const columns = named ?? (offer.sole && input.width !== 1 ? (encoding.order ?? candidates) : null);
  if (columns) {
    checkMatrix(input, columns, offer);
    if (!named && !encoding.order) {
      offer.findings.assumed(
        `Input ${input.name} is one matrix of ${columns.length} columns without names; they are taken in the order of the training table.`,
      );
    }
    return columns.length === 1 && input.width === 1
      ? { ...base, column: columns[0]! }
      : { ...base, columns: [...columns] };
  }
  const column =
    candidates.find((c) => c === input.name) ?? candidates.find((c) => simplified(c) === simplified(input.name));
  if (column === undefined) {
    throw refusal(
      `no training column is called ${input.name}, as an input of the model is: say which columns feed it in --encoding, {"inputs": {"${input.name}": ["…"]}}`,
    );
  }
  return { ...base, column };
}

function checkMatrix(input: SessionInput, columns: readonly string[], offer: Offer): void {
  const unknown = columns.filter((c) => !offer.table.header.includes(c));
  if (unknown.length > 0) throw refusal(`the training table has no column ${unknown.join(', ')}`);
  if (input.width === null || input.width === columns.length) return;
  throw refusal(
    `input ${input.name} takes ${plural(input.width, 'column')}, the table offers ${columns.length} (${columns.join(', ')}): ${mismatch(columns, input.width, offer)}`,
  );
}

/** What to do about a table with another number of columns than the matrix. */
function mismatch(columns: readonly string[], width: number, { table, encoding, outcome }: Offer): string {
  if (columns.every((c) => /^[+-]?(\d+(\.\d*)?|\.\d+)?$|^(true|false)$/i.test(c)))
    return 'the first line looks like data, but it has to hold the names of the columns';
  if (columns.length < width) {
    return 'columns are missing: the table must have every column the model was trained on. If categories were one-hot encoded in Python, export the encoder together with the model as a pipeline';
  }
  const nameOutcome = outcome === null ? 'name the outcome among them with --outcome, ' : '';
  const texts = columns.filter((c) => table.profiles.get(c)!.texts > 0 && !Object.hasOwn(encoding.codes, c));
  const hint =
    texts.length > 0 ? ` (${texts.join(', ')} hold${texts.length === 1 ? 's' : ''} texts without codes)` : '';
  return `${nameOutcome}name those the model does not use with --ignore${hint}, or give their order in --encoding`;
}

/** The index that pandas' to_csv writes as a column of its own. */
function isIndex(name: string, table: TrainingTable): boolean {
  const p = table.profiles.get(name);
  return p !== undefined && /^$|^Unnamed: 0$/.test(name) && p.wholeNumbers === table.rows;
}

/** Exporters replace what is not a letter or digit in the name of an input. */
const simplified = (name: string): string => name.replace(/[^A-Za-z0-9]+/g, '_').toLowerCase();
