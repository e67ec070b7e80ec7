// Scores one source into one sink with one account. Every entry point scores its inputs with this function.
import type { GoesOn, RunCounts, WrittenBlock } from '../engine/counts.ts';
import type { ScoredPart } from '../engine/protocol.ts';
import { type ScoreChunksOptions, scoreChunks } from '../engine/score-chunks.ts';
import type { InputFormat } from '../engine/stream-spec.ts';
import type { WorkerPool } from '../engine/worker-pool.ts';
import type { PiecePlace } from '../io/source/block-cutter.ts';
import type { Chunks } from '../io/source/byte-source.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { UnitAccount } from './account.ts';
import type { OpenSink } from './byte-ends.ts';
import type { RejectsPart } from './rejects-file.ts';
import type { Scoring } from './spec.ts';

export interface OneRun {
  model: ModelPackage;
  pool: WorkerPool;
  source: {
    chunks: Chunks;
    input: InputFormat;
    /** The whole input, if it is already in memory. */
    whole?: Uint8Array | null;
    /** Flushes an incomplete block when no byte has arrived for this many ms. */
    idleMs?: number;
    /** As in `ScoreChunksOptions`. */
    place?: PiecePlace;
  };
  scoring: Scoring;
  sink: Pick<OpenSink, 'output' | 'write' | 'commit' | 'abort'>;
  rejects?: RejectsPart;
  account: UnitAccount;
  /** Checks the counts before anything is published. An error thrown by this function ends the run. */
  beforeCommit?: (counts: Readonly<RunCounts>) => void | Promise<void>;
  /** Publishes all outputs at once. `later`: the caller publishes the outputs and settles the account. */
  publish?: (() => Promise<void>) | 'later';
  /** Called after a block result was written. An error thrown by this function ends the run. */
  onPart?: (part: ScoredPart) => void;
  /** Called in order, after each complete block was written. An error thrown by this function ends the run. */
  onBlock?: (written: WrittenBlock) => void | Promise<void>;
  /** State from which scoring continues after the blocks that an earlier process wrote. */
  goesOn?: GoesOn;
  /** As in `ScoreChunksOptions`. */
  only?: ScoreChunksOptions['only'];
  onConsumed?: ScoreChunksOptions['onConsumed'];
  blockBytes?: number;
  /** As in `ScoreChunksOptions`. */
  owner?: string;
  /** Whether this is the only stream of the process. */
  alone?: boolean;
  signal?: AbortSignal;
}

/**
 * Scores the source into the sink. On success, publishes output and rejects file together and settles the account; on
 * error, does none of this.
 * @throws SluiceError any error of `scoreChunks`, the sink, `beforeCommit` or `publish`
 */
export async function runOnce(run: OneRun): Promise<Readonly<RunCounts>> {
  const { model, pool, source, scoring, sink, rejects, account } = run;
  try {
    // Properties are assigned one by one. Spreading objects of varying shapes would cost too much for a small request.
    const options: ScoreChunksOptions = {
      model,
      pool,
      chunks: source.chunks,
      whole: source.whole ?? null,
      input: source.input,
      output: sink.output,
      passthrough: scoring.passthrough,
      interpretation: scoring.interpretation,
      limits: scoring.limits,
      failOnInvalid: scoring.failOnInvalid,
      alone: run.alone === true,
      account,
      write: (bytes) => sink.write(bytes),
    };
    if (source.idleMs !== undefined) options.idleMs = source.idleMs;
    if (source.place) options.place = source.place;
    if (rejects) options.writeRejects = (lines) => rejects.write(lines);
    if (run.onPart) options.onPart = run.onPart;
    if (run.onBlock) options.onBlock = run.onBlock;
    if (run.goesOn) options.goesOn = run.goesOn;
    if (run.only) options.only = run.only;
    if (run.onConsumed) options.onConsumed = run.onConsumed;
    if (run.blockBytes !== undefined) options.blockBytes = run.blockBytes;
    if (run.owner !== undefined) options.owner = run.owner;
    if (run.signal) options.signal = run.signal;
    const counts = await scoreChunks(options);
    await run.beforeCommit?.(counts);
    await rejects?.keep();
    await sink.commit();
    if (run.publish === 'later') return counts;
    await run.publish?.();
    account.settle();
    return counts;
  } catch (error) {
    await sink.abort();
    await rejects?.drop();
    account.drop();
    throw error;
  }
}
