// `sluice serve`: starts the HTTP service.
import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { loadConfig } from '../../config/load-config.ts';
import { ServerConfigSchema } from '../../config/server-config.ts';
import { SluiceError } from '../../core/errors.ts';
import { fileFault } from '../../core/file-system.ts';
import { named, words } from '../../core/log.ts';
import { openLog } from '../../monitor/open-log.ts';
import { openTracer } from '../../monitor/otlp-tracer.ts';
import { hearFaults } from '../../monitor/process-faults.ts';
import type { ServeOptions } from '../http/service.ts';
import { openCommandLog, orLogged, saidOfLog } from './command-log.ts';
import { EXIT } from './exit-codes.ts';
import { addFlags } from './flags/command-spec.ts';
import { SERVICE_COMMANDS, type ServeFlags } from './flags/service-flags.ts';
import { openRegistry } from './open-registry.ts';
import { signalled } from './signals.ts';

export function addServeCommand(program: Command): void {
  addFlags(program.command('serve'), SERVICE_COMMANDS.serve).action(async (flags: ServeFlags) => {
    const early = await openCommandLog(flags, process.env);
    await orLogged(early, () => runService(flags));
  });
}

/** Settings from flags and the environment, which override the configuration file. @throws SluiceError usage */
function settingsOf(flags: ServeFlags): string[] {
  // Later settings win: flags over the environment, and specific flags (`--log-level`) over `--set`.
  const [environment, said] = [saidOfLog({}, process.env), saidOfLog(flags, {})].map((log) =>
    Object.entries(log).map(([name, value]) => `log.${name}=${value}`),
  );
  const port = flags.port === undefined ? [] : [`listen.port=${flags.port}`];
  return [...environment!, ...flags.set, ...said!, ...port];
}

/** @throws SluiceError usage: --dev is missing, or the file cannot be written */
async function writeCertificate(file: string, certificate: string | null): Promise<void> {
  if (certificate === null) throw new SluiceError('usage', '--cert-out needs --dev');
  await writeFile(file, certificate).catch((cause) => {
    throw new SluiceError('usage', `--cert-out ${file} cannot be written: ${fileFault(cause)}`, { cause });
  });
}

async function runService(flags: ServeFlags): Promise<void> {
  const config = await loadConfig(ServerConfigSchema, {
    ...(flags.config === undefined ? {} : { file: flags.config }),
    env: process.env,
    settings: settingsOf(flags),
  });
  const { log } = await openLog(config.log);
  // Imported on demand, so that other commands do not load the web server.
  const { serve } = await import('../http/service.ts');
  const lookups: NonNullable<ServeOptions['lookups']> = { hear: () => {} };
  const faults: NonNullable<ServeOptions['faults']> = { hear: () => {} };
  const registry = await openRegistry(flags.registry ?? config.registry, {
    remote: config.registry_options,
    trust: config,
    log,
    onLookup: (outcome) => lookups.hear(outcome),
  });
  const lost = new AbortController();
  hearFaults({
    log,
    count: (kind) => faults.hear(kind),
    onLost: (error) => {
      process.exitCode = EXIT.failed;
      lost.abort(error);
    },
  });
  const tracer = await openTracer({
    env: process.env,
    endpoint: config.tracing.otlp_endpoint,
    perSecond: config.tracing.traces_per_second,
    log,
  });
  const service = await serve({ config, registry, lookups, faults, dev: flags.dev === true, log, tracer });
  if (flags.certOut !== undefined) await writeCertificate(flags.certOut, service.certificate);
  const signal = AbortSignal.any([signalled().signal, lost.signal]);
  const url = named(service.url);
  log('info', 'service_started', words`serving ${url}`, { url });
  // Logging the key is safe, because the key is valid only for this process, which listens only on loopback.
  if (service.token)
    log('info', 'dev_key', words`API key of this run: ${named(service.token)}`, { key: named(service.token) });
  if (!signal.aborted)
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  log('info', 'service_stopping', words`stopping: running responses may finish`);
  await service.stop();
  await tracer?.close();
  log('info', 'service_stopped', words`stopped`);
}
