// Scores one input through a worker pool into one output. Every entry point (file, pipe, upload) runs the engine
// through this function.
import type { Block } from '../core/block.ts';
import { SluiceError, tooMany } from '../core/errors.ts';
import type { Explained } from '../core/explained-work.ts';
import { SlabPool } from '../core/slabs.ts';
import { frameOf } from '../formats/choose-formatter.ts';
import { decoderOverride } from '../formats/decode/decoder-override.ts';
import {
  type CutOptions,
  cutBlocks,
  cutWhole,
  type Leased,
  movedBlocks,
  type PiecePlace,
  withoutPlace,
} from '../io/source/block-cutter.ts';
import { tableBlocks } from '../io/source/table-blocks.ts';
import type { Account, GoesOn, RunCounts, WrittenBlock } from './counts.ts';
import type { ScoredPart, StreamSpec } from './protocol.ts';
import { runBlock, runStream } from './run-stream.ts';
import {
  assertExplainable,
  HeaderTaker,
  hasHeader,
  maxRecordBytes,
  type StreamOptions,
  scannerFor,
  streamSpec,
  withNamedColumns,
} from './stream-spec.ts';
import type { WorkerPool } from './worker-pool.ts';

export const DEFAULT_BLOCK_BYTES = 512 * 1024;
/**
 * Block size for files in bytes. Blocks of tables are larger, because a row as a text line is three times as long as in
 * CSV.
 */
export const blockBytesOf = (isTable: boolean): number => (isTable ? 2 : 1) * DEFAULT_BLOCK_BYTES;
/** A stream counts as large if its first block has at least this many bytes. */
const LARGE_BYTES = 128 * 1024;
/** Created only once: each abort without a reason would create an error with a stack trace. */
const OVER = new SluiceError('cancelled', 'the stream has ended');
/** Makes the output start without a head, because the requested rows begin after the first block. */
const BEHIND: GoesOn = { blocks: 0, rows: 0, inputEnd: 0, written: Infinity };

/** A range of rows from 1; `last` is inclusive. */
export interface RowRange {
  first: number;
  last: number;
}

export interface ScoreChunksOptions extends StreamOptions {
  pool: WorkerPool;
  /**
   * The whole input, if it is already in memory; `chunks` is then not read. A small input of this kind is scored
   * without the pipeline of blocks.
   */
  whole?: Uint8Array | null;
  /** An account with a unit only for this input, because its counts are compared with the number of rows read. */
  account: Account;
  write: (bytes: Uint8Array) => Promise<void>;
  onPart?: (part: ScoredPart) => void;
  /**
   * Called in order, after each complete block was written. An error thrown by this function ends the run. Not
   * supported with `whole`.
   */
  onBlock?: (written: WrittenBlock) => void | Promise<void>;
  /** State for resuming a stream. Not supported with `whole`. */
  goesOn?: GoesOn;
  /**
   * Scores only the blocks that contain at least one of these rows; other blocks are read and skipped. Not supported
   * with `whole`.
   */
  only?: RowRange;
  /** As in `CutOptions`. Not supported with `whole`. */
  onConsumed?: CutOptions['onConsumed'];
  failOnInvalid?: boolean;
  /**
   * Position of this piece in the whole input; absent for the first piece. If set, the output gets no head. Not
   * supported with `whole`.
   */
  place?: PiecePlace;
  blockBytes?: number;
  /**
   * Whether this is the only stream of the process. Such a stream may use resources that many streams could not share.
   * Default: no.
   */
  alone?: boolean;
  /** Flushes an incomplete block when no byte has arrived for this many ms. */
  idleMs?: number;
  /**
   * Inputs of the same owner share the owner's turns at the workers. Without an owner, the input has turns of its own.
   */
  owner?: string;
  signal?: AbortSignal;
}

/**
 * Scores the whole input.
 * @throws SluiceError header_mismatch, wrong_delimiter, empty_input, malformed_json, truncated_input, limit_exceeded,
 *   cancelled, or an error of the chunks, the workers or `write`
 */
export async function scoreChunks(asked: ScoreChunksOptions): Promise<Readonly<RunCounts>> {
  const options = withNamedColumns(asked);
  const { pool, input } = options;
  if (options.interpretation) assertExplainable(options.model, options.interpretation);
  if (options.whole) return scoreWhole(options, options.whole);
  // Number of slabs: two blocks per worker, one more block per worker that is being read or written, and one spare
  // slab. The line kernel needs all slabs in one memory; the reference path uses no kernel.
  const together = options.alone === true && decoderOverride() === null;
  const slabs = new SlabPool(pool.workers * 3 + 1, options.blockBytes ?? DEFAULT_BLOCK_BYTES, together);
  const stop = new AbortController();
  const onAbort = () => stop.abort(options.signal?.reason);
  options.signal?.addEventListener('abort', onAbort, { once: true });
  if (options.signal?.aborted) onAbort();
  const release = options.account.flow.hold(() => slabs.held);
  const { explained } = options.account.flow;
  const header = new HeaderTaker(options);
  const common = {
    slabs,
    signal: stop.signal,
    flow: options.account.flow,
    ...(options.idleMs === undefined ? {} : { idleMs: options.idleMs }),
    ...(options.onConsumed ? { onConsumed: options.onConsumed } : {}),
  };
  const { table } = options.chunks;
  // The reference path reads a table as lines of text.
  const whole =
    table && decoderOverride() === null
      ? tableBlocks(table, { ...common, maxRecordBytes: maxRecordBytes(options.limits) })
      : cutBlocks(options.chunks, {
          ...common,
          scanner: scannerFor(options),
          ...(hasHeader(input)
            ? { onHeader: header.take, headApart: options.place !== undefined }
            : { middle: options.place !== undefined }),
        });
  const placed = input.format === 'ndjson' && input.table ? withoutPlace(whole) : whole;
  const cut = options.place ? movedBlocks(placed, options.place) : placed;
  try {
    // The header determines how the remaining input is read, so the first block is cut before the stream is opened.
    const first = await cut.next();
    const spec = streamSpec(options, header.fitted);
    const { only } = options;
    const isBehind = only !== undefined && first.value !== undefined && first.value.faults.length < only.first;
    const large = first.value !== undefined && first.value.length >= LARGE_BYTES;
    const stream = pool.open(large ? { ...spec, large } : spec, told(options), options.owner);
    try {
      return await runStream({
        blocks: async function* (signal) {
          signal.addEventListener('abort', () => stop.abort(signal.reason), { once: true });
          let rows = 0;
          let next = options.goesOn ? await skip(options.goesOn, first, cut, slabs) : first;
          for (; !next.done; next = await cut.next()) {
            const { firstRow, faults, lease } = next.value;
            if (only && (firstRow > only.last || firstRow + faults.length <= only.first)) {
              slabs.release(lease);
              if (firstRow > only.last) return;
              continue;
            }
            rows += faults.length;
            explained.rowsIn += faults.length;
            if (rows > (options.limits?.maxRows ?? Infinity)) throw tooMany('rows', options.limits!.maxRows!);
            yield next.value;
          }
        },
        stream,
        slabs,
        ...writeOptions(options, spec),
        ...(isBehind ? { goesOn: BEHIND } : {}),
      });
    } finally {
      stream.close();
    }
  } catch (error) {
    if (options.signal?.aborted && !(error instanceof SluiceError)) {
      throw new SluiceError('cancelled', 'the run was cancelled', { cause: error });
    }
    throw error;
  } finally {
    options.signal?.removeEventListener('abort', onAbort);
    stop.abort(OVER);
    release();
    await cut.return();
  }
}

/** Callback for the progress of effects; undefined if no interpretation is requested. */
function told({ interpretation, account }: ScoreChunksOptions): ((more: Explained) => void) | undefined {
  return interpretation ? (more) => account.flow.explained.add(more) : undefined;
}

type Cut = AsyncGenerator<Block & Leased, void, void>;
type NextBlock = Awaited<ReturnType<Cut['next']>>;

/**
 * Skips the blocks that an interrupted run wrote, and returns the next block.
 * @throws SluiceError checkpoint_mismatch: the blocks differ from those of the interrupted run
 */
async function skip(goesOn: GoesOn, first: NextBlock, cut: Cut, slabs: SlabPool): Promise<NextBlock> {
  let next = first;
  for (let [skipped, rows] = [0, 0]; skipped < goesOn.blocks; skipped++) {
    if (next.done)
      throw new SluiceError('checkpoint_mismatch', 'the input is shorter than when the run was interrupted');
    const { faults, inputEnd, lease } = next.value;
    rows += faults.length;
    const last = skipped + 1 === goesOn.blocks;
    if (last && (rows !== goesOn.rows || inputEnd !== goesOn.inputEnd)) {
      throw new SluiceError('checkpoint_mismatch', 'the input rows differ from those of the interrupted run');
    }
    await goesOn.onBlock?.(next.value);
    slabs.release(lease);
    next = await cut.next();
  }
  return next;
}

/** Scores an input that is completely in memory. */
async function scoreWhole(options: ScoreChunksOptions, whole: Uint8Array): Promise<Readonly<RunCounts>> {
  const { pool, input, limits } = options;
  const header = new HeaderTaker(options);
  const block = cutWhole(whole, {
    scanner: scannerFor(options),
    ...(hasHeader(input) ? { onHeader: header.take } : {}),
  });
  if ((block?.faults.length ?? 0) > (limits?.maxRows ?? Infinity)) throw tooMany('rows', limits!.maxRows!);
  const spec = streamSpec(options, header.fitted);
  const stream = pool.open(spec, told(options), options.owner);
  options.account.flow.explained.rowsIn += block?.faults.length ?? 0;
  try {
    return await runBlock(block, { stream, ...writeOptions(options, spec) });
  } finally {
    stream.close();
  }
}

function writeOptions(options: ScoreChunksOptions, spec: StreamSpec) {
  const frame = frameOf(spec.output, options.model.manifest);
  return {
    frame: options.place ? { ...frame, head: '' } : frame,
    account: options.account,
    model: options.model.ref,
    write: options.write,
    recycle: (buffer: ArrayBuffer) => options.pool.recycle(buffer),
    ...(options.writeRejects ? { writeRejects: options.writeRejects } : {}),
    ...(options.onPart ? { onPart: options.onPart } : {}),
    ...(options.onBlock ? { onBlock: options.onBlock } : {}),
    ...(options.goesOn ? { goesOn: options.goesOn } : {}),
    ...(options.failOnInvalid ? { failOnInvalid: true } : {}),
    ...(options.signal ? { signal: options.signal } : {}),
  };
}
