// Names of the files that a run writes beside its outputs: the one place that knows them.

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
