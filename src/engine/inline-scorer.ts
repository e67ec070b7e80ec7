// Scores small blocks inline, on the thread that has them: for a single application the round trip to a worker
// costs more than the work. Only compiled models, whose code can neither crash nor loop, and only while they are fast.
import type { EnginePolicy, Known } from '../inference/evaluate/choose-evaluator.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { InlineExplainer } from './inline-explainer.ts';
import { type InlineBlock, type InlineKind, isWithin, jobOf, SlowWatch } from './inline-job.ts';
import type { JobBlock } from './job-queue.ts';
import type { ScoredPart } from './protocol.ts';
import { Scorer } from './scorer.ts';

/** What is scored inline. */
export interface InlineLimits {
  /** Of the largest block. */
  rows: number;
  bytes: number;
  /** Rows a micro-batch. */
  batchRows: number;
  /** Blocks in all; null: as long as they are fast. */
  blocks: number | null;
}

/** Of a service: the oddest bytes hold up the event loop for 20 times as long as good ones, some 3 ms. */
const BETWEEN_REQUESTS: InlineLimits = { rows: 16, bytes: 16 * 1024, batchRows: 16, blocks: null };
/** Mean time a block, ms, above which all go to workers to keep the event loop free. */
const MAX_MEAN_MS = 0.5;

export class InlineScorer {
  readonly #scorer: Scorer;
  readonly #limits: InlineLimits;
  /** Of a service. */
  readonly #explainer: InlineExplainer | null;
  readonly #watch = new SlowWatch(MAX_MEAN_MS);
  #blocks = 0;

  private constructor(scorer: Scorer, limits: InlineLimits, explainer: InlineExplainer | null) {
    this.#scorer = scorer;
    this.#limits = limits;
    this.#explainer = explainer;
  }

  /** null: the model has not been compiled. */
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

  /** Scores a block of a kind of streams; null: a worker has to, because there is too much of it or the model failed. */
  score(kind: InlineKind, block: InlineBlock, buffers: ArrayBuffer[]): ScoredPart | Promise<ScoredPart | null> | null {
    if (kind.spec.output.interpretation !== null) return this.#explainer?.score(kind, block, buffers) ?? null;
    if (!this.#takes(block)) return null;
    this.#blocks++;
    const part = this.scoreAll(kind, block, buffers);
    if (part && this.#limits.blocks === null) this.#watch.saw(part.workMs);
    return part;
  }

  /** Scores a block of any size, without effects; null: a worker has to, because the model failed. */
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
