// `sluice serve`: the HTTP service.
import type { Command } from 'commander';
import { loadConfig } from '../../config/load-config.ts';
import { ServerConfigSchema } from '../../config/server-config.ts';
import { inBackground } from '../../core/in-background.ts';
import type { ServeOptions } from '../http/service.ts';
import { COMMAND_TABLES, type ServeFlags } from './flag-tables.ts';
import { addFlags } from './flags.ts';
import { openRegistry } from './open-registry.ts';
import { signalled } from './signals.ts';

export function addServeCommand(program: Command): void {
  addFlags(program.command('serve'), COMMAND_TABLES.serve).action(async (flags: ServeFlags) => {
    const settings = [...flags.set, ...(flags.port === undefined ? [] : [`listen.port=${flags.port}`])];
    const config = await loadConfig(ServerConfigSchema, {
      ...(flags.config === undefined ? {} : { file: flags.config }),
      env: process.env,
      settings,
    });
    const log = (text: string) => process.stderr.write(`sluice: ${text}\n`);
    // Loaded here, so that the other commands do not pay for a web server.
    const { serve } = await import('../http/service.ts');
    const lookups: NonNullable<ServeOptions['lookups']> = { hear: () => {} };
    const registry = await openRegistry(flags.registry ?? config.registry, {
      remote: config.registry_options,
      log,
      onLookup: (outcome) => lookups.hear(outcome),
    });
    // A failure that nobody waits for ends no request that has nothing to do with it.
    process.on('unhandledRejection', (error) => inBackground('unknown work', () => Promise.reject(error)));
    const service = await serve({
      config,
      registry,
      lookups,
      dev: flags.dev === true,
      log,
    });
    const { signal } = signalled();
    log(`serving ${service.url}`);
    if (service.token) log(`key of this run: ${service.token}`);
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    log('stopping: running answers may finish');
    await service.stop();
    log('stopped');
  });
}
