// The counts of a run in shards: those of its parts, added up. Nothing is counted a second time.
import { driftDigests } from '../drift/drift-monitor.ts';
import type { RunCounts } from '../engine/counts.ts';
import type { Registry } from '../model/registry/registry.ts';
import { newCounts, RunAccount } from './account.ts';
import { driftCountsOf, type FoundPart } from './shard-part.ts';
import type { ShardPlan } from './shard-plan.ts';
import type { Summary } from './summary.ts';

export type MergedSummary = Pick<
  Summary,
  'rows' | 'scored' | 'rejected' | 'rejectedByCode' | 'interpreted' | 'inexact' | 'drift'
> & { model: string; packageSha256: string; plan: string; shards: number };

/** `drift` is empty where the registry has not the package that the parts were made with: its baseline would be another. */
export async function mergedSummary(
  plan: ShardPlan,
  parts: readonly FoundPart[],
  registry: Pick<Registry, 'resolve'>,
): Promise<MergedSummary> {
  const { model: ref, package: sha256 } = parts[0]!.made_by;
  const model = await registry.resolve(ref).catch(() => null);
  const same = model !== null && model.sha256 === sha256;
  const account = new RunAccount();
  const unit = account.unit();
  for (const part of parts) {
    const drift = same && part.drift ? { ...driftCountsOf(part.drift), manifest: model.manifest } : null;
    unit.add({ ...newCounts(), ...countsOfPart(part), workMs: 0, drift }, ref);
  }
  unit.settle();
  const { details: _, ...counts } = account.totals;
  const of = { plan: plan.sha256, shards: plan.shards };
  return { ...of, model: ref, packageSha256: sha256, ...counts, drift: driftDigests(account.drift) };
}

/** Its counts alone. */
export const countsOfPart = ({
  rows,
  scored,
  rejected,
  rejectedByCode,
  interpreted,
  inexact,
}: FoundPart): Omit<RunCounts, 'details'> => ({ rows, scored, rejected, rejectedByCode, interpreted, inexact });
