// `sluice merge`: joins shard results into the outputs of a single run.
import type { Command } from 'commander';
import { gateSaid } from '../../config/gate-flags.ts';
import { putStored } from '../../connectors/stored-bytes.ts';
import { CommitSet } from '../../io/sink/commit-set.ts';
import { textLog } from '../../monitor/open-log.ts';
import { refuseVisible } from '../../runs/gate.ts';
import { signKeyOf } from '../../runs/plugins/manifest-content.ts';
import type { FoundPart } from '../../runs/plugins/shard-part.ts';
import { refuseSameFiles } from '../../runs/same-files.ts';
import { joinParts } from '../../runs/shards/join-parts.ts';
import {
  filesMerged,
  filesOfParts,
  findParts,
  judgeMerged,
  mergedFiles,
  mergedSummary,
  packageOfParts,
  partsList,
  refuseNothingIn,
} from '../../runs/shards/merge-parts.ts';
import { readPlan, type ShardPlan } from '../../runs/shards/shard-plan.ts';
import { equation } from '../../runs/summary.ts';
import { EXIT } from './exit-codes.ts';
import { addFlags } from './flags/command-spec.ts';
import { type MergeFlags, SCORE_COMMANDS } from './flags/score-flags.ts';
import { openRegistry } from './open-registry.ts';

export function addMergeCommand(program: Command): void {
  addFlags(program.command('merge'), SCORE_COMMANDS.merge).action(async (plan: string, flags: MergeFlags) => {
    process.exitCode = await merge(plan, flags);
  });
}

/** Runs the command and returns its exit code. @throws SluiceError any error that ends the command */
export async function merge(file: string, flags: MergeFlags): Promise<number> {
  const plan = await readPlan(file);
  return mergeParts(file, { plan, parts: await findParts(flags.parts, plan) }, flags);
}

interface Whole {
  plan: ShardPlan;
  /** All shard results, in plan order. */
  parts: FoundPart[];
}

/** Merges shard results and returns the exit code. `file`: path of the plan. @throws SluiceError */
export async function mergeParts(
  file: string,
  { plan, parts }: Whole,
  flags: Omit<MergeFlags, 'parts'>,
): Promise<number> {
  const files = mergedFiles(plan, parts, { output: flags.output, rejects: flags.rejects ?? null });
  if (!flags.allowEmpty) for (const one of files) refuseNothingIn(one);
  const log = textLog();
  const key = await signKeyOf(flags.signKey === undefined ? {} : { sign_key: flags.signKey });
  const model = await packageOfParts(parts, await openRegistry(flags.registry, { log }));
  const limits = gateSaid(flags);
  if (limits !== null) await refuseVisible(files.map(({ output }) => output));
  const gate = judgeMerged(files, limits, model);
  const read = [{ name: file, role: 'the plan' }, ...filesOfParts(parts)];
  if (flags.leaveParts) {
    await refuseSameFiles(read, [{ name: flags.output, role: 'the list of the parts' }]);
    await putStored(flags.output, await partsList(plan, parts));
  } else {
    await refuseSameFiles(read, filesMerged(files));
    const set = new CommitSet(log);
    try {
      const manifest = isOff(flags) ? null : { key };
      const [always, allowEmpty] = [flags.rejects !== undefined, flags.allowEmpty === true];
      await joinParts(files, { plan, set, always, allowEmpty, gate: limits, manifest });
      await set.publish();
    } finally {
      await set.abort();
    }
  }
  const summary = mergedSummary(plan, parts, model, gate);
  if (flags.json) process.stdout.write(`${JSON.stringify({ output: flags.output, ...summary })}\n`);
  else if (!flags.quiet) process.stderr.write(`${equation(summary)}, ${plan.shards} shards → ${flags.output}\n`);
  return summary.rejected > 0 ? EXIT.rejected : EXIT.done;
}

/** The parser represents `--no-manifest` as `manifest: false`. */
const isOff = (flags: object): boolean => (flags as { manifest?: boolean }).manifest === false;
