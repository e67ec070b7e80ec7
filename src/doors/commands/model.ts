// `sluice model`: bring a model, look at the registry, move aliases, verify packages.
import path from 'node:path';
import type { Command } from 'commander';
import { SluiceError } from '../../core/errors.ts';
import { versionOf } from '../../model/package/load-package.ts';
import { type ModelEntry, parseReference, type Registry } from '../../model/registry/registry.ts';
import { addFlags, COMMAND_GROUPS } from './flags/command-spec.ts';
import { MODEL_COMMANDS, type ModelAddFlags, type ModelAliasFlags, type ModelShowFlags } from './flags/model-flags.ts';
import { showAudit } from './model-audit.ts';
import { makeNewVersion, nextNumber } from './model-new-version.ts';
import { packageOf, signatureFor, signPackage, verifySigned, writeLock } from './model-seals.ts';
import { approveVersion, lineOf, moverOf, readText, removeVersion, retireVersion, showHistory, whoAmI } from './model-states.ts'; // biome-ignore format: one line
import { openRegistry } from './open-registry.ts';

const DELIMITER_WORDS: Record<string, string> = { tab: '\t', comma: ',', semicolon: ';', pipe: '|' };

const out = (text: string): void => {
  process.stdout.write(`${text}\n`);
};
const tell = (text: string): void => {
  process.stderr.write(`${text}\n`);
};

export function addModelCommand(program: Command): void {
  const model = program.command('model').description(COMMAND_GROUPS.model);
  addFlags(model.command('add'), MODEL_COMMANDS['model add']).action(add);
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

async function add(onnxFile: string, flags: ModelAddFlags): Promise<void> {
  // Loaded here, so that the other commands do not pay for it.
  const [{ proposePackage }, { addProposal }, { reportMarkdown }, { formatYaml }] = await Promise.all([
    import('../../onboarding/register.ts'),
    import('../../onboarding/package-files.ts'),
    import('../../onboarding/report-card.ts'),
    import('../../config/yaml.ts'),
  ]);
  const registry = await openRegistry(flags.registry, { create: true });
  const signed = await signatureFor(flags);
  const id =
    flags.id ??
    path
      .basename(onnxFile)
      .replace(/\.onnx$/i, '')
      .toLowerCase()
      .replace(/[^a-z0-9._-]+/g, '-');
  try {
    parseReference(id);
  } catch (cause) {
    throw new SluiceError('usage', `--id ${id}: small letters, digits, dots, dashes and underscores`, { cause });
  }
  const versions = (await registry.list()).find((m) => m.id === id)?.versions ?? [];
  const version = flags.asVersion ?? (await nextNumber(registry, id));
  if (versions.includes(version)) throw new SluiceError('version_exists', `${id}:${version} is registered already`);
  const tolerance = flags.tolerance === undefined ? undefined : Number(flags.tolerance);
  if (tolerance !== undefined && !(tolerance >= 0)) throw new SluiceError('usage', '--tolerance takes a number from 0');
  const delimiter = delimiterIn(flags);
  const proposal = await proposePackage({
    onnxFile,
    trainingFile: flags.trainingData,
    id,
    version: /^[1-9]\d*$/.test(version) ? Number(version) : version,
    ...(delimiter === undefined ? {} : { delimiter }),
    ...(flags.description === undefined ? {} : { description: flags.description }),
    ...(flags.outcome === undefined ? {} : { outcome: flags.outcome }),
    ...(flags.ignore === undefined ? {} : { ignore: flags.ignore.split(',').map((c) => c.trim()) }),
    ...(flags.scores === undefined ? {} : { scores: flags.scores }),
    ...(flags.task === undefined ? {} : { task: flags.task }),
    ...(flags.positiveClass === undefined ? {} : { positiveClass: flags.positiveClass }),
    ...(flags.output === undefined ? {} : { output: flags.output }),
    ...(tolerance === undefined ? {} : { tolerance }),
    ...(await givenFiles(flags)),
    requireBatchInvariance: flags.requireBatchInvariance === true,
  });
  const ref = `${id}:${version}`;
  tell(reportMarkdown(proposal.report));
  if (flags.dryRun) {
    out(
      flags.json
        ? JSON.stringify({ model: ref, registered: false, manifest: proposal.manifest, report: proposal.report })
        : formatYaml(proposal.manifest),
    );
    return;
  }
  // A registry that numbers versions itself may have given another one.
  const number = await addProposal(registry, proposal, { by: { who: whoAmI(), ...signed }, sign: signed?.sign });
  const registered = `${id}:${number}`;
  tell(`registered ${registered}`);
  if (flags.alias !== undefined) {
    await registry.moveAlias(id, flags.alias, number, whoAmI());
    tell(`${id}@${flags.alias} points to it`);
  }
  out(
    flags.json
      ? JSON.stringify({ model: registered, registered: true, manifest: proposal.manifest, report: proposal.report })
      : registered,
  );
}

/** @throws SluiceError usage */
function delimiterIn(flags: ModelAddFlags): string | undefined {
  const delimiter = flags.delimiter === undefined ? undefined : (DELIMITER_WORDS[flags.delimiter] ?? flags.delimiter);
  if (delimiter !== undefined && delimiter.length !== 1)
    throw new SluiceError(
      'usage',
      `--delimiter takes one of ${Object.keys(DELIMITER_WORDS).join(', ')}, or one character`,
    );
  return delimiter;
}

/** The files of a registration and their contents. @throws SluiceError input_not_found | usage */
async function givenFiles(flags: ModelAddFlags) {
  const [{ readEncoding }, { readExpected }, { readPolicy }] = await Promise.all([
    import('../../onboarding/encoding-file.ts'),
    import('../../onboarding/expected.ts'),
    import('../../onboarding/policy-file.ts'),
  ]);
  return {
    ...(flags.encoding === undefined ? {} : { encoding: await readEncoding(flags.encoding) }),
    ...(flags.expected === undefined ? {} : { expected: await readExpected(flags.expected) }),
    ...(flags.expectedRows === undefined ? {} : { expectedRows: await readExpected(flags.expectedRows) }),
    ...(flags.covers === undefined ? {} : { covers: await readText(flags.covers) }),
    ...(flags.background === undefined ? {} : { background: await readExpected(flags.background) }),
    ...(flags.backgroundRows === undefined ? {} : { backgroundRows: flags.backgroundRows }),
    ...(flags.policy === undefined ? {} : { policy: await readPolicy(flags.policy) }),
    ...(flags.force === undefined ? {} : { force: flags.force }),
  };
}

/** Each with the package hashes of its versions; null where a package cannot be read. */
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
