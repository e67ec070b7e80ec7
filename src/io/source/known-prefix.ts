// The bytes of an input with the SHA-256 of all that was read of them: what tells two inputs apart, whatever they are called. Of a table
// the bytes are those of its cells, so that nobody has to write its text for it.
import { createHash } from 'node:crypto';
import type { TableFeed } from '../../core/block-columns.ts';
import { SluiceError } from '../../core/errors.ts';
import type { Chunks } from './byte-source.ts';
import { seenChunks } from './seen-chunks.ts';

/** The first `bytes` of an input. */
export interface Prefix {
  bytes: number;
  sha256: string;
}

export interface PrefixedChunks {
  chunks: Chunks;
  /** All that was read up to now; null: somebody else hashes it. */
  prefix(): Prefix | null;
  /** Whether there is one to be told: what was expected has been read and is there, or what was not hashed has been read again. */
  holds(): boolean;
}

/**
 * `expected`: what the input has to begin with.
 * @throws SluiceError while reading: checkpoint_mismatch, or what `chunks` throw
 */
export function withPrefix(chunks: Chunks, expected: Prefix | null): PrefixedChunks {
  const hash = createHash('sha256');
  let read = 0;
  let due = expected;

  /** `bytes`: empty at the end of the input. */
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
 * Hashes nothing until somebody asks whether there is a prefix: a run that is over before its first checkpoint never does. Then `again`
 * gives what was read so far once more, and from where it has caught up bytes are hashed as they are read. A file that changes meanwhile
 * has no prefix.
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
      // What is not known here yet is hashed when it comes.
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
      // The run itself says what is the matter with its input.
      if (mode === 'idle') catchUp().catch(() => {});
      return mode === 'known';
    },
  };
}

/** The same table: `see` gets the bytes of its cells, and those of a list of words when it is first used. */
function seenTable(table: TableFeed, see: (bytes: Uint8Array) => void, end: () => void): TableFeed {
  /** By column; other lists may come and go. */
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
