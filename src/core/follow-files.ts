// Reloads files after changes, including changes without file system events (links to other folders, network mounts).
import { watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { inBackground } from './async.ts';
import { startInterval, startTimer, stopTimer, type Timer } from './clock.ts';

/** Maximum time until a change without an event is noticed, ms. */
const CHECK_MS = 2_000;

interface Following {
  /** Loads the files. Calls never overlap. A failed call is repeated after at most `CHECK_MS`. */
  reload: () => Promise<void>;
  /** Called for each failure, except for repetitions of the last one. */
  onError: (error: unknown) => void;
  /** Time between an event and the reload in ms, in which files that belong together can be written. */
  delayMs: number;
}

/** Calls `reload` after each change of one of the files. Returns a function that stops this. */
export function followFiles(files: readonly string[], { reload, onError, delayMs }: Following): () => void {
  let loaded: string | null = null;
  let reported: string | null = null;
  let checking = false;
  let again = false;
  let closed = false;
  let timer: Timer | undefined;
  const report = (error: unknown): void => {
    const text = String(error);
    if (text !== reported) onError(error);
    reported = text;
  };
  const check = async (): Promise<void> => {
    again = checking;
    if (checking) return;
    checking = true;
    try {
      const found = (await Promise.all(files.map(stateOf))).join();
      if (closed || found === loaded) return;
      await reload();
      loaded = found;
      reported = null;
    } catch (error) {
      loaded = null;
      if (!closed) report(error);
    } finally {
      checking = false;
      if (again && !closed) inBackground('reading changed files', check);
    }
  };
  // Further events do not extend the delay. Otherwise, files in a folder with constant writes would never be reloaded.
  const onEvent = (): void => {
    timer ??= startTimer(() => {
      timer = undefined;
      inBackground('reading changed files', check);
    }, delayMs);
  };
  // Folders are watched, because a mounted secret changes through a symbolic link, not through the file name.
  const folders = new Set(files.map((file) => path.dirname(path.resolve(file))));
  const watchers = [...folders].map((folder) => watch(folder, onEvent));
  for (const watcher of watchers) watcher.on('error', report).unref();
  const interval = startInterval(() => inBackground('reading changed files', check), CHECK_MS);
  interval.unref();
  return () => {
    closed = true;
    stopTimer(timer);
    stopTimer(interval);
    for (const watcher of watchers) watcher.close();
  };
}

/** A text that changes with the file. The change time also shows a write that restores the modification time. */
async function stateOf(file: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(':');
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code);
  }
}
