// Plans a run of files: finds inputs and outputs, rejects invalid combinations before a byte is read, and opens the plugins.

import { named, words } from '../core/log.ts';
import { warnUnlocked } from '../engine/host-events.ts';
import { assertExplainable } from '../engine/stream-spec.ts';
import { newResult, type RunContext } from './context.ts';
import { inputsOf, isSeveral, outputEndpoint } from './endpoint-specs.ts';
import { InputScorer } from './input-scorer.ts';
import type { OpenStep, PlannedRun, RunOption } from './plugin.ts';
import { signKeyOf } from './plugins/manifest-content.ts';
import { FEATURES, RUN_OPTIONS } from './plugins/plugin-list.ts';
import { rejectsOf } from './rejects-file.ts';
import { filesRead, filesWritten, type RunStep, refuseSameFiles, shardInputs, sizeOfInputs } from './same-files.ts';
import { type FileRunSpec, interpretationOf } from './spec.ts';

export interface FileRunPlan {
  run: PlannedRun;
  /** The plugins of this run, in hook order. */
  openers: readonly OpenStep[];
  scorer: InputScorer;
  /** Total raw size of several inputs in bytes; null if unknown. */
  totalBytes: number | null;
}

/** @throws SluiceError usage | input_not_found | model_* */
export async function planFileRun(spec: FileRunSpec, context: RunContext): Promise<FileRunPlan> {
  const { shard, source, sink } = spec;
  const inputs = shard ? shardInputs(shard) : await inputsOf(source);
  const steps = inputs.map((input): RunStep => ({ input, output: outputEndpoint(sink, input) }));
  const several = shard ? inputs.length > 1 : isSeveral(source, inputs);
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
      const message = words`a worker crashed and is replaced: ${reason}`;
      context.log('error', 'worker_died', message, { model: named(model.ref), reason });
    },
    onWork: (ms) => context.metrics?.workerBusy.inc(ms / 1000),
  });
  const evaluator = () => scorer.evaluator;
  const run: PlannedRun = {
    spec,
    options: optionsIn(spec, () => true),
    distinguishing: optionsIn(spec, ({ distinguishes }) => distinguishes === true),
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
  for (const plugin of await Promise.all(FEATURES.map(({ load }) => load()))) {
    const open = await plugin.plan(run);
    if (open) openers.push(open);
  }
  const totalBytes = steps.length > 1 ? await sizeOfInputs(inputs) : null;
  return { run, openers, scorer, totalBytes };
}

/** The configured values of the options that `some` selects. */
function optionsIn(spec: FileRunSpec, some: (option: RunOption) => boolean): Record<string, unknown> {
  const values = spec as unknown as Readonly<Record<string, unknown>>;
  const names = Object.entries<RunOption>(RUN_OPTIONS).flatMap(([name, option]) => (some(option) ? [name] : []));
  return Object.fromEntries(names.flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]]])));
}
