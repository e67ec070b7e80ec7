// Scores files or standard input: reads each input in turn and writes its output. All inputs share one account.
import { storedSize } from '../connectors/stored-bytes.ts';
import { asSluiceError, SluiceError } from '../core/errors.ts';
import { isRevocable } from '../io/sink/file-sink.ts';
import { versionOf } from '../model/package/load-package.ts';
import type { OpenSource } from './byte-ends.ts';
import { CommitGroup } from './commit-group.ts';
import type { RunContext, RunningPipeline, RunProgress, RunResult } from './context.ts';
import { canContinueAfter, failureOf, type InputFailure, inputFailure } from './input-failures.ts';
import { RunEnds } from './open-ends.ts';
import { type FileRunPlan, planFileRun } from './plan-file-run.ts';
import type { RejectsList } from './rejects-file.ts';
import { runStep } from './run-step.ts';
import { type RunStep, sizeOfInputs } from './same-files.ts';
import type { FileRunSpec } from './spec.ts';

/**
 * `done` rejects with the error that ends the run.
 * @throws SluiceError usage | input_not_found | model_* before anything is read or written
 */
export async function startFileRun(spec: FileRunSpec, context: RunContext): Promise<RunningPipeline> {
  const run = new FileRun(await planFileRun(spec, context));
  return {
    progress: () => run.progress(),
    done: run.done,
    published: () => run.published(),
    stop: () => run.stop(),
  };
}

class FileRun {
  readonly done: Promise<RunResult>;
  readonly #run: FileRunPlan['run'];
  readonly #openers: FileRunPlan['openers'];
  readonly #scorer: FileRunPlan['scorer'];
  readonly #totalBytes: FileRunPlan['totalBytes'];
  readonly #ends: RunEnds;
  readonly #stop = new AbortController();
  #source: OpenSource | null = null;
  /** Bytes read from the inputs that are finished. */
  #readBefore = 0;
  #isPublished = false;

  constructor({ run, openers, scorer, totalBytes }: FileRunPlan) {
    this.#run = run;
    this.#openers = openers;
    this.#scorer = scorer;
    this.#totalBytes = totalBytes;
    this.#ends = new RunEnds(run.spec, run.context, run.model);
    this.#measure();
    this.done = this.#scoreAll();
    this.done.catch(() => {});
  }

  #measure(): void {
    const { spec, context, model } = this.#run;
    const { metrics } = context;
    metrics?.served.set({ reference: spec.model, version: versionOf(model.manifest) }, 1);
    metrics?.onScrape(() => {
      metrics.workers.set(this.#scorer.ready);
      metrics.modelsLoaded.set(this.#scorer.ready > 0 ? 1 : 0);
      const { explained } = this.progress();
      if (explained) metrics.explainedShare.set({ pipeline: context.name }, explained.share);
    });
  }

  progress(): RunProgress {
    const { steps, context } = this.#run;
    const totalBytes = steps.length > 1 ? this.#totalBytes : (this.#source?.totalBytes ?? null);
    const bytesRead = this.#readBefore + (this.#source?.bytesRead() ?? 0);
    const read = totalBytes === null ? null : totalBytes === 0 ? 1 : bytesRead / totalBytes;
    const explained = context.account.flow().explained.progress(read);
    return { counts: context.account.progress, bytesRead, totalBytes, lag: null, explained };
  }

  published(): RunResult | null {
    return this.#isPublished ? this.#run.result : null;
  }

  async stop(): Promise<void> {
    this.#stop.abort(new SluiceError('cancelled', 'the run was stopped'));
    await this.done.catch(() => {});
  }

  async #scoreAll(): Promise<RunResult> {
    const { steps, rejects, context, result } = this.#run;
    const failures: InputFailure[] = [];
    const shared = rejects.ofAll ? new CommitGroup(context.log) : null;
    const unscored = new Set(steps);
    let tried = 0;
    let withheldBy: string | null = null;
    try {
      for (const step of steps) {
        tried++;
        try {
          await this.#score(step, shared);
          unscored.delete(step);
        } catch (error) {
          const e = asSluiceError(error, 'internal_error');
          if (steps.length === 1) throw e;
          failures.push(inputFailure(step.input.name, e));
          if (!canContinueAfter(e)) break;
        }
      }
      // Publishes the scored inputs even if other inputs failed, unless this would invalidate an earlier output.
      if (shared && !shared.isEmpty) {
        withheldBy = await earlierOutputOf(unscored, rejects);
        if (withheldBy === null) {
          await rejects.end(shared.set);
          await this.#publish(shared);
        }
      }
      if (failures.length > 0) {
        const published = this.#isPublished;
        throw failureOf(failures, { inputs: steps.length, tried, withheldBy, published });
      }
      return result;
    } finally {
      await shared?.discard();
      await this.#ends.close();
      await this.#scorer.close();
    }
  }

  async #publish(group: CommitGroup): Promise<void> {
    await group.publish(this.#run.result);
    this.#isPublished = true;
  }

  async #score(step: RunStep, shared: CommitGroup | null): Promise<void> {
    const run = this.#run;
    const group = shared ?? new CommitGroup(run.context.log);
    try {
      const runner = { run, openers: this.#openers, ends: this.#ends, scorer: this.#scorer, signal: this.#stop.signal };
      const onSource = (source: OpenSource) => {
        this.#source = source;
      };
      if (!(await runStep({ ...runner, onSource }, step, group))) {
        this.#readBefore += await sizeOfInputs([step.input]);
        return;
      }
      this.#readBefore += this.#source!.bytesRead();
      const { evaluator, workers } = this.#scorer;
      run.result.by = { model: run.model, packageSha256: run.model.sha256, evaluator, workers };
      if (!shared) await this.#publish(group);
    } finally {
      if (!shared) await group.discard();
      this.#source = null;
    }
  }
}

/**
 * The earlier output of a step that was not scored, if it shares the existing rejects file: its manifest has the hash
 * of that file, so replacing the file would invalidate the earlier output. Null if there is none.
 */
async function earlierOutputOf(unscored: Iterable<RunStep>, rejects: RejectsList): Promise<string | null> {
  for (const { input, output } of unscored) {
    if (output && (await isPublished(output.name)) && (await isPublished(rejects.pathFor(input)!))) return output.name;
  }
  return null;
}

const isPublished = async (file: string): Promise<boolean> =>
  (await isRevocable(file)) && (await storedSize(file)) !== null;
