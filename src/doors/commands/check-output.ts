// `sluice verify` and `sluice replay`: verify an output against its manifest offline, and score one of its rows again.

import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { isQuery } from '../../connectors/connectors.ts';
import { SluiceError } from '../../core/errors.ts';
import { fileFault } from '../../core/file-system.ts';
import { loadPackage } from '../../model/package/load-package.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import { count } from '../../monitor/progress.ts';
import { readKey } from '../../proof/envelope.ts';
import type { Predicate } from '../../proof/statement.ts';
import { type Replayed, replayRow } from '../../runs/checks/replay-row.ts';
import { readManifest, type Verified, verifyOutput } from '../../runs/checks/verify-output.ts';
import { addFlags } from './flags/command-spec.ts';
import { PROOF_COMMANDS, type ReplayFlags, type VerifyFlags } from './flags/output-flags.ts';
import { openRegistry } from './open-registry.ts';

export function addVerifyCommands(program: Command): void {
  addFlags(program.command('verify'), PROOF_COMMANDS.verify).action(verify);
  addFlags(program.command('replay'), PROOF_COMMANDS.replay).action(replay);
}

async function verify(output: string, flags: VerifyFlags): Promise<void> {
  const key = await publicKey(flags.key);
  const verified = await verifyOutput({
    output,
    input: flags.input ?? null,
    list: flags.list ?? null,
    package: await packageFolder(output, flags),
    key,
    ...(flags.writtenAs === undefined ? {} : { writtenAs: flags.writtenAs }),
  });
  const { predicate, ...rest } = verified;
  const told = { ...rest, finished: predicate?.finished ?? null };
  process.stdout.write(flags.json ? `${JSON.stringify(told)}\n` : textOf(output, verified, key !== null));
  if (verified.whole) return;
  const { findings } = verified;
  const code = findings.some((f) => f.file === 'manifest') ? 'manifest_invalid' : 'verification_failed';
  if (predicate === null) throw new SluiceError(code, `${output} cannot be verified`);
  throw new SluiceError(
    code,
    `${output} does not match its manifest: ${count(findings.length)} ${findings.length === 1 ? 'finding' : 'findings'}`,
  );
}

function textOf(
  output: string,
  { findings, checked, predicate, signedBy }: Verified,
  signatureVerified: boolean,
): string {
  if (findings.length > 0) return findings.map((f) => `${f.text}\n`).join('');
  const { rows, model, made_by } = predicate!;
  const when = predicate!.finished === undefined ? '' : `, finished ${predicate!.finished}`;
  const signers = signedBy.map((id) => id.slice(0, 16)).join(', ');
  const signed =
    signers === ''
      ? 'not signed'
      : signatureVerified
        ? `signed by ${signers}`
        : `signature of ${signers} not verified (use --key)`;
  return [
    `${output} is complete and unchanged: ${count(rows.read)} rows read = ${count(rows.scored)} scored + ${count(rows.rejected)} rejected`,
    `model ${model.ref}, package ${model.package_sha256}, Sluice ${made_by.sluice}`,
    `checked: ${checked.join(', ')}; ${signed}${when}\n`,
  ].join('\n');
}

async function replay(output: string, flags: ReplayFlags): Promise<void> {
  const { model, replayed } = await (/\.ya?ml$/i.test(output) ? replayTable(output, flags) : replayFile(output, flags));
  if (flags.json) process.stdout.write(`${JSON.stringify(replayed)}\n`);
  else if (replayed.same)
    process.stdout.write(`row ${flags.row} scored again with ${model.ref} is bit-identical:\n${replayed.again}\n`);
  else
    process.stdout.write(
      `row ${flags.row} in the output:\n${replayed.written}\nrow ${flags.row} scored again:\n${replayed.again}\n`,
    );
  if (!replayed.same)
    throw new SluiceError(
      'verification_failed',
      `scoring row ${flags.row} again gives another result than the output contains`,
    );
}

interface ReplayedWith {
  model: ModelPackage;
  replayed: Replayed;
}

async function replayFile(output: string, flags: ReplayFlags): Promise<ReplayedWith> {
  const { predicate } = await readManifest(output, await publicKey(flags.key));
  if (flags.key === undefined && isQuery(predicate.options.source)) {
    const why = 'the manifest names the database to query, and an unsigned manifest can be forged';
    throw new SluiceError('usage', `replaying a query needs --key: ${why}`);
  }
  const model =
    flags.package === undefined ? await registered(predicate, flags.registry) : await loadPackage(flags.package);
  const replayed = await replayRow({ output, predicate, model, row: flags.row, input: flags.input ?? null });
  return { model, replayed };
}

/** A table has no manifest, so its input, model and options are taken from the pipeline that wrote it. */
async function replayTable(file: string, flags: ReplayFlags): Promise<ReplayedWith> {
  if (flags.key !== undefined) throw new SluiceError('usage', '--key: tables have no signed manifest');
  const [{ readPipeline }, { replayTableRow }] = await Promise.all([
    import('../../runs/read-pipeline.ts'),
    import('../../runs/checks/replay-table-row.ts'),
  ]);
  const pipeline = await readPipeline(file);
  const model =
    flags.package === undefined
      ? await (await openRegistry(flags.registry)).resolve(pipeline.model)
      : await loadPackage(flags.package);
  const replayed = await replayTableRow({ pipeline, model, row: flags.row, input: flags.input ?? null });
  return { model, replayed };
}

const registered = async ({ model }: Predicate, registry: string | undefined): Promise<ModelPackage> =>
  (await openRegistry(registry)).resolve(model.ref);

/** The folder of the package to verify; null if no package is configured. */
async function packageFolder(output: string, flags: VerifyFlags): Promise<string | null> {
  if (flags.package !== undefined || flags.registry === undefined) return flags.package ?? null;
  try {
    const { predicate } = await readManifest(output, null);
    return (await registered(predicate, flags.registry)).folder;
  } catch (error) {
    // The verification itself reports errors of the manifest.
    if (error instanceof SluiceError && error.code === 'manifest_invalid') return null;
    throw error;
  }
}

async function publicKey(file: string | undefined): Promise<ReturnType<typeof readKey> | null> {
  if (file === undefined) return null;
  const pem = await readFile(file, 'utf8').catch((cause) => {
    throw new SluiceError('usage', `the key ${file} cannot be read: ${fileFault(cause)}`, { cause });
  });
  return readKey(pem, 'public', file);
}
