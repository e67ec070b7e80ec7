// The counts of a run in shards: those of its parts, added up. Nothing is counted a second time.
import type { GateLimits } from '../config/pipeline-schema.ts';
import { SluiceError } from '../core/errors.ts';
import { driftDigests } from '../drift/drift-monitor.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { Registry } from '../model/registry/registry.ts';
import { RunAccount } from './account.ts';
import { tallyOfSaved } from './accumulator.ts';
import { RunFindings } from './gate.ts';
import { type MergedFile, sumOf } from './merged-proof.ts';
import type { FoundPart } from './plugins/shard-part.ts';
import type { ShardPlan } from './shard-plan.ts';
import { type GateSummary, gateSummary, type Summary } from './summary.ts';

type MergedSummary = Pick<
  Summary,
  'rows' | 'scored' | 'rejected' | 'rejectedByCode' | 'interpreted' | 'inexact' | 'drift' | 'gate'
> & { model: string; packageSha256: string; plan: string; shards: number };

/** The package that the parts were made with; null: the registry has another one, or none. */
export async function packageOfParts(
  parts: readonly FoundPart[],
  registry: Pick<Registry, 'resolve'>,
): Promise<ModelPackage | null> {
  const { ref, package_sha256: sha256 } = parts[0]!.made_by.model;
  const model = await registry.resolve(ref).catch(() => null);
  return model?.sha256 === sha256 ? model : null;
}

/**
 * Every input as a whole, as one run judges it. No limits: nothing is judged.
 * @throws SluiceError gate_stopped: one or several do not keep the limits; usage: the package is not at hand, or has not what they need
 */
export function judgeMerged(
  files: readonly MergedFile[],
  limits: GateLimits | null,
  model: ModelPackage | null,
): GateSummary | null {
  if (limits === null) return null;
  if (model === null) {
    const why = 'a gate compares with the baseline of the package that the parts were made with';
    throw new SluiceError('usage', `${why}, and the registry has another one, or none`);
  }
  const findings = new RunFindings();
  findings.open({ gate: limits }, model);
  const stopped: string[] = [];
  for (const { file, parts } of files) {
    findings.begin();
    for (const part of parts) findings.current.add(tallyOfSaved(part, model?.manifest ?? null));
    try {
      findings.judge(file.name, sumOf(parts));
    } catch (error) {
      if (!(error instanceof SluiceError) || error.code !== 'gate_stopped') throw error;
      stopped.push(error.message);
    }
  }
  if (stopped.length > 0) throw new SluiceError('gate_stopped', stopped.join('\n'));
  return gateSummary(limits, findings.inputs);
}

/** `model`: as `packageOfParts`; without it there is no drift: another baseline would be another one. */
export function mergedSummary(
  plan: ShardPlan,
  parts: readonly FoundPart[],
  model: ModelPackage | null,
  gate: GateSummary | null,
): MergedSummary {
  const { ref, package_sha256: sha256 } = parts[0]!.made_by.model;
  const account = new RunAccount();
  const unit = account.unit();
  for (const part of parts) unit.add(tallyOfSaved(part, model?.manifest ?? null), ref);
  unit.settle();
  const { details: _, ...counts } = account.totals;
  const of = { plan: plan.sha256, shards: plan.shards };
  return { ...of, model: ref, packageSha256: sha256, ...counts, drift: driftDigests(account.drift), gate };
}
