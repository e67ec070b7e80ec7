// Reads the header row and fits it to the columns of a model, or says in words what does not fit.
import { isUtf8 } from 'node:buffer';
import { QUOTE } from '../../core/ascii.ts';
import { SluiceError } from '../../core/errors.ts';
import { refuseForeignContent } from '../../core/foreign-content.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { parseCsv } from './csv-parse.ts';
import type { DelimitedLayout } from './csv-parse-decoder.ts';
import { describeFaults, headerFaults, noHeader } from './header-faults.ts';

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

/** Bytes of a header row in which another delimiter is looked for. */
const GUESSED_BYTES = 64 * 1024;

/**
 * Splits the bytes of a header row, which end before its line end.
 * @throws SluiceError invalid_encoding | header_mismatch
 */
export function splitHeader(bytes: Buffer, delimiter: string): string[] {
  if (!isUtf8(bytes)) throw new SluiceError('invalid_encoding', 'the header row is not valid UTF-8');
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
  const { manifest, delimiter } = options;
  refuseForeignContent(bytes);
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
  const model = new Set(wanted);
  const passed =
    options.passthrough === '*' ? names.filter((n) => !model.has(n) && n !== manifest.outcome) : options.passthrough;
  const faults = headerFaults({ names, wanted, outcome: manifest.outcome ?? null, passthrough: passed });
  if (faults.length > 0) {
    const nothing = noHeader({ names, wanted });
    if (nothing) throw new SluiceError('header_mismatch', nothing);
    const { message, details } = describeFaults(faults);
    throw new SluiceError('header_mismatch', message, { details });
  }
  const at = new Map(names.map((name, i) => [name, i]));
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
