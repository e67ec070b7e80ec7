// The registry of a command: the configured registry or ./models. The bundled models serve as a fallback.
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

/** The configured address, or else $SLUICE_REGISTRY. An empty variable counts as unset. */
export const configuredRegistry = (address?: string): string | undefined =>
  address ?? (process.env.SLUICE_REGISTRY || undefined);

/**
 * Opens the configured registry; without one, $SLUICE_REGISTRY; without that, ./models. Models that the registry does
 * not have are looked up among the bundled models. The address is a folder, `s3://bucket/prefix` or
 * `mlflow+https://host`. For `s3:` and `mlflow+https:`, the defaults of the options come from
 * $SLUICE_REGISTRY_OPTIONS__…. If `trust` or the environment requires trust, only trusted packages are returned.
 * @throws SluiceError usage
 */
export async function openRegistry(
  address: string | undefined,
  options: {
    create?: boolean;
    remote?: RegistryOptions;
    /**
     * Trust that is required in addition to the environment. `nothing` requires no trust and ignores the environment.
     */
    trust?: TrustPolicy | 'nothing';
    /** Whether to include unapproved versions, for inspection. */
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
  // Imported on demand: a folder registry must not load the network modules, and `generate` needs neither kind of
  // registry.
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

/** Logs a warning for retired versions, once per version. */
function tellOnce(log: Log): (ref: string) => void {
  const told = new Set<string>();
  return (ref) => {
    if (told.has(ref)) return;
    told.add(ref);
    log('warn', 'model_retired', words`${named(ref)} is retired: use it only to repeat earlier runs`, { model: named(ref) }); // biome-ignore format: one line
  };
}
