// `sluice shards`: one process of a sharded run, started by an Indexed Job. Plans, scores and merges without an
// external coordinator.
import type { Command } from 'commander';
import { STDIO } from '../../connectors/stdio/stdio-connector.ts';
import { putStored } from '../../connectors/stored-bytes.ts';
import { monotonicMs, sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { saysOf } from '../../core/log.ts';
import { DEFAULT_RECORD_BYTES } from '../../formats/columns/table-limits.ts';
import { isColumnar, namedFormat } from '../../formats/formats.ts';
import { inputsOf } from '../../runs/endpoint-specs.ts';
import { planShards } from '../../runs/shards/plan-shards.ts';
import { decidedDeadline, type SharedRun, SharedWork, seenInputs } from '../../runs/shards/shard-coordination.ts';
import { planText, readPlan } from '../../runs/shards/shard-plan.ts';
import { driveRun, say } from './drive-run.ts';
import { EXIT } from './exit-codes.ts';
import { addFlags, camelCase, given } from './flags/command-spec.ts';
import { FLAGS_OF_RUN, SHARD_COMMANDS, type ShardsFlags } from './flags/score-flags.ts';
import { mergeParts } from './merge.ts';
import { openRegistry } from './open-registry.ts';
import { type ScoreOptions, specOf } from './score.ts';
import { shardOf, specOfShard } from './score-shard.ts';
import { signalled } from './signals.ts';

const LOOK_MS = 1000;

export function addShardsCommand(program: Command): void {
  addFlags(program.command('shards'), SHARD_COMMANDS.shards).action(async (file: string, flags: ShardsFlags) => {
    process.exitCode = await shards(file, flags);
  });
}

/** Runs this shard and returns the exit code. @throws SluiceError */
export async function shards(file: string, flags: ShardsFlags): Promise<number> {
  const index = shardOf(flags, process.env);
  if (index >= flags.shards)
    throw new SluiceError('usage', `shard ${index} does not exist: shards are numbered 0 to ${flags.shards - 1}`);
  const ending = endingOf(flags.output);
  const work = new SharedWork(flags.work);
  await work.open();
  const run = await decided(work, file, flags, index);
  const plan = await readPlan(work.plan);
  if (plan.sha256 !== run.plan) throw new SluiceError('plan_invalid', `${work.plan} was changed since the run started`);
  const told = (text: string) => {
    if (!flags.quiet) say(text);
  };
  if (await work.isMerged(flags.output)) {
    told('all shards are merged');
    return EXIT.done;
  }
  let code: number = EXIT.done;
  if ((await work.found(plan, index, ending)) === null) code = await scored(work, run, index, { flags, ending });
  else told(`shard ${index} is scored`);
  const parts = await work.found(plan, null, ending);
  if (parts === null) return code;
  const merger = await work.merger(index);
  if (merger !== index) {
    told(`shard ${merger} merges`);
    return code;
  }
  code = await mergeParts(work.plan, { plan, parts }, flags);
  await work.merged(plan, flags.output);
  if (!flags.keepParts) {
    await work.removeParts(parts).catch((error: unknown) => say(`cannot remove the parts: ${saysOf(error)}`));
  }
  return code;
}

/**
 * The file extension of the shard results. Shard results are uncompressed text, so that they can be joined; the merged
 * output may be compressed.
 * @throws SluiceError usage
 */
function endingOf(output: string): string {
  const { format } = namedFormat(output);
  if (output !== STDIO && format && format !== 'json' && !isColumnar(format)) return `.${format}`;
  throw new SluiceError('usage', `${output}: shards are merged: name an output that ends in csv, tsv or ndjson`);
}

/** The options that must be equal in all processes of a run, by the names of their flags. */
function optionsOf(flags: ShardsFlags): SharedRun['options'] {
  const kept = FLAGS_OF_RUN.flatMap((name) => {
    const value = flags[camelCase(name) as keyof ShardsFlags];
    return value === undefined ? [] : [[`--${name.replaceAll('_', '-')}`, value] as const];
  });
  return { 'output format': endingOf(flags.output), ...Object.fromEntries(kept) };
}

/**
 * The decisions that apply to all shards. Shard 0 makes these decisions, and the other shards wait for them.
 * @throws SluiceError usage | input_* | model_* | plan_invalid
 */
async function decided(work: SharedWork, file: string, flags: ShardsFlags, index: number): Promise<SharedRun> {
  const { signal, dispose } = signalled();
  try {
    const { inputFormat, inputCompression, delimiter, model } = flags;
    const said = { model, output: STDIO, onInvalid: 'report' as const };
    const spec = specOf(file, { ...said, ...given({ inputFormat, inputCompression, delimiter }) });
    const inputs = await inputsOf(spec.source as Parameters<typeof inputsOf>[0]);
    const now = { shards: flags.shards, asked: model, inputs: await seenInputs(inputs), options: optionsOf(flags) };
    if (index === 0 && (await work.run()) === null) {
      // Decided before planning, which can take long.
      const deadline = flags.deadline === undefined ? {} : { deadline: decidedDeadline(flags.deadline) };
      const { ref } = await (await openRegistry(flags.registry)).resolve(model);
      const { maxRowBytes: recordBytes = DEFAULT_RECORD_BYTES, blockBytes } = flags;
      const plan = await planShards({ inputs, shards: flags.shards, recordBytes, ...given({ blockBytes }), signal });
      await putStored(work.plan, planText(plan));
      await work.decide({ plan: plan.sha256, model: ref, ...now, ...deadline });
    }
    const run = await awaited(work, flags.planWait, signal);
    work.refuseAnother(run, now);
    return run;
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    dispose();
  }
}

async function awaited(work: SharedWork, seconds: number, signal: AbortSignal): Promise<SharedRun> {
  const until = monotonicMs() + seconds * 1000;
  for (;;) {
    const run = await work.run();
    if (run) return run;
    if (monotonicMs() >= until) {
      throw new SluiceError('input_not_found', `no plan after ${seconds} s: the process of shard 0 creates it`);
    }
    await sleep(LOOK_MS, { signal });
  }
}

/** Scores one shard. @throws SluiceError any error that ends a run */
async function scored(
  work: SharedWork,
  run: SharedRun,
  index: number,
  { flags, ending }: { flags: ShardsFlags; ending: string },
): Promise<number> {
  const { passthrough, interpretation, top, interpretBelow, interactions, maxEvaluations } = flags;
  const { workers, evaluator, maxColumns, requireLock, requireSignature, requireSigner, requireApproval } = flags;
  const deadline = flags.deadline === run.deadline?.asked ? run.deadline?.at : flags.deadline;
  const options: ScoreOptions & { plan: string } = {
    ...given({ passthrough, interpretation, top, interpretBelow, interactions, maxEvaluations }),
    ...given({
      workers,
      evaluator,
      maxColumns,
      requireLock,
      requireSignature,
      requireSigner,
      requireApproval,
      deadline,
    }),
    model: run.model,
    plan: work.plan,
    shard: index,
    output: work.parts(ending),
    onInvalid: 'report',
  };
  const spec = await specOfShard(undefined, options, process.env, specOf);
  const { registry, json, quiet, metricsFile, pushGateway } = flags;
  return driveRun(spec, { name: 'score', registry, json, quiet, metricsFile, pushGateway });
}
