// Wraps byte streams: observes them for hashing and counting, checks them against known digests, and withholds a trailer line.
import { createHash } from 'node:crypto';
import type { TableFeed } from '../../core/block.ts';
import { SluiceError } from '../../core/errors.ts';
import type { Chunks } from './byte-source.ts';

/**
 * The same chunks with an observer, for both ways of reading. `see` gets all bytes once, in order and before the
 * reader; `end` is called at the end of the input. An error in either ends the read.
 */
export function seenChunks(chunks: Chunks, see: (bytes: Uint8Array) => void, end: () => void = () => {}): Chunks {
  const readInto = chunks.readInto?.bind(chunks);
  return {
    // An observer does not change the columns of a table.
    ...(chunks.columns ? { columns: chunks.columns } : {}),
    ...(chunks.skipLines === undefined ? {} : { skipLines: chunks.skipLines }),
    async *[Symbol.asyncIterator]() {
      for await (const chunk of chunks) {
        see(chunk);
        yield chunk;
      }
      end();
    },
    ...(readInto
      ? {
          readInto: async (target: Uint8Array) => {
            const n = await readInto(target);
            if (n === 0) end();
            else see(target.subarray(0, n));
            return n;
          },
        }
      : {}),
  };
}

/** The same chunks, whose first lines are not records. */
export const skippingLines = (chunks: Chunks, skipLines: number): Chunks => ({
  skipLines,
  [Symbol.asyncIterator]: () => chunks[Symbol.asyncIterator](),
  ...(chunks.readInto ? { readInto: (target) => chunks.readInto!(target) } : {}),
});

/** Length and hash of the next part of an input. */
interface KnownBytes {
  bytes: number;
  sha256: string;
}

/**
 * Checks the input against `known`, its consecutive parts. `changed` creates the error.
 * @throws the error of `changed`, at the latest at the end of the input
 */
export function checked(chunks: Chunks, known: readonly KnownBytes[], changed: () => Error): Chunks {
  const due = known.map((part) => ({ ...part }));
  let hash = createHash('sha256');
  const close = (): void => {
    while (due.length > 0 && due[0]!.bytes === 0) {
      if (hash.digest('hex') !== due.shift()!.sha256) throw changed();
      hash = createHash('sha256');
    }
  };
  const take = (bytes: Uint8Array): void => {
    close();
    for (let at = 0; at < bytes.length; close()) {
      const part = due[0];
      if (part === undefined) throw changed();
      const n = Math.min(part.bytes, bytes.length - at);
      hash.update(bytes.subarray(at, at + n));
      part.bytes -= n;
      at += n;
    }
  };
  const end = (): void => {
    close();
    if (due.length > 0) throw changed();
  };
  return seenChunks(chunks, take, end);
}

// A trailer is not a record and must not reach the decoders.

const LF = 10;
const CR = 13;
/** Maximum length of a trailer line, bytes. */
const LONGEST = 64 * 1024;

const isEnd = (byte: number | undefined): boolean => byte === LF || byte === CR;

/** Withholds the last non-empty line of UTF-8 text. The line is available after the chunks have ended. */
export class WithoutLastLine {
  #held = Buffer.alloc(0);
  /** The withheld line was too long, so its beginning was passed on. */
  #cut = false;

  /** The last line without its line end; null: there is none, or it is too long to be a trailer. */
  get last(): string | null {
    const end = this.#textEnd(this.#held);
    return this.#cut || end === 0 ? null : this.#held.toString('utf8', 0, end);
  }

  /** Yields all other bytes. A chunk is valid until the next one is requested. */
  async *rest(chunks: Chunks): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      const bytes = this.#held.length === 0 ? Buffer.from(chunk) : Buffer.concat([this.#held, chunk]);
      const from = this.#lastLine(bytes);
      if (from > 0) yield bytes.subarray(0, from);
      this.#held = bytes.subarray(from);
    }
  }

  /** Start of the last line that is not empty or may continue. */
  #lastLine(bytes: Buffer): number {
    const end = this.#textEnd(bytes);
    // If the bytes are only line ends, the line withheld before them stays the last one.
    let from = end;
    while (from > 0 && !isEnd(bytes[from - 1])) from--;
    if (from > 0) this.#cut = false;
    if (bytes.length - from <= LONGEST) return from;
    this.#cut = true;
    return bytes.length;
  }

  #textEnd(bytes: Buffer): number {
    let end = bytes.length;
    while (end > 0 && isEnd(bytes[end - 1])) end--;
    return end;
  }
}

// The prefix of an input: the number and SHA-256 of all bytes read so far, which identify the input of an interrupted
// run.

/** Length and hash of the beginning of an input. */
export interface Prefix {
  bytes: number;
  sha256: string;
}

export interface PrefixedChunks {
  chunks: Chunks;
  /** Length and hash of all bytes read so far; null: another observer hashes them. */
  prefix(): Prefix | null;
  /**
   * Whether `prefix` is valid: the expected bytes were read and match, or previously unhashed bytes were read again.
   */
  holds(): boolean;
}

/**
 * `expected`: the prefix that the input must have.
 * @throws SluiceError while reading: checkpoint_mismatch, or errors of `chunks`
 */
export function withPrefix(chunks: Chunks, expected: Prefix | null): PrefixedChunks {
  const hash = createHash('sha256');
  let read = 0;
  let due = expected;

  /** `bytes` is empty at the end of the input. */
  function take(bytes: Uint8Array): void {
    let from = 0;
    if (due !== null && (read + bytes.length >= due.bytes || bytes.length === 0)) {
      from = due.bytes - read;
      hash.update(bytes.subarray(0, from));
      if (from > bytes.length || hash.copy().digest('hex') !== due.sha256) {
        throw new SluiceError('checkpoint_mismatch', 'the content of the input changed since the run was interrupted');
      }
      due = null;
    }
    hash.update(from === 0 ? bytes : bytes.subarray(from));
    read += bytes.length;
  }

  const end = () => take(new Uint8Array(0));
  const seen = seenChunks(chunks, take, end);
  return {
    chunks: chunks.table ? { ...seen, table: seenTable(chunks.table, take, end) } : seen,
    prefix: () => ({ bytes: read, sha256: hash.copy().digest('hex') }),
    holds: () => due === null,
  };
}

/**
 * Starts hashing when a prefix is first requested, so that a run that ends before its first checkpoint hashes nothing.
 * `again` then yields the bytes read so far once more; after it has caught up, bytes are hashed as they are read. A
 * file that changes meanwhile has no prefix.
 */
export function withLatePrefix(chunks: Chunks, again: () => AsyncIterable<Uint8Array>): PrefixedChunks {
  const hash = createHash('sha256');
  let read = 0;
  let mode: 'idle' | 'behind' | 'abreast' | 'known' = 'idle';

  function take(bytes: Uint8Array): void {
    if (mode === 'abreast' || mode === 'known') hash.update(bytes);
    read += bytes.length;
  }

  async function catchUp(): Promise<void> {
    mode = 'behind';
    let hashed = 0;
    for await (const chunk of again()) {
      // Bytes not read by the run yet are hashed when they arrive.
      const known = chunk.subarray(0, mode === 'behind' ? read - hashed : 0);
      hash.update(known);
      hashed += known.length;
      if (hashed === read) mode = 'abreast';
    }
    if (mode === 'abreast') mode = 'known';
  }

  return {
    chunks: seenChunks(chunks, take),
    prefix: () => ({ bytes: read, sha256: hash.copy().digest('hex') }),
    holds: () => {
      // The run itself reports errors of its input.
      if (mode === 'idle') catchUp().catch(() => {});
      return mode === 'known';
    },
  };
}

/**
 * The same table with an observer: `see` gets the bytes of its cells. It gets a dictionary when the dictionary is first
 * used.
 */
function seenTable(table: TableFeed, see: (bytes: Uint8Array) => void, end: () => void): TableFeed {
  /** ID of each column's last dictionary, because dictionaries may change. */
  const lists: number[] = [];
  return {
    names: table.names,
    async next() {
      const rows = await table.next();
      if (rows === null) end();
      rows?.run.cells.forEach((cell, column) => {
        if (cell.kind === 'numbers') see(bytesOf(cell.values));
        else if (cell.kind === 'coded') {
          const { id, bytes, ends } = cell.words;
          if (lists[column] !== id) for (const part of [bytesOf(ends), bytes]) see(part);
          lists[column] = id;
          see(bytesOf(cell.codes));
        } else for (const part of [bytesOf(cell.ends), cell.bytes]) see(part);
      });
      return rows;
    },
  };
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float64Array | Int32Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);
