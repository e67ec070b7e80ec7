// A registry that returns only trusted packages. Depending on the policy, a package needs a lock file, a trusted
// signature and a valid approval.
import { createPublicKey, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { rejectPrivateKey } from '../../core/dsse.ts';
import { SluiceError } from '../../core/errors.ts';
import { fileFault } from '../../core/file-system.ts';
import type { ModelPackage } from '../package/model-package.ts';
import { LOCK } from '../package/package-hash.ts';
import type { Registry } from './registry.ts';
import type { Approvals } from './state-journal.ts';

/** Requirements that a package must meet to be loaded. */
export interface TrustPolicy {
  /** Whether a package needs a package.lock. */
  require_lock?: boolean;
  /** If set, a package needs a signature. The PEM file contains the public key or the trusted certificates. */
  require_signature?: string;
  /** Names of the certificates that may sign: common names, or alternative names with their type. */
  require_signer?: readonly string[];
  /**
   * If set, a version needs an approval. Value: a PEM file with the public keys of the permitted approvers, or `any`.
   */
  require_approval?: string;
}

/** Adds the requirements of the environment to a policy. */
export const trustSaid = (said: TrustPolicy, env: Record<string, string | undefined>): TrustPolicy => {
  const signature = said.require_signature ?? env.SLUICE_REQUIRE_SIGNATURE;
  const signer = said.require_signer ?? signerNames(env.SLUICE_REQUIRE_SIGNER);
  const lock = said.require_lock ?? ['1', 'true'].includes(env.SLUICE_REQUIRE_LOCK ?? '');
  const approval = said.require_approval ?? env.SLUICE_REQUIRE_APPROVAL;
  return {
    require_lock: lock,
    ...(signature ? { require_signature: signature } : {}),
    ...(signer ? { require_signer: signer } : {}),
    ...(approval ? { require_approval: approval } : {}),
  };
};

/** Parses comma-separated names of signers. Returns undefined if there are none. */
export function signerNames(text: string | undefined): string[] | undefined {
  const names = (text ?? '').split(',').map((name) => name.trim());
  return names.some((name) => name !== '') ? names.filter((name) => name !== '') : undefined;
}

/**
 * The approvals that are accepted; null if none are required.
 * @throws SluiceError usage: the file cannot be read, or contains no key
 */
export async function approvalsOf({ require_approval: said }: TrustPolicy): Promise<Approvals | null> {
  if (said === undefined) return null;
  return said === 'any' ? said : publicKeys(await readFile(said, 'utf8').catch(unreadable(said)), said);
}

const END = '-----END PUBLIC KEY-----';

/** The public keys in a PEM file; at least one. @throws SluiceError usage */
export function publicKeys(pem: string, file: string): KeyObject[] {
  rejectPrivateKey(pem, file);
  const keys: KeyObject[] = [];
  try {
    for (const text of pem.split(END).slice(0, -1))
      keys.push(createPublicKey(`${text.slice(text.indexOf('-----BEGIN'))}${END}`));
  } catch (cause) {
    throw new SluiceError('usage', `${file} contains a damaged public key`, { cause });
  }
  if (keys.length > 0) return keys;
  throw new SluiceError('usage', `${file} contains no public key in PEM format`);
}

/**
 * Applies a policy to a registry. Without requirements, returns the registry itself. Each loaded package is checked
 * only once; a changed package is a new object.
 * @throws SluiceError usage: the key file cannot be read, or contains no key
 */
export async function trusting(registry: Registry, policy: TrustPolicy): Promise<Registry> {
  if (policy.require_signer !== undefined && policy.require_signature === undefined) {
    throw new SluiceError('usage', 'require_signer needs certificates in require_signature');
  }
  if (!policy.require_lock && policy.require_signature === undefined) return registry;
  const check = await checkOf(policy);
  const checked = new WeakMap<ModelPackage, Promise<void>>();
  const resolve = async (reference: string): Promise<ModelPackage> => {
    const model = await registry.resolve(reference);
    const known = checked.get(model) ?? check(model);
    checked.set(model, known);
    known.catch(() => checked.delete(model));
    await known;
    return model;
  };
  return {
    resolve,
    list: () => registry.list(),
    history: (id) => registry.history(id),
    moveAlias: async (id, alias, to, ...who) => {
      if (to !== null) await resolve(`${id}:${to}`);
      return registry.moveAlias(id, alias, to, ...who);
    },
    add: (id, version, folder, by) => registry.add(id, version, folder, by),
    states: (id) => registry.states(id),
    setState: (...change) => registry.setState(...change),
  };
}

async function checkOf(policy: TrustPolicy): Promise<(model: ModelPackage) => Promise<void>> {
  const file = policy.require_signature;
  const signing = file === undefined ? null : await import('../signing/model-signature.ts');
  const pem = file === undefined ? '' : await readFile(file, 'utf8').catch(unreadable(file));
  const trust = signing?.trustOf(pem, file!, policy.require_signer ?? null);
  return async (model) => {
    if (policy.require_lock && !model.locked) {
      throw new SluiceError('lock_missing', `${model.ref} has no ${LOCK}, but the configuration requires one`);
    }
    if (signing && trust) await signing.verifySignature(model, trust);
  };
}

const unreadable = (file: string) => (cause: unknown) => {
  throw new SluiceError('usage', `${file} cannot be read: ${fileFault(cause)}`, { cause });
};
