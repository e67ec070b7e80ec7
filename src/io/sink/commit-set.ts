// Publishes the files of a run atomically: an output, its rejects file and further sidecar files.
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, readdir, rename } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import { fileFault } from '../../core/file-system.ts';
import { type Log, SILENT } from '../../core/log.ts';
import { isObject } from '../../storage/providers.ts';
import type { ByteSink } from './byte-sink.ts';
import {
  type CommitFile,
  dropBackups,
  gone,
  inode,
  rollBack,
  rollForward,
  syncFolder,
  withPredecessors,
  writeJournal,
} from './commit-journal.ts';
import { targetOf, writeAll, writeError } from './file-target.ts';
import type { ObjectSet } from './object-set.ts';
import { holdLease } from './owner.ts';
import {
  clearLeftOvers,
  dropKept,
  hiddenName,
  journalsBeside,
  type KeptFile,
  keepLatest,
  type LeftOver,
  recover,
  takeOver,
  waitForOthers,
} from './temporary-files.ts';

const JOURNAL = 'commit';
const UNDOING = 'undo';

interface Member extends CommitFile {
  handle: FileHandle | null;
  /** Whether the file is complete and flushed, so that it can be published. */
  whole: boolean;
}

/**
 * A set of files that are published together. States: open (members are written under temporary names), then published
 * (all complete members have their final names) or aborted (no member has its final name). `publish` writes a journal
 * before it changes the first name. If the process is killed, the next run with the same output completes the commit.
 * After `hold`, members survive the end of the process: a later process can `adopt` them and continue writing.
 */
export class CommitSet {
  readonly #members: Member[] = [];
  readonly #leases: (() => Promise<void>)[] = [];
  #objects: ObjectSet | null = null;
  readonly #log: Log;
  /** The token that is part of the temporary names of all members and identifies the files of a run. */
  #token = newToken();
  #holding = false;
  /** Whether a sink discarded its file, so that the set cannot be continued. */
  #discarded = false;

  /** `log` receives warnings about files of other processes that cannot be removed. */
  constructor(log: Log = SILENT) {
    this.#log = log;
  }

  /**
   * Adds a file. `commit` of the returned sink marks the file as complete; `publish` of the set gives it its final
   * name. Option `beside`: the file describes other files of the set, and must never be visible together with files of
   * another run. `from`: the file was adopted and is continued after this number of bytes. An existing path that is not
   * a regular file is written directly.
   * @throws SluiceError output_unwritable | output_full | output_exists_as_folder
   */
  async open(
    file: string,
    { beside = false, from = null, mode = 0o666 }: { beside?: boolean; from?: number | null; mode?: number } = {},
  ): Promise<ByteSink> {
    if (isObject(file)) return (await this.#away()).open(file, beside);
    const { target, present, direct } = await targetOf(file);
    if (present?.isDirectory()) throw new SluiceError('output_exists_as_folder', `${target} is a folder`);
    if (direct) return openDirect(target);
    let member: Member | null = null;
    try {
      await this.#prepare(target);
      member = await this.#member(target, present?.ino ?? null, beside);
      if (from === null) member.handle = await open(member.temporary!, 'wx', present ? present.mode & 0o777 : mode);
      else member.handle = await openKept(member.temporary!, from);
      member.after = (await member.handle.stat()).ino;
      this.#members.push(member);
      this.#discarded = false;
      return this.#sink(member, from ?? 0);
    } catch (cause) {
      if (member !== null) await (from === null ? discard(member) : shut(member));
      await this.#release();
      throw writeError(target, cause, 'output_unwritable');
    }
  }

  /**
   * The journals of interrupted runs with the output `file` that can be resumed. Empty if the path is not a regular
   * file.
   */
  async interrupted(file: string): Promise<LeftOver[]> {
    const { target, direct } = await targetOf(file);
    if (direct) return [];
    try {
      await this.#prepare(target);
      return await journalsBeside(target);
    } catch (cause) {
      await this.#release();
      throw writeError(target, cause, 'output_unwritable');
    }
  }

  /**
   * Takes over an interrupted run. Must be called before members are added. Afterwards, `open` must be called with
   * `from` for each of `files`.
   * @returns the path of the run's journal; null: the run cannot be taken over, and the set is unchanged
   * @throws SluiceError output_unwritable
   */
  async adopt(leftOver: LeftOver, main: string, files: readonly KeptFile[]): Promise<string | null> {
    const { target } = await targetOf(main);
    try {
      const kept = await Promise.all(files.map(async (f) => ({ ...f, target: (await targetOf(f.target)).target })));
      for (const of of kept) await this.#prepare(of.target);
      const journal = await takeOver(leftOver, target, kept, this.#token);
      if (journal === null) return null;
      this.#token = journal.split('.').at(-2)!;
      this.#holding = true;
      return journal;
    } catch (cause) {
      throw writeError(target, cause, 'output_unwritable');
    }
  }

  /** Path of the checkpoint journal, in the folder of `main`. */
  async journalBeside(main: string): Promise<string> {
    return hiddenName((await targetOf(main)).target, this.#token, 'checkpoint');
  }

  /**
   * Keeps the members even if the process ends, because a checkpoint journal refers to them.
   * @returns false: a member was discarded before, so nothing is kept
   * @throws SluiceError output_failed
   */
  async hold(): Promise<boolean> {
    if (this.#discarded) return false;
    this.#holding = true;
    const folders = new Set<string>();
    for (const member of this.#members) {
      if (!member.temporary?.endsWith('.partial')) continue;
      const kept = await hiddenName(member.target, this.#token, 'kept');
      try {
        await rename(member.temporary, kept);
      } catch (cause) {
        throw writeError(member.target, cause, 'output_failed');
      }
      member.temporary = kept;
      folders.add(path.dirname(kept));
    }
    for (const folder of folders) await syncFolder(folder);
    return true;
  }

  /** Closes the set without removing files, so that a later run finds them. Idempotent, never throws. */
  async leave(): Promise<void> {
    for (const member of this.#members.splice(0)) await shut(member);
    await this.#objects?.abort();
    await this.#release();
  }

  /**
   * Removes the existing file with this name, which an earlier run wrote, when the members are published.
   * @throws SluiceError output_*
   */
  async remove(file: string): Promise<void> {
    if (isObject(file)) return (await this.#away()).remove(file);
    const { target, present, direct } = await targetOf(file);
    if (direct || !present?.isFile()) return;
    try {
      await this.#prepare(target);
      this.#members.push({ ...(await this.#member(target, present.ino, true)), temporary: null, whole: true });
    } catch (cause) {
      await this.#release();
      throw writeError(target, cause, 'output_unwritable');
    }
  }

  /**
   * Publishes all complete members and discards all other members. After an error, all files are unchanged.
   * @throws SluiceError output_failed | output_full
   */
  async publish(): Promise<void> {
    const files = this.#members.filter((m) => m.whole);
    try {
      for (const m of this.#members) if (!m.whole) await discard(m);
      if (files.length > 0) await putInPlace(files, this.#log);
      // This output replaces the partial outputs of interrupted runs, so they are removed.
      for (const { target } of files) await dropKept(target).catch(() => {});
      await this.#objects?.publish();
    } catch (cause) {
      for (const m of this.#members) await (this.#holding ? shut(m) : discard(m));
      throw writeError(files[0]?.target ?? '', cause, 'output_failed');
    } finally {
      this.#members.length = 0;
      await this.#release();
    }
  }

  /** Discards all members. Idempotent, never throws. */
  async abort(): Promise<void> {
    for (const m of this.#members.splice(0)) await discard(m);
    await this.#objects?.abort();
    await this.#release();
  }

  async #away(): Promise<ObjectSet> {
    this.#objects ??= new (await import('./object-set.ts')).ObjectSet();
    return this.#objects;
  }

  /** Acquires the lease of the folder, and removes temporary files of this target that killed processes left in it. */
  async #prepare(target: string): Promise<void> {
    const folder = path.dirname(target);
    this.#leases.push(await holdLease(folder));
    const entries = await readdir(folder);
    const recovered = await recover(target, entries, this.#log);
    const left = recovered ? await readdir(folder) : entries;
    await clearLeftOvers(target, left, this.#log);
    await keepLatest(target, left);
  }

  async #member(target: string, before: number | null, beside: boolean): Promise<Member> {
    const temporary = await hiddenName(target, this.#token, this.#holding ? 'kept' : 'partial');
    const backup = await hiddenName(target, newToken(), 'before');
    return { target, temporary, backup, before, after: null, beside, handle: null, whole: false };
  }

  async #release(): Promise<void> {
    if (this.#members.length > 0) return;
    for (const release of this.#leases.splice(0)) await release();
  }

  #sink(member: Member, from: number): ByteSink {
    const { target } = member;
    let written = from;
    const attempt = async <T>(work: (handle: FileHandle) => Promise<T>): Promise<T> => {
      try {
        return await work(member.handle!);
      } catch (cause) {
        throw writeError(target, cause, 'output_failed');
      }
    };
    return {
      revocable: true,
      ...(from > 0 ? { earlier: () => earlierBytes(member.handle!, from) } : {}),
      get bytesWritten() {
        return written;
      },
      write: (bytes) =>
        attempt((handle) =>
          writeAll(handle, bytes, written, (n) => {
            written += n;
          }),
        ),
      rewind: (to) =>
        attempt(async (handle) => {
          await handle.truncate(to);
          written = to;
        }),
      sync: () => attempt((handle) => handle.datasync()),
      blockEnd: async () => written,
      commit: () =>
        attempt(async (handle) => {
          await handle.sync();
          await handle.close();
          member.handle = null;
          member.whole = true;
        }),
      abort: async () => {
        const at = this.#members.indexOf(member);
        // While files are held, they stay until the whole set ends, which decides whether to keep them.
        if (at < 0 || this.#holding) return;
        this.#members.splice(at, 1);
        this.#discarded = true;
        await discard(member);
        await this.#release();
      },
    };
  }
}

async function shut(member: Member): Promise<void> {
  await member.handle?.close().catch(() => {});
  member.handle = null;
}

/** Opens a file of another process and truncates it to its first `bytes` bytes. */
async function openKept(file: string, bytes: number): Promise<FileHandle> {
  const handle = await open(file, 'r+');
  try {
    await handle.truncate(bytes);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** The first `length` bytes of a file. */
async function* earlierBytes(handle: FileHandle, length: number): AsyncGenerator<Uint8Array> {
  const buffer = Buffer.allocUnsafe(256 * 1024);
  for (let at = 0; at < length; ) {
    const { bytesRead } = await handle.read(buffer, 0, Math.min(buffer.length, length - at), at);
    if (bytesRead === 0) return;
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** Closes a member and removes its temporary file, if this exists. Never throws. */
async function discard(member: Member): Promise<void> {
  await shut(member);
  if (member.temporary !== null) await gone(member.temporary).catch(() => {});
}

const newToken = (): string => randomBytes(6).toString('hex');

/** Publishes the staged files. A single file needs no journal, because one rename is atomic. */
async function putInPlace(staged: readonly CommitFile[], log: Log): Promise<void> {
  await requireTemporary(staged);
  const alone = staged.length === 1;
  const { files, journal } = alone
    ? { files: await withPredecessors(staged), journal: null }
    : await beginJournal(staged, log);
  try {
    await rollForward(files);
  } catch (cause) {
    await undo(files, journal, cause);
    throw cause;
  }
  // The commit is complete now. If removing the remaining files fails, the next run removes them.
  if (journal !== null) await gone(journal).catch(() => {});
  await dropBackups(files);
}

/**
 * Checks that all temporary files still exist. `rollForward` skips missing files, because it also completes commits
 * that have already published some of them.
 * @throws SluiceError output_failed
 */
async function requireTemporary(staged: readonly CommitFile[]): Promise<void> {
  for (const { target, temporary } of staged) {
    if (temporary === null || (await inode(temporary)) !== null) continue;
    throw new SluiceError(
      'output_failed',
      `${target} could not be written: its temporary file ${path.basename(temporary)} was removed during the run`,
    );
  }
}

interface Begun {
  files: readonly CommitFile[];
  journal: string;
}

/** Writes the journal next to the first output. Resolves when no other commit to this output is active. */
async function beginJournal(staged: readonly CommitFile[], log: Log): Promise<Begun> {
  const main = (staged.find((f) => !f.beside) ?? staged[0]!).target;
  const journal = await hiddenName(main, newToken(), JOURNAL);
  const aside = await hiddenName(main, newToken(), 'partial');
  try {
    const early = await withPredecessors(staged);
    await writeJournal(journal, aside, early);
    await waitForOthers(main, journal, aside, log);
    const files = await withPredecessors(staged);
    if (files.some((f, i) => f.before !== early[i]!.before)) await writeJournal(journal, aside, files);
    return { files, journal };
  } catch (cause) {
    await gone(journal);
    await gone(aside).catch(() => {});
    throw cause;
  }
}

/**
 * Undoes a commit. The journal is renamed first, so that another process that finds it undoes the commit instead of
 * completing it.
 * @throws SluiceError output_failed if not all files could be restored
 */
async function undo(files: readonly CommitFile[], journal: string | null, cause: unknown): Promise<void> {
  const undoing = journal === null ? null : `${journal.slice(0, -JOURNAL.length)}${UNDOING}`;
  try {
    if (undoing !== null) await rename(journal!, undoing);
  } catch {
    // The commit is undone in spite of this error: a journal whose files are gone has no effect.
  }
  try {
    await rollBack(files);
  } catch {
    const told = `${files[0]!.target} could not be written: ${fileFault(cause)}`;
    const left = 'some previous files could not be restored; the next run with this output restores them first';
    throw new SluiceError('output_failed', `${told}; ${left}`, { cause });
  }
  for (const file of [journal, undoing]) if (file !== null) await gone(file).catch(() => {});
}

/** Opens a pipe or device; written bytes cannot be revoked. */
async function openDirect(target: string): Promise<ByteSink> {
  let handle: FileHandle;
  try {
    handle = await open(target, 'w');
  } catch (cause) {
    throw new SluiceError('output_unwritable', `${target} cannot be opened: ${fileFault(cause)}`, { cause });
  }
  let written = 0;
  let ended = false;
  const attempt = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (cause) {
      throw writeError(target, cause, 'output_failed');
    }
  };
  return {
    revocable: false,
    get bytesWritten() {
      return written;
    },
    write: (bytes) =>
      attempt(() =>
        writeAll(handle, bytes, null, (n) => {
          written += n;
        }),
      ),
    commit: () =>
      attempt(async () => {
        ended = true;
        await handle.close();
      }),
    abort: async () => {
      if (ended) return;
      ended = true;
      await handle.close().catch(() => {});
    },
  };
}
