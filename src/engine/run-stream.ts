// The engine: sends the blocks of a source through the worker pool and writes the results to a sink, in order and with
// bounded memory.
import type { Block } from '../core/block.ts';
import { monotonicMs } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import type { SlabPool } from '../core/slabs.ts';
import type { Frame } from '../formats/write/formatter.ts';
import type { Leased } from '../io/source/block-cutter.ts';
import type { Account, GoesOn, RunCounts, WrittenBlock } from './counts.ts';
import type { ScoredPart } from './protocol.ts';
import type { StreamHandle } from './worker-pool.ts';

interface WriteOptions {
  frame: Frame;
  /** Counts every block result before it is written. */
  account: Account;
  /** Reference `id:version` of the model, for the account. */
  model: string;
  /** Writes formatted bytes in order. Once the promise resolves, the caller may reuse the bytes. */
  write: (bytes: Uint8Array) => Promise<void>;
  /** Writes lines of the rejects file in order. */
  writeRejects?: (lines: string) => Promise<void>;
  recycle?: (buffer: ArrayBuffer) => void;
  /** Called after a block result was written. An error thrown by this function ends the run. */
  onPart?: (part: ScoredPart) => void;
  /**
   * Called in order, after each complete block was written. The next block is written only after the promise resolves.
   * An error thrown by this function ends the run.
   */
  onBlock?: (written: WrittenBlock) => void | Promise<void>;
  /** End the run at the first rejected row. */
  failOnInvalid?: boolean;
  /** State for resuming. If absent, the run starts at the first block. */
  goesOn?: GoesOn;
  signal?: AbortSignal;
}

export interface RunOptions extends WriteOptions {
  /** Opens the source; `signal` is aborted when the run fails or is cancelled. */
  blocks: (signal: AbortSignal) => AsyncIterable<Block & Leased>;
  stream: StreamHandle;
  slabs: SlabPool;
}

/** Writes block results with the head, the separators and the tail of the output, and counts them. */
class PartWriter {
  readonly #options: WriteOptions;
  #headDue: boolean;
  #any: boolean;

  constructor(options: WriteOptions) {
    this.#options = options;
    const written = options.goesOn?.written ?? 0;
    this.#headDue = written === 0;
    this.#any = written > Buffer.byteLength(options.frame.head);
  }

  async write(part: ScoredPart): Promise<void> {
    const { account, model, frame, write } = this.#options;
    account.add(part, model);
    const began = monotonicMs();
    if (this.#options.failOnInvalid && part.rejected > 0) {
      const first = part.details[0];
      throw new SluiceError('invalid_row', `row ${first?.row} is invalid: ${first?.code}`, { details: part.details });
    }
    await this.#head();
    if (part.length > 0) {
      if (this.#any && frame.separator !== '') await write(Buffer.from(frame.separator));
      this.#any = true;
      await write(new Uint8Array(part.output, 0, part.length));
    }
    if (part.rejects !== '') await this.#options.writeRejects?.(part.rejects);
    account.flow.waited('sink', monotonicMs() - began);
    account.written();
    this.#options.onPart?.(part);
    this.#options.recycle?.(part.output);
  }

  /** Writes all results of a block, then reports the block as written. */
  async block(block: Block, parts: readonly ScoredPart[]): Promise<void> {
    for (const part of parts) await this.write(part);
    const { onBlock } = this.#options;
    if (!onBlock) return;
    const sum = (of: (part: ScoredPart) => number) => parts.reduce((total, part) => total + of(part), 0);
    await onBlock({
      block,
      rows: sum((part) => part.rows),
      scored: sum((part) => part.scored),
      rejected: sum((part) => part.rejected),
    });
  }

  /** Ends the output. `read`: number of rows read. @throws SluiceError count_mismatch */
  async end(read: number): Promise<Readonly<RunCounts>> {
    const { counts } = this.#options.account;
    if (read !== counts.rows || counts.rows !== counts.scored + counts.rejected) {
      const found = `${counts.scored} scored, ${counts.rejected} rejected`;
      throw new SluiceError('count_mismatch', `${read} rows read, ${found}`);
    }
    await this.#head();
    const end = this.#options.frame.tail(counts);
    if (end !== '') await this.#options.write(Buffer.from(end));
    return counts;
  }

  async #head(): Promise<void> {
    if (!this.#headDue) return;
    this.#headDue = false;
    if (this.#options.frame.head !== '') await this.#options.write(Buffer.from(this.#options.frame.head));
  }
}

/**
 * Runs a stream of at most one block, without the code that `runStream` needs for further blocks.
 * @throws SluiceError as `runStream`
 */
export async function runBlock(
  block: Block | null,
  options: WriteOptions & { stream: StreamHandle },
): Promise<Readonly<RunCounts>> {
  const { stream, signal } = options;
  const writer = new PartWriter(options);
  if (signal?.aborted) throw cancelled(signal);
  if (block) {
    // When a client disconnects, its worker must be freed: queued jobs are dropped, running jobs are cancelled.
    const onAbort = () => stream.close();
    signal?.addEventListener('abort', onAbort, { once: true });
    const began = monotonicMs();
    const scored = stream.score(block).finally(() => signal?.removeEventListener('abort', onAbort));
    const parts = await scored.catch((error: unknown) => {
      throw signal?.aborted ? cancelled(signal) : error;
    });
    options.account.flow.waited('workers', monotonicMs() - began);
    if (signal?.aborted) throw cancelled(signal);
    for (const part of parts) await writer.write(part);
  }
  return writer.end(block?.faults.length ?? 0);
}

/**
 * Runs a stream to its end and returns its counts. Memory is bounded by the number of slabs, not by the size of the
 * input.
 * @throws SluiceError cancelled when `signal` is aborted, invalid_row, count_mismatch, or an error of source, workers
 * or sink
 */
export async function runStream(options: RunOptions): Promise<Readonly<RunCounts>> {
  const { stream, slabs } = options;
  const { flow } = options.account;
  const writer = new PartWriter(options);
  const stop = new AbortController();
  let failure: unknown = null;
  const fail = (error: unknown) => {
    failure ??= error;
    stop.abort();
    // Queued jobs are dropped and running jobs cancelled, because their results are no longer needed.
    stream.close();
  };
  let read = options.goesOn?.rows ?? 0;

  // A block is written once it and all earlier blocks are scored. The slab is then released, so that the source can
  // read the next block.
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
          const began = monotonicMs();
          const parts = await scored;
          flow.waited('workers', monotonicMs() - began);
          if (!stop.signal.aborted) await writer.block(block, parts);
        } catch (error) {
          fail(error);
        } finally {
          slabs.release(block.lease);
        }
      });
    }
  } catch (error) {
    fail(error);
  }
  await tail;
  options.signal?.removeEventListener('abort', onAbort);
  if (failure !== null) throw options.signal?.aborted ? cancelled(options.signal) : failure;
  return writer.end(read);
}

const cancelled = (signal: AbortSignal): SluiceError =>
  signal.reason instanceof SluiceError
    ? signal.reason
    : new SluiceError('cancelled', 'the run was cancelled', { cause: signal.reason });
