// Which files a run reads and writes, and what each is to it: none may be two of them.
import { manifestNameOf } from '../core/sidecar-files.ts';
import { type Endpoint, STDIO } from './endpoints.ts';
import type { RejectsList } from './rejects-list.ts';
import type { RunFile } from './same-files.ts';
import { inputsOfShard, type ShardSpec } from './shard-plan.ts';
import type { FileRunSpec } from './spec.ts';
import { storedSize } from './stored.ts';

/** One input and where its predictions go; null: to the topic or the table of the run. */
export interface RunStep {
  input: Endpoint;
  output: Endpoint | null;
}

/** Bytes of all inputs as they are stored. An input that vanishes says so when it is opened. */
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
    // One list may be that of all inputs; where each is to have its own, two of one name are a mistake.
    if (name !== null) lists.set(rejects.each ? input.name : name, { name, role: `the list of rejected rows${rejects.each ? of(input) : ''}` }); // biome-ignore format: one line
  }
  const manifests = outputs
    .filter(() => spec.manifest !== false)
    .map(({ name, role }) => ({ name: manifestNameOf(name), role: `the manifest of ${role}` }));
  return [...outputs, ...manifests, ...lists.values()];
}

/** The pieces of a shard as inputs, in the order of the plan. @throws SluiceError usage: there is no such shard */
export const shardInputs = ({ plan, index }: ShardSpec): Endpoint[] =>
  inputsOfShard(plan, index).map((planned) => {
    const { name, format, compression, delimiter } = planned.file;
    return { name, format, compression, delimiter, planned };
  });
