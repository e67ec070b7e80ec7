// `sluice model new-version`: changes the decisions, scorecard or reason codes of a model without retraining the model.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Policy } from '../../model/package/manifest.ts';
import { SIGNATURE } from '../../model/package/package-hash.ts';
import { writeBeside } from '../../model/package/package-lock.ts';
import { nextVersion, type Registry } from '../../model/registry/registry.ts';
import type { ModelNewVersionFlags } from './flags/model-flags.ts';
import { signatureFor } from './model-seals.ts';
import { moverOf } from './model-states.ts';
import { openRegistry } from './open-registry.ts';

/** The number of the next version. The numbers of removed versions are not used again. */
export async function nextNumber(registry: Registry, id: string): Promise<string> {
  const versions = (await registry.list()).find((m) => m.id === id)?.versions ?? [];
  return String(nextVersion([...versions, ...(await registry.states(id)).map((e) => e.version)]));
}

/**
 * Sections of the earlier version's policy that are missing in the policy file. The file replaces the whole policy, so
 * these sections are dropped.
 */
const droppedFrom = (before: Policy, policy: Policy): string[] =>
  (['decisions', 'scorecard', 'reasons'] as const).filter(
    (key) => before[key] !== undefined && policy[key] === undefined,
  );

export async function makeNewVersion(flags: ModelNewVersionFlags): Promise<void> {
  const [{ writeNewVersion }, { readPolicy }] = await Promise.all([
    import('../../onboarding/new-version.ts'),
    import('../../onboarding/policy-file.ts'),
  ]);
  const { reason } = flags;
  const policy = await readPolicy(flags.policy);
  const signed = await signatureFor(flags);
  const registry = await openRegistry(flags.registry, { inspects: true });
  const from = await registry.resolve(flags.from);
  const { id } = from.manifest;
  const version = flags.asVersion ?? (await nextNumber(registry, id));
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-package-'));
  try {
    const made = await writeNewVersion(folder, from, { version, policy, ...(reason === undefined ? {} : { reason }) });
    for (const { at, from: was, to } of made.differences) process.stderr.write(`${at}: ${was ?? '(none)'} → ${to ?? '(none)'}\n`); // biome-ignore format: one line
    const dropped = droppedFrom(from.manifest, policy.policy);
    if (dropped.length > 0) process.stderr.write(`sluice: ${flags.policy} has no ${dropped.join(' and no ')}, so the new version has none: copy them from model.yaml of ${from.ref} to keep them\n`); // biome-ignore format: one line
    if (signed) await writeBeside(folder, SIGNATURE, signed.sign(made.model));
    const { who } = await moverOf(flags.who === undefined ? {} : { who: flags.who });
    const by = { who, ...(reason === undefined ? {} : { why: reason }), ...(signed ? { key: signed.key } : {}) };
    const given = flags.dryRun ? null : await registry.add(id, version, folder, by);
    const told = { model: `${id}:${given ?? version}`, registered: given !== null, from: made.report.from, differences: made.differences }; // biome-ignore format: one line
    process.stdout.write(flags.json ? `${JSON.stringify(told)}\n` : given === null ? '' : `${told.model}\n`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
