// Checkpoints of a run that scores one input into one file. Every few seconds, flushes the output to disk and appends a
// line to a journal. Once the process of that run has ended, a later run can resume after the last line of its journal.

import { storedSize } from '../../connectors/stored-bytes.ts';
import { monotonicMs } from '../../core/clock.ts';
import { asSluiceError, type ErrorCode, SluiceError } from '../../core/errors.ts';
import { isFull } from '../../core/file-system.ts';
import { kindOf, type Log, named, words } from '../../core/log.ts';
import type { Tally, WrittenBlock } from '../../engine/counts.ts';
import { gone } from '../../io/sink/commit-journal.ts';
import type { CommitSet } from '../../io/sink/commit-set.ts';
import { type PrefixedChunks, withLatePrefix, withPrefix } from '../../io/source/byte-taps.ts';
import { TallyAccumulator } from '../accumulator.ts';
import type { OpenSource } from '../byte-ends.ts';
import type { Endpoint } from '../endpoint-specs.ts';
import type { Attempt, BlockProof, RunPlugin, StepObserver } from '../plugin.ts';
import type { Resume } from '../spec.ts';
import { CheckpointWriter } from './checkpoint-journal.ts';
import {
  type Checkpoint,
  type CheckpointHead,
  type Found,
  findInterrupted,
  type IdentifiedRun,
  type Interrupted,
  identityOf,
  mismatch,
  obstacleOf,
  type RunIdentity,
} from './interrupted-run.ts';

/** Errors caused by the disk, the machine or an operator. The same run may succeed later, so its files are kept. */
const MAY_GO_ON = new Set<ErrorCode>([
  'cancelled',
  'output_full',
  'output_failed',
  'output_unwritable',
  'input_not_found',
  'input_unreadable',
  'worker_failed',
  'database_unreachable',
  'database_failed',
  'storage_unavailable',
  'internal_error',
  'checkpoint_mismatch',
]);

interface CheckpointOptions extends Omit<IdentifiedRun, 'output'> {
  /** Null if the output is a topic. */
  output: IdentifiedRun['output'] | null;
  /** Whether several inputs share the rejects file. */
  shared: boolean;
  set: CommitSet;
  log: Log;
  /** Interval between checkpoints in ms; 0 disables checkpoints. */
  everyMs: number;
}

/**
 * Finds the interrupted run to resume and takes ownership of its files. Call this function before the files of `set`
 * are opened. Returns null if this run has no checkpoints.
 * @throws SluiceError usage: `--resume` is not possible; checkpoint_mismatch; output_unwritable
 */
async function openCheckpoints(options: CheckpointOptions): Promise<FileCheckpoints | null> {
  const { spec, output, list, set, log, everyMs } = options;
  const resume: Resume = spec.resume ?? 'no';
  const obstacle = await obstacleOf(options);
  if (obstacle === null && !(await isThere(options.input))) return null;
  if (obstacle !== null && resume === 'asked') {
    const what = `--resume: ${obstacle.why}`;
    if (obstacle.refused) throw new SluiceError('usage', what);
    log('warn', 'run_not_resumed', words`${named(what)}; starting from the beginning`, { rows: 0 });
  }
  if (obstacle !== null || output === null) return null;
  const identity = await identityOf({ ...options, output });
  const found = await findInterrupted({ set, output: output.name, list, identity, resume, log });
  if (found === null && everyMs === 0) return null;
  return new FileCheckpoints({ set, log, output: output.name, identity, everyMs, model: options.model }, found);
}

const isThere = async ({ name, query }: Endpoint): Promise<boolean> =>
  query !== undefined || (await storedSize(name)) !== null;

interface Parts {
  set: CommitSet;
  log: Log;
  output: string;
  identity: RunIdentity;
  everyMs: number;
  model: IdentifiedRun['model'];
}

/**
 * States: ahead of the verdict (nothing is journaled) → due, after the interval → writing, concurrently with the run →
 * ended. A checkpoint has four steps:
 * 1. At the end of a block, take the checksums.
 * 2. Flush output and rejects file.
 * 3. Rename both files, so that they survive the process.
 * 4. Append the line to the journal and flush it.
 */
class FileCheckpoints implements StepObserver {
  readonly #parts: Parts;
  /** The interrupted run that this run resumes. */
  readonly resume: Interrupted | null;
  readonly #sum = new TallyAccumulator();
  #input: PrefixedChunks | null = null;
  #file: string | null;
  #writer: CheckpointWriter | null = null;
  #evaluator: string | null = null;
  #blocks = 0;
  #rows = 0;
  #last = monotonicMs();
  #writing: Promise<void> | null = null;
  /** Whether the files that the journal describes are on disk. */
  #durable: boolean;
  /** Set when checkpoints have stopped because the journal could not be written. */
  #off = false;
  #failure: unknown = null;

  constructor(parts: Parts, found: Found | null) {
    this.#parts = parts;
    this.resume = found?.run ?? null;
    this.#file = found?.file ?? null;
    this.#durable = found !== null;
  }

  /** Starts at the beginning of the input. Called again if the output written before the verdict is discarded. */
  begin(): void {
    this.#sum.take();
    this.#blocks = this.resume?.last.blocks ?? 0;
    this.#rows = this.resume?.last.rows ?? 0;
  }

  /** Hashes the part of the input that has been read. */
  tapSource({ source, proof }: Attempt): OpenSource {
    this.#input = prefixed(source, this.resume?.last ?? null, proof);
    return { ...source, chunks: this.#input.chunks };
  }

  /**
   * The evaluator is confirmed, so checkpoints may begin.
   * @throws SluiceError checkpoint_mismatch: another evaluator scored the earlier output
   */
  onVerdict(evaluator: string): void {
    const before = this.resume?.head.evaluator ?? evaluator;
    if (before !== evaluator) throw mismatch(this.#parts.output, this.resume!, ['the evaluator of this machine']);
    this.#evaluator = evaluator;
  }

  onPart(part: Tally): void {
    this.#sum.add(part);
  }

  /** @throws SluiceError output_failed: the output could not be flushed to the disk */
  onBlockEnd({ block, rows }: WrittenBlock, stored: number | null, { sink, rejects, proof }: Attempt): void {
    const input = this.#input!;
    this.#blocks++;
    this.#rows += rows;
    if (this.#failure !== null) throw this.#failure;
    const { everyMs } = this.#parts;
    if (this.#off || this.#writing !== null || stored === null || this.#evaluator === null || everyMs === 0) return;
    if (monotonicMs() - this.#last < everyMs || !input.holds()) return;
    const line: Checkpoint = {
      blocks: this.#blocks,
      rows: this.#rows,
      inputEnd: block.inputEnd,
      read: input.prefix(),
      written: sink.plainBytes ?? sink.bytesWritten,
      output: stored,
      list: rejects.bytes(),
      tally: this.#sum.take(),
      ...(proof ? { proof: proof.takeNew() } : {}),
    };
    this.#writing = this.#write(line, [sink.sync?.(), line.list === null ? undefined : rejects.sync()]).finally(() => {
      this.#writing = null;
      this.#last = monotonicMs();
    });
  }

  async #write(line: Checkpoint, flushed: readonly (Promise<void> | undefined)[]): Promise<void> {
    try {
      await Promise.all(flushed);
    } catch (error) {
      // The error is final: a later flush might succeed although the bytes of this flush are lost.
      this.#failure = error;
      return;
    }
    try {
      if (await this.#journal(line)) this.#durable = true;
    } catch (error) {
      this.#off = true;
      const { log, output } = this.#parts;
      const why = isFull(error) ? words`no room` : kindOf(error);
      log('warn', 'checkpoint_failed', words`cannot write further checkpoints of ${named(output)}: ${why}`);
    }
  }

  /** Returns false if the run failed meanwhile and has discarded its output. */
  async #journal(line: Checkpoint): Promise<boolean> {
    const { set, output, identity } = this.#parts;
    if (this.#writer === null) {
      this.#file ??= await set.journalBeside(output);
      this.#writer = await CheckpointWriter.open(this.#file, this.resume?.journal ?? null);
    }
    if (!(await set.hold())) return false;
    const head: CheckpointHead = { journal: 'sluice-checkpoints', format: 4, identity, evaluator: this.#evaluator! };
    await this.#writer.append(...(this.#durable ? [line] : [head, line]));
    return true;
  }

  /** Waits for the checkpoint in progress. @throws SluiceError output_failed, as in `onBlockEnd` */
  async beforeCommit(): Promise<void> {
    this.#off = true;
    await this.#writing;
    if (this.#failure !== null) throw this.#failure;
  }

  /** Removes the journal after publication. Never throws. */
  async published(): Promise<void> {
    await this.#writer?.close();
    if (this.#file !== null) await gone(this.#file).catch(() => {});
    this.#durable = false;
  }

  /** Ends the set of a failed run. Keeps the files if a later run may succeed. Never throws. */
  async failed(cause: unknown): Promise<void> {
    await this.beforeCommit().catch(() => {});
    const { set, log, output } = this.#parts;
    const error = asSluiceError(cause, 'internal_error');
    if (!this.#durable || !MAY_GO_ON.has(error.code)) {
      await set.abort();
      return this.published();
    }
    await this.#writer?.close();
    await set.leave();
    const says = words`the partial output of ${named(output)} is kept; use --resume to continue`;
    if (error.code !== 'checkpoint_mismatch') log('info', 'run_left', says);
  }
}

/**
 * For a text input, the digests of the block proof identify the input. Hashing the input a second time would double the
 * cost.
 */
function prefixed({ chunks, again }: OpenSource, last: Checkpoint | null, proof: BlockProof | null): PrefixedChunks {
  const isMarked = proof?.isText === true;
  if (!isMarked && last === null && again) return withLatePrefix(chunks, again);
  if (!isMarked) return withPrefix(chunks, last?.read ?? null);
  return { chunks, prefix: () => null, holds: () => proof.reached };
}

/** Saves the state of a step every few seconds, and finds the interrupted run that a step resumes. */
export const checkpointsPlugin: RunPlugin<{ checkpoint_every: number }> = {
  // An interrupted shard is scored again from its start, because a shard is short and one process must describe its
  // whole result.
  plan: ({ spec, options, distinguishing, context, model, rejects }) =>
    spec.shard
      ? null
      : ({ input, output, set }) =>
          openCheckpoints({
            ...{ spec, model, input, output, set, log: context.log },
            list: rejects.pathFor(input),
            shared: rejects.ofAll,
            distinguishing,
            everyMs: options.checkpoint_every * 1000,
          }),
};
