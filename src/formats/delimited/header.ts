// Reads the header row and matches it to the columns of a model.
// Error messages quote a header cell only if it looks like a column name.
import { isUtf8 } from 'node:buffer';
import { QUOTE } from '../../core/ascii.ts';
import { didYouMean, nearest } from '../../core/did-you-mean.ts';
import { type ErrorCode, type ErrorDetail, SluiceError, withTerminalText } from '../../core/errors.ts';
import { refuseForeignContent } from '../../core/file-format.ts';
import { type InputDeclaration, withoutBlanks } from '../../core/input-declaration.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { notTextMessage } from '../decode/decoder.ts';
import { columnsOfInput, InputNames } from '../decode/input-names.ts';
import { type DelimitedLayout, parseCsv } from './csv-parse-decoder.ts';

/** Maximum number of errors in the message. `MOST_LISTED`: maximum number in the list of a response. */
const MOST_TOLD = 20;
const MOST_LISTED = 100;
/** Maximum number of header cells that are compared with missing columns, which limits the time. */
const MOST_COMPARED = 200;

interface HeaderNames {
  /** Where the names are from, for messages. */
  of: 'header' | 'table';
  /** The names of the header cells in file order; null: the column is ignored. */
  names: readonly (string | null)[];
  /** Model columns that must be present. */
  wanted: readonly string[];
  /** Model columns that must be absent, because they are declared as constants. */
  constants: readonly string[];
  outcome: string | null;
  /** Requested passthrough columns, in their requested order. */
  passthrough: readonly string[];
}

/**
 * Returns all errors of a header row. Never includes a cell that is neither a model column nor similar to one, because
 * the cell may be a value. If the row has most of the model's columns, it is a header, and the terminal text then
 * includes such names too.
 */
export function headerFaults({ of, names, wanted, constants, outcome, passthrough }: HeaderNames): ErrorDetail[] {
  const model = new Set(wanted);
  const there = new Set(names);
  const passed = new Set(passthrough);
  const faults: ErrorDetail[] = [];
  const add = (code: ErrorDetail['code'], column: string | null, message: string, suggestion?: string): void => {
    faults.push({ code, message, ...(column === null ? {} : { column }), ...(suggestion ? { suggestion } : {}) });
  };
  const isHeader = hasMostColumns(names, wanted);
  /** Adds an error about an unknown column. Only the terminal text names the column. */
  const addUnknown = (code: ErrorDetail['code'], [name, position]: [string, string], what: string): void => {
    const detail = { code, message: `${position} ${what}` };
    faults.push(isHeader ? namedAtTerminal(detail, name, what) : detail);
  };
  const seen = new Set<string>();
  for (const [i, name] of names.entries()) {
    if (name === null) continue;
    if (!seen.has(name)) seen.add(name);
    else if (model.has(name)) add('duplicate_column', name, `column ${name} occurs twice`);
    else if (name !== '')
      addUnknown('duplicate_column', [name, `column ${i + 1} of the ${of}`], 'has the name of another');
  }
  const missing = wanted.filter((name) => !there.has(name));
  if (missing.length > 0) {
    const others = names.filter((n) => n !== null && !model.has(n) && n !== outcome && n !== '') as string[];
    const alike = new Map(others.map((n) => [simplified(n), n]));
    const near = others.slice(0, MOST_COMPARED);
    for (const name of missing) {
      const told = faults.length < MOST_TOLD;
      const like = alike.get(simplified(name)) ?? (told ? nearest(name, near, Math.floor(name.length / 4)) : null);
      add(
        'missing_column',
        name,
        `column ${name} is missing${like === null ? '' : likeness(name, like)}`,
        like ?? undefined,
      );
    }
  }
  const told = new Set<string>();
  const fixed = new Set(constants);
  for (const [i, name] of names.entries()) {
    if (name === null || model.has(name) || told.has(name)) continue;
    told.add(name);
    if (fixed.has(name)) add('unexpected_column', name, `column ${name}: ${CONSTANT_GIVEN}`);
    else if (name === '') {
      const last = of === 'header' && i === names.length - 1;
      const message = last
        ? 'the header row ends with a delimiter: its last column has no name'
        : `column ${i + 1} of the ${of} has no name`;
      if (!passed.has(name)) add('unexpected_column', null, message);
    } else if (name === outcome && !passed.has(name)) {
      add('outcome_present', name, `column ${name} is the outcome the model predicts`);
    } else if (!passed.has(name)) {
      addUnknown('unexpected_column', [name, `column ${i + 1} of the ${of}`], 'is not a model column');
    }
  }
  for (const [i, name] of passthrough.entries()) {
    if (!there.has(name)) faults.push(missingPassthrough(name, i, `is not in the ${of}`));
  }
  return faults;
}

/** Whether a row has at least half of the model's columns, apart from differences in style. Rows of values do not. */
function hasMostColumns(names: readonly (string | null)[], wanted: readonly string[]): boolean {
  const simple = new Set(names.map((name) => (name === null ? null : simplified(name))));
  const found = wanted.filter((name) => simple.has(simplified(name))).length;
  return found > 0 && 2 * found >= wanted.length;
}

/** Matches names that are safe to print to a terminal, because they have no control characters. */
const PRINTABLE = /^[\p{L}_][\p{L}\p{M}\p{N}_ .()%/-]{0,63}$/u;

/** Adds the terminal text `column NAME …` to a detail, if the name is safe to print. */
export const namedAtTerminal = (detail: ErrorDetail, name: string, what: string): ErrorDetail =>
  PRINTABLE.test(name) ? withTerminalText(detail, `column ${name} ${what}`) : detail;

/** The error for a requested passthrough column that the input lacks. */
function missingPassthrough(name: string, i: number, what: string): ErrorDetail {
  const detail: ErrorDetail = { code: 'missing_column', message: `passthrough column ${i + 1} ${what}` };
  return PRINTABLE.test(name) ? withTerminalText(detail, `passthrough column ${name} ${what}`) : detail;
}

/** Suggests a similar header cell for a missing column, or a declaration that makes the cell match. */
const likeness = (name: string, like: string): string =>
  withoutBlanks(like) === name
    ? ' (one matches except for surrounding spaces: declare trim)'
    : didYouMean(like, [like]);

/** The errors in one line, and the errors that a response lists. */
function describeFaults(faults: readonly ErrorDetail[]): { message: string; details: ErrorDetail[] } {
  const told = faults.slice(0, MOST_TOLD).map((f) => f.message);
  const left = faults.length - told.length;
  if (left > 0) told.push(`and ${left} more`);
  return { message: told.join('; '), details: faults.slice(0, MOST_LISTED) };
}

/** Throws if `faults` is not empty. @throws SluiceError with this code; its message lists the errors */
export function refuseFaults(code: ErrorCode, faults: readonly ErrorDetail[]): void {
  if (faults.length === 0) return;
  const { message, details } = describeFaults(faults);
  throw new SluiceError(code, message, {
    details,
    ...(code === 'header_mismatch' ? { logMessage: forLog(faults) } : {}),
  });
}

/** The errors for the log: the names of missing model columns, but none of the input. */
function forLog(faults: readonly ErrorDetail[]): string {
  const ofModel = faults.flatMap(({ code, column }) => (code === 'missing_column' && column ? [column] : []));
  const names = [...ofModel.slice(0, MOST_TOLD), ...(ofModel.length > MOST_TOLD ? ['…'] : [])].join(', ');
  const missing = ofModel.length === 0 ? [] : [`${count(ofModel.length, 'column')} missing (${names})`];
  const others = faults.length - ofModel.length;
  const more = others === 0 ? [] : [`${count(others, 'other difference')}`];
  return `The header row does not match the columns of the model: ${[...missing, ...more].join(', ')}.`;
}

/**
 * The message for a first row that is not a header: no cell is similar to a model column. null: the row may be a header
 * with errors.
 */
function noHeader({ names, wanted }: Record<'names' | 'wanted', readonly string[]>): string | null {
  const simple = new Set(names.map(simplified));
  if (wanted.length === 0 || wanted.some((w) => simple.has(simplified(w)))) return null;
  return `row 1 is not a header: 0 of ${count(wanted.length, 'column')} found; the file looks like ${look(names)}`;
}

function look(names: readonly string[]): string {
  const first = names[0] ?? '';
  if (first.startsWith('{')) return 'NDJSON: use format ndjson';
  if (first.startsWith('[')) return 'JSON: use format json';
  if (names.some((n) => /^[+-]?\d/.test(n))) return 'data without a header row';
  if (names.length === 1) return 'a table with another delimiter, or not a table';
  return 'a table with other columns or without a header row';
}

export const CONSTANT_GIVEN = 'the column is declared as a constant, but the input contains it';

/** Normalizes a name: removes differences in case, spaces, underscores, dashes, dots and quotes. */
export const simplified = (name: string): string =>
  name
    .slice(0, 256)
    .toLowerCase()
    .replace(/[\s_\-."'\u{feff}]/gu, '');

/** Formats a count with its noun: `1 field`, `2 fields`. */
const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

export const DELIMITERS = { tab: '\t', comma: ',', semicolon: ';', pipe: '|' } as const;
export type DelimiterName = keyof typeof DELIMITERS;

export interface FittedHeader {
  layout: DelimitedLayout;
  /** Names of the passthrough columns in declared order; for `*` in file order. */
  passthrough: string[];
}

export interface FitOptions {
  manifest: Manifest;
  delimiter: string;
  /** Columns outside the model to pass through; '*' means all of them. */
  passthrough: readonly string[] | '*';
  maxColumns: number;
  /** Declarations about the input. Default: none. */
  declared?: InputDeclaration | undefined;
}

/** Maximum size of a header, in bytes, for which other delimiters are tried. */
const GUESSED_BYTES = 64 * 1024;

/**
 * Splits the bytes of a header row, without its line break, into cells. `encoding`: the declared encoding.
 * @throws SluiceError invalid_encoding | header_mismatch
 */
export function splitHeader(bytes: Buffer, delimiter: string, encoding?: string): string[] {
  if (!isUtf8(bytes)) throw new SluiceError('invalid_encoding', notTextMessage(encoding, 'the header row'));
  // Splitting blocks the event loop for 5 ms per megabyte. csv-parse would block it for 130 ms.
  if (bytes.length > 0 && !bytes.includes(QUOTE)) return bytes.toString('utf8').split(delimiter);
  try {
    const rows = parseCsv(bytes, { delimiter, record_delimiter: ['\r\n', '\n', '\r'], relax_quotes: true });
    return rows[0] ?? [];
  } catch (cause) {
    throw new SluiceError('header_mismatch', 'the header row breaks the quoting rules of RFC 4180', { cause });
  }
}

/**
 * Matches a header row with the columns of the model.
 * @throws SluiceError wrong_delimiter (with the delimiter the file seems to use) | header_mismatch (every error listed)
 */
export function fitHeader(bytes: Buffer, options: FitOptions): FittedHeader {
  const { delimiter } = options;
  refuseForeignContent(bytes);
  const cells = splitHeader(bytes, delimiter, options.declared?.encoding ?? undefined);
  refuseTooMany(cells, options);
  const fit = new Fit(options);
  const other = bytes.length > GUESSED_BYTES ? null : betterDelimiter(bytes, cells, fit, delimiter);
  if (other) {
    throw new SluiceError('wrong_delimiter', `the header row is delimited by ${other}, not by ${nameOf(delimiter)}`, {
      extra: { delimiter: other },
    });
  }
  return fit.layOut(cells);
}

/**
 * Matches declared names with the columns of the model, for an input without a header row.
 * @throws SluiceError header_mismatch (every error listed)
 */
export function fitNames(names: readonly string[], options: FitOptions): FittedHeader {
  refuseTooMany(names, options);
  return new Fit(options).layOut(names);
}

function refuseTooMany(cells: readonly string[], { maxColumns }: FitOptions): void {
  if (cells.length <= maxColumns) return;
  throw new SluiceError(
    'limit_exceeded',
    `the header row has ${cells.length} columns, more than the limit of ${maxColumns} (max_columns)`,
    {
      extra: { limit: 'columns', value: maxColumns, unit: 'columns' },
    },
  );
}

/** Matches the columns of a model with the names in an input. */
class Fit {
  /** Columns that the input must have. */
  readonly wanted: readonly string[];
  readonly #options: FitOptions;
  readonly #names: InputNames;
  readonly #used: ReadonlySet<string>;
  readonly #trim: boolean;

  constructor(options: FitOptions) {
    const { manifest, declared, passthrough } = options;
    this.#options = options;
    this.#names = new InputNames(declared?.columns ?? undefined);
    this.wanted = columnsOfInput(manifest.columns, this.#names).map((c) => c.name);
    this.#used = new Set([...manifest.columns.map((c) => c.name), ...(passthrough === '*' ? [] : passthrough)]);
    this.#trim = declared?.texts?.trim === true;
  }

  /** The model or output names of header cells; null: the column is ignored. */
  meanings(cells: readonly string[]): (string | null)[] {
    return this.#names.ofHeader(cells, this.#used, this.#trim);
  }

  /** @throws SluiceError header_mismatch */
  layOut(cells: readonly string[]): FittedHeader {
    const { manifest, delimiter, passthrough: echo, declared } = this.#options;
    const { wanted } = this;
    const names = this.meanings(cells);
    const model = new Set(manifest.columns.map((c) => c.name));
    const there = names.filter((n) => n !== null);
    const passed = echo === '*' ? there.filter((n) => !model.has(n) && n !== manifest.outcome) : echo;
    const constants = Object.keys(this.#names.constants);
    const faults = headerFaults({
      of: 'header',
      names,
      wanted,
      constants,
      outcome: manifest.outcome ?? null,
      passthrough: passed,
    });
    // A cell with the own name of a renamed column is another column. Formats with keys reject such a key, too.
    for (const [name, there] of this.#names.unmatched(cells, this.#trim)) {
      if (!names.includes(name)) continue;
      const which = model.has(name) ? `column ${name}` : 'a passthrough column';
      const message = `${which} is declared under another name, which is not in the header`;
      // Without `column`, the advice does not suggest a constant.
      faults.push(namedAtTerminal({ code: 'missing_column', message }, name, `is not in the header as ${there}`));
    }
    if (faults.length > 0) {
      const nothing = noHeader({ names: there, wanted });
      if (nothing) throw new SluiceError('header_mismatch', nothing, { logMessage: nothing });
      refuseFaults('header_mismatch', faults);
    }
    const at = new Map(names.map((name, i) => [name, i]));
    // Uses the declared order, never the order in the file, because columnar outputs are laid out before a header is
    // read.
    const passthrough = [...new Set(passed)];
    return {
      layout: {
        delimiter,
        fields: names.length,
        columns: wanted.map((n) => at.get(n)!),
        passthrough: passthrough.map((n) => at.get(n)!),
        ...(declared?.encoding ? { encoding: declared.encoding } : {}),
      },
      passthrough,
    };
  }
}

/** The name of a delimiter with which the header has more of the model's columns; null: there is none. */
function betterDelimiter(bytes: Buffer, cells: string[], fit: Fit, used: string): DelimiterName | null {
  const { wanted } = fit;
  const found = (header: string[]) => {
    const there = new Set(fit.meanings(header));
    return wanted.filter((n) => there.has(n)).length;
  };
  let best = found(cells);
  if (best === wanted.length) return null;
  let better: DelimiterName | null = null;
  for (const [name, delimiter] of Object.entries(DELIMITERS) as [DelimiterName, string][]) {
    if (delimiter === used) continue;
    let n = 0;
    try {
      n = found(splitHeader(bytes, delimiter));
    } catch {
      continue;
    }
    if (n > best) [best, better] = [n, name];
  }
  return better;
}

const nameOf = (delimiter: string): string =>
  Object.entries(DELIMITERS).find(([, d]) => d === delimiter)?.[0] ?? JSON.stringify(delimiter);
