// One input through a worker pool into one answer: how every door (file, pipe, upload) runs the engine.
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
/** Of a file; tables of columns become lines that are three times as long as those of CSV. */
export const blockBytesOf = (isTable: boolean): number => (isTable ? 2 : 1) * DEFAULT_BLOCK_BYTES;
/** A stream whose first block has at least this many bytes counts as large. */
const LARGE_BYTES = 128 * 1024;
/** Created once: an abort without a reason creates an error with a stack each time. */
const OVER = new SluiceError('cancelled', 'the stream has ended');
/** Something was written before the first block, so that it is written without a head. */
const BEHIND: GoesOn = { blocks: 0, rows: 0, inputEnd: 0, written: Infinity };

/** Rows from 1, `last` inclusive. */
export interface RowRange {
  first: number;
  last: number;
}

export interface ScoreChunksOptions extends StreamOptions {
  pool: WorkerPool;
  /** The whole input, where it is in memory already; `chunks` is not read then. Small inputs take a shortcut. */
  whole?: Uint8Array | null;
  /** A unit of its own: its counts are compared with the rows that went in. */
  account: Account;
  write: (bytes: Uint8Array) => Promise<void>;
  onPart?: (part: ScoredPart) => void;
  /** Called after all of a block was written, in order. Not of a `whole` input. An error it throws ends the run. */
  onBlock?: (written: WrittenBlock) => void | Promise<void>;
  /** Not of a `whole` input. */
  goesOn?: GoesOn;
  /** Score the blocks that have one of these rows only; other rows are read and skipped. Not of a `whole` input. */
  only?: RowRange;
  /** As in `CutOptions`. Not of a `whole` input. */
  onConsumed?: CutOptions['onConsumed'];
  failOnInvalid?: boolean;
  /** The input is a piece of a longer one and not its first: where it lies there. Its answer has no head. Not of a `whole` input. */
  place?: PiecePlace;
  blockBytes?: number;
  /** The only stream of the process: it may use resources that many streams could not share. Default: no. */
  alone?: boolean;
  /** Flush incomplete blocks when no byte arrived for this long, ms. */
  idleMs?: number;
  /** Inputs of one owner share its turns at the workers; absent: the input has its own. */
  owner?: string;
  signal?: AbortSignal;
}

/**
 * Scores the whole input.
 * @throws SluiceError header_mismatch, wrong_delimiter, empty_input, malformed_json, truncated_input, limit_exceeded,
 *   cancelled, or what the chunks, the workers and `write` throw
 */
export async function scoreChunks(asked: ScoreChunksOptions): Promise<Readonly<RunCounts>> {
  const options = withNamedColumns(asked);
  const { pool, input } = options;
  if (options.interpretation) assertExplainable(options.model, options.interpretation);
  if (options.whole) return scoreWhole(options, options.whole);
  // Two blocks a worker in the making, and as many read or waiting to be written.
  // The line kernel sees slabs in one memory only; the reference path does without it.
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
  // The reference path reads the lines of a table.
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
    // The header decides how the rest is read, so the first block is read before the stream is opened.
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

/** Who hears what of the effects is done. */
function told({ interpretation, account }: ScoreChunksOptions): ((more: Explained) => void) | undefined {
  return interpretation ? (more) => account.flow.explained.add(more) : undefined;
}

type Cut = AsyncGenerator<Block & Leased, void, void>;
type NextBlock = Awaited<ReturnType<Cut['next']>>;

/** The first block behind those that were written before. @throws SluiceError checkpoint_mismatch: they are not cut as they were */
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

/** An input that is in memory as a whole. */
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
