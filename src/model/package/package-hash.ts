// The identity of a package: SHA-256 over all files that a service uses. Also limits the size of files before they are
// read.
import { createHash } from 'node:crypto';
import { open, readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import { fileFault } from '../../core/file-system.ts';
import { categoryFilesOf } from './category-files.ts';
import type { Manifest } from './manifest.ts';
import type { ModelPackage, PackageFile } from './model-package.ts';

const MIB = 2 ** 20;
/**
 * Maximum size in bytes of `model.yaml`, `package.lock` and `model.sig`. Large numbers of categories belong in separate
 * files.
 */
export const MOST_TEXT_BYTES = MIB;
/** Maximum size in bytes of the background sample, of a self-test file, and of a category file. */
const MOST_TABLE_BYTES = 64 * MIB;
const MOST_COVERS_BYTES = 256 * MIB;
/** Maximum size in bytes of an ONNX file, which the ONNX format imposes. */
const MOST_MODEL_BYTES = 2048 * MIB - 1;
/** Maximum number of files in a package, including files in subfolders. */
const MOST_FILES = 1000;

const tooLarge = (file: string, bytes: number, most: number): SluiceError =>
  new SluiceError(
    'model_invalid',
    `${file} has ${bytes.toLocaleString('en')} bytes; at most ${most.toLocaleString('en')} are read`,
  );

/**
 * Checks a file before it is read. `file` is its path. Returns the size of the file in bytes.
 * @throws SluiceError model_invalid: the file is too large, or not a regular file | any error of `stat`
 */
async function assertReadable(file: string, most: number): Promise<number> {
  const found = await stat(file);
  if (!found.isFile()) throw new SluiceError('model_invalid', `${file} is not a regular file`);
  if (found.size > most) throw tooLarge(file, found.size, most);
  return found.size;
}

/**
 * Checks the sizes of the files that model.yaml names, before any of these files is read.
 * @throws SluiceError model_invalid
 */
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

/** Lock file and signature. Both describe the package, so the package hash does not cover them. */
export const LOCK = 'package.lock';
export const SIGNATURE = 'model.sig';

/** The files of a package, and their common hash. */
type HashedPackage = Pick<ModelPackage, 'sha256' | 'files'>;

type Named = Pick<PackageFile, 'name' | 'sha256'>;

const hashOf = (files: readonly Named[]): string => {
  const lines = files.map((f) => Buffer.from(`${f.sha256} ${f.name}\n`)).sort(Buffer.compare);
  return createHash('sha256').update(Buffer.concat(lines)).digest('hex');
};

/** The files without the lock file and the signature. */
export const hashedFiles = <F extends Named>(files: readonly F[]): F[] =>
  files.filter((f) => f.name !== LOCK && f.name !== SIGNATURE);

/**
 * The package hash: SHA-256 over the lines `<sha256> <name>`, each with a line feed, sorted by their bytes. Remote
 * registries store this hash, so its definition must never change.
 */
export const packageHash = (files: readonly Named[]): string => hashOf(hashedFiles(files));

/** The hash of all files, including lock file and signature, which identifies a copy of the folder. */
export const contentHash = (files: readonly Named[]): string => hashOf(files);

/**
 * Files up to this size in bytes are read as a whole. Larger files are read in pieces, so that the memory stays small
 * and in the CPU cache.
 */
const WHOLE_BYTES = 256 * 1024;
const PIECE_BYTES = 256 * 1024;

/** A file that may still be being hashed. */
interface Hashing {
  name: string;
  /** Null unless the bytes were requested. */
  bytes: Buffer<ArrayBuffer> | null;
  file: Promise<PackageFile>;
}

/**
 * While this function hashes a piece, a pool thread of Node reads the next piece. Only hashing thus determines the
 * duration.
 */
async function inPieces(name: string, at: string): Promise<PackageFile> {
  const handle = await open(at);
  try {
    const hash = createHash('sha256');
    const buffers = [Buffer.allocUnsafeSlow(PIECE_BYTES), Buffer.allocUnsafeSlow(PIECE_BYTES)] as const;
    let bytes = 0;
    let next = handle.read(buffers[0], 0, PIECE_BYTES, 0);
    for (let piece = 1; ; piece++) {
      const { bytesRead, buffer } = await next;
      if (bytesRead === 0) break;
      bytes += bytesRead;
      next = handle.read(buffers[piece & 1]!, 0, PIECE_BYTES, bytes);
      hash.update(buffer.subarray(0, bytesRead));
    }
    return { name, bytes, sha256: hash.digest('hex') };
  } finally {
    await handle.close();
  }
}

/** `size`: size of the file in bytes when its limit was checked. */
async function beginFile(folder: string, name: string, keep: boolean, size: number): Promise<Hashing> {
  const at = path.join(folder, name);
  if (!keep && size > WHOLE_BYTES) {
    const file = inPieces(name, at);
    // Prevents an unhandled rejection: if another file fails first, nothing awaits this promise.
    file.catch(() => {});
    return { name, bytes: null, file };
  }
  const bytes = await readFile(at);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { name, bytes, file: Promise.resolve({ name, bytes: bytes.length, sha256 }) };
}

/** Starts to hash all files of a folder, after checking that each is readable and within its limit. */
async function beginFiles(folder: string, names: readonly string[], kept: readonly string[]): Promise<Hashing[]> {
  const sizes = await Promise.all(
    names.map((name) => assertReadable(path.join(folder, name), kept.includes(name) ? MOST_TEXT_BYTES : Infinity)),
  );
  return Promise.all(names.map((name, i) => beginFile(folder, name, kept.includes(name), sizes[i]!)));
}

/** The files of a package folder with their hashes, sorted by name. Files whose names start with a dot are ignored. */
export async function filesOf(folder: string): Promise<PackageFile[]> {
  const begun = await beginFiles(folder, await namesOf(folder), []);
  return Promise.all(begun.map((b) => b.file));
}

/** Paths of the files in a package folder, with slashes, sorted. Symbolic links are followed. */
export async function namesOf(folder: string, prefix = ''): Promise<string[]> {
  const names: string[] = [];
  for (const entry of await readdir(path.join(folder, prefix), { withFileTypes: true })) {
    if (entry.name.startsWith('.')) continue;
    const name = `${prefix}${entry.name}`;
    const isFolder = entry.isSymbolicLink() ? (await stat(path.join(folder, name))).isDirectory() : entry.isDirectory();
    if (isFolder) names.push(...(await namesOf(folder, `${name}/`)));
    else names.push(name);
    if (names.length > MOST_FILES)
      throw new SluiceError('model_invalid', `${folder} has more than ${MOST_FILES.toLocaleString('en')} files`);
  }
  return names.sort();
}

/**
 * A text of names, sizes and times that changes when any file of the folder changes; null if the folder cannot be read.
 */
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
 * Starts to hash the files of a folder. `kept`: the bytes of the files in `names`, which are available before all files
 * are hashed.
 * @throws SluiceError model_invalid: a file cannot be read or has an invalid name
 */
export async function beginHashing(
  folder: string,
  names: readonly string[],
): Promise<{ kept: ReadonlyMap<string, Buffer>; hashed: Promise<HashedPackage> }> {
  const all = await namesOf(folder).catch(unreadable(folder));
  // A line end in a name could make one file look like two, and sha256sum treats a backslash as an escape character.
  if (all.some((name) => /[\n\r\\]/.test(name))) {
    throw new SluiceError('model_invalid', `${folder}: the name of a file has a line end or a backslash`);
  }
  const begun = await beginFiles(folder, all, names).catch(unreadable(folder));
  const kept = begun.flatMap((b) => (b.bytes && names.includes(b.name) ? [[b.name, b.bytes] as const] : []));
  const hashed = Promise.all(begun.map((b) => b.file)).then(
    (files) => ({ sha256: packageHash(files), files }),
    unreadable(folder),
  );
  // Prevents an unhandled rejection: callers that await `hashed` get the error.
  hashed.catch(() => {});
  return { kept: new Map(kept), hashed };
}

const unreadable = (folder: string) => (cause: unknown) => {
  if (cause instanceof SluiceError) throw cause;
  throw new SluiceError('model_invalid', `${folder}: ${fileFault(cause)}`, { cause });
};

/** The files of a folder, and the package hash. @throws SluiceError model_invalid */
export const hashFolder = async (folder: string): Promise<HashedPackage> => (await beginHashing(folder, [])).hashed;

/**
 * Rejects files that are used but not covered by the hash. Missing files are reported by the functions that read them.
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

/** All files that model.yaml names. */
function servedFiles({ manifest: { onnx, explain, self_test, columns } }: Pick<ModelPackage, 'manifest'>): string[] {
  const own = [onnx.file, explain?.background, explain?.covers, self_test?.input, self_test?.expected];
  const named = [...own, ...columns.flatMap(categoryFilesOf)];
  return named.filter((name) => name !== undefined);
}
