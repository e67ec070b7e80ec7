// What a package is, in one number: SHA-256 over every file that it is served from.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import { fileFault } from '../../core/file-errors.ts';
import type { ModelPackage, PackageFile } from './model-package.ts';

/** The list of the files of a package, and its signature: they say what the package is, and are no part of it. */
export const LOCK = 'package.lock';
export const SIGNATURE = 'model.sig';

/** The files of a package and the hash of all. */
export type HashedPackage = Pick<ModelPackage, 'sha256' | 'files'>;

type Named = Pick<PackageFile, 'name' | 'sha256'>;

const hashOf = (files: readonly Named[]): string => {
  const lines = files.map((f) => Buffer.from(`${f.sha256} ${f.name}\n`)).sort(Buffer.compare);
  return createHash('sha256').update(Buffer.concat(lines)).digest('hex');
};

/** Without the lock and the signature. */
export const hashedFiles = <F extends Named>(files: readonly F[]): F[] =>
  files.filter((f) => f.name !== LOCK && f.name !== SIGNATURE);

/**
 * The hash of a package: SHA-256 over the lines `<sha256> <name>\n`, sorted by their bytes. Remote registries keep it beside what they
 * store, so it can never be made in another way.
 */
export const packageHash = (files: readonly Named[]): string => hashOf(hashedFiles(files));

/** The same of all files, lock and signature among them: what a copy of the folder is known by. */
export const contentHash = (files: readonly Named[]): string => hashOf(files);

/** Files up to this are read whole, larger ones in pieces: their memory is not wanted twice. */
const WHOLE_BYTES = 1024 * 1024;
const PIECE_BYTES = 256 * 1024;

/** The file with its hash; `keep`: and with its bytes. */
async function hashFile(folder: string, name: string, keep: boolean): Promise<{ file: PackageFile; bytes: Buffer }> {
  const at = path.join(folder, name);
  const hash = createHash('sha256');
  if (keep || (await stat(at)).size <= WHOLE_BYTES) {
    const bytes = await readFile(at);
    return { file: { name, bytes: bytes.length, sha256: hash.update(bytes).digest('hex') }, bytes };
  }
  let length = 0;
  for await (const piece of createReadStream(at, { highWaterMark: PIECE_BYTES })) {
    hash.update(piece as Buffer);
    length += (piece as Buffer).length;
  }
  return { file: { name, bytes: length, sha256: hash.digest('hex') }, bytes: Buffer.alloc(0) };
}

/** The files of a package folder with their hashes, sorted by name; what starts with a dot is no part of it. */
export async function filesOf(folder: string): Promise<PackageFile[]> {
  return (await readFolder(folder, [])).files;
}

/** As `filesOf`, with the very bytes of the files named that were hashed. */
export async function readFolder(
  folder: string,
  kept: readonly string[],
): Promise<{ files: PackageFile[]; kept: Map<string, Buffer> }> {
  const names = await namesOf(folder);
  const read = await Promise.all(names.map((name) => hashFile(folder, name, kept.includes(name))));
  const bytes = read.filter((r) => kept.includes(r.file.name)).map((r) => [r.file.name, r.bytes] as const);
  return { files: read.map((r) => r.file), kept: new Map(bytes) };
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

/** What changes when a file of the folder does: names, sizes, times. null: it cannot be read. */
export async function stampOf(folder: string): Promise<string | null> {
  try {
    const stamps = (await namesOf(folder)).map(async (name) => {
      const s = await stat(path.join(folder, name));
      return `${name} ${s.size} ${s.mtimeMs} ${s.ctimeMs} ${s.ino}`;
    });
    return (await Promise.all(stamps)).join('\n');
  } catch {
    return null;
  }
}

/**
 * The files of a folder, their hash, and whatever of them is asked for as it was hashed.
 * @throws SluiceError model_invalid: a file cannot be read, or its name is none
 */
export async function hashFolder(
  folder: string,
  what: string,
  kept: readonly string[] = [],
): Promise<HashedPackage & { kept: Map<string, Buffer> }> {
  let read: Awaited<ReturnType<typeof readFolder>>;
  try {
    read = await readFolder(folder, kept);
  } catch (cause) {
    throw new SluiceError('model_invalid', `${what}: ${fileFault(cause)}`, { cause });
  }
  // A line end in a name could make one file look like two; a reader of the list would take a backslash for an escape.
  if (read.files.some((f) => /[\n\r\\]/.test(f.name))) {
    throw new SluiceError('model_invalid', `${what}: the name of a file has a line end or a backslash`);
  }
  return { sha256: packageHash(read.files), ...read };
}

/**
 * Refuses what is served and yet not covered by the hash. What is not there is refused by whoever needs it.
 * @throws SluiceError model_invalid
 */
export function assertCovered(model: Pick<ModelPackage, 'manifest' | 'ref'>): void {
  for (const name of servedFiles(model)) {
    if (!isLeftOut(name)) continue;
    throw new SluiceError(
      'model_invalid',
      `${model.ref}: ${name} lies outside the package, or its name begins with a dot`,
    );
  }
}

const isLeftOut = (name: string): boolean =>
  path.isAbsolute(name) ||
  [LOCK, SIGNATURE].includes(path.posix.normalize(name)) ||
  path.posix
    .normalize(name)
    .split('/')
    .some((part) => part.startsWith('.'));

/** Every file that model.yaml names. */
function servedFiles({ manifest: { onnx, explain, self_test } }: Pick<ModelPackage, 'manifest'>): string[] {
  const named = [onnx.file, explain?.background, explain?.covers, self_test?.input, self_test?.expected];
  return named.filter((name) => name !== undefined);
}
