// What to say of a header row that does not fit. A cell of it is a value of somebody's until it looks like a column of the model.
import { didYouMean, nearest } from '../../core/did-you-mean.ts';
import { type ErrorCode, type ErrorDetail, SluiceError } from '../../core/errors.ts';
import { withoutBlanks } from '../../core/input-declaration.ts';

/** Faults told in words, and in the list of an answer. */
const MOST_TOLD = 20;
const MOST_LISTED = 100;
/** Cells that missing columns are compared with: what is behind them is not worth the time. */
const MOST_COMPARED = 200;

interface HeaderNames {
  /** What the cells of the row mean, in the order of the file; null: not looked at. */
  names: readonly (string | null)[];
  /** Columns of the model that have to be there, … */
  wanted: readonly string[];
  /** … and those that must not, because they were declared to be the same in all rows. */
  constants: readonly string[];
  outcome: string | null;
  /** Columns that were asked for besides, in the order in which they were. */
  passthrough: readonly string[];
}

/** Every fault of a header row, one entry each; names no cell that is no column of the model nor looks like one. */
export function headerFaults({ names, wanted, constants, outcome, passthrough }: HeaderNames): ErrorDetail[] {
  const model = new Set(wanted);
  const there = new Set(names);
  const passed = new Set(passthrough);
  const faults: ErrorDetail[] = [];
  const add = (code: ErrorDetail['code'], column: string | null, message: string): void => {
    faults.push({ code, message, ...(column === null ? {} : { column }) });
  };
  const seen = new Set<string>();
  for (const [i, name] of names.entries()) {
    if (name === null) continue;
    if (!seen.has(name)) seen.add(name);
    else if (model.has(name)) add('duplicate_column', name, `column ${name} is there twice`);
    else if (name !== '') add('duplicate_column', null, `column ${i + 1} of the header has the name of another`);
  }
  const missing = wanted.filter((name) => !there.has(name));
  if (missing.length > 0) {
    const others = names.filter((n) => n !== null && !model.has(n) && n !== outcome && n !== '') as string[];
    const alike = new Map(others.map((n) => [simplified(n), n]));
    const near = others.slice(0, MOST_COMPARED);
    for (const name of missing) {
      const told = faults.length < MOST_TOLD;
      const like = alike.get(simplified(name)) ?? (told ? nearest(name, near, Math.floor(name.length / 4)) : null);
      add('missing_column', name, `column ${name} is missing${like === null ? '' : likeness(name, like)}`);
    }
  }
  const told = new Set<string>();
  const fixed = new Set(constants);
  for (const [i, name] of names.entries()) {
    if (name === null || model.has(name) || told.has(name)) continue;
    told.add(name);
    if (fixed.has(name)) add('unexpected_column', name, `column ${name}: ${CONSTANT_GIVEN}`);
    else if (name === '') {
      const last = i === names.length - 1;
      const message = last
        ? 'the header row ends with a delimiter: its last column has no name'
        : `column ${i + 1} of the header has no name`;
      if (!passed.has(name)) add('unexpected_column', null, message);
    } else if (name === outcome && !passed.has(name)) {
      add('outcome_present', name, `column ${name} is the outcome the model predicts`);
    } else if (!passed.has(name)) {
      const message = `column ${i + 1} of the header is not one of the model; name it in passthrough to echo it`;
      add('unexpected_column', null, message);
    }
  }
  for (const [i, name] of passthrough.entries()) {
    if (!there.has(name)) add('missing_column', null, `passthrough column ${i + 1} is not in the header`);
  }
  return faults;
}

/** A cell that a column may be meant by, with what helps if it is. */
const likeness = (name: string, like: string): string =>
  withoutBlanks(like) === name ? ' (there is one with blanks around it: declare trim)' : didYouMean(like, [like]);

/** The faults in one line, and as many of them as an answer lists. */
function describeFaults(faults: readonly ErrorDetail[]): { message: string; details: ErrorDetail[] } {
  const told = faults.slice(0, MOST_TOLD).map((f) => f.message);
  const left = faults.length - told.length;
  const advice = declarations(faults);
  if (advice !== null) told.push(advice);
  if (left > 0) told.push(`and ${left} more`);
  return { message: told.join('; '), details: faults.slice(0, MOST_LISTED) };
}

/** @throws SluiceError of this code that names all faults, if there are any */
export function refuseFaults(code: ErrorCode, faults: readonly ErrorDetail[]): void {
  if (faults.length === 0) return;
  const { message, details } = describeFaults(faults);
  throw new SluiceError(code, message, { details });
}

/** What can be declared where names do not fit; null: nothing that helps. */
function declarations(faults: readonly ErrorDetail[]): string | null {
  const codes = new Set(faults.map((f) => f.code));
  const may = [
    ...(codes.has('missing_column') ? ['other names (rename)', 'columns that are not there (constants)'] : []),
    ...(codes.has('unexpected_column') || codes.has('outcome_present') ? ['columns nobody looks at (ignore)'] : []),
  ];
  return may.length === 0 ? null : `what is meant so can be declared: ${may.join(', ')}`;
}

/** What a first row is that has no column of the model and none like it; null if it may be a header with faults. */
export function noHeader({ names, wanted }: Record<'names' | 'wanted', readonly string[]>): string | null {
  const simple = new Set(names.map(simplified));
  if (wanted.length === 0 || wanted.some((w) => simple.has(simplified(w)))) return null;
  return `row 1 is no header: 0 of ${count(wanted.length, 'column')} found; the file looks like ${look(names)}`;
}

const NO_HEADER = 'the names of its columns (header: false)';
const UNNAMED = `put one in front, or declare ${NO_HEADER}`;

function look(names: readonly string[]): string {
  const first = names[0] ?? '';
  if (first.startsWith('{')) return 'NDJSON: give it as ndjson';
  if (first.startsWith('[')) return 'JSON: give it as json';
  if (names.some((n) => /^[+-]?\d/.test(n))) return `one without a header row: ${UNNAMED}`;
  if (names.length === 1) return 'one with another delimiter, or no table';
  return `one of other columns, or without a header row: declare rename, or ${NO_HEADER}`;
}

export const CONSTANT_GIVEN = 'the column is declared as a constant, and the input has it, too';

/** A name as people vary it: case, blanks, underscores, dashes, dots and quotes do not count. */
export const simplified = (name: string): string =>
  name
    .slice(0, 256)
    .toLowerCase()
    .replace(/[\s_\-."'\u{feff}]/gu, '');

/** `1 field`, `2 fields`. */
const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

/** Why a record with another number of fields than the header is rejected. */
export const columnCountMessage = (fields: number, wanted: number): string =>
  `${count(fields, 'field')} where the header has ${wanted}`;
