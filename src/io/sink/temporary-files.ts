// Temporary files of an output (`.partial`, `.kept`, …): their names, and the cleanup after killed processes.
// The cleanup completes interrupted commits and keeps the files of resumable runs.
import { randomBytes } from 'node:crypto';
import { constants, copyFile, readdir, rename, stat } from 'node:fs/promises';
import path from 'node:path';
import { monotonicMs, sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { type Log, named, words } from '../../core/log.ts';
import {
  type CommitFile,
  dropBackups,
  gone,
  hasFiles,
  hiddenBeside,
  readJournal,
  rollBack,
  rollForward,
  syncFolder,
} from './commit-journal.ts';
import { clearLeases, type Standing, standingOf, thisOwner } from './owner.ts';

/** The suffix of a temporary name after the name of the output: owner, token and kind. */
const BESIDE = /^([0-9a-f]{12}-\d+-\d+)\.([0-9a-f]{12})\.(partial|before|commit|undo|kept|checkpoint)$/;
/** The suffix of temporary names of earlier versions, which contained only a process ID. */
const OLD = /^(\d+)\.[0-9a-z]+\.partial$/;
/**
 * Maximum time to wait for another commit to the same output, ms. A commit takes milliseconds, so a commit that takes
 * longer is stuck.
 */
const TURN_MS = 60_000;

export interface LeftOver {
  file: string;
  owner: string;
  token: string;
  kind: 'partial' | 'before' | 'commit' | 'undo' | 'kept' | 'checkpoint';
  standing: Standing;
}

/** Parses a temporary name after its prefix; null: it is not a temporary name. */
function readHidden(rest: string): Pick<LeftOver, 'owner' | 'token' | 'kind'> | null {
  const [, owner, token, kind] = BESIDE.exec(rest) ?? [];
  return owner === undefined ? null : { owner, token: token!, kind: kind as LeftOver['kind'] };
}

/**
 * The temporary files of `target` that other processes created, with the states of their owners. `entries`: names of
 * the files in the folder.
 */
async function foundBeside(target: string, entries: readonly string[]): Promise<LeftOver[]> {
  const folder = path.dirname(target);
  const start = path.basename(hiddenBeside(target));
  const mine = await thisOwner();
  const standings = new Map<string, Promise<Standing>>();
  const found: LeftOver[] = [];
  for (const entry of entries) {
    if (!entry.startsWith(start)) continue;
    const file = path.join(folder, entry);
    const said = readHidden(entry.slice(start.length));
    if (said !== null && said.owner !== mine) {
      const { owner } = said;
      if (!standings.has(owner)) standings.set(owner, standingOf(owner, folder));
      found.push({ file, ...said, standing: await standings.get(owner)! });
    }
    const pid = Number(OLD.exec(entry.slice(start.length))?.[1] ?? 0);
    if (pid > 0)
      found.push({ file, owner: '', token: '', kind: 'partial', standing: isAlive(pid) ? 'running' : 'over' });
  }
  return found;
}

/**
 * Whether the process with this PID, which wrote a file, is running. False for the PID of this process, because then an
 * earlier process with the same PID wrote the file.
 */
function isAlive(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/**
 * Completes interrupted commits to `target`. Commits that were being undone are undone instead. `entries`: names of the
 * files in the folder.
 * @returns whether there were any
 */
export async function recover(target: string, entries: readonly string[], log: Log): Promise<boolean> {
  let any = false;
  for (const { file, kind, standing } of await foundBeside(target, entries)) {
    if (standing !== 'over' || (kind !== 'commit' && kind !== 'undo')) continue;
    await finish(file, kind, target, log);
    any = true;
  }
  return any;
}

async function finish(file: string, kind: 'commit' | 'undo', target: string, log: Log): Promise<void> {
  const taken = `${hiddenBeside(target)}${await thisOwner()}.${randomBytes(6).toString('hex')}.${kind}`;
  let files: CommitFile[];
  try {
    const read = await readJournal(file);
    if (read === null) {
      log('warn', 'left_over_kept', words`${named(file)} belongs to another user or is damaged; it is left untouched`);
      return;
    }
    files = read;
    await rename(file, taken);
  } catch (cause) {
    // Its owner completed the commit and then ended, or another process took the journal. Only one can rename it.
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw cause;
  }
  if (kind === 'undo') await rollBack(files);
  else if (await hasFiles(files)) await rollForward(files);
  await gone(taken);
  await dropBackups(files);
}

/**
 * Removes the files of ended processes. `recover` must be called first, because an interrupted commit needs its files.
 */
export async function clearLeftOvers(target: string, entries: readonly string[], log: Log): Promise<void> {
  const found = await foundBeside(target, entries);
  const committing = new Set(found.filter((l) => l.kind === 'commit' || l.kind === 'undo').map((l) => l.owner));
  for (const { file, owner, kind, standing } of found) {
    if ((kind !== 'partial' && kind !== 'before') || committing.has(owner)) continue;
    if (standing === 'over') await gone(file).catch(() => {});
    else if (standing === 'unknown') {
      log(
        'warn',
        'left_over_kept',
        words`${named(file)} was written by another machine or container that may still be running; it is left untouched`,
      );
    }
  }
  await clearLeases(path.dirname(target), entries);
}

/**
 * Resolves when the commit of `journal` is the only commit to `target`. The journal must already exist, so that later
 * processes see it. If two processes see the journals of each other, the process with the smaller token keeps its
 * journal. The other process moves its journal to `aside` until it is alone.
 * @throws SluiceError output_failed if another commit does not end, or it is unknown whether it is still running
 */
export async function waitForOthers(target: string, journal: string, aside: string, log: Log): Promise<void> {
  const token = journal.split('.').at(-2)!;
  const end = monotonicMs() + TURN_MS;
  for (let shown = true; ; ) {
    const folder = path.dirname(target);
    await recover(target, await readdir(folder), log);
    const others = (await foundBeside(target, await readdir(folder))).filter(
      (l) => l.kind === 'commit' || l.kind === 'undo',
    );
    if (others.length === 0 && shown) return;
    const stuck = others.find((l) => l.standing === 'unknown');
    if (stuck || (others.length > 0 && monotonicMs() > end)) {
      const what = `another run is publishing its files, or was killed while doing so: ${(stuck ?? others[0]!).file}`;
      throw new SluiceError('output_failed', `${target}: ${what}; remove that file if no run is active`);
    }
    const makeWay = others.some((l) => l.token < token);
    if (shown === makeWay) {
      await (shown ? rename(journal, aside) : rename(aside, journal));
      await syncFolder(path.dirname(journal));
      shown = !shown;
    } else await sleep(20);
  }
}

// The functions below handle resumable runs. Their checkpoint journals and partial outputs remain until a run resumes
// them or publishes another output.

/**
 * A temporary name in the folder of `target`. It contains the owner. `kind` of a file is `partial` until a checkpoint
 * refers to the file, then `kept`.
 */
export const hiddenName = async (target: string, token: string, kind: LeftOver['kind']): Promise<string> =>
  `${hiddenBeside(target)}${await thisOwner()}.${token}.${kind}`;

/** The checkpoint journals of interrupted runs with this output. */
export async function journalsBeside(target: string): Promise<LeftOver[]> {
  const entries = await readdir(path.dirname(target));
  return (await foundBeside(target, entries)).filter((l) => l.kind === 'checkpoint');
}

/** A file of an interrupted run: its final name, and the number of bytes that are recorded in the journal. */
export interface KeptFile {
  target: string;
  bytes: number;
}

/**
 * Takes over an interrupted run by renaming its files: first the journal in the folder of `main`, which only one
 * process can rename, then the files with the token of that run. Files that another machine may still be writing are
 * copied instead of renamed. This is safe, because bytes before a checkpoint no longer change. `newToken`: the token of
 * the copies.
 * @returns the new path of the journal; null: another process was faster, or a file is missing or too short
 * @throws a file-system error
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
    // The journal is copied last, because without its files it is useless.
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

/**
 * Finds a file by token and ignores its owner, because a previous process may have been killed while it took over the
 * run.
 * @throws Error ENOENT if the file is missing or too short
 */
async function findKept({ target, bytes }: KeptFile, token: string): Promise<string> {
  const folder = path.dirname(target);
  const start = path.basename(hiddenBeside(target));
  for (const entry of await readdir(folder)) {
    const said = entry.startsWith(start) ? readHidden(entry.slice(start.length)) : null;
    if (said?.token !== token || (said.kind !== 'kept' && said.kind !== 'partial')) continue;
    const file = path.join(folder, entry);
    if ((await stat(file)).size >= bytes) return file;
  }
  throw Object.assign(new Error('the files of the interrupted run are missing'), { code: 'ENOENT' });
}

/** Removes the files of interrupted runs of this target whose processes have ended. */
export async function dropKept(target: string): Promise<void> {
  for (const { file } of droppable(await foundBeside(target, await readdir(path.dirname(target))))) {
    await gone(file).catch(() => {});
  }
}

/**
 * If several interrupted runs have this target, removes the files of all but the latest run. `entries`: names of the
 * files in its folder.
 */
export async function keepLatest(target: string, entries: readonly string[]): Promise<void> {
  const over = droppable(await foundBeside(target, entries));
  if (new Set(over.map((l) => l.token)).size < 2) return;
  const times = await Promise.all(over.map(async (l) => (await stat(l.file).catch(() => null))?.mtimeMs ?? 0));
  const latest = over[times.indexOf(Math.max(...times))]!.token;
  for (const { file, token } of over) if (token !== latest) await gone(file).catch(() => {});
}

/**
 * Files that may be removed. Files of an owner with an unfinished commit are excluded, because the commit needs them.
 */
function droppable(found: readonly LeftOver[]): LeftOver[] {
  const committing = new Set(found.filter((l) => l.kind === 'commit' || l.kind === 'undo').map((l) => l.owner));
  return found.filter(
    (l) => l.standing === 'over' && (l.kind === 'kept' || l.kind === 'checkpoint') && !committing.has(l.owner),
  );
}
