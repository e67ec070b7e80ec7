// Names of sidecar files, and checks of names that come from untrusted files (manifests, shard parts, journals, packages).
import path from 'node:path';

/**
 * Suffixes that are appended to the name of an output to name its manifest, its rejects file, and the description of a
 * shard result.
 */
const MANIFEST_ENDING = '.manifest.json';
export const REJECTS_ENDING = '.rejects.csv';
export const PART_ENDING = '.part.json';

/** Sidecar files of a single output, whose names start with the name of the output. */
const BESIDE_OUTPUT: Readonly<Record<string, string>> = {
  [MANIFEST_ENDING]: 'manifest',
  [REJECTS_ENDING]: 'rejects file',
  [PART_ENDING]: 'description of a shard',
};
/** Files of a whole run. Their names do not depend on an output, and no data file has their extensions. */
const OF_RUN: Readonly<Record<string, string>> = { '.html': 'report', '.prom': 'metrics' };

const endingIn = (table: Readonly<Record<string, string>>, name: string): string | undefined =>
  Object.keys(table).find((ending) => name.endsWith(ending) && name.length > ending.length);

/** The kind of sidecar file that has this name; null: it is not the name of a sidecar file. */
export function sidecarKind(name: string): string | null {
  for (const table of [BESIDE_OUTPUT, OF_RUN]) {
    const ending = endingIn(table, name);
    if (ending !== undefined) return table[ending]!;
  }
  return null;
}

/**
 * Removes the sidecar files of outputs from a list of names, if the output is also in the list. Other files with the
 * name of a sidecar file stay, because they may be inputs.
 */
export function withoutSidecars(names: readonly string[]): string[] {
  const all = new Set(names);
  return names.filter((name) => {
    const ending = endingIn(BESIDE_OUTPUT, name);
    return ending === undefined || !all.has(name.slice(0, -ending.length));
  });
}

/** Path of the manifest of an output. */
export const manifestNameOf = (output: string): string => `${output}${MANIFEST_ENDING}`;

/** Whether the value is a file name without any folder. */
export const isPlainName = (name: unknown): name is string =>
  typeof name === 'string' && !/^(?:\.{0,2})$|[/\0]/.test(name) && path.basename(name) === name;

/** Whether the value is a relative path that stays inside its folder. */
export function isInnerPath(name: unknown): name is string {
  if (typeof name !== 'string' || name === '' || name.includes('\0') || path.isAbsolute(name)) return false;
  return path.normalize(name).split(path.sep, 1)[0] !== '..';
}

/** Whether a path is a pattern that can match several files or objects. */
export const isPattern = (path: string): boolean => /[*?[]/.test(path);
