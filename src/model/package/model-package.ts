// A loaded package and its model file. Separate from load-package.ts, so that workers do not load the YAML and schema
// libraries, which take 30 MB per thread.
import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import { isInnerPath } from '../../core/file-names.ts';
import { categoryFilesOf, readCategoryFiles, withoutCategories } from './category-files.ts';
import type { Manifest } from './manifest.ts';

/** A file of a package: its path in the package with slashes, its size in bytes, and its hash. */
export interface PackageFile {
  name: string;
  bytes: number;
  sha256: string;
}

export interface ModelPackage {
  /** Absolute path of the folder that contains this version. */
  folder: string;
  manifest: Manifest;
  /** `id:version`: the form of the reference in summaries, metrics and responses. */
  ref: string;
  /** The package hash, which identifies the content of the version. */
  sha256: string;
  /** The files that were in the folder when the package was loaded, sorted by name. No other file is ever read. */
  files: readonly PackageFile[];
  /** Whether the folder contained `package.lock`. A lock that does not match is an error. */
  locked: boolean;
  /** Folder in which processes record that they have loaded the package; absent if the registry has no such folder. */
  heldIn?: string;
}

/**
 * Returns the bytes of a package file. Checks that the file has not changed since the package was loaded, so that
 * exactly the checked bytes are used.
 * @throws SluiceError model_hash_mismatch | model_invalid: the file is outside the package, missing or unreadable
 */
export async function readPackageFile(
  model: Omit<ModelPackage, 'manifest'>,
  name: string,
): Promise<Buffer<ArrayBuffer>> {
  if (!isInnerPath(name)) {
    throw new SluiceError('model_invalid', `${model.ref}: ${name} must lie inside the package`);
  }
  const listed = model.files.find((f) => f.name === path.posix.normalize(name));
  let bytes: Buffer<ArrayBuffer> | null = null;
  try {
    const file = path.join(model.folder, name);
    // If the size has changed, the file is not read, because it may be arbitrarily large.
    if ((await stat(file)).size === listed?.bytes) bytes = await readFile(file);
  } catch (cause) {
    throw new SluiceError('model_invalid', `${model.ref}: ${name} cannot be read`, { cause });
  }
  if (listed && bytes && createHash('sha256').update(bytes).digest('hex') === listed.sha256) return bytes;
  throw new SluiceError('model_hash_mismatch', `${model.ref}: ${name} was changed after the package was loaded`);
}

/**
 * Prepares a package for another thread or process. A million categories are read from files faster than from a
 * message.
 */
export const asMessage = (model: ModelPackage): ModelPackage => ({
  ...model,
  manifest: withoutCategories(model.manifest),
});

/** Restores the package from a message. @throws SluiceError model_hash_mismatch | model_invalid */
export const fromMessage = async (model: ModelPackage): Promise<ModelPackage> => ({
  ...model,
  manifest: await readCategoryFiles(model.manifest, (name) => readPackageFile(model, name)),
});

const categoryFiles = ({ manifest, files }: ModelPackage): PackageFile[] => {
  const named = new Set(manifest.columns.flatMap(categoryFilesOf));
  return files.filter((f) => named.has(f.name));
};

/** Total size of the category files in bytes. */
export const categoryBytes = (model: ModelPackage): number =>
  categoryFiles(model).reduce((sum, file) => sum + file.bytes, 0);

/** A text that is equal for packages with the same columns. Category files are compared by their hashes. */
export const columnsKey = (model: ModelPackage): string =>
  JSON.stringify([withoutCategories(model.manifest).columns, categoryFiles(model).map((f) => [f.name, f.sha256])]);

/**
 * Reads the ONNX file of a package and checks the hash of the file.
 * @throws SluiceError model_hash_mismatch | model_invalid
 */
export async function readModelBytes(model: ModelPackage): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await readPackageFile(model, model.manifest.onnx.file);
  // The bytes were compared with the loaded hash; this call also compares that hash with `model.yaml`.
  modelHash(model);
  return bytes;
}

/**
 * The hash that the ONNX file had when the package was loaded; this hash must equal the hash in `model.yaml`.
 * @throws SluiceError model_hash_mismatch | model_invalid: the file is missing
 */
export function modelHash(model: ModelPackage): string {
  const { file, sha256 } = model.manifest.onnx;
  const actual = model.files.find((f) => f.name === path.posix.normalize(file))?.sha256;
  if (actual === undefined) throw new SluiceError('model_invalid', `${model.ref}: ${file} cannot be read`);
  if (actual === sha256) return actual;
  throw new SluiceError(
    'model_hash_mismatch',
    `${model.ref}: ${file} has sha256 ${actual}, but model.yaml lists ${sha256}`,
  );
}

/** The graph outputs that contain the scores: a single output, or one output per class. */
export function scoreOutputs({ onnx }: Pick<Manifest, 'onnx'>): string[] {
  if (Array.isArray(onnx.probabilities)) return onnx.probabilities;
  return [onnx.probabilities ?? onnx.value ?? ''];
}
