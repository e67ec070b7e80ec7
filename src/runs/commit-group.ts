// Outputs that are published atomically: the outputs of one input, or of all inputs when the inputs share a rejects
// file.
import type { Log } from '../core/log.ts';
import type { RunCounts } from '../engine/counts.ts';
import { CommitSet } from '../io/sink/commit-set.ts';
import type { UnitAccount } from './account.ts';
import type { RunResult } from './context.ts';
import type { StepObservers } from './plugin.ts';

/** An input whose rows were all scored. The files of its output are written but not yet visible. */
interface ScoredStep {
  observers: StepObservers;
  counts: Readonly<RunCounts>;
  unit: UnitAccount;
  /** Path of the output; null if the step has no such file. */
  output: string | null;
  rejects: string | null;
  bytesRead: number;
  bytesWritten: number;
}

export class CommitGroup {
  readonly set: CommitSet;
  readonly #steps: ScoredStep[] = [];

  constructor(log: Log) {
    this.set = new CommitSet(log);
  }

  get isEmpty(): boolean {
    return this.#steps.length === 0;
  }

  add(step: ScoredStep): void {
    this.#steps.push(step);
  }

  /** Publishes all files at once; from then on, their rows are counted. @throws SluiceError output_* | model_invalid */
  async publish(result: RunResult): Promise<void> {
    try {
      for (const { observers, counts } of this.#steps) await observers.sidecars(counts);
      await this.set.publish();
    } catch (error) {
      for (const { observers } of this.#steps) await observers.failed(error);
      throw error;
    }
    for (const { unit, output, rejects, bytesRead, bytesWritten } of this.#steps) {
      unit.settle();
      result.bytesRead += bytesRead;
      result.bytesWritten += bytesWritten;
      if (output !== null) result.outputs.push(output);
      if (rejects !== null && !result.rejectLists.includes(rejects)) result.rejectLists.push(rejects);
    }
    for (const { observers } of this.#steps) await observers.published();
  }

  /** Discards unpublished files. Idempotent. */
  async discard(): Promise<void> {
    await this.set.abort();
    for (const { unit } of this.#steps) unit.drop();
  }
}
