// The journal of a commit: lists which temporary files become which final files.
// If the process is killed, another process completes the commit.
import { createHash } from 'node:crypto';
import { link, open, readFile, rename, stat, unlink } from 'node:fs/promises';
import path from 'node:path';

/**
 * One file of a commit. Paths are absolute in memory. In the journal they are relative to the journal, because another
 * container may mount the folder elsewhere.
 */
export interface CommitFile {
  target: string;
  /** The file that becomes `target`; null: the existing target is removed and not replaced. */
  temporary: string | null;
  /** Temporary name of the previous file during the commit. */
  backup: string;
  /** Inode of the previous file; null: the target did not exist. */
  before: number | null;
  /** Inode of the new file. */
  after: number | null;
  /**
   * Whether this is a sidecar file: it describes other files of the commit, so it must never be visible together with
   * files of another run.
   */
  beside: boolean;
}

/**
 * Maximum length of a base name, bytes. Longer names are hashed. The limit leaves space for owner, token and kind
 * within the 255 bytes that file systems allow.
 */
const LONGEST_NAME = 180;

/** The path prefix that all temporary files of `target` have. */
export function hiddenBeside(target: string): string {
  const name = path.basename(target);
  const short = Buffer.byteLength(name) <= LONGEST_NAME ? name : createHash('sha256').update(name).digest('hex');
  return path.join(path.dirname(target), `.${short}.`);
}

/** Error codes that mean that the file system has no hard links. */
const NO_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'EXDEV']);

export async function writeJournal(file: string, temporary: string, files: readonly CommitFile[]): Promise<void> {
  const folder = path.dirname(file);
  const to = (name: string | null) => (name === null ? null : path.relative(folder, name));
  const entries = files.map((f) => ({ ...f, target: to(f.target), temporary: to(f.temporary), backup: to(f.backup) }));
  const handle = await open(temporary, 'wx');
  try {
    await handle.writeFile(JSON.stringify({ files: entries }));
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
  await syncFolder(folder);
}

/** Reads a journal; null: the journal belongs to another user, or is invalid. */
export async function readJournal(file: string): Promise<CommitFile[] | null> {
  const folder = path.dirname(file);
  const { uid } = await stat(file);
  // A journal can move files, so journals of other users, who may write to the folder, are ignored.
  if (process.getuid !== undefined && uid !== process.getuid()) return null;
  let files: CommitFile[];
  try {
    ({ files } = JSON.parse(await readFile(file, 'utf8')) as { files: CommitFile[] });
  } catch {
    return null;
  }
  const from = (name: string) => path.resolve(folder, name);
  const absolute = files.map((f) => ({
    ...f,
    target: from(f.target),
    temporary: f.temporary === null ? null : from(f.temporary),
    backup: from(f.backup),
  }));
  // A journal must not move or remove other files. So only temporary names in the folder of their target are accepted.
  const beside = (name: string | null, target: string) =>
    name === null || (name.startsWith(hiddenBeside(target)) && path.dirname(name) === path.dirname(target));
  return absolute.every((f) => beside(f.temporary, f.target) && beside(f.backup, f.target)) ? absolute : null;
}

/**
 * Publishes the files so that files of two runs are never visible together: first, old sidecar files are removed. Then
 * each output replaces its predecessor atomically, new sidecar files are published, and the folders are flushed. Also
 * completes an interrupted commit.
 */
export async function rollForward(files: readonly CommitFile[]): Promise<void> {
  const beside = files.filter((f) => f.beside);
  for (const f of beside) await takeAway(f);
  for (const f of files) if (!f.beside) await replace(f);
  for (const f of beside) await place(f);
  await syncFolders(files);
}

/** Undoes a commit in reverse order, and removes backups that are not needed. */
export async function rollBack(files: readonly CommitFile[]): Promise<void> {
  const beside = files.filter((f) => f.beside);
  for (const f of beside) await takeBack(f);
  for (const f of files) if (!f.beside) await restore(f);
  for (const f of beside) await restore(f);
  for (const f of files) if (f.temporary !== null) await gone(f.temporary);
  await syncFolders(files);
}

export async function dropBackups(files: readonly CommitFile[]): Promise<void> {
  for (const f of files) await gone(f.backup).catch(() => {});
}

/** Whether an interrupted commit still has files to publish. False if the commit was undone. */
export async function hasFiles(files: readonly CommitFile[]): Promise<boolean> {
  for (const f of files) {
    if (f.temporary === null) continue;
    if ((await inode(f.temporary)) !== null || (await inode(f.target)) === f.after) return true;
  }
  return false;
}

/**
 * The files with their current predecessors. They may have changed, because another run may have published its files in
 * the meantime.
 */
export async function withPredecessors(files: readonly CommitFile[]): Promise<CommitFile[]> {
  return Promise.all(files.map(async (f) => ({ ...f, before: await inode(f.target) })));
}

async function takeAway({ target, temporary, backup, before }: CommitFile): Promise<void> {
  if (before === null || (await inode(target)) !== before) return;
  if (temporary === null || (await inode(temporary)) !== null) await rename(target, backup);
}

async function replace(f: CommitFile): Promise<void> {
  if (f.temporary === null || (await inode(f.temporary)) === null) return;
  if (f.before !== null && (await inode(f.backup)) === null && (await inode(f.target)) === f.before) await keep(f);
  await place(f);
}

/**
 * Keeps a hard link to the file that will be replaced. On file systems without hard links, the file is renamed, so it
 * is absent for a short time.
 */
async function keep({ target, backup }: CommitFile): Promise<void> {
  try {
    await link(target, backup);
  } catch (cause) {
    if (!NO_LINKS.has((cause as NodeJS.ErrnoException).code ?? '')) throw cause;
    await rename(target, backup);
  }
}

async function place({ temporary, target }: CommitFile): Promise<void> {
  if (temporary === null || (await inode(temporary)) === null) return;
  await rename(temporary, target);
}

async function takeBack(f: CommitFile): Promise<void> {
  if (f.after !== null && (await inode(f.target)) === f.after) await unlink(f.target);
}

async function restore(f: CommitFile): Promise<void> {
  if ((await inode(f.backup)) === null) return takeBack(f);
  await rename(f.backup, f.target);
  // If both names are links to the same file, rename keeps both names.
  await gone(f.backup);
}

/** The inode of a file; null: the file does not exist. */
export async function inode(file: string): Promise<number | null> {
  try {
    return (await stat(file)).ino;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw cause;
  }
}

/** Removes a file if it exists. */
export async function gone(file: string): Promise<void> {
  await unlink(file).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'ENOENT') throw cause;
  });
}

/** Flushes the folders of files, so that their directory entries survive a power failure. */
const syncFolders = async (files: readonly CommitFile[]): Promise<void> => {
  for (const folder of new Set(files.map((f) => path.dirname(f.target)))) await syncFolder(folder);
};

export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
