// Lets the thread that owns a pool score blocks, too. While all workers are busy and blocks wait, the thread scores one
// block between two turns of its event loop. Cutting blocks and writing results take only half of the thread's time,
// and the thread needs neither a start nor additional memory.
import { monotonicMs, startTimer, stopTimer, type Timer } from '../core/clock.ts';
import type { InlineScorer } from './inline-scorer.ts';
import type { BlockJob } from './job-queue.ts';
import type { ScoredPart } from './protocol.ts';

const EVERY_MS = 300;

export class WaitSum {
  readonly #ask: () => unknown;
  readonly #everyMs: number;
  #waitedMs = 0;
  /** Start of the current wait, in ms of the monotonic clock; null if nothing waits. */
  #since: number | null = null;
  #timer: Timer | undefined;
  #over = false;

  /** `ask` is called until it returns a truthy value. */
  constructor(ask: () => unknown, everyMs = EVERY_MS) {
    this.#ask = ask;
    this.#everyMs = everyMs;
  }

  /** Reports whether any block is waiting. */
  waits(something: boolean): void {
    if (this.#over || something === (this.#since !== null)) return;
    if (something) {
      this.#since = monotonicMs();
      // The timer detects a long wait that has not ended yet.
      this.#timer = startTimer(() => this.#long(), Math.max(0, this.#everyMs - this.#waitedMs));
    } else {
      stopTimer(this.#timer);
      this.#waitedMs += monotonicMs() - this.#since!;
      this.#since = null;
      if (this.#waitedMs >= this.#everyMs) this.#long();
    }
  }

  /** Stops calling `ask`. Idempotent. */
  stop(): void {
    this.#over = true;
    stopTimer(this.#timer);
  }

  #long(): void {
    if (this.#ask()) {
      this.stop();
      return;
    }
    this.#waitedMs = 0;
    if (this.#since === null) return;
    this.#since = null;
    this.waits(true);
  }
}

/**
 * The thread prepares to help once blocks have waited AFTER_MS in total, if the remaining work will take at least
 * WORTH_MS. Preparing and optimising the code for a second thread costs up to a fifth of the CPU time of a million rows,
 * and saves no wall time there.
 */
const AFTER_MS = 200;
export const WORTH_MS = 2500;
/**
 * While the thread scores a block, signals and scrapes must wait. After MANY_SLOW consecutive blocks that take longer
 * than MAX_BLOCK_MS, the thread stops helping. The machine may have caused a single slow block.
 */
const MAX_BLOCK_MS = 250;
const MANY_SLOW = 2;

interface HelpingParts {
  /** Opens the scorer; null if the model is not compiled. */
  open(): Promise<InlineScorer | null>;
  /** Reusable buffers for results. */
  buffers: ArrayBuffer[];
  /** Estimated time for the remaining work in ms. */
  leftMs(): number;
  /** Takes a block that waits for a worker; null if none is waiting. */
  next(): BlockJob | null;
  /** `part` is null if a worker must score the block. */
  done(job: BlockJob, part: ScoredPart | null): void;
}

/** States: waiting for work → preparing → active → stopped. */
export class HelpingThread {
  readonly #parts: HelpingParts;
  readonly #waiting: WaitSum;
  #scorer: InlineScorer | null = null;
  #called = false;
  #stopped = false;
  #due = false;
  /** Number of consecutive slow blocks. */
  #slow = 0;

  constructor(parts: HelpingParts) {
    this.#parts = parts;
    this.#waiting = new WaitSum(() => parts.leftMs() > WORTH_MS && this.#getReady(), AFTER_MS);
  }

  /** Whether the thread scores blocks. */
  get active(): boolean {
    return this.#scorer !== null;
  }

  /** Whether the thread scores blocks or is preparing to. */
  get engaged(): boolean {
    return this.#called && !this.#stopped;
  }

  /** Reports whether blocks are waiting for a worker. */
  waits(something: boolean): void {
    if (this.#scorer === null) this.#waiting.waits(something);
    else if (something && !this.#due) {
      this.#due = true;
      setImmediate(() => this.#help());
    }
  }

  /** Stops scoring blocks. Idempotent. */
  stop(): void {
    this.#stopped = true;
    this.#waiting.stop();
    this.#scorer = null;
  }

  #getReady(): true {
    this.#called = true;
    // The error is not reported here, because workers report why a model cannot be opened.
    this.#parts.open().then(
      (scorer) => {
        if (scorer === null) this.stop();
        else if (!this.#stopped) this.#scorer = scorer;
      },
      () => this.stop(),
    );
    return true;
  }

  #help(): void {
    this.#due = false;
    const job = this.#scorer && this.#parts.next();
    if (!job) return;
    const part = this.#scorer!.scoreAll(job.stream.kind, job.block, this.#parts.buffers);
    this.#slow = part && part.workMs > MAX_BLOCK_MS ? this.#slow + 1 : 0;
    if (this.#slow === MANY_SLOW) this.stop();
    this.#parts.done(job, part);
  }
}
