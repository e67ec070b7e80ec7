// A loaded package and its model file. Apart from load-package.ts, so that workers do not load the YAML and schema libraries,
// which cost 30 MB per thread.
import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import { isInnerPath } from '../../core/file-names.ts';
import { categoryFilesOf, readCategoryFiles, withoutCategories } from './category-files.ts';
import type { Manifest } from './manifest.ts';

/** One file of a package: its path inside it with slashes, its size in bytes and its hash. */
export interface PackageFile {
  name: string;
  bytes: number;
  sha256: string;
}

export interface ModelPackage {
  /** Absolute path of the folder of this version. */
  folder: string;
  manifest: Manifest;
  /** `id:version`, the one spelling used in summaries, metrics and answers. */
  ref: string;
  /** The package hash: what the version is. */
  sha256: string;
  /** The files of the folder when it was loaded, sorted by name: nothing else is ever read from it. */
  files: readonly PackageFile[];
  /** Whether `package.lock` was there, and right. */
  locked: boolean;
  /** Folder in which who has it loaded leaves word; absent: its registry has none. */
  heldIn?: string;
}

/**
 * The bytes of a package file, if unchanged since it was loaded: the checked bytes are the used ones.
 * @throws SluiceError model_hash_mismatch | model_invalid: it is outside the package, missing or unreadable
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
    // One of another size is not read: it may have any.
    if ((await stat(file)).size === listed?.bytes) bytes = await readFile(file);
  } catch (cause) {
    throw new SluiceError('model_invalid', `${model.ref}: ${name} cannot be read`, { cause });
  }
  if (listed && bytes && createHash('sha256').update(bytes).digest('hex') === listed.sha256) return bytes;
  throw new SluiceError('model_hash_mismatch', `${model.ref}: ${name} was changed after the package was loaded`);
}

/** The package for another thread or process, which reads a million categories in less time than it takes to hand them over. */
export const asMessage = (model: ModelPackage): ModelPackage => ({
  ...model,
  manifest: withoutCategories(model.manifest),
});

/** The package as it was before `asMessage`. @throws SluiceError model_hash_mismatch | model_invalid */
export const fromMessage = async (model: ModelPackage): Promise<ModelPackage> => ({
  ...model,
  manifest: await readCategoryFiles(model.manifest, (name) => readPackageFile(model, name)),
});

const categoryFiles = ({ manifest, files }: ModelPackage): PackageFile[] => {
  const named = new Set(manifest.columns.flatMap(categoryFilesOf));
  return files.filter((f) => named.has(f.name));
};

/** Size of the files of categories. */
export const categoryBytes = (model: ModelPackage): number =>
  categoryFiles(model).reduce((sum, file) => sum + file.bytes, 0);

/** What two packages of the same columns have alike, as a text: the columns, files of categories by their hash. */
export const columnsKey = (model: ModelPackage): string =>
  JSON.stringify([withoutCategories(model.manifest).columns, categoryFiles(model).map((f) => [f.name, f.sha256])]);

/**
 * Reads the ONNX bytes of a package and checks them against the hash it names.
 * @throws SluiceError model_hash_mismatch | model_invalid
 */
export async function readModelBytes(model: ModelPackage): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await readPackageFile(model, model.manifest.onnx.file);
  // Of the bytes that were read just now: no other ones come through.
  modelHash(model);
  return bytes;
}

/**
 * The hash of the package's ONNX file when it was loaded, which must be the one in `model.yaml`.
 * @throws SluiceError model_hash_mismatch | model_invalid: it is missing
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

/** The outputs of the graph that carry the scores: one, or one per class. */
export function scoreOutputs({ onnx }: Pick<Manifest, 'onnx'>): string[] {
  if (Array.isArray(onnx.probabilities)) return onnx.probabilities;
  return [onnx.probabilities ?? onnx.value ?? ''];
}
