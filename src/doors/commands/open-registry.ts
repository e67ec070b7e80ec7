// The registry of a command: the configured registry or ./models, with the bundled models as a fallback.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { RegistryOptions } from '../../config/registry-options.ts';
import { SluiceError } from '../../core/errors.ts';
import { type Log, named, words } from '../../core/log.ts';
import { isRemote, type Registry } from '../../model/registry/registry.ts';
import type { TrustPolicy } from '../../model/registry/trusted.ts';
import { textLog } from '../../monitor/open-log.ts';

/** Folder of the bundled models. */
export const BUNDLED_MODELS = fileURLToPath(new URL('../../bundled/', import.meta.url));

/** The configured address, else $SLUICE_REGISTRY, which counts as unset if it is empty. */
export const configuredRegistry = (address?: string): string | undefined =>
  address ?? (process.env.SLUICE_REGISTRY || undefined);

/**
 * Opens the configured registry, else $SLUICE_REGISTRY, else ./models; models not found there are looked up among the
 * bundled models. The address is a folder, `s3://bucket/prefix` or `mlflow+https://host`; options of the latter two
 * default to $SLUICE_REGISTRY_OPTIONS__…. Only trusted packages are returned if `trust` or the environment requires it.
 * @throws SluiceError usage
 */
export async function openRegistry(
  address: string | undefined,
  options: {
    create?: boolean;
    remote?: RegistryOptions;
    /** Applied in addition to the environment. `nothing`: ignores the environment and requires no trust. */
    trust?: TrustPolicy | 'nothing';
    /** Include unapproved versions, for inspection. */
    inspects?: boolean;
    log?: Log;
    onLookup?: (outcome: 'ok' | 'stale' | 'failed') => void;
  } = {},
): Promise<Registry> {
  const where = configuredRegistry(address);
  const { approvalsOf, trusting, trustSaid } = await import('../../model/registry/trusted.ts');
  const trust = options.trust === 'nothing' ? {} : trustSaid(options.trust ?? {}, process.env);
  const approvals = options.inspects === true ? null : await approvalsOf(trust);
  const log = options.log ?? textLog();
  const onRetired = tellOnce(log);
  // Loaded on demand: a folder registry must not load the network modules, and `generate` needs neither.
  const { FolderRegistry } = await import('../../model/registry/folder.ts');
  if (where !== undefined && isRemote(where)) {
    const [{ openRemote }, { registryOptions }] = await Promise.all([
      import('../../model/registry/open.ts'),
      import('../../config/registry-options.ts'),
    ]);
    const remote = openRemote(where, {
      options: options.remote ?? registryOptions(process.env),
      env: process.env,
      behind: new FolderRegistry([BUNDLED_MODELS], { approvals }),
      log,
      approvals,
      onRetired,
      ...(options.onLookup ? { onLookup: options.onLookup } : {}),
    });
    return trusting(remote, trust);
  }
  if (where !== undefined && options.create !== true && !existsSync(where)) {
    throw new SluiceError('usage', `the registry folder ${where} does not exist`);
  }
  const folders = [where ?? path.resolve('models'), BUNDLED_MODELS];
  return trusting(new FolderRegistry(folders, { approvals, onRetired }), trust);
}

/** Logs a warning for a retired version, once per version. */
function tellOnce(log: Log): (ref: string) => void {
  const told = new Set<string>();
  return (ref) => {
    if (told.has(ref)) return;
    told.add(ref);
    log('warn', 'model_retired', words`${named(ref)} is retired: use it only to repeat earlier runs`, { model: named(ref) }); // biome-ignore format: one line
  };
}
