// Rejects runs that would overwrite an input or write two outputs to the same file, even under different names.

import { stat } from 'node:fs/promises';
import path from 'node:path';
import { STDIO } from '../connectors/stdio/stdio-connector.ts';
import { storedSize } from '../connectors/stored-bytes.ts';
import { SluiceError } from '../core/errors.ts';
import { manifestNameOf } from '../core/file-names.ts';
import { behindLinks } from '../io/sink/file-target.ts';
import type { Endpoint } from './endpoint-specs.ts';
import type { RejectsList } from './rejects-file.ts';
import { inputsOfShard, type ShardSpec } from './shards/shard-plan.ts';
import type { FileRunSpec } from './spec.ts';

/** A file of a run: its name and its role. */
export interface RunFile {
  name: string;
  /** Description for messages: `the input`, `the output of in/a.csv`. */
  role: string;
}

/** Maximum number of conflicts in a message; a pattern may have thousands. */
const MOST_LISTED = 20;

/**
 * Compares all files before the first byte is written. Existing files are compared by device and inode; other files by
 * the real path of their folder and their name. Case is ignored in folders that ignore it. Pipes and devices never
 * conflict.
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
  refuseConflicts(conflicts);
}

/** @throws SluiceError usage, if there are conflicts: their list, and `remedy` below it */
export function refuseConflicts(conflicts: readonly string[], remedy?: string): void {
  if (conflicts.length === 0) return;
  const more = conflicts.length > MOST_LISTED ? [`and ${conflicts.length - MOST_LISTED} more`] : [];
  const lines = [...conflicts.slice(0, MOST_LISTED), ...more, ...(remedy === undefined ? [] : [remedy])];
  throw new SluiceError('usage', lines.join('\n'));
}

const overwrites = (file: RunFile, other: RunFile): string =>
  `${file.role} is ${other.role}: ${file.name}${file.name === other.name ? '' : `, the same file as ${other.name}`}`;

/** Identities of a file. Two names refer to the same file if they have an identity in common. */
async function identities(name: string): Promise<string[]> {
  const target = await behindLinks(name);
  const present = await stat(target).catch(() => null);
  if (present !== null) return present.isFile() ? [`${present.dev}:${present.ino}`] : [];
  const folder = path.dirname(target);
  const base = path.basename(target);
  return [path.join(folder, (await countsCase(folder)) ? base : base.normalize('NFC').toLowerCase())];
}

/** Whether the folder is case-sensitive. Looks the folder up under its own name with the case swapped. */
async function countsCase(folder: string): Promise<boolean> {
  const base = path.basename(folder);
  const swapped = base === base.toLowerCase() ? base.toUpperCase() : base.toLowerCase();
  if (swapped === base) return true;
  const [one, other] = await Promise.all([folder, path.join(path.dirname(folder), swapped)].map((f) => stat(f).catch(() => null))); // biome-ignore format: one line
  return one == null || other == null || one.ino !== other.ino || one.dev !== other.dev;
}

/** One input and its output. The output is null if predictions go to the topic or table of the run. */
export interface RunStep {
  input: Endpoint;
  output: Endpoint | null;
}

/** Raw size of all inputs in bytes. A missing input counts as 0; opening it reports the error. */
export async function sizeOfInputs(inputs: readonly Endpoint[]): Promise<number> {
  const sizes = await Promise.all(inputs.map(({ name, query }) => (query ? null : storedSize(name).catch(() => null))));
  return sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0);
}

export function filesRead(spec: FileRunSpec, inputs: readonly Endpoint[]): RunFile[] {
  const files = inputs
    .filter(({ name, query }) => name !== STDIO && !query)
    .map(({ name }) => ({ name, role: 'the input' }));
  if (spec.shard) files.push({ name: spec.shard.path, role: 'the plan' });
  return spec.file === '' ? files : [...files, { name: spec.file, role: 'the pipeline' }];
}

export function filesWritten(
  spec: FileRunSpec,
  steps: readonly RunStep[],
  rejects: RejectsList,
  several: boolean,
): RunFile[] {
  const of = (input: Endpoint) => (several ? ` of ${input.name}` : '');
  const outputs = steps.flatMap(({ input, output }) =>
    output === null || output.name === STDIO ? [] : [{ name: output.name, role: `the output${of(input)}` }],
  );
  const lists = new Map<string, RunFile>();
  for (const { input } of steps) {
    const name = rejects.pathFor(input);
    // Inputs may share one rejects file. If each input has its own file, two files with the same name are an error.
    if (name !== null) lists.set(rejects.each ? input.name : name, { name, role: `the rejects file${rejects.each ? of(input) : ''}` }); // biome-ignore format: one line
  }
  const manifests = outputs
    .filter(() => spec.manifest !== false)
    .map(({ name, role }) => ({ name: manifestNameOf(name), role: `the manifest of ${role}` }));
  return [...outputs, ...manifests, ...lists.values()];
}

/** The pieces of a shard as inputs, in the order of the plan. @throws SluiceError usage: the shard does not exist */
export const shardInputs = ({ plan, index }: ShardSpec): Endpoint[] =>
  inputsOfShard(plan, index).map((planned) => {
    const { name, format, compression, delimiter } = planned.file;
    return { name, format, compression, delimiter, planned };
  });
