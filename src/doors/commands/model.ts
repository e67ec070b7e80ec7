// `sluice model`: register models, list the registry, move aliases, verify packages.
import type { Command } from 'commander';
import { SluiceError } from '../../core/errors.ts';
import { versionOf } from '../../model/package/load-package.ts';
import { type ModelEntry, parseReference, type Registry } from '../../model/registry/registry.ts';
import { addFlags, COMMAND_GROUPS } from './flags/command-spec.ts';
import { MODEL_COMMANDS, type ModelAliasFlags, type ModelShowFlags } from './flags/model-flags.ts';
import { addModel } from './model-add.ts';
import { showAudit } from './model-audit.ts';
import { makeNewVersion } from './model-new-version.ts';
import { packageOf, signPackage, verifySigned, writeLock } from './model-seals.ts';
import { approveVersion, lineOf, moverOf, removeVersion, retireVersion, showHistory, } from './model-states.ts'; // biome-ignore format: one line
import { openRegistry } from './open-registry.ts';

const out = (text: string): void => {
  process.stdout.write(`${text}\n`);
};
export function addModelCommand(program: Command): void {
  const model = program.command('model').description(COMMAND_GROUPS.model);
  addFlags(model.command('add'), MODEL_COMMANDS['model add']).action(addModel);
  addFlags(model.command('new-version'), MODEL_COMMANDS['model new-version']).action(makeNewVersion);
  addFlags(model.command('list'), MODEL_COMMANDS['model list']).action(
    async (flags: { registry?: string; json?: boolean }) => {
      const registry = await openRegistry(flags.registry, { inspects: true });
      const models = await registry.list();
      if (flags.json) return out(JSON.stringify({ models: await withHashes(registry, models) }));
      for (const m of models) {
        const aliases = Object.entries(m.aliases).map(([a, v]) => `${a}=${v}`);
        out(`${m.id}\t${m.versions.join(',')}\t${aliases.join(',')}`);
      }
    },
  );
  addFlags(model.command('show'), MODEL_COMMANDS['model show']).action(show);
  addFlags(model.command('verify'), MODEL_COMMANDS['model verify']).action(verify);
  addFlags(model.command('diff'), MODEL_COMMANDS['model diff']).action(diff);
  addFlags(model.command('seal'), MODEL_COMMANDS['model seal']).action(writeLock);
  addFlags(model.command('sign'), MODEL_COMMANDS['model sign']).action(signPackage);
  addFlags(model.command('verify-signature'), MODEL_COMMANDS['model verify-signature']).action(verifySigned);
  addFlags(model.command('history'), MODEL_COMMANDS['model history']).action(showHistory);
  addFlags(model.command('approve'), MODEL_COMMANDS['model approve']).action(approveVersion);
  addFlags(model.command('retire'), MODEL_COMMANDS['model retire']).action(retireVersion);
  addFlags(model.command('remove'), MODEL_COMMANDS['model remove']).action(removeVersion);
  addFlags(model.command('alias'), MODEL_COMMANDS['model alias']).action(moveAlias);
}

/** Adds the package hash of each version; null if the package cannot be read. */
async function withHashes(registry: Registry, models: readonly ModelEntry[]): Promise<object[]> {
  const hashOfVersion = async (ref: string): Promise<string | null> => {
    try {
      return (await registry.resolve(ref)).sha256;
    } catch {
      return null;
    }
  };
  const listed: object[] = [];
  for (const entry of models) {
    const packages: Record<string, string | null> = {};
    for (const version of entry.versions) packages[version] = await hashOfVersion(`${entry.id}:${version}`);
    listed.push({ ...entry, package_sha256: packages });
  }
  return listed;
}

async function show(ref: string, flags: ModelShowFlags): Promise<void> {
  if (flags.audit) return showAudit(ref, flags);
  if (flags.html !== undefined || flags.key !== undefined)
    throw new SluiceError('usage', '--html and --key need --audit');
  const [{ describeModel }] = await Promise.all([import('../../onboarding/describe.ts')]);
  const registry = await openRegistry(flags.registry, { inspects: true });
  const model = await registry.resolve(ref);
  const entry = (await registry.list()).find((m) => m.id === model.manifest.id);
  const description = {
    ...describeModel(model, entry),
    history: await registry.history(model.manifest.id),
  };
  if (flags.json) return out(JSON.stringify(description));
  out(`${model.ref}  ${description.state}  ${description.task}  sha256 ${description.sha256}`);
  out(`package sha256 ${description.package_sha256}`);
  out(`versions: ${description.versions.map((v) => `${v} (${description.states[v] ?? 'proposed'})`).join(', ')}`);
  for (const [alias, version] of Object.entries(description.aliases)) out(`alias ${alias}: ${version}`);
  for (const m of description.history) out(`  ${lineOf(m)}`);
  out('columns:');
  for (const c of description.columns)
    out(
      `  ${c.name}  ${c.kind}${c.values ? `  ${c.values.slice(0, 8).join(', ')}${c.values.length > 8 ? ', …' : ''}` : ''}`,
    );
  out('sample application:');
  out(JSON.stringify(description.sample));
}

async function verify(ref: string, flags: { registry?: string; json?: boolean }): Promise<void> {
  const [{ verifyPackage }, { reportMarkdown, selfTestText }] = await Promise.all([
    import('../../onboarding/verify.ts'),
    import('../../onboarding/report-card.ts'),
  ]);
  const model = await packageOf(ref, flags.registry);
  const report = await verifyPackage(model);
  out(flags.json ? JSON.stringify(report) : reportMarkdown(report));
  if (report.selfTest && !report.selfTest.passed)
    throw new SluiceError('self_test_failed', `${model.ref}: ${selfTestText(report.selfTest)}`);
}

async function diff(ref: string, other: string, flags: { registry?: string; json?: boolean }): Promise<void> {
  const { comparePackages, comparisonText } = await import('../../onboarding/compare-packages.ts');
  const compared = await comparePackages(await packageOf(ref, flags.registry), await packageOf(other, flags.registry));
  out(flags.json ? JSON.stringify(compared) : comparisonText(compared));
}

async function moveAlias(ref: string, version: string | undefined, flags: ModelAliasFlags): Promise<void> {
  const { id, alias } = parseReference(ref);
  if (alias === undefined || (version === undefined) === (flags.remove !== true)) {
    throw new SluiceError('usage', 'model alias takes id@alias and a version, or id@alias --remove');
  }
  const registry: Registry = await openRegistry(flags.registry);
  if (version !== undefined) {
    const model = await registry.resolve(`${id}:${version}`);
    const { tryPackage } = await import('../../onboarding/trial.ts');
    await tryPackage(model);
    version = versionOf(model.manifest);
  }
  const move = await registry.moveAlias(id, alias, version ?? null, await moverOf(flags));
  out(`${id}@${alias}: ${move.from ?? '(none)'} → ${move.to ?? '(removed)'}`);
}
