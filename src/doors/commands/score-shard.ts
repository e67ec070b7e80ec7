// `sluice score --plan`: the run of one shard. The plan alone decides where records end.

import { STDIO } from '../../connectors/stdio/stdio-connector.ts';
import { SluiceError } from '../../core/errors.ts';
import { DELIMITERS, type DelimiterName } from '../../formats/delimited/header.ts';
import { isColumnar } from '../../formats/formats.ts';
import { readPlan, type ShardPlan } from '../../runs/shards/shard-plan.ts';
import type { RunSpec } from '../../runs/spec.ts';
import type { ScoreFlags } from './flag-tables.ts';

const SAID = (flag: string) => `the plan says what ${flag} says: give it to sluice plan`;
const OF_WHOLE = (flag: string) => `${flag} is of the whole file, a shard is a part of it`;
const TO_MERGE = (flag: string) => `the gate judges all shards together: give ${flag} to sluice merge`;
const GATE = ['maxRejects', 'maxMissing', 'maxUnseen', 'maxOutOfRange', 'maxPsi', 'maxScorePsi', 'minRows'] as const;
const UNDECLARED = (flag: string) => `${flag} is not for shards: where a file has to be declared, score it as one run`;
const AGAIN = (flag: string) => `${flag} is not for shards: one that was interrupted is scored again as a whole`;

/** Flags that a shard cannot have, and why: none of them may be taken and then not heeded. */
const REFUSED: readonly (readonly [key: keyof ScoreFlags, why: (flag: string) => string])[] = [
  ['inputFormat', SAID],
  ['inputCompression', SAID],
  ['delimiter', SAID],
  ['maxRowBytes', SAID],
  ['blockBytes', SAID],
  ['rejects', () => 'rejected rows of a shard are listed beside its output: give --rejects to sluice merge'],
  ['signKey', () => 'a manifest is left by sluice merge: give --sign-key to it'],
  ...GATE.map((key) => [key, TO_MERGE] as const),
  ['expectRows', OF_WHOLE],
  ['expectSha256', OF_WHOLE],
  ['controlFile', OF_WHOLE],
  ['columns', UNDECLARED],
  ['rename', UNDECLARED],
  ['ignore', UNDECLARED],
  ['constants', UNDECLARED],
  ['encoding', UNDECLARED],
  ['decimal', UNDECLARED],
  ['thousands', UNDECLARED],
  ['trim', UNDECLARED],
  ['nullValues', UNDECLARED],
  ['resume', AGAIN],
  ['restart', AGAIN],
  ['checkpointEvery', AGAIN],
];

/** @throws SluiceError usage | input_not_found | plan_invalid */
export async function specOfShard(
  file: string | undefined,
  options: ScoreFlags & { plan: string },
  env: Readonly<Record<string, string | undefined>>,
  specOf: (file: string, options: ScoreFlags) => RunSpec,
): Promise<RunSpec> {
  if (file !== undefined) throw new SluiceError('usage', 'the plan names the input: leave it out');
  for (const [key, why] of REFUSED) {
    if (options[key] === undefined) continue;
    throw new SluiceError('usage', why(`--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`));
  }
  const plan = await readPlan(options.plan);
  const index = shardOf(options, env);
  const output = outputOf(options.output, plan, index);
  const first = plan.files[0]!;
  const delimiter = Object.entries(DELIMITERS).find(([, mark]) => mark === first.delimiter)![0] as DelimiterName;
  const said = { ...options, output, inputFormat: first.format, inputCompression: first.compression, delimiter };
  const spec = specOf(first.name, { ...said, maxRowBytes: plan.record_bytes, blockBytes: plan.block_bytes });
  if (spec.sink.type === 'file' && (spec.sink.format === 'json' || isColumnar(spec.sink.format ?? 'csv'))) {
    throw new SluiceError('usage', `parts of ${spec.sink.format} cannot be joined: write csv, tsv or ndjson`);
  }
  // Merging checks whether all shards together scored a row.
  return { ...spec, allow_empty: true, shard: { plan, index, path: options.plan } };
}

/** @throws SluiceError usage: no shard is given */
export function shardOf(
  { shard }: Pick<ScoreFlags, 'shard'>,
  env: Readonly<Record<string, string | undefined>>,
): number {
  const said = env.JOB_COMPLETION_INDEX;
  if (shard !== undefined) return shard;
  if (said === undefined) throw new SluiceError('usage', 'which shard? Name it with --shard');
  if (!/^\d{1,6}$/.test(said)) throw new SluiceError('usage', '$JOB_COMPLETION_INDEX is no number of a shard');
  return Number(said);
}

function outputOf(pattern: string, { shards, files }: ShardPlan, index: number): string {
  if (pattern === STDIO) throw new SluiceError('usage', 'where does the part go? Name it: -o out/part-{shard}.csv');
  if (shards > 1 && !pattern.includes('{shard}')) {
    throw new SluiceError(
      'usage',
      `all ${shards} shards would write to one file: put {shard} into the name of the output`,
    );
  }
  if (files.length > 1 && !pattern.includes('{name}')) {
    throw new SluiceError('usage', `the plan has ${files.length} files: put {name} into the name of the output, too`);
  }
  return pattern.replaceAll('{shard}', String(index));
}
