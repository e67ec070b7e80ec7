// Scores and interprets small blocks inline, on the calling thread: the round trip to a worker costs more than scoring
// one application. Only compiled models are scored inline, because their code can neither crash nor loop forever, and
// only while they are fast.
import { inBackground } from '../core/async.ts';
import type { Block } from '../core/block.ts';
import type { EnginePolicy, Known } from '../inference/evaluate/choose-evaluator.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { JobBlock } from './job-queue.ts';
import { type ScoredPart, type ScoreJob, type StreamSpec, scoreJobOf } from './protocol.ts';
import { Scorer } from './scorer.ts';

/** Blocks per timing window. The first window is ignored, because its code is not optimised yet. */
const WINDOW = 64;
/**
 * Number of slow blocks in a window that indicate a slow model. Fewer can be an effect of a busy machine, which may
 * delay single blocks a lot.
 */
const MANY_SLOW = WINDOW / 4;

type InlineBlock = Omit<Block, 'seq'>;

/** Streams with the same input and output settings. */
interface InlineKind {
  id: number;
  spec: StreamSpec;
}

/** Detects whether blocks take too long to be scored on the event loop. */
class SlowWatch {
  readonly #maxMeanMs: number;
  tooSlow = false;
  #blocks = 0;
  #windows = 0;
  #windowMs = 0;
  #slow = 0;

  /** Maximum mean time per block, ms. */
  constructor(maxMeanMs: number) {
    this.#maxMeanMs = maxMeanMs;
  }

  saw(ms: number): void {
    this.#windowMs += ms;
    if (ms > this.#maxMeanMs) this.#slow++;
    if (++this.#blocks % WINDOW !== 0) return;
    const slow = this.#windowMs / WINDOW > this.#maxMeanMs && this.#slow > MANY_SLOW;
    if (this.#windows++ > 0 && slow) this.tooSlow = true;
    this.#windowMs = 0;
    this.#slow = 0;
  }
}

/** The message that a worker would get for the same block. */
const jobOf = ({ id, spec }: InlineKind, block: JobBlock, recycled: ArrayBuffer | null): ScoreJob =>
  scoreJobOf({ job: 0, kind: id, spec }, block, recycled);

/** Whether a block has at most this many rows and bytes. */
const isWithin = ({ faults, spans, columns, length }: InlineBlock, rows: number, bytes: number): boolean =>
  faults.length <= rows && (columns ? length : spans[faults.length * 2 - 1]! - spans[0]!) <= bytes;

// Maximum size of a block that is interpreted inline. Only effects that are computed immediately, without evaluating
// the model, are computed inline.

const MAX_ROWS = 2;
const MAX_BYTES = 16 * 1024;
/** Mean time per block in ms above which interpreted blocks go to workers. */
const MAX_MEAN_INTERPRET_MS = 1;

/**
 * States: unopened → opening → open or unusable. The first block with effects opens the explainer, because few services
 * receive requests for effects. The explainer is unusable if effects need model evaluations or take too long. Until the
 * explainer is open, blocks go to workers.
 */
class InlineExplainer {
  readonly #model: ModelPackage;
  readonly #policy: EnginePolicy;
  readonly #known: Known;
  readonly #watch = new SlowWatch(MAX_MEAN_INTERPRET_MS);
  #opening = false;
  #scorer: Scorer | null = null;
  /** Blocks share the memory of the scorer, so they are scored one at a time. */
  #tail: Promise<unknown> = Promise.resolve();

  constructor(model: ModelPackage, policy: EnginePolicy, known: Known) {
    this.#model = model;
    this.#policy = policy;
    this.#known = known;
  }

  /** Whether the explainer is open. The first call starts to open the explainer. */
  #ready(): boolean {
    if (!this.#opening) {
      this.#opening = true;
      inBackground('opening effects inline', () => this.#open());
    }
    return this.#scorer !== null && !this.#watch.tooSlow;
  }

  async #open(): Promise<void> {
    const scorer = await Scorer.open(this.#model, MAX_ROWS, this.#policy, this.#known);
    // Errors are not reported here, because workers report why effects are unavailable.
    if (await scorer.explainsAlone().catch(() => false)) this.#scorer = scorer;
  }

  /** Returns null, immediately or later, if a worker must score the block; the worker also reports errors. */
  score(kind: InlineKind, block: InlineBlock, buffers: ArrayBuffer[]): Promise<ScoredPart | null> | null {
    // Pairs of columns take longer than the round trip to a worker. The time for pairs must also not count when
    // deciding whether effects alone are slow.
    if (kind.spec.output.interpretation?.interactions) return null;
    if (!isWithin(block, MAX_ROWS, MAX_BYTES) || !this.#ready()) return null;
    const part = this.#tail.then(async () => {
      try {
        const scored = await this.#scorer!.score(jobOf(kind, block, buffers.pop() ?? null));
        this.#watch.saw(scored.workMs);
        return scored;
      } catch {
        return null;
      }
    });
    this.#tail = part;
    return part;
  }

  forget(kind: number): void {
    const scorer = this.#scorer;
    if (scorer) this.#tail = this.#tail.then(() => scorer.forget(kind));
  }
}

/** Limits that determine which blocks are scored inline. */
export interface InlineLimits {
  /** Maximum size of a block. */
  rows: number;
  bytes: number;
  /** Rows per micro-batch. */
  batchRows: number;
  /** Maximum total number of blocks; null if the number is unlimited while blocks are fast. */
  blocks: number | null;
}

/**
 * Limits of a service. In the worst case, a block of unusual bytes takes about 3 ms, 20 times as long as a normal
 * block.
 */
const BETWEEN_REQUESTS: InlineLimits = { rows: 16, bytes: 16 * 1024, batchRows: 16, blocks: null };
/** Mean time per block in ms above which all blocks go to workers. This limit keeps the event loop responsive. */
const MAX_MEAN_SCORE_MS = 0.5;

export class InlineScorer {
  readonly #scorer: Scorer;
  readonly #limits: InlineLimits;
  /** Null outside services. */
  readonly #explainer: InlineExplainer | null;
  readonly #watch = new SlowWatch(MAX_MEAN_SCORE_MS);
  #blocks = 0;

  private constructor(scorer: Scorer, limits: InlineLimits, explainer: InlineExplainer | null) {
    this.#scorer = scorer;
    this.#limits = limits;
    this.#explainer = explainer;
  }

  /** Returns null if the model has not been compiled. */
  static async open(
    model: ModelPackage,
    policy: EnginePolicy,
    known: Known,
    limits: InlineLimits = BETWEEN_REQUESTS,
  ): Promise<InlineScorer | null> {
    if (known.plan === null) return null;
    const explainer = limits.blocks === null ? new InlineExplainer(model, policy, known) : null;
    return new InlineScorer(await Scorer.open(model, limits.batchRows, policy, known), limits, explainer);
  }

  get evaluator(): string {
    return this.#scorer.evaluator.name;
  }

  /**
   * Scores a block inline. Returns null if a worker must score the block, because it is too large or the model failed.
   */
  score(kind: InlineKind, block: InlineBlock, buffers: ArrayBuffer[]): ScoredPart | Promise<ScoredPart | null> | null {
    if (kind.spec.output.interpretation !== null) return this.#explainer?.score(kind, block, buffers) ?? null;
    if (!this.#takes(block)) return null;
    this.#blocks++;
    const part = this.scoreAll(kind, block, buffers);
    if (part && this.#limits.blocks === null) this.#watch.saw(part.workMs);
    return part;
  }

  /** Scores a block of any size without effects. Returns null if the model failed and a worker must score the block. */
  scoreAll(kind: InlineKind, block: JobBlock, buffers: ArrayBuffer[]): ScoredPart | null {
    try {
      return this.#scorer.scoreNow(jobOf(kind, block, buffers.pop() ?? null));
    } catch {
      return null;
    }
  }

  #takes(block: InlineBlock): boolean {
    const { rows, bytes, blocks } = this.#limits;
    return isWithin(block, rows, bytes) && !this.#watch.tooSlow && (blocks === null || this.#blocks < blocks);
  }

  forget(kind: number): void {
    this.#scorer.forget(kind);
    this.#explainer?.forget(kind);
  }
}
