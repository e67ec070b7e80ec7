// The identity of a package: SHA-256 over all served files. Also limits file sizes before files are read.
import { createHash } from 'node:crypto';
import { open, readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import { fileFault } from '../../core/file-system.ts';
import { categoryFilesOf } from './category-files.ts';
import type { Manifest } from './manifest.ts';
import type { ModelPackage, PackageFile } from './model-package.ts';

const MIB = 2 ** 20;
/** Maximum size of `model.yaml`, `package.lock` and `model.sig`. Many categories belong in separate files. */
export const MOST_TEXT_BYTES = MIB;
/** Maximum size of the background sample, of a self-test file, and of a category file. */
const MOST_TABLE_BYTES = 64 * MIB;
const MOST_COVERS_BYTES = 256 * MIB;
/** Maximum size of an ONNX file, by its format. */
const MOST_MODEL_BYTES = 2048 * MIB - 1;
/** Maximum number of files in a package, including subfolders. */
const MOST_FILES = 1000;

const tooLarge = (file: string, bytes: number, most: number): SluiceError =>
  new SluiceError(
    'model_invalid',
    `${file} has ${bytes.toLocaleString('en')} bytes; at most ${most.toLocaleString('en')} are read`,
  );

/**
 * Checks a file before it is read completely; `file` is its path. Returns its size.
 * @throws SluiceError model_invalid: too large, or not a regular file | any error of `stat`
 */
async function assertReadable(file: string, most: number): Promise<number> {
  const found = await stat(file);
  if (!found.isFile()) throw new SluiceError('model_invalid', `${file} is not a regular file`);
  if (found.size > most) throw tooLarge(file, found.size, most);
  return found.size;
}

/** Checks the files named in model.yaml before any of them is read. @throws SluiceError model_invalid */
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

/** The lock file and the signature; they describe the package and are not part of its hash. */
export const LOCK = 'package.lock';
export const SIGNATURE = 'model.sig';

/** The files of a package and their common hash. */
type HashedPackage = Pick<ModelPackage, 'sha256' | 'files'>;

type Named = Pick<PackageFile, 'name' | 'sha256'>;

const hashOf = (files: readonly Named[]): string => {
  const lines = files.map((f) => Buffer.from(`${f.sha256} ${f.name}\n`)).sort(Buffer.compare);
  return createHash('sha256').update(Buffer.concat(lines)).digest('hex');
};

/** The files without lock file and signature. */
export const hashedFiles = <F extends Named>(files: readonly F[]): F[] =>
  files.filter((f) => f.name !== LOCK && f.name !== SIGNATURE);

/**
 * The package hash: SHA-256 over the lines `<sha256> <name>
 * `, sorted by their bytes. Remote registries store it, so its definition can never change.
 */
export const packageHash = (files: readonly Named[]): string => hashOf(hashedFiles(files));

/** The hash of all files, including lock file and signature; identifies a copy of the folder. */
export const contentHash = (files: readonly Named[]): string => hashOf(files);

/** Files up to this size are read completely; larger files in pieces, so that memory stays small and in the CPU cache. */
const WHOLE_BYTES = 256 * 1024;
const PIECE_BYTES = 256 * 1024;

/** A file whose hash may still be in progress. */
interface Hashing {
  name: string;
  /** null: the bytes were not requested. */
  bytes: Buffer<ArrayBuffer> | null;
  file: Promise<PackageFile>;
}

/** A pool thread of Node reads a piece while the previous piece is hashed here, so that only hashing determines the duration. */
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

/** `size`: size of the file when its limit was checked. */
async function beginFile(folder: string, name: string, keep: boolean, size: number): Promise<Hashing> {
  const at = path.join(folder, name);
  if (!keep && size > WHOLE_BYTES) {
    const file = inPieces(name, at);
    // The promise may never be awaited, because another file can fail first.
    file.catch(() => {});
    return { name, bytes: null, file };
  }
  const bytes = await readFile(at);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { name, bytes, file: Promise.resolve({ name, bytes: bytes.length, sha256 }) };
}

/** Starts to hash all files of a folder after checking that every file is readable and within its limit. */
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

/** A text that changes with any file of the folder: names, sizes, times. null: the folder cannot be read. */
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
 * Starts to hash the files of a folder. `kept`: the hashed bytes of the named files, available before all hashes are
 * complete.
 * @throws SluiceError model_invalid: a file cannot be read or has an invalid name
 */
export async function beginHashing(
  folder: string,
  names: readonly string[],
): Promise<{ kept: ReadonlyMap<string, Buffer>; hashed: Promise<HashedPackage> }> {
  const all = await namesOf(folder).catch(unreadable(folder));
  // A line end in a name could make one file look like two, and sha256sum reads a backslash as an escape.
  if (all.some((name) => /[\n\r\\]/.test(name))) {
    throw new SluiceError('model_invalid', `${folder}: the name of a file has a line end or a backslash`);
  }
  const begun = await beginFiles(folder, all, names).catch(unreadable(folder));
  const kept = begun.flatMap((b) => (b.bytes && names.includes(b.name) ? [[b.name, b.bytes] as const] : []));
  const hashed = Promise.all(begun.map((b) => b.file)).then(
    (files) => ({ sha256: packageHash(files), files }),
    unreadable(folder),
  );
  // Callers that await it get the error; others must not cause an unhandled rejection.
  hashed.catch(() => {});
  return { kept: new Map(kept), hashed };
}

const unreadable = (folder: string) => (cause: unknown) => {
  if (cause instanceof SluiceError) throw cause;
  throw new SluiceError('model_invalid', `${folder}: ${fileFault(cause)}`, { cause });
};

/** The files of a folder and their package hash. @throws SluiceError model_invalid */
export const hashFolder = async (folder: string): Promise<HashedPackage> => (await beginHashing(folder, [])).hashed;

/**
 * Rejects files that are used but not covered by the hash. Missing files are reported by their readers.
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

/** All files named in model.yaml. */
function servedFiles({ manifest: { onnx, explain, self_test, columns } }: Pick<ModelPackage, 'manifest'>): string[] {
  const own = [onnx.file, explain?.background, explain?.covers, self_test?.input, self_test?.expected];
  const named = [...own, ...columns.flatMap(categoryFilesOf)];
  return named.filter((name) => name !== undefined);
}
