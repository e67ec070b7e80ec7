// Estimates from samples how long files take to score on similar machines, and how many machines are needed to meet a
// deadline.
import { monotonicMs, startTimer, stopTimer, type Timer } from '../../core/clock.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import { RunAccount } from '../account.ts';
import { type OpenSource, withOutput } from '../byte-ends.ts';
import { openSource } from '../endpoints.ts';
import { InputScorer } from '../input-scorer.ts';
import { type RunSpec, scoringOf } from '../spec.ts';
import type { PlannedInput, ShardPlan } from './shard-plan.ts';

/**
 * Factor applied to measured times, because at night the machines have other load, slower disks and repeated shards.
 */
export const MARGIN = 1.25;
const MOST_MACHINES = 10_000;
const PIECES = 3;
/** Maximum duration of sampling in ms. */
const SAMPLE_MS = 9_000;

/** Measurements on this machine, without a safety margin. */
export interface Measured {
  /** Seconds until the first rows are scored. */
  startSeconds: number;
  /** Raw input bytes per second, for all workers together. */
  bytesPerSecond: number;
  rowsPerSecond: number;
  /** Output bytes per input byte. */
  outputShare: number;
}

export interface Estimate {
  /** Estimated seconds on a single machine, including the margin. */
  seconds: number;
  /** Estimated seconds on `machines` machines, including the margin and the merge. */
  inShardsSeconds: number;
  /** Null if no number of machines is sufficient. */
  machines: number | null;
}

/**
 * `planBytesPerSecond`: how fast this machine reads and hashes a file. This speed matters because a merge reads, hashes
 * and writes all shard results.
 */
export function estimate(measured: Measured, bytes: number, leftSeconds: number, planBytesPerSecond: number): Estimate {
  const { startSeconds, bytesPerSecond, outputShare } = measured;
  const merging = (2 * bytes * outputShare) / planBytesPerSecond;
  const takes = (machines: number): number =>
    MARGIN * (startSeconds + bytes / bytesPerSecond / machines + (machines > 1 ? merging : 0));
  const spare = leftSeconds / MARGIN - startSeconds - merging;
  const needed =
    takes(1) <= leftSeconds ? 1 : spare > 0 ? Math.max(2, Math.ceil(bytes / bytesPerSecond / spare)) : null;
  const machines = needed !== null && needed <= MOST_MACHINES ? needed : null;
  return { seconds: takes(1), inShardsSeconds: takes(machines ?? MOST_MACHINES), machines };
}

interface SampleOptions {
  spec: RunSpec;
  plan: ShardPlan;
  model: ModelPackage;
  sampleMs?: number;
  signal?: AbortSignal;
}

/** Scores some pieces of a plan for a few seconds and discards the output. @throws SluiceError any error that ends a run */
export async function measureSample({
  spec,
  plan,
  model,
  sampleMs = SAMPLE_MS,
  signal,
}: SampleOptions): Promise<Measured> {
  const scorer = new InputScorer({ model, engine: spec.score.evaluator, workers: spec.score.workers });
  const began = monotonicMs();
  const sum = { ms: 0, bytes: 0, rows: 0, output: 0, start: 0 };
  try {
    for (const planned of spread(plan)) {
      const ends = new Sampled();
      await samplePiece(planned, { scorer, spec, ends, ms: sampleMs / PIECES, signal });
      sum.start ||= (ends.first ?? monotonicMs()) - began;
      sum.ms += ends.ms;
      sum.bytes += ends.bytes;
      sum.rows += ends.rows;
      sum.output += ends.output;
    }
  } finally {
    await scorer.close();
  }
  const seconds = Math.max(sum.ms, 1) / 1000;
  return {
    startSeconds: sum.start / 1000,
    bytesPerSecond: Math.max(sum.bytes, 1) / seconds,
    rowsPerSecond: sum.rows / seconds,
    outputShare: sum.output / Math.max(sum.bytes, 1),
  };
}

/** Pieces from the beginning, middle and end, because the file may be sorted. */
function spread({ pieces, files }: ShardPlan): PlannedInput[] {
  const at = Array.from({ length: PIECES }, (_, i) => Math.round((i * (pieces.length - 1)) / (PIECES - 1)));
  return [...new Set(at)].map((i) => ({ piece: pieces[i]!, file: files[pieces[i]!.file]! }));
}

/**
 * Measures the time between the first and the last result. If there is only one result, measures from the opening of
 * the source.
 */
class Sampled {
  first: number | null = null;
  rows = 0;
  output = 0;
  #source: OpenSource | null = null;
  #opened = 0;
  #last = 0;

  open(source: OpenSource): void {
    this.#source = source;
    this.#opened = monotonicMs();
  }

  part(rows: number, output: number): void {
    this.#last = monotonicMs();
    this.first ??= this.#last;
    this.rows += rows;
    this.output += output;
  }

  get bytes(): number {
    return this.#source?.bytesRead() ?? 0;
  }

  get ms(): number {
    return this.#last - this.#opened;
  }
}

interface PieceSample {
  scorer: InputScorer;
  spec: RunSpec;
  ends: Sampled;
  ms: number;
  signal: AbortSignal | undefined;
}

async function samplePiece(planned: PlannedInput, { scorer, spec, ends, ms, signal }: PieceSample): Promise<void> {
  const { name, format, compression, delimiter } = planned.file;
  const enough = new AbortController();
  const nothing = {
    revocable: true,
    bytesWritten: 0,
    write: async () => {},
    commit: async () => {},
    abort: async () => {},
  };
  const account = new RunAccount();
  const scoring = scoringOf(spec, []);
  let timer: Timer | undefined;
  try {
    await scorer.score({
      open: async () => {
        const source = await openSource({
          name,
          format,
          compression,
          delimiter,
          planned,
          recordBytes: spec.score.record_bytes,
        });
        return {
          // A source that is not repeatable is read only after the workers are ready and the verdict is known. Start-up
          // time thus does not distort the sample.
          source: { ...source, repeatable: false, chunks: begun(source) },
          sink: withOutput(nothing, { format: 'csv', delimiter: ',' }),
          onPart: ({ rows, length }) => ends.part(rows, length),
        };
      },
      scoring: { ...scoring, failOnInvalid: false },
      unit: () => account.unit(),
      signal: signal ? AbortSignal.any([signal, enough.signal]) : enough.signal,
    });
  } catch (error) {
    if (!enough.signal.aborted) throw error;
  } finally {
    stopTimer(timer);
  }

  /** The clock starts with the first requested byte. */
  function begun(source: OpenSource): OpenSource['chunks'] {
    const { chunks } = source;
    const start = () => {
      if (timer !== undefined) return;
      ends.open(source);
      timer = startTimer(() => enough.abort(), ms);
    };
    return {
      async *[Symbol.asyncIterator]() {
        start();
        yield* chunks;
      },
      ...(chunks.readInto
        ? {
            readInto: (target: Uint8Array) => {
              start();
              return chunks.readInto!(target);
            },
          }
        : {}),
    };
  }
}
