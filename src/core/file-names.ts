// Names of sidecar files, and checks of file names from untrusted files (manifests, shard parts, journals, packages).
import path from 'node:path';

/** Behind the name of an output: its manifest, its rejected rows, and of a shard what the part is. */
const MANIFEST_ENDING = '.manifest.json';
export const REJECTS_ENDING = '.rejects.csv';
export const PART_ENDING = '.part.json';

/** Files that belong to one output are named after it. */
const BESIDE_OUTPUT: Readonly<Record<string, string>> = {
  [MANIFEST_ENDING]: 'manifest',
  [REJECTS_ENDING]: 'rejects file',
  [PART_ENDING]: 'description of a shard',
};
/** Files of a whole run have names of their own, and endings that no table has. */
const OF_RUN: Readonly<Record<string, string>> = { '.html': 'report', '.prom': 'metrics' };

const endingIn = (table: Readonly<Record<string, string>>, name: string): string | undefined =>
  Object.keys(table).find((ending) => name.endsWith(ending) && name.length > ending.length);

/** What kind of sidecar file a name belongs to; null: to none. */
export function sidecarKind(name: string): string | null {
  for (const table of [BESIDE_OUTPUT, OF_RUN]) {
    const ending = endingIn(table, name);
    if (ending !== undefined) return table[ending]!;
  }
  return null;
}

/** The names without the sidecar files of others among them; a file whose output is not among them stays, because it may be an input. */
export function withoutSidecars(names: readonly string[]): string[] {
  const all = new Set(names);
  return names.filter((name) => {
    const ending = endingIn(BESIDE_OUTPUT, name);
    return ending === undefined || !all.has(name.slice(0, -ending.length));
  });
}

/** Path of the manifest of an output. */
export const manifestNameOf = (output: string): string => `${output}${MANIFEST_ENDING}`;

/** Whether it names a file in a folder that is known, and leads nowhere else. */
export const isPlainName = (name: unknown): name is string =>
  typeof name === 'string' && !/^(?:\.{0,2})$|[/\0]/.test(name) && path.basename(name) === name;

/** Whether it is a path that stays inside a folder that is known. */
export function isInnerPath(name: unknown): name is string {
  if (typeof name !== 'string' || name === '' || name.includes('\0') || path.isAbsolute(name)) return false;
  return path.normalize(name).split(path.sep, 1)[0] !== '..';
}

/** Whether a path is a pattern for several files or objects. */
export const isPattern = (path: string): boolean => /[*?[]/.test(path);
