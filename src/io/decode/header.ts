// Reads the header row and fits it to the columns of a model, or says in words what does not fit.
import { isUtf8 } from 'node:buffer';
import { parse } from 'csv-parse/sync';
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

/**
 * Splits the bytes of a header row.
 * @throws SluiceError invalid_encoding | header_mismatch
 */
export function splitHeader(bytes: Buffer, delimiter: string): string[] {
  if (!isUtf8(bytes)) throw new SluiceError('invalid_encoding', 'the header row is not valid UTF-8');
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
  const other = betterDelimiter(bytes, names, wanted, delimiter);
  if (other) {
    throw new SluiceError('wrong_delimiter', `the header row is separated by ${other}, not by ${nameOf(delimiter)}`, {
      extra: { delimiter: other },
    });
  }
  const details: ErrorDetail[] = [];
  const at = new Map<string, number>();
  const problem = (code: ErrorDetail['code'], column: string, message: string) =>
    details.push({ code, column, message });
  names.forEach((name, i) => {
    if (at.has(name)) problem('duplicate_column', name, `column ${name} is there twice`);
    else at.set(name, i);
  });
  const model = new Set(wanted);
  const passed =
    options.passthrough === '*' ? names.filter((n) => !model.has(n) && n !== manifest.outcome) : options.passthrough;
  for (const name of wanted) {
    if (!at.has(name))
      problem(
        'missing_column',
        name,
        `column ${name} is missing${didYouMean(
          name,
          names.filter((n) => !model.has(n)),
        )}`,
      );
  }
  for (const name of at.keys()) {
    if (model.has(name) || passed.includes(name)) continue;
    if (name === manifest.outcome) problem('outcome_present', name, `column ${name} is the outcome the model predicts`);
    else
      problem('unexpected_column', name, `column ${name} is not one of the model; name it in passthrough to echo it`);
  }
  for (const name of passed) {
    if (!at.has(name)) problem('missing_column', name, `passthrough column ${name} is not in the header`);
  }
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

/** The name of another delimiter that finds more of the model's columns in the header, if one does. */
function betterDelimiter(bytes: Buffer, names: string[], wanted: string[], used: string): DelimiterName | null {
  const found = (header: string[]) => wanted.filter((n) => header.includes(n)).length;
  let best = found(names);
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
