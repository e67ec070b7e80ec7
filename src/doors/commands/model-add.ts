// `sluice model add`: proposes a package for a model, reports on the package and registers it.
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import { parseReference } from '../../model/registry/registry.ts';
import type { ModelAddFlags } from './flags/model-flags.ts';
import { nextNumber } from './model-new-version.ts';
import { signatureFor } from './model-seals.ts';
import { readText, whoAmI } from './model-states.ts';
import { openRegistry } from './open-registry.ts';

const DELIMITER_WORDS: Record<string, string> = { tab: '\t', comma: ',', semicolon: ';', pipe: '|' };

const out = (text: string): void => {
  process.stdout.write(`${text}\n`);
};
const tell = (text: string): void => {
  process.stderr.write(`${text}\n`);
};

export async function addModel(modelFile: string, flags: ModelAddFlags): Promise<void> {
  // Imported on demand, so that other commands start fast.
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
      .basename(modelFile)
      .replace(/\.(onnx|txt|json|ubj)$/i, '')
      .toLowerCase()
      .replace(/[^a-z0-9._-]+/g, '-');
  try {
    parseReference(id);
  } catch (cause) {
    throw new SluiceError('usage', `--id ${id}: use lowercase letters, digits, dots, dashes and underscores`, {
      cause,
    });
  }
  const versions = (await registry.list()).find((m) => m.id === id)?.versions ?? [];
  const version = flags.asVersion ?? (await nextNumber(registry, id));
  if (versions.includes(version)) throw new SluiceError('version_exists', `${id}:${version} already exists`);
  const tolerance = flags.tolerance === undefined ? undefined : Number(flags.tolerance);
  if (tolerance !== undefined && !(tolerance >= 0)) throw new SluiceError('usage', '--tolerance takes a number from 0');
  const delimiter = delimiterIn(flags);
  const proposal = await proposePackage({
    modelFile,
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
    strict: flags.strict === true,
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
  // A registry that assigns version numbers may have chosen a number other than the proposed one.
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

/** Reads the files that the flags of a registration name. @throws SluiceError input_not_found | usage */
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
