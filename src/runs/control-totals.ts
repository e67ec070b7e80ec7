// Control totals: row counts and checksums from the sender, compared with the input before its output is published.
import { createHash } from 'node:crypto';
import type { FileSource } from '../connectors/file/file-options.ts';
import { storedBytes, storedSize } from '../connectors/stored-bytes.ts';
import { SluiceError } from '../core/errors.ts';
import { splitHeader } from '../formats/delimited/header.ts';
import type { Chunks } from '../io/source/byte-source.ts';
import { seenChunks, WithoutLastLine } from '../io/source/byte-taps.ts';

/** The keys of a source that configure control totals. */
export type TotalsSpec = Partial<Pick<FileSource, 'expect' | 'control' | 'done_file' | 'trailer'>>;

/** Maximum size of a control file in bytes; such a file has one or two lines. */
const MOST_BYTES = 64 * 1024;
const WHOLE = /^\d{1,15}$/;
const SHA256 = /^[0-9a-f]{64}$/;

/** Returns null if no control totals are configured. */
export function totalsOf({ expect, control, done_file, trailer }: TotalsSpec): TotalsSpec | null {
  if (!expect && !control && done_file === undefined && !trailer) return null;
  return {
    ...(expect ? { expect } : {}),
    ...(control ? { control } : {}),
    ...(done_file === undefined ? {} : { done_file }),
    ...(trailer ? { trailer } : {}),
  };
}

const mismatch = (message: string, cause?: unknown): SluiceError =>
  // The log may contain the message: counts and digests of files are not values of an application.
  new SluiceError('control_total_mismatch', message, { cause, logMessage: message });

/** A control total, and the file or option that states it. */
interface Said<T> {
  value: T;
  by: string;
}

/** The control totals of one input, and the counts to compare with them. */
export class ControlTotals {
  readonly #rows: Said<number>[] = [];
  readonly #sha256: Said<string>[] = [];
  readonly #hash = createHash('sha256');
  #digest: string | null = null;
  readonly #trailer: TotalsSpec['trailer'];
  readonly #delimiter: string;
  readonly #lastLine = new WithoutLastLine();

  private constructor(spec: TotalsSpec, delimiter: string) {
    this.#trailer = spec.trailer;
    this.#delimiter = delimiter;
    if (spec.expect?.rows !== undefined) this.#rows.push({ value: spec.expect.rows, by: 'expected' });
    if (spec.expect?.sha256 !== undefined) {
      this.#sha256.push({ value: spec.expect.sha256.toLowerCase(), by: 'expected' });
    }
  }

  /**
   * Reads the control files next to the input `name`.
   * @throws SluiceError control_total_mismatch: a file is missing or has no totals
   */
  static async open(spec: TotalsSpec, name: string, delimiter: string): Promise<ControlTotals> {
    const totals = new ControlTotals(spec, delimiter);
    const beside = (pattern: string) => pattern.replaceAll('{path}', () => name);
    if (spec.done_file !== undefined) {
      const file = beside(spec.done_file);
      if ((await storedSize(file)) === null) throw mismatch(`${file} does not exist: the input is incomplete`);
    }
    if (spec.control) await totals.#read(beside(spec.control.file), spec.control);
    return totals;
  }

  async #read(
    file: string,
    { rows_key = 'rows', sha256_key = 'sha256' }: NonNullable<TotalsSpec['control']>,
  ): Promise<void> {
    const { pairs, checksums } = controlEntries(await controlText(file));
    const valuesOf = (key: string) => pairs.flatMap(([name, value]) => (name === key.toLowerCase() ? [value] : []));
    const rows = valuesOf(rows_key);
    const sha256 = [...checksums, ...valuesOf(sha256_key).map((value) => value.toLowerCase())];
    if (rows.length + sha256.length === 0) throw mismatch(`${file} contains neither ${rows_key} nor ${sha256_key}`);
    // The input must match all values, so a file that contradicts itself is a mismatch.
    for (const value of rows) {
      if (!WHOLE.test(value)) throw mismatch(`${file}: ${rows_key} is not a whole number`);
      this.#rows.push({ value: Number(value), by: file });
    }
    for (const value of new Set(sha256)) {
      if (!SHA256.test(value)) throw mismatch(`${file}: ${sha256_key} is not a SHA-256 in hexadecimal`);
      this.#sha256.push({ value, by: file });
    }
  }

  /** Passes the raw bytes through and hashes them if a checksum is configured. */
  stored(chunks: Chunks): Chunks {
    if (this.#sha256.length === 0) return chunks;
    return seenChunks(chunks, (bytes) => this.#hash.update(bytes));
  }

  /** Hashes a file that the run does not read from start to end. */
  async digestFile(file: string): Promise<void> {
    if (this.#sha256.length === 0) return;
    for await (const chunk of storedBytes(file)) this.#hash.update(chunk);
  }

  /** Whether the totals of the sender, except those in the trailer, are those of an input that was already read. */
  fit(rows: number, sha256: string): boolean {
    return this.#rows.every(({ value }) => value === rows) && this.#sha256.every(({ value }) => value === sha256);
  }

  /** Removes the trailer line from the text, if the input has a trailer. */
  text(chunks: Chunks): Chunks {
    return this.#trailer ? this.#lastLine.rest(chunks) : chunks;
  }

  /**
   * Compares the input with its control totals after the last byte was read. `rows`: number of applications read.
   * @throws SluiceError control_total_mismatch
   */
  check(rows: number): void {
    this.#digest ??= this.#hash.digest('hex');
    const counted = this.#trailer ? this.#trailerRows(this.#trailer) : null;
    const said = counted ? [...this.#rows, counted] : this.#rows;
    const faults = [
      ...said.filter(({ value }) => value !== rows).map(({ value, by }) => `${value} rows ${by === 'expected' ? by : `by ${by}`}, ${rows} found`), // biome-ignore format: one line
      ...this.#sha256
        .filter(({ value }) => value !== this.#digest)
        .map(({ value, by }) => `SHA-256 ${value} ${by === 'expected' ? by : `by ${by}`}, ${this.#digest} found`),
    ];
    if (faults.length > 0)
      throw mismatch(`the input does not match the control totals of its sender: ${faults.join('; ')}`);
  }

  /** The row count in the trailer; null if the configuration names no field for it. */
  #trailerRows({ marker, rows_field, extra_rows = 0 }: NonNullable<TotalsSpec['trailer']>): Said<number> | null {
    const last = this.#lastLine.last;
    const fields = last === null ? [] : splitHeader(Buffer.from(last), this.#delimiter).map((field) => field.trim());
    if (fields[0] !== marker) throw mismatch(`the last record is not a trailer ${marker}: the input was truncated`);
    if (rows_field === undefined) return null;
    const count = fields[rows_field - 1] ?? '';
    if (!WHOLE.test(count)) throw mismatch(`field ${rows_field} of the trailer is not a whole number`);
    return { value: Number(count) - extra_rows, by: 'the trailer' };
  }
}

async function controlText(file: string): Promise<string> {
  try {
    const read: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of storedBytes(file)) {
      bytes += chunk.length;
      if (bytes > MOST_BYTES) throw mismatch(`${file} is not a control file: it is longer than ${MOST_BYTES} bytes`);
      read.push(Uint8Array.from(chunk));
    }
    return Buffer.concat(read)
      .toString('utf8')
      .replace(/^\ufeff/, '');
  } catch (cause) {
    if (cause instanceof SluiceError && cause.code !== 'input_not_found') throw cause;
    throw mismatch(`${file} cannot be read: the input is incomplete`, cause);
  }
}

/** Checksum lines of sha256sum and certutil (a backslash means that the name is escaped), and of Get-FileHash. */
const CHECKSUM_FIRST = /^(?:\\|sha256\s+)?([0-9a-f]{64})(?:\s|$)/i;
/** Checksum lines of shasum --tag and openssl. The name in parentheses may contain any character. */
const CHECKSUM_LAST = { begin: /^sha(?:2-)?256 ?\(/i, end: /\) ?= ?([0-9a-f]{64})$/i };

/** `line`: without surrounding spaces. */
function checksumIn(line: string): string | undefined {
  const [, checksum] = (CHECKSUM_LAST.begin.test(line) ? CHECKSUM_LAST.end : CHECKSUM_FIRST).exec(line) ?? [];
  return checksum?.toLowerCase();
}

/** The entries of a control file, in order. Keys are in lower case and can repeat. */
interface ControlEntries {
  pairs: [key: string, value: string][];
  checksums: string[];
}

/** Parses `rows=12;sha256=…`, one pair per line, or the output of a checksum tool. */
function controlEntries(text: string): ControlEntries {
  const entries: ControlEntries = { pairs: [], checksums: [] };
  for (const line of text.split(/[\r\n]/).map((part) => part.trim())) {
    // In `sha256 (a;b.csv) = …` the semicolon belongs to the name.
    const isWhole = /^sha/i.test(line) && checksumIn(line) !== undefined;
    for (const part of isWhole ? [line] : line.split(';').map((piece) => piece.trim())) {
      const checksum = checksumIn(part);
      const at = part.search(/[=:]/);
      if (checksum !== undefined) entries.checksums.push(checksum);
      else if (at > 0) entries.pairs.push([part.slice(0, at).trim().toLowerCase(), part.slice(at + 1).trim()]);
    }
  }
  return entries;
}
