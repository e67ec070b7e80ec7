// What all commands share: where models are looked for, how a signal ends a run, how an error is told and which exit code it has.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { RegistryOptions } from '../../config/registry-options.ts';
import { asSluiceError, SluiceError } from '../../core/errors.ts';
import { isRemote } from '../../model/registry/address.ts';
import type { Registry } from '../../model/registry/registry.ts';

export const EXIT = { done: 0, failed: 1, usage: 2, rejected: 3 } as const;

/** The models that come with Sluice. */
export const BUNDLED_MODELS = fileURLToPath(new URL('../../bundled/', import.meta.url));

/**
 * Where models are looked for: the registry named, or $SLUICE_REGISTRY, or ./models; then the bundled ones. A folder,
 * `s3://bucket/prefix` or `mlflow+https://host`; options of the latter two default to $SLUICE_REGISTRY_OPTIONS__….
 * @throws SluiceError usage
 */
export async function openRegistry(
  address: string | undefined,
  options: {
    create?: boolean;
    remote?: RegistryOptions;
    tell?: (text: string) => void;
    onLookup?: (outcome: 'ok' | 'stale' | 'failed') => void;
  } = {},
): Promise<Registry> {
  const named = address ?? process.env.SLUICE_REGISTRY;
  // Loaded when it is needed: who scores with a folder must not pay for the network, nor `generate` for either.
  const { FolderRegistry } = await import('../../model/registry/folder.ts');
  if (named !== undefined && isRemote(named)) {
    const [{ openRemote }, { registryOptions }] = await Promise.all([
      import('../../model/registry/open.ts'),
      import('../../config/registry-options.ts'),
    ]);
    return openRemote(named, {
      options: options.remote ?? registryOptions(process.env),
      env: process.env,
      behind: new FolderRegistry([BUNDLED_MODELS]),
      tell: options.tell ?? ((text) => process.stderr.write(`sluice: ${text}\n`)),
      ...(options.onLookup ? { onLookup: options.onLookup } : {}),
    });
  }
  if (named !== undefined && options.create !== true && !existsSync(named)) {
    throw new SluiceError('usage', `the registry folder ${named} is not there`);
  }
  return new FolderRegistry([named ?? path.resolve('models'), BUNDLED_MODELS]);
}

/** Aborted by SIGINT or SIGTERM; a second signal ends the process at once. */
export function signalled(): { signal: AbortSignal; dispose: () => void } {
  const controller = new AbortController();
  const onSignal = (name: NodeJS.Signals) => {
    if (controller.signal.aborted) process.exit(EXIT.failed);
    controller.abort(new SluiceError('cancelled', `stopped by ${name}`));
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  return {
    signal: controller.signal,
    dispose: () => {
      process.off('SIGINT', onSignal);
      process.off('SIGTERM', onSignal);
    },
  };
}

/** Tells an error on standard error and returns its exit code. */
export function tellError(error: unknown): number {
  const known = error instanceof SluiceError;
  const e = asSluiceError(error, 'worker_failed');
  process.stderr.write(`sluice: ${e.message} [${e.code}]\n  ${e.entry.action}\n`);
  if (!known && error instanceof Error && error.stack) process.stderr.write(`${error.stack}\n`);
  return e.code === 'usage' ? EXIT.usage : EXIT.failed;
}

/** An option that must be a whole number within bounds. @throws SluiceError usage */
export function wholeNumber(name: string, min: number, max: number): (text: string) => number {
  return (text) => {
    const n = Number(text);
    if (!Number.isInteger(n) || n < min || n > max) {
      throw new SluiceError('usage', `--${name} takes a whole number from ${min} to ${max}`);
    }
    return n;
  };
}
