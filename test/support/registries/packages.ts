// Whole packages under any id and version, made from the bundled one.
import { createHash } from 'node:crypto';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import type { ModelPackage } from '../../../src/model/package/model-package.ts';
import { LOCK, packageHash } from '../../../src/model/package/package-hash.ts';
import { scratch } from '../cli.ts';

const BUNDLED = path.resolve('src/bundled/credit-default/1');

/** The folder of a package. `description` makes two of the same version differ. */
export function makePackage(id: string, version: string | number, description = 'made for a test'): string {
  const folder = scratch();
  copyUnlocked(BUNDLED, folder);
  const file = path.join(folder, 'model.yaml');
  const yaml = readFileSync(file, 'utf8')
    .replace('id: credit-default', `id: ${id}`)
    .replace('version: 1', `version: ${version}`)
    .replace(/^description: .*$/m, `description: ${JSON.stringify(description)}`);
  writeFileSync(file, yaml);
  return folder;
}

/** Copies packages without their locks, to be changed. */
export function copyUnlocked(from: string, to: string): void {
  cpSync(from, to, { recursive: true, filter: (name) => path.basename(name) !== LOCK });
}

/** A package of a model file alone, as if it had been loaded. */
export function modelOnly(folder: string, manifest: Manifest, onnx: Uint8Array): ModelPackage {
  const sha256 = createHash('sha256').update(onnx).digest('hex');
  const files = [{ name: manifest.onnx.file, bytes: onnx.length, sha256 }];
  return { folder, manifest, ref: 'test:1', sha256: packageHash(files), files, locked: false };
}

/** The reference of the package that is meant, or the error as text. */
export const refOf = (resolving: Promise<{ ref: string }>): Promise<string> =>
  resolving.then(
    (m) => m.ref,
    (e: { code: string; message: string }) => `${e.code}: ${e.message}`,
  );

/** The code of the error, or what came instead of one. */
export const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    (value) => value,
    (e: { code?: string }) => e.code ?? e,
  );
