// Limits of the files of a package, checked by their sizes on disk before any of them is read into memory.
import { stat } from 'node:fs/promises';
import { SluiceError } from '../../core/errors.ts';
import { categoryFilesOf } from './category-files.ts';
import type { Manifest } from './manifest.ts';
import type { PackageFile } from './model-package.ts';

const MIB = 2 ** 20;
/** Of `model.yaml`, `package.lock` and `model.sig`. Many categories belong in files of their own. */
export const MOST_TEXT_BYTES = MIB;
/** Of the background sample, a file of the self-test, and a file of categories. */
const MOST_TABLE_BYTES = 64 * MIB;
const MOST_COVERS_BYTES = 256 * MIB;
/** What the format of ONNX files allows. */
const MOST_MODEL_BYTES = 2048 * MIB - 1;
/** Files of a package, in all of its folders. */
export const MOST_FILES = 1000;

const tooLarge = (file: string, bytes: number, most: number): SluiceError =>
  new SluiceError(
    'model_invalid',
    `${file} has ${bytes.toLocaleString('en')} bytes; at most ${most.toLocaleString('en')} are read`,
  );

/**
 * Checks a file that is about to be read as a whole; `file` is its path. Returns its size.
 * @throws SluiceError model_invalid: too large, or no regular file | whatever `stat` throws
 */
export async function assertReadable(file: string, most: number): Promise<number> {
  const found = await stat(file);
  if (!found.isFile()) throw new SluiceError('model_invalid', `${file} is not a regular file`);
  if (found.size > most) throw tooLarge(file, found.size, most);
  return found.size;
}

/** Checks the files that model.yaml names, before one of them is read. @throws SluiceError model_invalid */
export function assertWithinLimits(
  { onnx, explain, self_test, columns }: Manifest,
  files: readonly PackageFile[],
): void {
  const sizes = new Map(files.map((f) => [f.name, f.bytes]));
  const check = (name: string | undefined, most: number): void => {
    const bytes = name === undefined ? 0 : (sizes.get(name) ?? 0);
    if (bytes > most) throw tooLarge(name!, bytes, most);
  };
  check(onnx.file, MOST_MODEL_BYTES);
  check(explain?.background, MOST_TABLE_BYTES);
  check(explain?.covers, MOST_COVERS_BYTES);
  for (const name of [self_test?.input, self_test?.expected, ...columns.flatMap(categoryFilesOf)])
    check(name, MOST_TABLE_BYTES);
}
