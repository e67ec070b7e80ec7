// `sluice doctor`: checks this machine and its configuration. Prints one line per finding; the exit code is 1 if any
// finding is an error.

import { access, constants, stat, statfs } from 'node:fs/promises';
import { availableParallelism, freemem, tmpdir, totalmem } from 'node:os';
import path from 'node:path';
import type { Command } from 'commander';
import { loadConfig } from '../../config/load-config.ts';
import { type ServerConfig, ServerConfigSchema } from '../../config/server-config.ts';
import { CONNECTORS, connectorOf } from '../../connectors/connectors.ts';
import { asSluiceError, SluiceError } from '../../core/errors.ts';
import { OLDEST_NODE, VERSION } from '../../core/version.ts';
import { readPipeline } from '../../runs/read-pipeline.ts';
import { EXIT } from './exit-codes.ts';
import { addFlags } from './flags/command-spec.ts';
import { type DoctorFlags, SERVICE_COMMANDS } from './flags/service-flags.ts';
import { BUNDLED_MODELS, openRegistry } from './open-registry.ts';

interface Finding {
  check: string;
  state: 'ok' | 'warning' | 'wrong';
  message: string;
}

const MIB = 1024 * 1024;

export function addDoctorCommand(program: Command): void {
  addFlags(program.command('doctor'), SERVICE_COMMANDS.doctor).action(async (flags: DoctorFlags) => {
    const findings = await examine(flags);
    if (flags.json) process.stdout.write(`${JSON.stringify({ findings })}\n`);
    else for (const f of findings) process.stdout.write(`${MARKS[f.state]} ${f.check}: ${f.message}\n`);
    if (findings.some((f) => f.state === 'wrong')) process.exitCode = EXIT.failed;
  });
}

const MARKS = { ok: 'ok     ', warning: 'warning', wrong: 'WRONG  ' } as const;

async function examine(flags: DoctorFlags): Promise<Finding[]> {
  const findings: Finding[] = [];
  const say = (check: string, state: Finding['state'], message: string) => {
    findings.push({ check, state, message });
  };
  /** Runs a check. If it throws, the error becomes the finding. */
  const look = async (check: string, work: () => Promise<string>) => {
    try {
      say(check, 'ok', await work());
    } catch (error) {
      const e = asSluiceError(error, 'usage');
      say(check, 'wrong', `${e.message} [${e.code}] ${e.entry.action}`);
    }
  };
  say(
    'runtime',
    atLeast(process.versions.node, OLDEST_NODE) ? 'ok' : 'wrong',
    `Sluice ${VERSION} on Node ${process.versions.node}, ${process.platform} ${process.arch}`,
  );
  const cores = availableParallelism();
  const free = Math.round(freemem() / MIB);
  say(
    'machine',
    cores > 1 && free > 512 ? 'ok' : 'warning',
    `${cores} cores, ${free} of ${Math.round(totalmem() / MIB)} MB free`,
  );
  await look('evaluator', async () => {
    const [{ loadPackage }, { tryPackage }] = await Promise.all([
      import('../../model/package/load-package.ts'),
      import('../../onboarding/trial.ts'),
    ]);
    await tryPackage(await loadPackage(path.join(BUNDLED_MODELS, 'credit-default', '1')));
    return 'ONNX Runtime loads, and the bundled model reproduces the predictions of its training library';
  });

  let config: ServerConfig | null = null;
  if (flags.config !== undefined) {
    await look('configuration', async () => {
      config = await loadConfig(ServerConfigSchema, { file: flags.config!, env: process.env });
      return `${flags.config} is valid`;
    });
  }
  await lookAtRegistry(flags, config, look, say);
  if (config) await lookAtServer(config, look, say);
  if (flags.pipeline !== undefined) {
    await look('pipeline', async () => {
      const pipeline = await readPipeline(flags.pipeline!);
      if (![pipeline.source, pipeline.sink].some((end) => connectorOf(end) === CONNECTORS.kafka))
        return `${flags.pipeline} is valid`;
      const { checkTopics } = await import('../../connectors/kafka/topic-checks.ts');
      const { topics, notices } = await checkTopics(pipeline);
      for (const word of notices) say('pipeline', 'warning', word);
      const facts = topics.map((t) => `${t.topic} (${t.partitions} partitions)`);
      return `${flags.pipeline} is valid; topics: ${facts.join(', ')}`;
    });
  }
  return findings;
}

/** Whether a version is at least `oldest`. Versions have three numbers. */
function atLeast(version: string, oldest: string): boolean {
  const [of, than] = [version, oldest].map((v) => v.split('.').map(Number));
  const at = of!.findIndex((n, i) => n !== than![i]);
  return at === -1 || of![at]! > than![at]!;
}

type Look = (check: string, work: () => Promise<string>) => Promise<void>;
type Say = (check: string, state: Finding['state'], message: string) => void;

async function lookAtRegistry(flags: DoctorFlags, config: ServerConfig | null, look: Look, say: Say): Promise<void> {
  await look('registry', async () => {
    const registry = await openRegistry(
      flags.registry ?? config?.registry,
      config ? { remote: config.registry_options, trust: config } : {},
    );
    const models = await registry.list();
    const { tryPackage } = await import('../../onboarding/trial.ts');
    for (const m of models) {
      await look(`model ${m.id}`, async () => {
        if (m.versions.every((v) => m.states[v] === 'retired')) return 'every version is retired';
        const model = await registry.resolve(m.id);
        await tryPackage(model);
        if (!model.manifest.self_test) say(`model ${m.id}`, 'warning', `${model.ref} has no self-test`);
        return `${model.ref} loads${model.manifest.self_test ? ' and passes its self-test' : ''}`;
      });
    }
    return countOf(models.length, 'model');
  });
}

const countOf = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

/** The innermost existing folder of a path, because the service creates the missing folders. */
async function existingAncestor(folder: string): Promise<string> {
  const exists = await stat(folder).then(
    () => true,
    () => false,
  );
  return exists || path.dirname(folder) === folder ? folder : existingAncestor(path.dirname(folder));
}

async function lookAtServer(config: ServerConfig, look: Look, say: Say): Promise<void> {
  if (config.tls) {
    const { certificate, key, client_ca, client_crl } = config.tls;
    await look('certificate', async () => {
      const { readCertificate } = await import('../http/wire/listener.ts');
      await readCertificate({ certificate, key, client_ca, client_crl });
      return `${certificate} and ${key} can be read`;
    });
  }
  await look('keys', async () => {
    const { readKeys } = await import('../http/access/keys-file.ts');
    const keys = await readKeys(config.keys_file);
    const { mode } = await stat(config.keys_file);
    if ((mode & 0o002) !== 0) say('keys', 'warning', `${config.keys_file} is writable by everyone`);
    return `${countOf(keys.length, 'key')} in ${config.keys_file}`;
  });
  const { shared } = config.jobs;
  if (shared) {
    await look('shared jobs', async () => {
      const { reachShared } = await import('../http/jobs/open-jobs.ts');
      return reachShared(shared);
    });
  }
  for (const [what, folder] of [
    ...(shared ? [] : [['jobs', config.jobs.folder] as const]),
    ['spill', config.spill.folder ?? tmpdir()] as const,
    ...(config.audit ? [['audit', path.dirname(config.audit.file)] as const] : []),
  ]) {
    await look(`${what} folder`, async () => {
      const there = await existingAncestor(path.resolve(folder));
      if (!(await stat(there)).isDirectory()) throw new SluiceError('folder_unusable', `${there} is not a folder`);
      await access(there, constants.W_OK);
      const { bavail, bsize } = await statfs(there);
      const megabytes = Math.round((bavail * bsize) / MIB);
      if (megabytes < 1024) say(`${what} folder`, 'warning', `${megabytes} MB free in ${there}`);
      return `${folder} can be written, ${megabytes} MB free`;
    });
  }
}
