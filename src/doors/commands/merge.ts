// `sluice merge`: the parts of a plan in, what one run would have made out.
import type { Command } from 'commander';
import { CommitSet } from '../../io/sink/commit-set.ts';
import { putFile } from '../../io/sink/file-sink.ts';
import { textLog } from '../../monitor/open-log.ts';
import {
  filesMerged,
  filesOfParts,
  findParts,
  joinParts,
  mergedFiles,
  partsList,
  refuseNothingIn,
} from '../../runs/merge-parts.ts';
import { mergedSummary } from '../../runs/merged-summary.ts';
import { refuseSameFiles } from '../../runs/same-files.ts';
import { readPlan } from '../../runs/shard-plan.ts';
import { equation } from '../../runs/summary.ts';
import { EXIT } from './exit-codes.ts';
import { COMMAND_TABLES, type MergeFlags } from './flag-tables.ts';
import { addFlags } from './flags.ts';
import { openRegistry } from './open-registry.ts';

export function addMergeCommand(program: Command): void {
  addFlags(program.command('merge'), COMMAND_TABLES.merge).action(async (plan: string, flags: MergeFlags) => {
    process.exitCode = await merge(plan, flags);
  });
}

/** Runs the command; returns its exit code. @throws SluiceError whatever ends it */
async function merge(file: string, flags: MergeFlags): Promise<number> {
  const plan = await readPlan(file);
  const parts = await findParts(flags.parts, plan);
  const files = mergedFiles(plan, parts, { output: flags.output, rejects: flags.rejects ?? null });
  if (!flags.allowEmpty) for (const one of files) refuseNothingIn(one);
  const log = textLog();
  const read = [{ name: file, role: 'the plan' }, ...filesOfParts(parts)];
  if (flags.leaveParts) {
    await refuseSameFiles(read, [{ name: flags.output, role: 'the list of the parts' }]);
    await putFile(flags.output, await partsList(plan, parts));
  } else {
    await refuseSameFiles(read, filesMerged(files));
    const set = new CommitSet(log);
    try {
      await joinParts(files, set, flags.rejects !== undefined);
      await set.publish();
    } finally {
      await set.abort();
    }
  }
  const registry = await openRegistry(flags.registry, { log });
  const summary = await mergedSummary(plan, parts, registry);
  if (flags.json) process.stdout.write(`${JSON.stringify({ output: flags.output, ...summary })}\n`);
  else if (!flags.quiet) process.stderr.write(`${equation(summary)}, ${plan.shards} shards → ${flags.output}\n`);
  return summary.rejected > 0 ? EXIT.rejected : EXIT.done;
}
