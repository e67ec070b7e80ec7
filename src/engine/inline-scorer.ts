// Scores small blocks inline, on the thread that has them: for a single application the round trip to a worker
// costs more than the work. Only compiled models, whose code can neither crash nor loop, and only while they are fast.
import type { Block } from '../core/block.ts';
import type { EnginePolicy, Known } from '../inference/evaluate/choose-evaluator.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { ScoredPart, StreamSpec } from './protocol.ts';
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
/** Blocks a timing window; the first window does not count, because the code is not optimised yet. */
const WINDOW = 64;
/** Mean time a block, ms, above which all blocks go to workers to keep the event loop free. */
const MAX_MEAN_MS = 0.5;
/** Blocks of a window that must have taken longer than that: a machine that has other things to do delays a few by much. */
const MANY_SLOW = WINDOW / 4;

export class InlineScorer {
  readonly #scorer: Scorer;
  readonly #limits: InlineLimits;
  #jobs = 0;
  #windowMs = 0;
  #slow = 0;
  #windows = 0;
  #tooSlow = false;

  private constructor(scorer: Scorer, limits: InlineLimits) {
    this.#scorer = scorer;
    this.#limits = limits;
  }

  /** null: the model has not been compiled. */
  static async open(
    model: ModelPackage,
    policy: EnginePolicy,
    known: Known,
    limits: InlineLimits = BETWEEN_REQUESTS,
  ): Promise<InlineScorer | null> {
    if (known.plan === null) return null;
    return new InlineScorer(await Scorer.open(model, limits.batchRows, policy, known), limits);
  }

  get evaluator(): string {
    return this.#scorer.evaluator.name;
  }

  takes({ faults, spans }: Pick<Block, 'faults' | 'spans'>, spec: StreamSpec): boolean {
    const rows = faults.length;
    const small = rows <= this.#limits.rows && spans[rows * 2 - 1]! - spans[0]! <= this.#limits.bytes;
    return small && !this.#tooSlow && spec.output.interpretation === null;
  }

  /** Scores a block of a kind of streams. null: the model failed, and a worker has to find the poison row. */
  score(
    kind: { id: number; spec: StreamSpec },
    { slab, spans, faults, lines, firstRow, firstByte }: Omit<Block, 'seq' | 'length'>,
    recycled: ArrayBuffer | null,
  ): ScoredPart | null {
    const { id, spec } = kind;
    const job = { type: 'score', job: 0, kind: id, spec, slab, spans, faults, lines, firstRow, firstByte, recycled } as const; // biome-ignore format: one line
    try {
      const part = this.#scorer.scoreNow(job);
      this.#watch(part.workMs);
      return part;
    } catch {
      return null;
    }
  }

  forget(kind: number): void {
    this.#scorer.forget(kind);
  }

  #watch(ms: number): void {
    const { blocks } = this.#limits;
    if (blocks !== null) {
      this.#tooSlow = ++this.#jobs >= blocks;
      return;
    }
    this.#windowMs += ms;
    if (ms > MAX_MEAN_MS) this.#slow++;
    if (++this.#jobs % WINDOW !== 0) return;
    const slow = this.#windowMs / WINDOW > MAX_MEAN_MS && this.#slow > MANY_SLOW;
    if (this.#windows++ > 0 && slow) this.#tooSlow = true;
    this.#windowMs = 0;
    this.#slow = 0;
  }
}
