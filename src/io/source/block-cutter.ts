// Cuts a stream of byte chunks into blocks of whole records, at most a slab at a time.
import type { Block } from '../../core/block.ts';
import { SluiceError } from '../../core/errors.ts';
import type { Slab, SlabPool } from '../../core/slabs.ts';
import type { Chunks } from './byte-source.ts';
import { RecordList, type RecordScanner } from './record-scanner.ts';

export interface CutOptions {
  scanner: RecordScanner;
  slabs: SlabPool;
  signal?: AbortSignal;
  /** Take the first record as the header: it is handed over, not put into a block. */
  onHeader?: (header: { bytes: Buffer; fault: number }) => void;
  /** Hand out the records at hand when no byte came for this long, ms. Default: wait for a full slab. */
  idleMs?: number;
}

/**
 * All records of an input that is there as a whole, as one block in the memory of the input; null if there are none.
 * @throws SluiceError invalid_encoding for UTF-16 text; whatever the scanner throws
 */
export function cutWhole(
  input: Uint8Array,
  { scanner, onHeader }: Pick<CutOptions, 'scanner' | 'onHeader'>,
): Block | null {
  const start = input.byteOffset + skipByteOrderMark(input, input.length);
  const length = input.byteOffset + input.length - start;
  const bytes = Buffer.from(input.buffer, start, length);
  const records = new RecordList();
  scanner.scan(bytes, length, true, records);
  if (onHeader && records.count > 0) takeHeader(bytes, records, onHeader);
  const { count, spans, faults, lines } = records;
  if (count === 0) return null;
  for (let i = 0; i < count * 2; i++) spans[i]! += start;
  return {
    seq: 0,
    slab: input.buffer,
    // The list is this block's own: no need for copies.
    spans: spans.subarray(0, count * 2),
    faults: faults.subarray(0, count),
    lines: lines.subarray(0, count),
    firstRow: 1,
    firstByte: -input.byteOffset,
    length: start + length,
  };
}

/** What has to be given back when nobody looks at a block any more. */
export interface Leased {
  readonly lease: Slab;
}

const IDLE = Symbol('idle');

/**
 * Yields blocks in order; each takes a slab of the pool, which its last user gives back with `slabs.release(block.lease)`.
 * What can be read to where it is wanted is read into the slabs; `idleMs` is for what has to be waited for. A chunk may be
 * reused by its producer as soon as the next one is asked for.
 * @throws SluiceError invalid_encoding for UTF-16 text; whatever the chunks or the scanner throw
 */
export async function* cutBlocks(chunks: Chunks, options: CutOptions): AsyncGenerator<Block & Leased, void, void> {
  const { scanner, slabs, signal } = options;
  const records = new RecordList();
  let slab = await slabs.acquire(signal);
  let bytes = viewOf(slab);
  scanner.attach?.(slabs);
  let owned = true;
  let filled = 0;
  let base = 0;
  let seq = 0;
  let rows = 0;
  let headerDue = options.onHeader !== undefined;
  let bomDue = true;

  const scan = (final: boolean) => {
    if (bomDue) {
      if (filled < 3 && !final) return;
      bomDue = false;
      scanner.pos = skipByteOrderMark(bytes, filled);
      if (scanner.pos > 0) {
        bytes.copyWithin(0, scanner.pos, filled);
        filled -= scanner.pos;
        base += scanner.pos;
        scanner.pos = 0;
      }
    }
    scanner.scan(bytes, filled, final, records, slabs.memory && slabs.holds(slab) ? slab.at : -1);
    if (headerDue && records.count > 0) {
      headerDue = false;
      takeHeader(bytes, records, options.onHeader!);
    }
  };

  /** The block of the records at hand; afterwards the slab belongs to the block. */
  const take = (): Block & Leased => {
    const block = blockOf(records, slab, base, { seq: seq++, firstRow: rows + 1, length: filled });
    rows += records.count;
    owned = false;
    return block;
  };

  /** Hands a block over; keeps the bytes of the open record, and goes on with them in another slab. */
  async function* handOver(): AsyncGenerator<Block & Leased, void, void> {
    const keep = scanner.keepFrom;
    // Whoever gets the block may give its slab back before it comes for more.
    const rest = Buffer.from(bytes.subarray(keep, filled));
    yield take();
    slab = await slabs.acquire(signal);
    owned = true;
    if (rest.length * 2 > slab.bytes) slab = slabs.larger(slab, rest.length * 2);
    bytes = viewOf(slab);
    bytes.set(rest);
    filled = rest.length;
    base += keep;
    scanner.rebase();
    records.clear();
  }

  /** Makes room without a block: moves the open record to the front, or into a larger slab. */
  const makeRoom = () => {
    const keep = scanner.keepFrom;
    if (keep > 0) bytes.copyWithin(0, keep, filled);
    base += keep;
    filled -= keep;
    scanner.rebase();
    if (filled * 2 > bytes.length) {
      const before = bytes;
      slab = slabs.larger(slab, bytes.length * 2);
      bytes = viewOf(slab);
      bytes.set(before.subarray(0, filled));
    }
  };

  if (chunks.readInto) {
    try {
      for (let n = -1; n !== 0; ) {
        signal?.throwIfAborted();
        if (filled === bytes.length) {
          if (records.count > 0) yield* handOver();
          else makeRoom();
        }
        n = await chunks.readInto(bytes.subarray(filled));
        filled += n;
        if (n > 0) scan(false);
      }
      scan(true);
      if (records.count > 0) yield take();
    } finally {
      if (owned) slabs.release(slab);
    }
    return;
  }
  const input = chunks[Symbol.asyncIterator]();
  try {
    let pending: Promise<IteratorResult<Uint8Array>> | null = null;
    for (;;) {
      signal?.throwIfAborted();
      pending ??= input.next();
      const idleMs = records.count > 0 ? options.idleMs : undefined;
      const next = await firstOf(pending, signal, idleMs);
      if (next === IDLE) {
        yield* handOver();
        continue;
      }
      pending = null;
      if (next.done) break;
      const chunk = next.value;
      for (let at = 0; at < chunk.length; ) {
        if (filled === bytes.length) {
          if (records.count > 0) yield* handOver();
          else makeRoom();
        }
        const n = Math.min(chunk.length - at, bytes.length - filled);
        bytes.set(at === 0 && n === chunk.length ? chunk : chunk.subarray(at, at + n), filled);
        at += n;
        filled += n;
        scan(false);
      }
    }
    scan(true);
    if (records.count > 0) yield take();
  } finally {
    if (owned) slabs.release(slab);
    const closed = Promise.resolve(input.return?.());
    if (signal?.aborted) closed.catch(() => {});
    else await closed;
  }
}

/** What comes first: the next chunk, an abort or the end of patience. Leaves no listener behind, however often it is called. */
function firstOf<T>(next: Promise<T>, signal: AbortSignal | undefined, idleMs?: number): Promise<T | typeof IDLE> {
  return new Promise((resolve, reject) => {
    const onAbort = () => settle(() => reject(signal?.reason));
    const timer = idleMs === undefined ? undefined : setTimeout(() => settle(() => resolve(IDLE)), idleMs);
    const settle = (how: () => void) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      how();
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    next.then(
      (value) => settle(() => resolve(value)),
      (error) => settle(() => reject(error)),
    );
  });
}

const viewOf = ({ buffer, at, bytes }: Slab): Buffer => Buffer.from(buffer as unknown as ArrayBuffer, at, bytes);

/** `base`: where the bytes of the slab begin in the input. */
function blockOf(
  records: RecordList,
  lease: Slab,
  base: number,
  rest: Pick<Block, 'seq' | 'firstRow' | 'length'>,
): Block & Leased {
  const spans = records.spans.slice(0, records.count * 2);
  for (let i = 0; i < spans.length; i++) spans[i]! += lease.at;
  return {
    ...rest,
    slab: lease.buffer,
    firstByte: base - lease.at,
    spans,
    faults: records.faults.slice(0, records.count),
    lines: records.lines.slice(0, records.count),
    lease,
  };
}

/** Hands the first record over as the header. */
function takeHeader(bytes: Buffer, records: RecordList, onHeader: NonNullable<CutOptions['onHeader']>): void {
  const [start, end] = [records.spans[0]!, records.spans[1]!];
  onHeader({ bytes: Buffer.from(bytes.subarray(start, end)), fault: records.faults[0]! });
  records.spans.copyWithin(0, 2, records.count * 2);
  records.faults.copyWithin(0, 1, records.count);
  records.lines.copyWithin(0, 1, records.count);
  records.count--;
}

/** Bytes of the UTF-8 byte order mark at the beginning, 3 or 0. */
function skipByteOrderMark(bytes: Uint8Array, filled: number): number {
  const [a, b, c] = bytes;
  if (filled >= 2 && ((a === 0xff && b === 0xfe) || (a === 0xfe && b === 0xff))) {
    throw new SluiceError('invalid_encoding', 'the input is UTF-16; export it as UTF-8');
  }
  return filled >= 3 && a === 0xef && b === 0xbb && c === 0xbf ? 3 : 0;
}
