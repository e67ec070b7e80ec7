// Reads the header row and fits it to the columns of a model, or says in words what does not fit.
import { isUtf8 } from 'node:buffer';
import { parse } from 'csv-parse/sync';
import { QUOTE } from '../../core/ascii.ts';
import { didYouMean } from '../../core/did-you-mean.ts';
import { type ErrorDetail, SluiceError } from '../../core/errors.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import type { DelimitedLayout } from './csv-parse-decoder.ts';

export const DELIMITERS = { tab: '\t', comma: ',', semicolon: ';', pipe: '|' } as const;
export type DelimiterName = keyof typeof DELIMITERS;

export interface FittedHeader {
  layout: DelimitedLayout;
  /** Names of the passthrough columns, in the order of the file. */
  passthrough: string[];
}

export interface FitOptions {
  manifest: Manifest;
  delimiter: string;
  /** Columns outside the model to echo; '*' means all of them. */
  passthrough: readonly string[] | '*';
  maxColumns: number;
}

/** Names outside the model that are told one by one, and the characters told of each. */
const MOST_TOLD = 20;
const LONGEST_TOLD = 64;
/** Bytes of a header row in which another delimiter is looked for. */
const GUESSED_BYTES = 64 * 1024;

/**
 * Splits the bytes of a header row.
 * @throws SluiceError invalid_encoding | header_mismatch
 */
export function splitHeader(bytes: Buffer, delimiter: string): string[] {
  if (!isUtf8(bytes)) throw new SluiceError('invalid_encoding', 'the header row is not valid UTF-8');
  // A row of a megabyte holds up the event loop for 5 ms this way, and for 130 through csv-parse.
  if (bytes.length > 0 && !bytes.includes(QUOTE)) return bytes.toString('utf8').split(delimiter);
  try {
    const rows = parse(bytes, { delimiter, record_delimiter: ['\r\n', '\n', '\r'], relax_quotes: true }) as string[][];
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
  const { manifest, delimiter } = options;
  const names = splitHeader(bytes, delimiter);
  if (names.length > options.maxColumns) {
    throw new SluiceError('limit_exceeded', `the header row has more than ${options.maxColumns} columns`, {
      extra: { limit: 'columns', value: options.maxColumns, unit: 'columns' },
    });
  }
  const wanted = manifest.columns.map((c) => c.name);
  const other = bytes.length > GUESSED_BYTES ? null : betterDelimiter(bytes, names, wanted, delimiter);
  if (other) {
    throw new SluiceError('wrong_delimiter', `the header row is separated by ${other}, not by ${nameOf(delimiter)}`, {
      extra: { delimiter: other },
    });
  }
  const at = new Map<string, number>();
  names.forEach((name, i) => {
    if (!at.has(name)) at.set(name, i);
  });
  const model = new Set(wanted);
  const passed =
    options.passthrough === '*' ? names.filter((n) => !model.has(n) && n !== manifest.outcome) : options.passthrough;
  const details = faultsOf(names, { at, model, passed: new Set(passed), outcome: manifest.outcome });
  if (details.length > 0) {
    throw new SluiceError('header_mismatch', details.map((d) => d.message).join('; '), { details });
  }
  const passthrough = [...new Set(passed)].sort((a, b) => at.get(a)! - at.get(b)!);
  return {
    layout: {
      delimiter,
      fields: names.length,
      columns: wanted.map((n) => at.get(n)!),
      passthrough: passthrough.map((n) => at.get(n)!),
    },
    passthrough,
  };
}

interface Fit {
  /** Name → its first field. */
  at: ReadonlyMap<string, number>;
  model: ReadonlySet<string>;
  passed: ReadonlySet<string>;
  outcome: string | undefined;
}

/** All that does not fit. Names that are not of the model are told in part only: there can be thousands, of any length. */
function faultsOf(names: readonly string[], { at, model, passed, outcome }: Fit): ErrorDetail[] {
  const details: ErrorDetail[] = [];
  const told = new Map<ErrorDetail['code'], number>();
  const problem = (code: ErrorDetail['code'], column: string, message: (name: string) => string) => {
    if (!model.has(column)) {
      told.set(code, (told.get(code) ?? 0) + 1);
      if (told.get(code)! > MOST_TOLD) return;
    }
    const name = column.length > LONGEST_TOLD ? `${column.slice(0, LONGEST_TOLD)}…` : column;
    details.push({ code, column: name, message: message(name) });
  };
  names.forEach((name, i) => {
    if (at.get(name) !== i) problem('duplicate_column', name, (n) => `column ${n} is there twice`);
  });
  const others = [...at.keys()].filter((n) => !model.has(n));
  for (const name of model) {
    if (!at.has(name)) problem('missing_column', name, (n) => `column ${n} is missing${didYouMean(name, others)}`);
  }
  for (const name of others) {
    if (passed.has(name)) continue;
    if (name === outcome) problem('outcome_present', name, (n) => `column ${n} is the outcome the model predicts`);
    else
      problem(
        'unexpected_column',
        name,
        (n) => `column ${n} is not one of the model; name it in passthrough to echo it`,
      );
  }
  for (const name of passed) {
    if (!at.has(name)) problem('missing_column', name, (n) => `passthrough column ${n} is not in the header`);
  }
  for (const [code, count] of told) {
    if (count > MOST_TOLD) details.push({ code, message: `and ${count - MOST_TOLD} more names like that (${code})` });
  }
  return details;
}

/** The name of another delimiter that finds more of the model's columns in the header, if one does. */
function betterDelimiter(bytes: Buffer, names: string[], wanted: string[], used: string): DelimiterName | null {
  const found = (header: string[]) => {
    const there = new Set(header);
    return wanted.filter((n) => there.has(n)).length;
  };
  let best = found(names);
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
