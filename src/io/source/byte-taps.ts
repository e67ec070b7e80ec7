// Wraps byte streams: observes bytes for hashing and counting, checks them against known digests, and withholds a trailer line.
import { createHash } from 'node:crypto';
import type { TableFeed } from '../../core/block.ts';
import { SluiceError } from '../../core/errors.ts';
import type { Chunks } from './byte-source.ts';

/**
 * Returns the same chunks with an observer, whether chunks are iterated or read with `readInto`. `see` gets all bytes
 * once, in order, before the reader gets them. `end` is called at the end of the input. An error of either function
 * ends the read.
 */
export function seenChunks(chunks: Chunks, see: (bytes: Uint8Array) => void, end: () => void = () => {}): Chunks {
  const readInto = chunks.readInto?.bind(chunks);
  return {
    // The columns of a table stay valid, because an observer does not change the bytes.
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

/** Returns the same chunks. Readers of records skip their first `skipLines` lines. */
export const skippingLines = (chunks: Chunks, skipLines: number): Chunks => ({
  skipLines,
  [Symbol.asyncIterator]: () => chunks[Symbol.asyncIterator](),
  ...(chunks.readInto ? { readInto: (target) => chunks.readInto!(target) } : {}),
});

/** Length and hash of a section of an input. */
interface KnownBytes {
  bytes: number;
  sha256: string;
}

/**
 * Checks the input against `known`, the hashes of its consecutive sections. `changed` creates the error.
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

// The class below withholds a trailer, which is not a record and must not reach the decoders.

const LF = 10;
const CR = 13;
/** Maximum length of a trailer line, bytes. */
const LONGEST = 64 * 1024;

const isEnd = (byte: number | undefined): boolean => byte === LF || byte === CR;

/** Withholds the last non-empty line of a UTF-8 text. The line is available when the chunks have ended. */
export class WithoutLastLine {
  #held = Buffer.alloc(0);
  /** Whether the withheld line was too long, so that its beginning was passed on. */
  #cut = false;

  /** The last line without its line break. null: the text is empty, or the line is too long for a trailer. */
  get last(): string | null {
    const end = this.#textEnd(this.#held);
    return this.#cut || end === 0 ? null : this.#held.toString('utf8', 0, end);
  }

  /** Yields all other bytes. A chunk is valid until the next chunk is requested. */
  async *rest(chunks: Chunks): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      const bytes = this.#held.length === 0 ? Buffer.from(chunk) : Buffer.concat([this.#held, chunk]);
      const from = this.#lastLine(bytes);
      if (from > 0) yield bytes.subarray(0, from);
      this.#held = bytes.subarray(from);
    }
  }

  /** Start of the last line that is not empty or may continue in the next bytes. */
  #lastLine(bytes: Buffer): number {
    const end = this.#textEnd(bytes);
    // If all bytes are line breaks, the line withheld before them is still the last line.
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

// The functions below compute the prefix of an input: the number and the SHA-256 of all bytes read so far. A prefix
// identifies the input of an interrupted run.

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
   * Whether `prefix` is valid. With an expected prefix: these bytes were read and they match. With late hashing: all
   * bytes read so far are hashed.
   */
  holds(): boolean;
}

/**
 * Hashes the chunks as they are read. `expected`: the prefix that the input must have; null: any.
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
 * Starts to hash when a prefix is first requested, so that a run that ends before its first checkpoint hashes nothing.
 * `again` must then yield the bytes read so far again. When it has caught up, bytes are hashed as they are read. A file
 * that changes in the meantime has no prefix.
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
      // Bytes that the run has not read yet are hashed when it reads them.
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
 * Returns the same table with an observer. `see` gets the bytes of its cells. It gets the bytes of a dictionary when
 * the dictionary is first used.
 */
function seenTable(table: TableFeed, see: (bytes: Uint8Array) => void, end: () => void): TableFeed {
  /** The ID of the last dictionary of each column, because dictionaries may change. */
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
