// What a package is, in one number: SHA-256 over every file that it is served from.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import { fileFault } from '../../core/file-errors.ts';
import type { ModelPackage } from './model-package.ts';

/** One file of a package: its path inside it with slashes, its size in bytes and its hash. */
export interface PackageFile {
  name: string;
  bytes: number;
  sha256: string;
}

/** The files of a package and the hash of all. */
export interface HashedPackage {
  sha256: string;
  /** Sorted by name. */
  files: readonly PackageFile[];
}

/**
 * The hash of a package: SHA-256 over the lines `<sha256> <name>\n`, sorted by their bytes. Remote registries keep it beside what they
 * store, so it can never be made in another way.
 */
export function packageHash(files: readonly Pick<PackageFile, 'name' | 'sha256'>[]): string {
  const lines = files.map((f) => Buffer.from(`${f.sha256} ${f.name}\n`)).sort(Buffer.compare);
  return createHash('sha256').update(Buffer.concat(lines)).digest('hex');
}

/** The files of a package folder with their hashes, sorted by name; what starts with a dot is no part of it. */
export async function filesOf(folder: string): Promise<PackageFile[]> {
  const files: PackageFile[] = [];
  for (const name of await namesOf(folder)) {
    const hash = createHash('sha256');
    let bytes = 0;
    for await (const chunk of createReadStream(path.join(folder, name))) {
      hash.update(chunk as Buffer);
      bytes += (chunk as Buffer).length;
    }
    files.push({ name, bytes, sha256: hash.digest('hex') });
  }
  return files;
}

/** Paths of the files of a package folder, with slashes, sorted. A link counts as what it leads to. */
export async function namesOf(folder: string, prefix = ''): Promise<string[]> {
  const names: string[] = [];
  for (const entry of await readdir(path.join(folder, prefix), { withFileTypes: true })) {
    if (entry.name.startsWith('.')) continue;
    const name = `${prefix}${entry.name}`;
    const isFolder = entry.isSymbolicLink() ? (await stat(path.join(folder, name))).isDirectory() : entry.isDirectory();
    if (isFolder) names.push(...(await namesOf(folder, `${name}/`)));
    else names.push(name);
  }
  return names.sort();
}

const hashed = new WeakMap<ModelPackage, Promise<HashedPackage>>();

/**
 * The hash of a loaded package, made once as long as it is held.
 * @throws SluiceError model_invalid: a file cannot be read, or one that is served is not covered by the hash
 */
export function hashPackage(model: ModelPackage): Promise<HashedPackage> {
  const known = hashed.get(model);
  if (known) return known;
  const made = hashFresh(model);
  hashed.set(model, made);
  made.catch(() => hashed.delete(model));
  return made;
}

/** As `hashPackage`, of what is in the folder now. @throws SluiceError as `hashPackage` */
export async function hashFresh(model: Pick<ModelPackage, 'folder' | 'manifest' | 'ref'>): Promise<HashedPackage> {
  let files: PackageFile[];
  try {
    files = await filesOf(model.folder);
  } catch (cause) {
    throw new SluiceError('model_invalid', `${model.ref}: ${fileFault(cause)}`, { cause });
  }
  const names = new Set(files.map((f) => f.name));
  for (const name of names) {
    // A line end in a name could make one file look like two.
    if (name.includes('\n')) throw new SluiceError('model_invalid', `${model.ref}: the name of a file has a line end`);
  }
  for (const name of servedFiles(model)) {
    // What is not there is refused by whoever needs it.
    if (!isLeftOut(name)) continue;
    throw new SluiceError(
      'model_invalid',
      `${model.ref}: ${name} lies outside the package, or its name begins with a dot`,
    );
  }
  return { sha256: packageHash(files), files };
}

const isLeftOut = (name: string): boolean =>
  path.isAbsolute(name) ||
  path.posix
    .normalize(name)
    .split('/')
    .some((part) => part.startsWith('.'));

/** Every file that model.yaml names. */
function servedFiles({ manifest: { onnx, explain, self_test } }: Pick<ModelPackage, 'manifest'>): string[] {
  const named = [onnx.file, explain?.background, explain?.covers, self_test?.input, self_test?.expected];
  return named.filter((name) => name !== undefined);
}
