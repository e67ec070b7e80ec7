// The file package.lock lists the SHA-256 of every package file, in the format of `sha256sum -c package.lock`. A
// package that differs from its lock is not loaded.
import { randomUUID } from 'node:crypto';
import { open, rename } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import type { PackageFile } from './model-package.ts';
import { beginHashing, hashedFiles, LOCK } from './package-hash.ts';

/** The canonical text for a list of files: one line `<sha256>  <name>` per file, sorted by the bytes of the names. */
export function lockText(files: readonly Pick<PackageFile, 'name' | 'sha256'>[]): string {
  const lines = hashedFiles(files).map((f) => ({ name: Buffer.from(f.name), line: `${f.sha256}  ${f.name}\n` }));
  return lines
    .sort((a, b) => Buffer.compare(a.name, b.name))
    .map((l) => l.line)
    .join('');
}

const LINE = /^([0-9a-f]{64}) {2}(.{1,4096})$/;

function readLock(text: string): Map<string, string> | null {
  const lines = text.split('\n');
  if (lines.pop() !== '') return null;
  const found = lines.map((line) => LINE.exec(line));
  if (found.some((m) => m === null)) return null;
  return new Map(found.map((m) => [m![2]!, m![1]!]));
}

const MAX_NAMED = 5;

/**
 * Compares the files with the lock.
 * @throws SluiceError model_hash_mismatch, naming the files that differ, or the lock itself
 */
export function checkLock(lock: Buffer, files: readonly PackageFile[], folder: string): void {
  if (lock.equals(Buffer.from(lockText(files)))) return;
  const listed = readLock(lock.toString());
  const mismatch = (how: string): SluiceError => new SluiceError('model_hash_mismatch', how);
  const at = (name: string): string => path.join(folder, name);
  if (listed === null) throw mismatch(`${at(LOCK)} is damaged`);
  const now = new Map(hashedFiles(files).map((f) => [f.name, f.sha256]));
  const gone = [...listed.keys()].filter((name) => !now.has(name)).map((name) => `${at(name)} was removed`);
  const other = [...now].flatMap(([name, sha256]) => {
    if (!listed.has(name)) return [`${at(name)} was added`];
    return listed.get(name) === sha256 ? [] : [`${at(name)} was changed`];
  });
  const faults = [...gone, ...other];
  // The files match, but the lock is in a different order or has duplicates.
  if (faults.length === 0) throw mismatch(`${at(LOCK)} is damaged`);
  const more = faults.length > MAX_NAMED ? `, and ${faults.length - MAX_NAMED} more` : '';
  throw mismatch(`${faults.slice(0, MAX_NAMED).join(', ')}${more}: the files do not match ${LOCK}`);
}

/**
 * Writes the lock file if it is missing. Returns whether it was written. If a lock file exists, the files must match
 * it.
 * @throws SluiceError model_hash_mismatch | model_invalid | registry_unavailable
 */
export async function sealPackage(folder: string): Promise<boolean> {
  const { kept, hashed } = await beginHashing(folder, [LOCK]);
  const { files } = await hashed;
  const there = kept.get(LOCK);
  if (there !== undefined) {
    checkLock(there, files, folder);
    return false;
  }
  await writeBeside(folder, LOCK, lockText(files));
  return true;
}

/** Writes a file into a package folder atomically. @throws SluiceError registry_unavailable */
export async function writeBeside(folder: string, name: string, text: string): Promise<void> {
  const partial = path.join(folder, `.${name}.${randomUUID()}.partial`);
  try {
    const handle = await open(partial, 'wx');
    await handle
      .writeFile(text)
      .then(() => handle.sync())
      .finally(() => handle.close());
    await rename(partial, path.join(folder, name));
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'unknown';
    throw new SluiceError('registry_unavailable', `${path.join(folder, name)} cannot be written (${code})`, { cause });
  }
}
