// Files of a run that was interrupted and can go on: the journal of its checkpoints, and what it had written. They stay until the
// run goes on, or until another one has put its own output in their place.
import { constants, copyFile, readdir, rename, stat } from 'node:fs/promises';
import path from 'node:path';
import { gone, hiddenBeside, syncFolder } from './commit-journal.ts';
import { foundBeside, type LeftOver, readHidden } from './leftovers.ts';
import { thisOwner } from './owner.ts';

/** A name beside `target` that says whose it is. A file is `partial` until a checkpoint speaks of it; from then on it is `kept`. */
export const hiddenName = async (target: string, token: string, kind: LeftOver['kind']): Promise<string> =>
  `${hiddenBeside(target)}${await thisOwner()}.${token}.${kind}`;

/** Journals of interrupted runs into `target`. */
export async function journalsBeside(target: string): Promise<LeftOver[]> {
  const entries = await readdir(path.dirname(target));
  return (await foundBeside(target, entries)).filter((l) => l.kind === 'checkpoint');
}

/** A file of an interrupted run: what it was to become, and how many bytes of it its journal speaks of. */
export interface KeptFile {
  target: string;
  bytes: number;
}

/**
 * Makes an interrupted run this process's own: the journal beside `main` first, which only one of several can get, then the files
 * with the token of that run. What may still be written by another machine is copied instead: nothing of it before a checkpoint
 * changes any more. `newToken`: of the copies.
 * @returns the journal as it is called now; null: somebody else was faster, or a file is not there or too short
 * @throws Error of the file system
 */
export async function takeOver(
  { file, token, standing }: LeftOver,
  main: string,
  files: readonly KeptFile[],
  newToken: string,
): Promise<string | null> {
  const copied = standing === 'unknown';
  const as = copied ? newToken : token;
  const journal = await hiddenName(main, as, 'checkpoint');
  const made: string[] = [];
  try {
    const found = await Promise.all(files.map((f) => findKept(f, token)));
    if (!copied) await rename(file, journal);
    for (const [i, { target }] of files.entries()) {
      const name = await hiddenName(target, as, 'kept');
      if (!copied) await rename(found[i]!, name);
      else await copyFile(found[i]!, name, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
      made.push(name);
    }
    // A journal without its files is nothing to go on from: its copy comes last.
    if (copied) await copyFile(file, journal, constants.COPYFILE_EXCL);
  } catch (cause) {
    if (copied) for (const copy of made) await gone(copy);
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw cause;
  }
  for (const folder of new Set([main, ...files.map((f) => f.target)].map((f) => path.dirname(f))))
    await syncFolder(folder);
  return journal;
}

/** Whoever took it over before may have been killed on the way: its owner may be any. @throws Error ENOENT: it is not there as a whole */
async function findKept({ target, bytes }: KeptFile, token: string): Promise<string> {
  const folder = path.dirname(target);
  const start = path.basename(hiddenBeside(target));
  for (const entry of await readdir(folder)) {
    const said = entry.startsWith(start) ? readHidden(entry.slice(start.length)) : null;
    if (said?.token !== token || (said.kind !== 'kept' && said.kind !== 'partial')) continue;
    const file = path.join(folder, entry);
    if ((await stat(file)).size >= bytes) return file;
  }
  throw Object.assign(new Error('what an interrupted run wrote is not there'), { code: 'ENOENT' });
}

/** Removes what interrupted runs left of this target, of those that are over. */
export async function dropKept(target: string): Promise<void> {
  for (const { file } of droppable(await foundBeside(target, await readdir(path.dirname(target))))) {
    await gone(file).catch(() => {});
  }
}

/** Of several interrupted runs into one target that nobody goes on with, the last one stays. `entries`: of its folder. */
export async function keepLatest(target: string, entries: readonly string[]): Promise<void> {
  const over = droppable(await foundBeside(target, entries));
  if (new Set(over.map((l) => l.token)).size < 2) return;
  const times = await Promise.all(over.map(async (l) => (await stat(l.file).catch(() => null))?.mtimeMs ?? 0));
  const latest = over[times.indexOf(Math.max(...times))]!.token;
  for (const { file, token } of over) if (token !== latest) await gone(file).catch(() => {});
}

/** A commit that was begun needs its files, whatever they are called. */
function droppable(found: readonly LeftOver[]): LeftOver[] {
  const committing = new Set(found.filter((l) => l.kind === 'commit' || l.kind === 'undo').map((l) => l.owner));
  return found.filter(
    (l) => l.standing === 'over' && (l.kind === 'kept' || l.kind === 'checkpoint') && !committing.has(l.owner),
  );
}
