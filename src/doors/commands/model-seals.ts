// `sluice model seal`, `sign` and `verify-signature`: the lock file and the signatures of a package.
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import { fileFault } from '../../core/file-system.ts';
import { loadPackage } from '../../model/package/load-package.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import { SIGNATURE } from '../../model/package/package-hash.ts';
import { sealPackage, writeBeside } from '../../model/package/package-lock.ts';
import { isRemote } from '../../model/registry/registry.ts';
import { signerNames } from '../../model/registry/trusted.ts';
import type { ModelSigner } from '../../model/signing/model-signature.ts';
import { configuredRegistry, openRegistry } from './open-registry.ts';

const isFolder = (ref: string): boolean => existsSync(path.join(ref, 'model.yaml'));

/** Loads a package by path or reference. */
export const packageOf = async (ref: string, registry: string | undefined): Promise<ModelPackage> =>
  isFolder(ref) ? loadPackage(ref) : (await openRegistry(registry, { inspects: true })).resolve(ref);

/**
 * Loads a package for writing. Packages of remote registries cannot be written, because they are copies.
 * @throws SluiceError usage
 */
async function ownPackage(ref: string, registry: string | undefined): Promise<ModelPackage> {
  const address = configuredRegistry(registry);
  if (isFolder(ref) || address === undefined || !isRemote(address)) {
    // No trust is required here: if signatures were required, the registry would not return an unsigned package.
    return isFolder(ref) ? loadPackage(ref) : (await openRegistry(registry, { trust: 'nothing' })).resolve(ref);
  }
  throw new SluiceError('usage', `versions in ${address} cannot be changed: sign with sluice model add --sign-key`);
}

export async function writeLock(ref: string, flags: { registry?: string }): Promise<void> {
  const model = await ownPackage(ref, flags.registry);
  if (!(await sealPackage(model.folder))) {
    process.stderr.write(`${model.ref} matches its package.lock\n`);
  }
  process.stdout.write(`${model.ref} ${model.sha256}\n`);
}

/** @throws SluiceError usage */
async function readSigner(key: string, certificates: string | undefined): Promise<ModelSigner> {
  const { signerOf } = await import('../../model/signing/model-signature.ts');
  const chain = certificates === undefined ? null : { pem: await pemIn(certificates), file: certificates };
  return signerOf(await pemIn(key), key, chain);
}

/**
 * Returns the key and a function that signs a package to register; undefined without a key.
 * @throws SluiceError usage
 */
export async function signatureFor({ signKey, certificates }: { signKey?: string; certificates?: string }) {
  if (signKey === undefined) return undefined;
  const signer = await readSigner(signKey, certificates);
  const { signModel } = await import('../../model/signing/model-signature.ts');
  return { key: signer.key, sign: (model: ModelPackage) => signModel(model, signer) };
}

export async function signPackage(
  ref: string,
  flags: { key: string; certificates?: string; registry?: string },
): Promise<void> {
  const [{ signModel }, signer] = await Promise.all([
    import('../../model/signing/model-signature.ts'),
    readSigner(flags.key, flags.certificates),
  ]);
  const found = await ownPackage(ref, flags.registry);
  // The lock file is written first, because the signature covers it.
  await sealPackage(found.folder);
  const model = await loadPackage(found.folder);
  await writeBeside(model.folder, SIGNATURE, signModel(model, signer));
  process.stdout.write(`${path.join(model.folder, SIGNATURE)}\n`);
}

export async function verifySigned(
  ref: string,
  flags: { key?: string; certificates?: string; signer?: string; registry?: string; json?: boolean },
): Promise<void> {
  if ((flags.key === undefined) === (flags.certificates === undefined)) {
    throw new SluiceError('usage', 'model verify-signature takes --key or --certificates');
  }
  const file = (flags.key ?? flags.certificates)!;
  const { trustOf, verifySignature } = await import('../../model/signing/model-signature.ts');
  const trust = trustOf(await pemIn(file), file, signerNames(flags.signer) ?? null);
  const model = await packageOf(ref, flags.registry);
  const { by } = await verifySignature(model, trust);
  const told = { model: model.ref, package_sha256: model.sha256, signed_by: by };
  process.stdout.write(flags.json ? `${JSON.stringify(told)}\n` : `${model.ref} ${model.sha256} was signed by ${by}\n`);
}

async function pemIn(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((cause: unknown) => {
    throw new SluiceError('usage', `${file} cannot be read: ${fileFault(cause)}`, { cause });
  });
}
