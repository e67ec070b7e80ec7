// The engine: blocks of one source through the worker pool into one sink, in order, within a fixed budget.
import type { Block } from '../core/block.ts';
import { type ErrorCode, type ErrorDetail, SluiceError } from '../core/errors.ts';
import type { SlabPool } from '../core/slabs.ts';
import type { Frame } from '../format/formatter.ts';
import { MAX_DETAILS, type ScoredPart } from './protocol.ts';
import type { StreamHandle } from './worker-pool.ts';

/** Counts of a run; rows = scored + rejected always holds when it ends well. */
export interface RunCounts {
  rows: number;
  scored: number;
  rejected: number;
  rejectedByCode: Partial<Record<ErrorCode, number>>;
  /** The first rejected rows. */
  details: ErrorDetail[];
}

export interface RunOptions {
  /** Opens the source; `signal` is aborted when the run fails or is cancelled. */
  blocks: (signal: AbortSignal) => AsyncIterable<Block>;
  stream: StreamHandle;
  slabs: SlabPool;
  frame: Frame;
  /** Takes formatted bytes in order; they may be reused once it resolves. */
  write: (bytes: Uint8Array) => Promise<void>;
  /** Takes lines of the rejects file in order. */
  writeRejects?: (lines: string) => Promise<void>;
  recycle?: (buffer: ArrayBuffer) => void;
  onPart?: (part: ScoredPart, counts: RunCounts) => void;
  /** End the run at the first rejected row. */
  failOnInvalid?: boolean;
  signal?: AbortSignal;
}

/**
 * Runs a stream to its end and returns its counts. Memory is the budget of `slabs` and their answers, whatever the input's size.
 * @throws SluiceError cancelled when `signal` is aborted, invalid_row, count_mismatch, or what source, workers and sink throw
 */
export async function runStream(options: RunOptions): Promise<RunCounts> {
  const { stream, slabs, frame } = options;
  const counts: RunCounts = { rows: 0, scored: 0, rejected: 0, rejectedByCode: {}, details: [] };
  const stop = new AbortController();
  let failure: unknown = null;
  const fail = (error: unknown) => {
    failure ??= error;
    stop.abort();
  };
  let headDue = true;
  let any = false;
  let read = 0;

  const writePart = async (part: ScoredPart) => {
    account(counts, part);
    if (options.failOnInvalid && part.rejected > 0) {
      const first = part.details[0];
      throw new SluiceError('invalid_row', `row ${first?.row} is invalid: ${first?.code}`, { details: part.details });
    }
    if (headDue) {
      headDue = false;
      if (frame.head !== '') await options.write(Buffer.from(frame.head));
    }
    if (part.length > 0) {
      if (any && frame.separator !== '') await options.write(Buffer.from(frame.separator));
      any = true;
      await options.write(new Uint8Array(part.output, 0, part.length));
    }
    if (part.rejects !== '') await options.writeRejects?.(part.rejects);
    options.onPart?.(part, counts);
    options.recycle?.(part.output);
  };

  // Each block is written when it and all before it are scored; its slab then lets the source read on.
  let tail: Promise<void> = Promise.resolve();
  const onAbort = () => fail(options.signal?.reason);
  options.signal?.addEventListener('abort', onAbort, { once: true });
  try {
    options.signal?.throwIfAborted();
    for await (const block of options.blocks(stop.signal)) {
      if (stop.signal.aborted) break;
      read += block.faults.length;
      const scored = stream.score(block);
      scored.catch(() => {});
      tail = tail.then(async () => {
        try {
          const parts = await scored;
          if (!stop.signal.aborted) for (const part of parts) await writePart(part);
        } catch (error) {
          fail(error);
        } finally {
          slabs.release(block.slab);
        }
      });
    }
  } catch (error) {
    fail(error);
  }
  await tail;
  options.signal?.removeEventListener('abort', onAbort);
  if (failure !== null) throw options.signal?.aborted ? cancelled(options.signal) : failure;
  if (read !== counts.rows || counts.rows !== counts.scored + counts.rejected) {
    throw new SluiceError('count_mismatch', `${read} rows read, ${counts.scored} scored, ${counts.rejected} rejected`);
  }
  if (headDue && frame.head !== '') await options.write(Buffer.from(frame.head));
  const end = frame.tail(counts);
  if (end !== '') await options.write(Buffer.from(end));
  return counts;
}

function account(counts: RunCounts, part: ScoredPart): void {
  counts.rows += part.rows;
  counts.scored += part.scored;
  counts.rejected += part.rejected;
  for (const [code, n] of Object.entries(part.rejectedByCode) as [ErrorCode, number][]) {
    counts.rejectedByCode[code] = (counts.rejectedByCode[code] ?? 0) + n;
  }
  if (counts.details.length < MAX_DETAILS)
    counts.details.push(...part.details.slice(0, MAX_DETAILS - counts.details.length));
}

const cancelled = (signal: AbortSignal): SluiceError =>
  signal.reason instanceof SluiceError
    ? signal.reason
    : new SluiceError('cancelled', 'the run was cancelled', { cause: signal.reason });
