// `sluice serve`: the HTTP service.
import type { Command } from 'commander';
import { loadConfig } from '../../config/load-config.ts';
import { ServerConfigSchema } from '../../config/server-config.ts';
import type { ServeOptions } from '../http/service.ts';
import { openRegistry } from './open-registry.ts';
import { signalled } from './signals.ts';

interface ServeFlags {
  config?: string;
  set: string[];
  dev?: boolean;
  port?: string;
  registry?: string;
}

export function addServeCommand(program: Command): void {
  program
    .command('serve')
    .description('serve predictions over HTTPS')
    .option('-c, --config <file>', 'YAML file; see docs/serve.md')
    .option('--set <name=value...>', 'settings over those of the file, such as limits.rows=1000', [])
    .option('--port <n>', 'short for --set listen.port=n')
    .option('--registry <address>', 'folder, s3://… or mlflow+https://… (default: $SLUICE_REGISTRY or ./models)')
    .option('--dev', 'loopback only, with a certificate and a key made on the spot')
    .action(async (flags: ServeFlags) => {
      const settings = [...flags.set, ...(flags.port === undefined ? [] : [`listen.port=${flags.port}`])];
      const config = await loadConfig(ServerConfigSchema, {
        ...(flags.config === undefined ? {} : { file: flags.config }),
        env: process.env,
        settings,
      });
      const tell = (text: string) => process.stderr.write(`sluice: ${text}\n`);
      // Loaded here, so that the other commands do not pay for a web server.
      const { serve } = await import('../http/service.ts');
      const lookups: NonNullable<ServeOptions['lookups']> = { hear: () => {} };
      const registry = await openRegistry(flags.registry ?? config.registry, {
        remote: config.registry_options,
        tell,
        onLookup: (outcome) => lookups.hear(outcome),
      });
      const service = await serve({
        config,
        registry,
        lookups,
        dev: flags.dev === true,
        tell,
      });
      const { signal } = signalled();
      tell(`serving ${service.url}`);
      if (service.token) tell(`key of this run: ${service.token}`);
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
      tell('stopping: running answers may finish');
      await service.stop();
      tell('stopped');
    });
}
