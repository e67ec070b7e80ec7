// Marker files in a registry folder. The markers show which versions a process has loaded, so that such versions are
// not removed.
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm, rmdir, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import { inBackground } from '../../core/async.ts';
import { epochMs, startInterval, startTimer, stopTimer, type Timer } from '../../core/clock.ts';
import type { ModelPackage } from '../package/model-package.ts';

/** Name of the folder for markers in the folder of a model. A name with a leading dot is not a version. */
const IN_USE = '.in-use';
/** Delay in ms before the marker is written. If a version is used for a shorter time, no marker is written. */
const LASTS_MS = 1000;
const BEAT_MS = 30_000;
/** A process that has not renewed its marker for this many ms counts as crashed. */
const SILENT_MS = 10 * BEAT_MS;

const unlessThere = (error: NodeJS.ErrnoException): void => {
  if (error.code !== 'EEXIST') throw error;
};

interface Holder {
  host: string;
  pid: number;
  since: string;
}

export const inUseFolder = (modelFolder: string): string => path.join(modelFolder, IN_USE);

/**
 * Marks that this process uses a version, until the returned function is called. If the folder is not writable, no
 * marker is written.
 */
export function holdVersion({ heldIn, manifest }: ModelPackage, lastsMs = LASTS_MS): () => Promise<void> {
  if (heldIn === undefined) return async () => {};
  const file = path.join(heldIn, `${manifest.version}@${randomUUID()}.json`);
  const holder: Holder = { host: hostname(), pid: process.pid, since: new Date(epochMs()).toISOString() };
  let written: Promise<void> = Promise.resolve();
  let beat: Timer | null = null;
  const write = async () => {
    const put = async () => {
      // Not recursive, so that the folder of a model that was removed is not created again.
      await mkdir(heldIn).catch(unlessThere);
      await writeFile(file, `${JSON.stringify(holder)}\n`);
    };
    // Tried again, because another process may be removing the folder at the same time.
    await put().catch(put).catch(put);
    beat = startInterval(() => inBackground('holding a model', () => utimes(file, new Date(epochMs()), new Date(epochMs())).catch(() => {})), BEAT_MS); // biome-ignore format: one line
    beat.unref();
  };
  const begin = startTimer(() => {
    written = write().catch(() => {});
  }, lastsMs);
  begin.unref();
  return async () => {
    stopTimer(begin);
    await written;
    if (beat === null) return;
    stopTimer(beat);
    await rm(file, { force: true }).catch(() => {});
    // The last process to leave also removes the folder.
    await rmdir(heldIn).catch(() => {});
  };
}

/**
 * Descriptions of the processes that use a version. `now`: current time in ms, by the clock of the folder's file
 * system.
 */
export async function holdersOf(modelFolder: string, version: string, now: number): Promise<string[]> {
  const folder = inUseFolder(modelFolder);
  const names = await readdir(folder).catch(() => []);
  const told: string[] = [];
  for (const name of names.filter((n) => n.startsWith(`${version}@`)).sort()) {
    const file = path.join(folder, name);
    const info = await stat(file).catch(() => null);
    if (info === null || now - info.mtimeMs > SILENT_MS) continue;
    const holder = await readFile(file, 'utf8').then((text) => JSON.parse(text) as Partial<Holder>, () => ({}) as Partial<Holder>); // biome-ignore format: one line
    told.push(`process ${holder.pid ?? '?'} of ${holder.host ?? '?'} since ${holder.since ?? '?'}`);
  }
  return told;
}
