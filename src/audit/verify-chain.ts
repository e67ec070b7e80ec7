// Verifies audit logs: every record is unchanged and in its position, and no record is missing between the first and
// the last record.
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { SluiceError } from '../core/errors.ts';
import { fileFault } from '../core/file-system.ts';
import { CHAIN_START, type ChainEnd, type ReadRecord, readRecord } from './audit-record.ts';

const NEWLINE = 10;
/**
 * Maximum length of a line in bytes. The limit is higher than the length of any record, and stops the reading of files
 * of another kind.
 */
const MOST_LINE_BYTES = 16 * 1024 * 1024;

interface ChainBreak {
  file: string;
  line: number;
  why: string;
}

interface VerifiedChain {
  whole: boolean;
  broken: ChainBreak | null;
  records: number;
  /** Number of the first record; 1 if no earlier record is missing. */
  first: number;
  last: ChainEnd;
  /**
   * Whether the last record states that its server was stopped. False if the server is running or was killed, or if the
   * log was truncated.
   */
  closed: boolean;
  /** Partial records that killed servers left. */
  torn: { file: string; line: number; bytes: number }[];
  /** Number of records that could not be written, according to the log itself. */
  lost: number;
}

/** Bytes that are not a record. They are a partial write of a killed server if a later record says so. */
interface Unread {
  line: number;
  bytes: number;
  sum: Hash;
}

/**
 * Verifies the files of a log in the order of their records. `head`: hash of a record that must exist; it comes from a
 * copy outside the log.
 * @throws SluiceError input_not_found | input_unreadable
 */
export async function verifyChain(files: readonly string[], head: string | null = null): Promise<VerifiedChain> {
  const chain = new Chain(head);
  for (const file of await inOrder(files)) {
    if (!(await chain.read(file))) break;
  }
  return chain.result();
}

/**
 * Sorts files by their first record. A file whose first line is not a record comes last; reading it reports the error.
 */
async function inOrder(files: readonly string[]): Promise<string[]> {
  const firsts = await Promise.all(
    files.map(async (file) => {
      for await (const { bytes } of linesOf(file)) return { file, seq: readRecord(bytes)?.seq ?? Number.MAX_VALUE };
      return { file, seq: Number.MAX_VALUE };
    }),
  );
  return firsts.sort((a, b) => a.seq - b.seq).map(({ file }) => file);
}

class Chain {
  readonly #head: string | null;
  #headSeen: boolean;
  #last: ReadRecord | null = null;
  #unread: Unread | null = null;
  readonly #result = {
    broken: null as ChainBreak | null,
    records: 0,
    first: 0,
    torn: [] as VerifiedChain['torn'],
    lost: 0,
  };

  constructor(head: string | null) {
    this.#head = head;
    this.#headSeen = head === null;
  }

  /** Returns false if the chain is broken. */
  async read(file: string): Promise<boolean> {
    let line = 0;
    const broken = (why: string, at = line): boolean => {
      this.#result.broken = { file, line: at, why };
      return false;
    };
    for await (const { bytes, ended } of linesOf(file)) {
      line++;
      const record = ended ? readRecord(bytes) : null;
      const fits = record !== null && this.#follows(record);
      if (line === 1 && record?.kind !== 'head' && this.#unread === null && record !== null) {
        return broken('the first record of the file is missing');
      }
      if (this.#unread && fits && record.kind === 'recovered' && this.#isTorn(record, this.#unread)) {
        this.#result.torn.push({ file, line: this.#unread.line, bytes: this.#unread.bytes });
        this.#unread = null;
      } else if (record === null || this.#unread) {
        // Either these bytes were changed, or a server was killed while writing them. The next record shows which: a
        // server that opens the log records the partial write of its predecessor.
        this.#unread ??= { line, bytes: 0, sum: createHash('sha256') };
        this.#unread.bytes += bytes.length + (ended ? 1 : 0);
        if (this.#unread.bytes > MOST_LINE_BYTES) break;
        this.#unread.sum.update(bytes).update(ended ? '\n' : '');
        continue;
      } else if (!fits) return broken(this.#misplaced(record));
      this.#take(record);
    }
    if (!this.#unread) return true;
    const { line: at, bytes } = this.#unread;
    return broken(`a record was changed or cut off (${bytes} bytes up to the next intact record or the end)`, at);
  }

  #follows({ seq, prev, kind }: ReadRecord): boolean {
    if (this.#last) return seq === this.#last.seq + 1 && prev === this.#last.sum;
    // Earlier files may have been archived. The first record then contains the number and the hash with which the chain
    // continues.
    return seq === 1 ? prev === CHAIN_START.sum : kind === 'head' || this.#unread !== null;
  }

  #misplaced({ seq }: ReadRecord): string {
    const expected = (this.#last?.seq ?? 0) + 1;
    if (seq === expected) return `record ${seq} does not match the hash of the record before it`;
    return `record ${seq} was found where record ${expected} was expected`;
  }

  #isTorn({ fields }: ReadRecord, { bytes, sum }: Unread): boolean {
    return fields.torn_bytes === bytes && fields.torn_sha256 === sum.copy().digest('hex');
  }

  #take(record: ReadRecord): void {
    if (this.#last === null) this.#result.first = record.seq;
    this.#last = record;
    this.#result.records++;
    if (record.sum === this.#head) this.#headSeen = true;
    if (record.kind === 'lost') this.#result.lost += Number(record.fields.records);
  }

  result(): VerifiedChain {
    const { broken } = this.#result;
    const missing = !this.#headSeen && !broken;
    const last = this.#last ?? CHAIN_START;
    const gone: ChainBreak = {
      file: '-',
      line: 0,
      why: 'the record with the required hash is missing: the end of the log was cut off',
    };
    return {
      ...this.#result,
      whole: broken === null && !missing,
      broken: missing ? gone : broken,
      last: { seq: last.seq, sum: last.sum },
      closed: this.#last?.kind === 'closed',
    };
  }
}

/**
 * Lines as bytes. `ended`: whether a line end follows the line.
 * @throws SluiceError input_not_found | input_unreadable
 */
async function* linesOf(file: string): AsyncGenerator<{ bytes: Buffer; ended: boolean }> {
  let rest: Buffer = Buffer.alloc(0);
  try {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      let from = 0;
      for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
        const part = chunk.subarray(from, at);
        yield { bytes: rest.length === 0 ? part : Buffer.concat([rest, part]), ended: true };
        rest = Buffer.alloc(0);
        from = at + 1;
      }
      rest = Buffer.concat([rest, chunk.subarray(from)]);
      if (rest.length > MOST_LINE_BYTES) break;
    }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'input_not_found' : 'input_unreadable';
    throw new SluiceError(code, `${file}: ${fileFault(error)}`, { cause: error });
  }
  if (rest.length > 0) yield { bytes: rest, ended: false };
}
