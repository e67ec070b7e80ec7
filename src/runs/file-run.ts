// A run whose input is files or standard input: one input after the other into its output, counted by one account.
import { asSluiceError, SluiceError } from '../core/errors.ts';
import { named, words } from '../core/log.ts';
import { warnUnlocked } from '../engine/host-events.ts';
import { assertExplainable } from '../engine/score-chunks.ts';
import { versionOf } from '../model/package/load-package.ts';
import { CommitGroup } from './commit-group.ts';
import { newResult, type RunContext, type RunningPipeline, type RunProgress, type RunResult } from './context.ts';
import { inputsOf, isPattern, type OpenSource, outputEndpoint } from './endpoints.ts';
import { filesRead, filesWritten, type RunStep, shardInputs, sizeOfInputs } from './files-of-run.ts';
import { failureOf, type InputFailure, inputFailure, nextMayWork } from './input-failures.ts';
import { InputScorer } from './input-scorer.ts';
import { RunEnds } from './open-ends.ts';
import type { OpenStep, PlannedRun } from './plugin.ts';
import { signKeyOf } from './plugins/output-manifest.ts';
import { PLUGINS } from './plugins/plugin-list.ts';
import { runStep } from './run-step.ts';
import { refuseSameFiles } from './same-files.ts';
import { type FileRunSpec, type FilesOnlySpec, interpretationOf, rejectsOf } from './spec.ts';

/** @throws SluiceError usage | input_not_found | model_* before anything is read or written; `done` rejects with what ends the run */
export async function startFileRun(spec: FileRunSpec, context: RunContext): Promise<RunningPipeline> {
  const { shard, source, sink } = spec;
  const inputs = shard ? shardInputs(shard) : await inputsOf(source);
  const hasFiles = sink.type !== 'kafka' && sink.type !== 'postgres';
  const steps = inputs.map(
    (input): RunStep => ({ input, output: hasFiles ? outputEndpoint((spec as FilesOnlySpec).sink, input) : null }),
  );
  const several = shard
    ? inputs.length > 1
    : source.type === 'file' && isPattern(source.path) && inputs[0]!.name !== source.path;
  const rejects = rejectsOf(spec, several);
  await refuseSameFiles(filesRead(spec, inputs), [...filesWritten(spec, steps, rejects, several), ...context.beside]);
  const model = await context.registry.resolve(spec.model);
  warnUnlocked(context.log, model);
  if (spec.score.interpretation !== 'none') assertExplainable(model, interpretationOf(spec));
  const scorer = new InputScorer({
    model,
    engine: spec.score.evaluator,
    workers: spec.score.workers,
    batchRows: spec.tuning?.batchRows,
    blockBytes: spec.tuning?.blockBytes,
    onWorkerDeath: (reason) => {
      context.metrics?.workerDeaths.inc({ model: model.ref });
      const says = words`a worker died and is replaced: ${reason}`;
      context.log('error', 'worker_died', says, { model: named(model.ref), reason });
    },
    onWork: (ms) => context.metrics?.workerBusy.inc(ms / 1000),
  });
  const evaluator = () => scorer.evaluator;
  const planned = {
    spec,
    context,
    model,
    steps,
    several,
    rejects,
    signKey: await signKeyOf(spec),
    result: newResult(),
    evaluator,
  };
  const openers: OpenStep[] = [];
  for (const plugin of PLUGINS) {
    const open = await plugin.plan(planned);
    if (open) openers.push(open);
  }
  const totalBytes = steps.length > 1 ? await sizeOfInputs(inputs) : null;
  const run = new FileRun(planned, openers, scorer, totalBytes);
  return { progress: () => run.progress(), done: run.done, stop: () => run.stop() };
}

class FileRun {
  readonly done: Promise<RunResult>;
  readonly #run: PlannedRun;
  readonly #openers: readonly OpenStep[];
  readonly #scorer: InputScorer;
  /** Of all inputs as stored; null where unknown. */
  readonly #totalBytes: number | null;
  readonly #ends: RunEnds;
  readonly #stop = new AbortController();
  #source: OpenSource | null = null;
  /** Bytes of the inputs that ended. */
  #readBefore = 0;

  constructor(run: PlannedRun, openers: readonly OpenStep[], scorer: InputScorer, totalBytes: number | null) {
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

  async stop(): Promise<void> {
    this.#stop.abort(new SluiceError('cancelled', 'the run was stopped'));
    await this.done.catch(() => {});
  }

  async #scoreAll(): Promise<RunResult> {
    const { steps, rejects, context, result } = this.#run;
    const failures: InputFailure[] = [];
    const shared = rejects.ofAll ? new CommitGroup(context.log) : null;
    let tried = 0;
    try {
      for (const step of steps) {
        tried++;
        try {
          await this.#score(step, shared);
        } catch (error) {
          const e = asSluiceError(error, 'internal_error');
          if (steps.length === 1) throw e;
          failures.push(inputFailure(step.input.name, e));
          if (!nextMayWork(e)) break;
        }
      }
      // The inputs that were scored are published, however the others ended.
      if (shared && !shared.isEmpty) {
        await rejects.end(shared.set);
        await shared.publish(result);
      }
      if (failures.length > 0) throw failureOf(failures, { inputs: steps.length, tried });
      return result;
    } finally {
      await shared?.discard();
      await this.#ends.close();
      await this.#scorer.close();
    }
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
      if (!shared) await group.publish(run.result);
    } finally {
      if (!shared) await group.discard();
      this.#source = null;
    }
  }
}
