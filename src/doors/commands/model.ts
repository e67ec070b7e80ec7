// `sluice model`: bring a model, look at the registry, move aliases, verify packages.
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import path from 'node:path';
import { type Command, Option } from 'commander';
import { SluiceError } from '../../core/errors.ts';
import { loadPackage, versionOf } from '../../model/package/load-package.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import { nextVersion, parseReference, type Registry } from '../../model/registry/registry.ts';
import { openRegistry } from './common.ts';

interface AddFlags {
  trainingData: string;
  id?: string;
  // `--version` belongs to the program; the flag is called --as-version.
  asVersion?: string;
  outcome?: string;
  positiveClass?: string;
  ignore?: string;
  encoding?: string;
  expected?: string;
  expectedRows?: string;
  tolerance?: string;
  covers?: string;
  delimiter?: string;
  task?: 'binary' | 'multiclass' | 'regression' | 'score';
  output?: 'probability' | 'log_odds';
  scores?: string;
  description?: string;
  requireBatchInvariance?: boolean;
  alias?: string;
  registry?: string;
  dryRun?: boolean;
  json?: boolean;
}

const DELIMITER_WORDS: Record<string, string> = { tab: '\t', comma: ',', semicolon: ';', pipe: '|' };
const registryFlag = [
  '--registry <address>',
  'folder, s3://… or mlflow+https://… (default: $SLUICE_REGISTRY or ./models)',
] as const;
const jsonFlag = ['--json', 'a JSON document on standard output'] as const;

const out = (text: string): void => {
  process.stdout.write(`${text}\n`);
};
const tell = (text: string): void => {
  process.stderr.write(`${text}\n`);
};

export function addModelCommand(program: Command): void {
  const model = program.command('model').description('register, list, verify models and move aliases');
  model
    .command('add')
    .description('look into an ONNX file and its training table, propose a package, check it, register it')
    .argument('<onnx>', 'the ONNX file')
    .requiredOption('--training-data <file>', 'CSV the model was trained on, with a header row')
    .option('--id <id>', 'id of the model (default: the name of the ONNX file)')
    .option('--as-version <version>', 'version (default: the next number)')
    .option('--outcome <column>', 'the column that was predicted (default: ok)')
    .option('--positive-class <class>', 'the class whose probability is wanted (default: 1)')
    .option('--ignore <columns>', 'columns of the table the model does not use, comma-separated')
    .option('--encoding <file>', 'JSON with code maps, column order and what missing values became')
    .option('--expected <file>', 'CSV with predictions of the training library, row by row for the training table')
    .option(
      '--expected-rows <file>',
      'CSV with the applications those predictions belong to, if not the training table',
    )
    .option('--tolerance <n>', 'largest difference from them that passes (default: 1e-6)')
    .option('--covers <file>', 'JSON with the training rows at every tree node: effects along the paths of the trees')
    .option('--delimiter <d>', 'tab, comma, semicolon or pipe (default: found out)')
    .addOption(
      new Option('--task <task>', 'default: found out').choices(['binary', 'multiclass', 'regression', 'score']),
    )
    .addOption(new Option('--output <kind>', 'what the scores are').choices(['probability', 'log_odds']))
    .option('--scores <output>', 'the output of the graph that carries the scores (default: found out)')
    .option('--description <text>')
    .option('--require-batch-invariance', 'refuse a model whose bits change with the batch size')
    .option('--alias <alias>', 'point this alias to the new version')
    .option(...registryFlag)
    .option('--dry-run', 'show model.yaml and the report, register nothing')
    .option(...jsonFlag)
    .action(add);
  model
    .command('list')
    .description('models, versions and aliases')
    .option(...registryFlag)
    .option(...jsonFlag)
    .action(async (flags: { registry?: string; json?: boolean }) => {
      const models = await (await openRegistry(flags.registry)).list();
      if (flags.json) return out(JSON.stringify({ models }));
      for (const m of models) {
        const aliases = Object.entries(m.aliases).map(([a, v]) => `${a}=${v}`);
        out(`${m.id}\t${m.versions.join(',')}\t${aliases.join(',')}`);
      }
    });
  model
    .command('show')
    .description('columns, aliases, their history and a sample application of one model')
    .argument('<ref>', 'id, id:version or id@alias')
    .option(...registryFlag)
    .option(...jsonFlag)
    .action(show);
  model
    .command('verify')
    .description('repeat all checks on a registered model or a package folder')
    .argument('<ref>', 'id, id:version, id@alias or a folder')
    .option(...registryFlag)
    .option(...jsonFlag)
    .action(verify);
  model
    .command('alias')
    .description('point an alias to a version, or remove it')
    .argument('<ref>', 'id@alias')
    .argument('[version]', 'version it shall mean')
    .option('--remove', 'remove the alias')
    .option('--who <name>', 'who moves it (default: the user of this machine)')
    .option(...registryFlag)
    .action(moveAlias);
}

async function add(onnxFile: string, flags: AddFlags): Promise<void> {
  // Loaded here, so that the other commands do not pay for it.
  const [{ proposePackage }, { addProposal }, { readEncoding }, { readExpected }, { reportMarkdown }, { formatYaml }] =
    await Promise.all([
      import('../../onboarding/register.ts'),
      import('../../onboarding/write.ts'),
      import('../../onboarding/encoding-file.ts'),
      import('../../onboarding/expected.ts'),
      import('../../onboarding/report.ts'),
      import('../../config/yaml.ts'),
    ]);
  const registry = await openRegistry(flags.registry, { create: true });
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
  const version = flags.asVersion ?? String(nextVersion(versions));
  if (versions.includes(version)) throw new SluiceError('version_exists', `${id}:${version} is registered already`);
  const tolerance = flags.tolerance === undefined ? undefined : Number(flags.tolerance);
  if (tolerance !== undefined && !(tolerance >= 0)) throw new SluiceError('usage', '--tolerance takes a number from 0');
  const delimiter = flags.delimiter === undefined ? undefined : (DELIMITER_WORDS[flags.delimiter] ?? flags.delimiter);
  if (delimiter !== undefined && delimiter.length !== 1)
    throw new SluiceError(
      'usage',
      `--delimiter takes one of ${Object.keys(DELIMITER_WORDS).join(', ')}, or one character`,
    );
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
    ...(flags.encoding === undefined ? {} : { encoding: await readEncoding(flags.encoding) }),
    ...(flags.task === undefined ? {} : { task: flags.task }),
    ...(flags.positiveClass === undefined ? {} : { positiveClass: flags.positiveClass }),
    ...(flags.output === undefined ? {} : { output: flags.output }),
    ...(flags.expected === undefined ? {} : { expected: await readExpected(flags.expected) }),
    ...(flags.expectedRows === undefined ? {} : { expectedRows: await readExpected(flags.expectedRows) }),
    ...(tolerance === undefined ? {} : { tolerance }),
    ...(flags.covers === undefined ? {} : { covers: await readText(flags.covers) }),
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
  const given = await addProposal(registry, proposal);
  const registered = `${id}:${given}`;
  if (flags.alias !== undefined) await registry.moveAlias(id, flags.alias, given, whoAmI());
  tell(`registered ${registered}${flags.alias === undefined ? '' : `, ${id}@${flags.alias} points to it`}`);
  out(
    flags.json
      ? JSON.stringify({ model: registered, registered: true, manifest: proposal.manifest, report: proposal.report })
      : registered,
  );
}

async function show(ref: string, flags: { registry?: string; json?: boolean }): Promise<void> {
  const [{ describeModel }] = await Promise.all([import('../../onboarding/describe.ts')]);
  const registry = await openRegistry(flags.registry);
  const model = await registry.resolve(ref);
  const entry = (await registry.list()).find((m) => m.id === model.manifest.id);
  const description = {
    ...describeModel(model, entry?.versions ?? [], entry?.aliases ?? {}),
    history: await registry.history(model.manifest.id),
  };
  if (flags.json) return out(JSON.stringify(description));
  out(`${model.ref}  ${description.task}  sha256 ${description.sha256}`);
  out(`versions: ${description.versions.join(', ')}`);
  for (const [alias, version] of Object.entries(description.aliases)) out(`alias ${alias}: ${version}`);
  for (const m of description.history)
    out(`  ${m.at} ${m.who}: ${m.alias} ${m.from ?? '(none)'} → ${m.to ?? '(removed)'}`);
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
    import('../../onboarding/report.ts'),
  ]);
  const model: ModelPackage = existsSync(path.join(ref, 'model.yaml'))
    ? await loadPackage(ref)
    : await (await openRegistry(flags.registry)).resolve(ref);
  const report = await verifyPackage(model);
  out(flags.json ? JSON.stringify(report) : reportMarkdown(report));
  if (report.selfTest && !report.selfTest.passed)
    throw new SluiceError('self_test_failed', `${model.ref}: ${selfTestText(report.selfTest)}`);
}

async function moveAlias(
  ref: string,
  version: string | undefined,
  flags: { remove?: boolean; who?: string; registry?: string },
): Promise<void> {
  const { id, alias } = parseReference(ref);
  if (alias === undefined || (version === undefined) === (flags.remove !== true)) {
    throw new SluiceError('usage', 'model alias takes id@alias and a version, or id@alias --remove');
  }
  const registry: Registry = await openRegistry(flags.registry);
  if (version !== undefined) {
    const model = await registry.resolve(`${id}:${version}`);
    const { tryPackage } = await import('../../onboarding/verify.ts');
    await tryPackage(model);
    version = versionOf(model.manifest);
  }
  const move = await registry.moveAlias(id, alias, version ?? null, flags.who ?? whoAmI());
  out(`${id}@${alias}: ${move.from ?? '(none)'} → ${move.to ?? '(removed)'}`);
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new SluiceError('input_not_found', `${file} cannot be opened`, { cause });
  }
}

function whoAmI(): string {
  try {
    return userInfo().username;
  } catch {
    return 'unknown';
  }
}
