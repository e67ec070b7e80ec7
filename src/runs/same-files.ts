// Refuses a run that would write over one of its inputs, or write two things to one file, by whatever names the files go.
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../core/errors.ts';
import { behindLinks } from '../io/sink/file-target.ts';

/** A file of a run: its name as it was given, and what it is to the run. */
export interface RunFile {
  name: string;
  /** In words: `the input`, `the output of in/a.csv`. */
  role: string;
}

/** Conflicts that are told; a pattern may have thousands. */
const TOLD = 20;

/**
 * Compares all files before the first byte is written: by device and inode where they are there, else by the real folder and the
 * name, in which case does not count where the folder does not count it. Pipes and devices are never the same.
 * @throws SluiceError usage
 */
export async function refuseSameFiles(inputs: readonly RunFile[], targets: readonly RunFile[]): Promise<void> {
  const taken = new Map<string, RunFile & { read: boolean }>();
  const conflicts: string[] = [];
  const enter = async (file: RunFile, read: boolean) => {
    for (const key of await identities(file.name)) {
      const other = taken.get(key);
      if (other === undefined) taken.set(key, { ...file, read });
      else if (!read && other.read) conflicts.push(overwrites(file, other));
      else if (!read) conflicts.push(`${file.name} is written twice: ${other.role} and ${file.role}`);
      if (other !== undefined) return;
    }
  };
  for (const file of inputs) await enter(file, true);
  for (const file of targets) await enter(file, false);
  if (conflicts.length === 0) return;
  const more = conflicts.length > TOLD ? [`and ${conflicts.length - TOLD} more`] : [];
  throw new SluiceError('usage', [...conflicts.slice(0, TOLD), ...more].join('\n'));
}

const overwrites = (file: RunFile, other: RunFile): string =>
  `${file.role} is ${other.role}: ${file.name}${file.name === other.name ? '' : `, the same file as ${other.name}`}`;

/** What tells this file from others: two names with one of these in common are the same file. */
async function identities(name: string): Promise<string[]> {
  const target = await behindLinks(name);
  const present = await stat(target).catch(() => null);
  if (present !== null) return present.isFile() ? [`${present.dev}:${present.ino}`] : [];
  const folder = path.dirname(target);
  const base = path.basename(target);
  return [path.join(folder, (await countsCase(folder)) ? base : base.normalize('NFC').toLowerCase())];
}

/** Whether `a` and `A` are two names in this folder: whether the folder itself goes by another case. */
async function countsCase(folder: string): Promise<boolean> {
  const base = path.basename(folder);
  const swapped = base === base.toLowerCase() ? base.toUpperCase() : base.toLowerCase();
  if (swapped === base) return true;
  const [one, other] = await Promise.all([folder, path.join(path.dirname(folder), swapped)].map((f) => stat(f).catch(() => null))); // biome-ignore format: one line
  return one == null || other == null || one.ino !== other.ino || one.dev !== other.dev;
}
