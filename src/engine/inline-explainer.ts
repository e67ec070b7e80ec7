// Interprets single applications inline, on the thread that has them, where effects are computed at once and without asking the model: what
// the trip to a worker costs is more than the effects of a row.
import { inBackground } from '../core/in-background.ts';
import type { EnginePolicy, Known } from '../inference/evaluate/choose-evaluator.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { type InlineBlock, type InlineKind, isWithin, jobOf, SlowWatch } from './inline-job.ts';
import type { ScoredPart } from './protocol.ts';
import { Scorer } from './scorer.ts';

const MAX_ROWS = 2;
const MAX_BYTES = 16 * 1024;
/** Mean time a block, ms, above which they go to workers. */
const MAX_MEAN_MS = 1;

/**
 * Modes: unopened → opening, with the first block that is offered, because few services are asked for effects → open, or of no use: the
 * model has to be asked for effects, or they take too long. Whatever is offered before it is open is for workers.
 */
export class InlineExplainer {
  readonly #model: ModelPackage;
  readonly #policy: EnginePolicy;
  readonly #known: Known;
  readonly #watch = new SlowWatch(MAX_MEAN_MS);
  #opening = false;
  #scorer: Scorer | null = null;
  /** Blocks share the memory of the scorer, so one waits for the other. */
  #tail: Promise<unknown> = Promise.resolve();

  constructor(model: ModelPackage, policy: EnginePolicy, known: Known) {
    this.#model = model;
    this.#policy = policy;
    this.#known = known;
  }

  /** Whether it is open for blocks; the first to ask opens it. */
  #ready(): boolean {
    if (!this.#opening) {
      this.#opening = true;
      inBackground('opening effects inline', () => this.#open());
    }
    return this.#scorer !== null && !this.#watch.tooSlow;
  }

  async #open(): Promise<void> {
    const scorer = await Scorer.open(this.#model, MAX_ROWS, this.#policy, this.#known);
    // A worker says what is wrong with effects that cannot be had.
    if (await scorer.explainsAlone().catch(() => false)) this.#scorer = scorer;
  }

  /** null, at once or later: a worker has to, and says why where it failed. */
  score(kind: InlineKind, block: InlineBlock, buffers: ArrayBuffer[]): Promise<ScoredPart | null> | null {
    // Pairs of columns take longer than the trip to a worker, and must not make effects alone count as slow.
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
