// Reads the header row and fits it to the columns of a model, or says in words what does not fit.
import { isUtf8 } from 'node:buffer';
import { QUOTE } from '../../core/ascii.ts';
import { SluiceError } from '../../core/errors.ts';
import { refuseForeignContent } from '../../core/foreign-content.ts';
import type { InputDeclaration } from '../../core/input-declaration.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { parseCsv } from './csv-parse.ts';
import type { DelimitedLayout } from './csv-parse-decoder.ts';
import { notTextMessage } from './decoder.ts';
import { headerFaults, noHeader, refuseFaults } from './header-faults.ts';
import { columnsOfInput, InputNames } from './input-names.ts';

export const DELIMITERS = { tab: '\t', comma: ',', semicolon: ';', pipe: '|' } as const;
export type DelimiterName = keyof typeof DELIMITERS;

export interface FittedHeader {
  layout: DelimitedLayout;
  /** Names of the passthrough columns in the order in which they were declared; for `*` in the order of the file. */
  passthrough: string[];
}

export interface FitOptions {
  manifest: Manifest;
  delimiter: string;
  /** Columns outside the model to echo; '*' means all of them. */
  passthrough: readonly string[] | '*';
  maxColumns: number;
  /** What was declared of the input. Default: nothing. */
  declared?: InputDeclaration | undefined;
}

/** Bytes of a header row in which another delimiter is looked for. */
const GUESSED_BYTES = 64 * 1024;

/**
 * Splits the bytes of a header row, which end before its line end. `encoding`: the one that was declared.
 * @throws SluiceError invalid_encoding | header_mismatch
 */
export function splitHeader(bytes: Buffer, delimiter: string, encoding?: string): string[] {
  if (!isUtf8(bytes)) throw new SluiceError('invalid_encoding', notTextMessage(encoding, 'the header row'));
  // A row of a megabyte holds up the event loop for 5 ms this way, and for 130 through csv-parse.
  if (bytes.length > 0 && !bytes.includes(QUOTE)) return bytes.toString('utf8').split(delimiter);
  try {
    const rows = parseCsv(bytes, { delimiter, record_delimiter: ['\r\n', '\n', '\r'], relax_quotes: true });
    return rows[0] ?? [];
  } catch (cause) {
    throw new SluiceError('header_mismatch', 'the header row breaks the quoting rules of RFC 4180', { cause });
  }
}

/**
 * Fits a header row to the model.
 * @throws SluiceError wrong_delimiter (with the delimiter the file seems to use) | header_mismatch (every fault listed)
 */
export function fitHeader(bytes: Buffer, options: FitOptions): FittedHeader {
  const { delimiter } = options;
  refuseForeignContent(bytes);
  const cells = splitHeader(bytes, delimiter, options.declared?.encoding ?? undefined);
  refuseTooMany(cells, options);
  const fit = new Fit(options);
  const other = bytes.length > GUESSED_BYTES ? null : betterDelimiter(bytes, cells, fit, delimiter);
  if (other) {
    throw new SluiceError('wrong_delimiter', `the header row is separated by ${other}, not by ${nameOf(delimiter)}`, {
      extra: { delimiter: other },
    });
  }
  return fit.layOut(cells);
}

/**
 * Fits declared names to the model, those of an input without a header row.
 * @throws SluiceError header_mismatch (every fault listed)
 */
export function fitNames(names: readonly string[], options: FitOptions): FittedHeader {
  refuseTooMany(names, options);
  return new Fit(options).layOut(names);
}

function refuseTooMany(cells: readonly string[], { maxColumns }: FitOptions): void {
  if (cells.length <= maxColumns) return;
  throw new SluiceError('limit_exceeded', `the header row has more than ${maxColumns} columns`, {
    extra: { limit: 'columns', value: maxColumns, unit: 'columns' },
  });
}

/** The columns of a model, and how the input names them. */
class Fit {
  /** Columns that the input has to have. */
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

  /** What the cells of a header row mean; null: not looked at. */
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
    const faults = headerFaults({ names, wanted, constants, outcome: manifest.outcome ?? null, passthrough: passed });
    if (faults.length > 0) {
      const nothing = noHeader({ names: there, wanted });
      if (nothing) throw new SluiceError('header_mismatch', nothing);
      refuseFaults('header_mismatch', faults);
    }
    const at = new Map(names.map((name, i) => [name, i]));
    // The declared order, never that of the file: outputs of columns are laid out before a header has been read.
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

/** The name of another delimiter that finds more of the model's columns in the header, if one does. */
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
