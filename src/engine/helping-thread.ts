// The thread that has a pool is one of its workers: while all others are busy and blocks wait, it scores one between two turns of its
// event loop. Cutting blocks and writing answers leaves it half of its time, and it needs neither a start nor memory of its own.
import { monotonicMs, startTimer, stopTimer, type Timer } from '../core/clock.ts';
import type { InlineScorer } from './inline-scorer.ts';
import type { BlockJob } from './job-queue.ts';
import type { ScoredPart } from './protocol.ts';

const EVERY_MS = 300;

export class WaitSum {
  readonly #ask: () => unknown;
  readonly #everyMs: number;
  #waitedMs = 0;
  /** When it began to wait, in ms of the monotonic clock; null while nothing waits. */
  #since: number | null = null;
  #timer: Timer | undefined;
  #over = false;

  /** `ask` returns something true if it needs to be asked no more. */
  constructor(ask: () => unknown, everyMs = EVERY_MS) {
    this.#ask = ask;
    this.#everyMs = everyMs;
  }

  /** Says whether something waits from now on. */
  waits(something: boolean): void {
    if (this.#over || something === (this.#since !== null)) return;
    if (something) {
      this.#since = monotonicMs();
      // What it waits for may be long in coming: it must not have to come to notice.
      this.#timer = startTimer(() => this.#long(), Math.max(0, this.#everyMs - this.#waitedMs));
    } else {
      stopTimer(this.#timer);
      this.#waitedMs += monotonicMs() - this.#since!;
      this.#since = null;
      if (this.#waitedMs >= this.#everyMs) this.#long();
    }
  }

  /** It will not ask any more. Idempotent. */
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

/** It gets ready when blocks have waited for so long, all in all, and the rest takes so long, ms: that takes it some 40. */
const AFTER_MS = 10;
const WORTH_MS = 150;
/** Signals and scrapes wait for a block: after two in a row that take longer it helps no more, ms. One may be the machine's fault. */
const MAX_BLOCK_MS = 250;
const MANY_SLOW = 2;

interface HelpingParts {
  /** null: the model is not compiled. */
  open(): Promise<InlineScorer | null>;
  /** For answers. */
  buffers: ArrayBuffer[];
  /** How long the rest takes about, ms. */
  leftMs(): number;
  /** Takes a block that waits for a worker; null: there is none. */
  next(): BlockJob | null;
  /** `part` is null where a worker has to score the block. */
  done(job: BlockJob, part: ScoredPart | null): void;
}

/** Modes: waiting for work → getting ready → active → stopped. */
export class HelpingThread {
  readonly #parts: HelpingParts;
  readonly #waiting: WaitSum;
  #scorer: InlineScorer | null = null;
  #called = false;
  #stopped = false;
  #due = false;
  /** Blocks in a row that took long. */
  #slow = 0;

  constructor(parts: HelpingParts) {
    this.#parts = parts;
    this.#waiting = new WaitSum(() => parts.leftMs() > WORTH_MS && this.#getReady(), AFTER_MS);
  }

  /** Whether it takes blocks. */
  get active(): boolean {
    return this.#scorer !== null;
  }

  /** Whether it takes blocks, or soon will. */
  get engaged(): boolean {
    return this.#called && !this.#stopped;
  }

  /** Says whether blocks wait for a worker from now on. */
  waits(something: boolean): void {
    if (this.#scorer === null) this.#waiting.waits(something);
    else if (something && !this.#due) {
      this.#due = true;
      setImmediate(() => this.#help());
    }
  }

  /** It takes no more blocks. Idempotent. */
  stop(): void {
    this.#stopped = true;
    this.#waiting.stop();
    this.#scorer = null;
  }

  #getReady(): true {
    this.#called = true;
    // Why a model cannot be opened is said by the workers.
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
