// Merges shard results into the outputs that a single run would write. Requires each result exactly once, with all its
// rows, and the same package for all.

import { glob } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import type { GateLimits } from '../../config/options/gate-limits.ts';
import { besideStored, storedSize } from '../../connectors/stored-bytes.ts';
import { SluiceError } from '../../core/errors.ts';
import { REJECTS_ENDING } from '../../core/file-names.ts';
import { digestsOf, driftReports } from '../../drift/drift-monitor.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { Registry } from '../../model/registry/registry.ts';
import { isObject } from '../../storage/providers.ts';
import { RunAccount } from '../account.ts';
import { tallyOfSaved } from '../accumulator.ts';
import { outputName } from '../endpoint-specs.ts';
import { RunFindings } from '../gate.ts';
import { refuseNothingScored } from '../plugins/require-scored-rows.ts';
import { type FoundPart, partsOf, type StoredFile } from '../plugins/shard-part.ts';
import type { RunFile } from '../same-files.ts';
import { type GateSummary, gateSummary, type Summary } from '../summary.ts';
import { openPart } from './join-parts.ts';
import { type MergedFile, sumOf } from './merged-proof.ts';
import type { ShardPlan } from './shard-plan.ts';

/** Maximum number of pieces in a message; a plan may have thousands. */
const TOLD = 10;

/**
 * Finds files or objects. `pattern` contains `*`, or `{shard}` and `{name}` as the output of the shards.
 * @throws SluiceError parts_mismatch | storage_unavailable | errors of `partsOf`
 */
export async function findParts(pattern: string, plan: ShardPlan): Promise<FoundPart[]> {
  const hasPlaceholder = /\{(?:shard|name)\}/.test(pattern);
  const names = hasPlaceholder ? await storedParts(pattern, plan) : await matchingNames(pattern);
  return wholeParts(plan, await partsOf(names.sort(), plan));
}

/** The name of the result of each piece, by a pattern with `{shard}` and `{name}`. */
export const partNames = (pattern: string, { pieces, files }: Pick<ShardPlan, 'pieces' | 'files'>): string[] =>
  pieces.map(({ shard, file }) => outputName(pattern.replaceAll('{shard}', String(shard)), files[file]!));

async function storedParts(pattern: string, plan: ShardPlan): Promise<string[]> {
  const stored: string[] = [];
  for (const name of new Set(partNames(pattern, plan))) if ((await storedSize(name)) !== null) stored.push(name);
  return stored;
}

async function matchingNames(pattern: string): Promise<string[]> {
  if (isObject(pattern)) return (await import('../../storage/object-source.ts')).matchingObjects(pattern);
  const names: string[] = [];
  for await (const name of glob(pattern)) names.push(name);
  return names;
}

/**
 * Returns the shard results in plan order. Each must exist exactly once and have the planned rows; all must have the
 * same package and settings.
 * @throws SluiceError parts_mismatch, lists the shards to run again
 */
export function wholeParts(plan: ShardPlan, found: readonly FoundPart[]): FoundPart[] {
  const key = (p: Pick<FoundPart, 'shard' | 'file'>) => `${p.shard} ${p.file}`;
  const known = new Map<string, FoundPart[]>();
  for (const part of found) known.set(key(part), [...(known.get(key(part)) ?? []), part]);
  const parts: FoundPart[] = [];
  const missing = new Set<number>();
  const wrong: string[] = [];
  for (const piece of plan.pieces) {
    const [part, second] = known.get(key(piece)) ?? [];
    known.delete(key(piece));
    if (part === undefined) missing.add(piece.shard);
    else if (second !== undefined) wrong.push(`shard ${piece.shard} has two outputs: ${part.path} and ${second.path}`);
    else if (piece.rows !== null && piece.rows !== part.rows)
      wrong.push(`${part.path} has ${part.rows} rows, but the plan has ${piece.rows}`);
    else if (part.rows !== part.scored + part.rejected)
      wrong.push(`${part.path}: scored and rejected rows do not add up to its ${part.rows} rows`);
    else parts.push(part);
  }
  for (const [part] of known.values()) wrong.push(`${part!.path} does not belong to the plan`);
  if (missing.size > 0)
    wrong.unshift(
      `missing: shard${missing.size > 1 ? 's' : ''} ${[...missing].slice(0, TOLD).join(', ')}${missing.size > TOLD ? ' …' : ''}`,
    );
  const [first] = parts;
  for (const part of parts) wrong.push(...differences(part, first!));
  if (wrong.length > 0) throw new SluiceError('parts_mismatch', wrong.slice(0, TOLD).join('\n'));
  return parts;
}

function differences(part: FoundPart, first: FoundPart): string[] {
  const [a, b] = [part.made_by, first.made_by];
  const what: string[] = [];
  if (a.model.ref !== b.model.ref) what.push('model');
  else if (a.model.package_sha256 !== b.model.package_sha256) what.push('package');
  if (a.sluice !== b.sluice) what.push('version of Sluice');
  // Compression and number formatting depend on the version of Node.
  if (a.node !== b.node) what.push('version of Node');
  if (!isDeepStrictEqual(a.options, b.options)) what.push('options');
  return what.length === 0 ? [] : [`${part.path} was made with another ${what.join(', ')} than ${first.path}`];
}

interface MergeTargets {
  output: string;
  /** Path of the rejects file. With null, each output that has rejected rows gets its own rejects file. */
  rejects: string | null;
}

/** @throws SluiceError usage: several inputs would be written to one file */
export function mergedFiles(
  plan: ShardPlan,
  parts: readonly FoundPart[],
  { output, rejects }: MergeTargets,
): MergedFile[] {
  if (plan.files.length > 1 && !output.includes('{name}')) {
    throw new SluiceError('usage', `the plan has ${plan.files.length} files: put {name} in the output name`);
  }
  return plan.files.map((file, i) => {
    const own = outputName(output, file);
    const list = rejects === null ? `${own}${REJECTS_ENDING}` : outputName(rejects, file);
    return { file, output: own, list, parts: parts.filter((part) => part.file === i) };
  });
}

/** The files of shard results, with their role in messages. */
export const filesOfParts = (parts: readonly FoundPart[]): RunFile[] =>
  parts.flatMap(({ path, rejects }) =>
    [path, ...(rejects ? [besideStored(path, rejects.name)] : [])].map((name) => ({ name, role: 'a part' })),
  );

export const filesMerged = (files: readonly MergedFile[]): RunFile[] => [
  ...files.map(({ output, file }) => ({ name: output, role: `the output of ${file.name}` })),
  ...[...new Set(files.map(({ list }) => list))].map((name) => ({ name, role: 'the rejects file' })),
];

/** Applies the rule of a single run: an input fails if all its rows were rejected. @throws SluiceError nothing_scored */
export function refuseNothingIn({ parts }: MergedFile): void {
  refuseNothingScored(sumOf(parts));
}

/**
 * Lists shard results without joining them. Each result is read once, to check it.
 * @throws SluiceError parts_mismatch: a result was changed
 */
export async function partsList(plan: ShardPlan, parts: readonly FoundPart[]): Promise<string> {
  for (const part of parts) {
    for (const stored of [part.output, part.rejects]) {
      if (stored === null) continue;
      for await (const _ of openPart(part, stored));
    }
  }
  const { model, sluice, node, options } = parts[0]!.made_by;
  const listed = parts.map(({ path, output, rejects, shard, file, rows, scored, rejected }) => {
    const at = (stored: StoredFile | null) => stored && { ...stored, name: besideStored(path, stored.name) };
    return { shard, input: plan.files[file]!.name, rows, scored, rejected, output: at(output), rejects: at(rejects) };
  });
  const made_by = { model: model.ref, package: model.package_sha256, sluice, node, options };
  return `${JSON.stringify({ kind: 'sluice-parts', plan: plan.sha256, made_by, parts: listed }, null, 1)}\n`;
}

type MergedSummary = Pick<
  Summary,
  'rows' | 'scored' | 'rejected' | 'rejectedByCode' | 'interpreted' | 'inexact' | 'drift' | 'gate'
> & { model: string; packageSha256: string; plan: string; shards: number };

/**
 * The package that produced the shard results. Null if the registry does not have the package, or has other content
 * under its reference.
 */
export async function packageOfParts(
  parts: readonly FoundPart[],
  registry: Pick<Registry, 'resolve'>,
): Promise<ModelPackage | null> {
  const { ref, package_sha256: sha256 } = parts[0]!.made_by.model;
  const model = await registry.resolve(ref).catch(() => null);
  return model?.sha256 === sha256 ? model : null;
}

/**
 * Judges each merged input as a single run would. Does nothing without limits.
 * @throws SluiceError gate_stopped: a limit is exceeded; usage: the package is missing, or does not contain what the
 * limits need
 */
export function judgeMerged(
  files: readonly MergedFile[],
  limits: GateLimits | null,
  model: ModelPackage | null,
): GateSummary | null {
  if (limits === null) return null;
  if (model === null) {
    const why = 'the gate needs the baseline in the package that scored the shards';
    throw new SluiceError('usage', `${why}, but the registry has another package or none: use --registry`);
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

/**
 * `model`: result of `packageOfParts`. If it is null, the summary has no drift, because drift against another baseline
 * would be wrong.
 */
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
  return { ...of, model: ref, packageSha256: sha256, ...counts, drift: digestsOf(driftReports(account.drift)), gate };
}
