// `sluice plan`: divides files into a plan of shards. With a deadline, chooses the number of shards.

import type { Command } from 'commander';
import type { FileSource } from '../../connectors/file/file-options.ts';
import { STDIO } from '../../connectors/stdio/stdio-connector.ts';
import { putStored } from '../../connectors/stored-bytes.ts';
import { epochMs, monotonicMs } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { localTime } from '../../core/time-of-day.ts';
import { DEFAULT_RECORD_BYTES } from '../../formats/columns/table-limits.ts';
import { clock, count } from '../../monitor/progress.ts';
import { deadlineOf } from '../../runs/deadline.ts';
import { type Endpoint, inputsOf } from '../../runs/endpoint-specs.ts';
import { refuseSameFiles } from '../../runs/same-files.ts';
import { type Estimate, estimate, MARGIN, type Measured, measureSample } from '../../runs/shards/estimate.ts';
import { planShards } from '../../runs/shards/plan-shards.ts';
import { bytesOfPlan, planText, rowsOfPlan, type ShardPlan } from '../../runs/shards/shard-plan.ts';
import { addFlags, given } from './flags/command-spec.ts';
import { type PlanFlags, SCORE_COMMANDS } from './flags/score-flags.ts';
import { openRegistry } from './open-registry.ts';
import { specOf } from './score.ts';
import { signalled } from './signals.ts';

/** Number of shards in a plan that serves only to take samples, because the number of shards is not configured. */
const SAMPLED_SHARDS = 16;

export function addPlanCommand(program: Command): void {
  addFlags(program.command('plan'), SCORE_COMMANDS.plan).action(async (file: string, flags: PlanFlags) => {
    await plan(file, flags);
  });
}

interface Planning {
  file: string;
  flags: PlanFlags;
  inputs: readonly Endpoint[];
  signal: AbortSignal;
}

interface Planned {
  plan: ShardPlan;
  /** Seconds that the pass over the files took. */
  seconds: number;
}

async function plan(file: string, flags: PlanFlags): Promise<void> {
  const { output, shards, by } = flags;
  if (shards === undefined && by === undefined) {
    throw new SluiceError('usage', 'missing --shards N, or --by TIME');
  }
  const inputs = await inputsOf(specOfPlan(file, flags).source as FileSource);
  if (output !== STDIO) {
    const read = inputs.map(({ name }) => ({ name, role: 'the input' }));
    await refuseSameFiles(read, [{ name: output, role: 'the plan' }]);
  }
  const { signal, dispose } = signalled();
  const work = { file, flags, inputs, signal };
  try {
    let made = await planned(work, shards ?? SAMPLED_SHARDS);
    const night = by === undefined ? null : await foreseen(work, made, by);
    const needed = night?.machines ?? 1;
    if (shards === undefined && needed !== made.plan.shards) made = await planned(work, needed);
    if (output === STDIO) process.stdout.write(planText(made.plan));
    else await putStored(output, planText(made.plan));
    tell(made, night, flags);
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    dispose();
  }
}

function specOfPlan(file: string, flags: PlanFlags) {
  const { inputFormat, inputCompression, delimiter, model = '-', passthrough, workers } = flags;
  const { interpretation, interactions } = flags;
  const said = { inputFormat, inputCompression, delimiter, interpretation, interactions, passthrough, workers };
  return specOf(file, { model, output: STDIO, onInvalid: 'report', ...given(said) });
}

async function planned({ inputs, flags, signal }: Planning, shards: number): Promise<Planned> {
  const began = monotonicMs();
  const recordBytes = flags.maxRowBytes ?? DEFAULT_RECORD_BYTES;
  const blockBytes = flags.blockBytes === undefined ? {} : { blockBytes: flags.blockBytes };
  const made = await planShards({ inputs, shards, recordBytes, ...blockBytes, signal });
  return { plan: made, seconds: (monotonicMs() - began) / 1000 };
}

interface Night extends Measured, Estimate {
  by: string;
  /** ms since 1970. */
  deadline: number;
  leftSeconds: number;
}

/**
 * Estimates how many machines are needed to meet a deadline.
 * @throws SluiceError usage | deadline_unreachable | model_* | any error that ends a run
 */
async function foreseen(
  { file, flags, signal }: Planning,
  { plan: made, seconds }: Planned,
  by: string,
): Promise<Night> {
  if (flags.model === undefined) throw new SluiceError('usage', '--by measures the scoring speed and needs --model');
  const deadline = deadlineOf(by);
  const spec = specOfPlan(file, flags);
  const registry = await openRegistry(flags.registry);
  const measured = await measureSample({ spec, plan: made, model: await registry.resolve(flags.model), signal });
  const leftSeconds = (deadline - epochMs()) / 1000;
  const bytes = bytesOfPlan(made);
  const found = estimate(measured, bytes, leftSeconds, bytes / Math.max(seconds, 1e-3));
  if (found.machines === null) {
    const alone = `one machine would need ${clock(found.seconds)}, and ${clock(Math.max(0, leftSeconds))} remain`;
    throw new SluiceError('deadline_unreachable', `no number of shards can finish by ${localTime(deadline)}: ${alone}`);
  }
  return { by, deadline, leftSeconds, ...measured, ...found };
}

function tell({ plan: made, seconds }: Planned, night: Night | null, { output, json, quiet }: PlanFlags): void {
  const { files, pieces, shards } = made;
  const [bytes, rows] = [bytesOfPlan(made), rowsOfPlan(made)];
  const empty = shards - new Set(pieces.map(({ shard }) => shard)).size;
  if (json) {
    const of = { plan: output, sha256: made.sha256, files: files.length, bytes, rows, shards, empty, seconds };
    const said = night === null ? of : { ...of, foreseen: { ...night, margin: MARGIN } };
    (output === STDIO ? process.stderr : process.stdout).write(`${JSON.stringify(said)}\n`);
  } else if (!quiet) {
    const of = [`${count(files.length)} file${files.length === 1 ? '' : 's'}`, `${count(bytes)} bytes`];
    if (rows !== null) of.push(`${count(rows)} rows`);
    const idle = empty === 0 ? '' : ` (${empty} of them empty)`;
    const rate = (bytes / Math.max(seconds, 1e-9) / 1e9).toFixed(2);
    const into = `${shards} shard${shards === 1 ? '' : 's'}${idle} in ${output}`;
    process.stderr.write(`${of.join(', ')} → ${into}, ${seconds.toFixed(1)} s, ${rate} GB/s\n`);
    if (night !== null) process.stderr.write(nightText(night));
  }
}

function nightText({ rowsPerSecond, seconds, deadline, leftSeconds, machines, inShardsSeconds }: Night): string {
  const rate = `measured here: ${count(Math.round(rowsPerSecond))} rows/s`;
  const alone = `one machine needs ${clock(seconds)}, and ${clock(Math.max(0, leftSeconds))} remain until ${localTime(deadline)}`;
  const needs = machines === 1 ? 'one is enough' : `${machines} machines like this one need ${clock(inShardsSeconds)}`;
  return `${rate}; with a margin of ${Math.round((MARGIN - 1) * 100)} %, ${alone}: ${needs}\n`;
}
