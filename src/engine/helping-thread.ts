// Lets the thread that owns a pool score blocks too. While all workers are busy and blocks wait, it scores one block between two turns of
// its event loop. Cutting blocks and writing results leaves it half of its time, and it needs neither a start nor additional memory.
import { monotonicMs, startTimer, stopTimer, type Timer } from '../core/clock.ts';
import type { InlineScorer } from './inline-scorer.ts';
import type { BlockJob } from './job-queue.ts';
import type { ScoredPart } from './protocol.ts';

const EVERY_MS = 300;

export class WaitSum {
  readonly #ask: () => unknown;
  readonly #everyMs: number;
  #waitedMs = 0;
  /** Start of the current wait, in ms of the monotonic clock; null: nothing waits. */
  #since: number | null = null;
  #timer: Timer | undefined;
  #over = false;

  /** `ask` returns a truthy value to stop being called. */
  constructor(ask: () => unknown, everyMs = EVERY_MS) {
    this.#ask = ask;
    this.#everyMs = everyMs;
  }

  /** Reports whether anything is waiting. */
  waits(something: boolean): void {
    if (this.#over || something === (this.#since !== null)) return;
    if (something) {
      this.#since = monotonicMs();
      // The timer detects a long wait even if it never ends.
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
 * The thread prepares to help once blocks have waited AFTER_MS in total and the rest will take at least WORTH_MS;
 * preparing takes about 40 ms.
 */
const AFTER_MS = 10;
const WORTH_MS = 150;
/**
 * Signals and scrapes wait for a block, so the thread stops helping after two consecutive blocks that take longer, ms.
 * A single slow block may be caused by the machine.
 */
const MAX_BLOCK_MS = 250;
const MANY_SLOW = 2;

interface HelpingParts {
  /** null: the model is not compiled. */
  open(): Promise<InlineScorer | null>;
  /** Reusable buffers for results. */
  buffers: ArrayBuffer[];
  /** Estimated time for the rest of the work, ms. */
  leftMs(): number;
  /** Takes a block that waits for a worker; null: none. */
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
    // Workers report why a model cannot be opened.
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
