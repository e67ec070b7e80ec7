// `sluice score --plan`: scores one shard. Only the plan, not a flag, determines where records end.
import { STDIO } from '../../connectors/stdio/stdio-connector.ts';
import { SluiceError } from '../../core/errors.ts';
import { DELIMITERS, type DelimiterName } from '../../formats/delimited/header.ts';
import { isColumnar } from '../../formats/formats.ts';
import type { RunOption } from '../../runs/plugin.ts';
import { RUN_OPTIONS } from '../../runs/plugins/plugin-list.ts';
import { readPlan, type ShardPlan } from '../../runs/shards/shard-plan.ts';
import type { RunSpec } from '../../runs/spec.ts';
import { camelCase } from './flags/command-spec.ts';
import type { ScoreFlags } from './flags/score-flags.ts';

const SAID = (flag: string) => `${flag} is part of the plan: use it with sluice plan`;
const OF_WHOLE = (flag: string) => `${flag} applies to whole files, not to shards`;
const TO_MERGE = (flag: string) => `the gate checks all shards together: use ${flag} with sluice merge`;
const GATE = ['maxRejects', 'maxMissing', 'maxUnseen', 'maxOutOfRange', 'maxPsi', 'maxScorePsi', 'minRows'] as const;
const UNDECLARED = (flag: string) =>
  `${flag} is not supported for shards: score a file that needs declarations as one run`;
const AGAIN = (flag: string) => `${flag} is not supported for shards: an interrupted shard is scored again completely`;

/** Flags that are rejected for a shard, each with the reason. Ignoring them silently would mislead the user. */
const REFUSED: readonly (readonly [key: keyof ScoreFlags, why: (flag: string) => string])[] = [
  ['inputFormat', SAID],
  ['inputCompression', SAID],
  ['delimiter', SAID],
  ['maxRowBytes', SAID],
  ['blockBytes', SAID],
  ['rejects', () => 'a shard writes its rejects file next to its output: use --rejects with sluice merge'],
  ['signKey', () => 'sluice merge writes the manifest: use --sign-key with it'],
  ...GATE.map((key) => [key, TO_MERGE] as const),
  ['expectRows', OF_WHOLE],
  ['expectSha256', OF_WHOLE],
  ['controlFile', OF_WHOLE],
  ['trailer', OF_WHOLE],
  ['skipLines', UNDECLARED],
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
  ...Object.entries<RunOption>(RUN_OPTIONS).flatMap(([name, { notForShards: why }]) =>
    why === undefined
      ? []
      : [[camelCase(name) as keyof ScoreFlags, (flag: string) => `${flag} is not for shards: ${why}`] as const],
  ),
];

/** The spec of a run that scores one shard. @throws SluiceError usage | input_not_found | plan_invalid */
export async function specOfShard(
  file: string | undefined,
  options: ScoreFlags & { plan: string },
  env: Readonly<Record<string, string | undefined>>,
  specOf: (file: string, options: ScoreFlags) => RunSpec,
): Promise<RunSpec> {
  if (file !== undefined) throw new SluiceError('usage', 'the plan names the input: remove FILE');
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
    throw new SluiceError('usage', `parts in ${spec.sink.format} cannot be merged: write csv, tsv or ndjson`);
  }
  // A single shard may have no scored row, because only `sluice merge` sees all shards.
  return { ...spec, allow_empty: true, shard: { plan, index, path: options.plan } };
}

/** The index of the shard, from the flag or from the environment. @throws SluiceError usage: no shard is configured */
export function shardOf(
  { shard }: Pick<ScoreFlags, 'shard'>,
  env: Readonly<Record<string, string | undefined>>,
): number {
  const said = env.JOB_COMPLETION_INDEX;
  if (shard !== undefined) return shard;
  if (said === undefined) throw new SluiceError('usage', 'missing --shard N');
  if (!/^\d{1,6}$/.test(said)) throw new SluiceError('usage', '$JOB_COMPLETION_INDEX is not a shard number');
  return Number(said);
}

function outputOf(pattern: string, { shards, files }: ShardPlan, index: number): string {
  if (pattern === STDIO) throw new SluiceError('usage', 'missing output: use -o out/part-{shard}.csv');
  if (shards > 1 && !pattern.includes('{shard}')) {
    throw new SluiceError('usage', `all ${shards} shards would write to one file: put {shard} in the output name`);
  }
  if (files.length > 1 && !pattern.includes('{name}')) {
    throw new SluiceError('usage', `the plan has ${files.length} files: also put {name} in the output name`);
  }
  return pattern.replaceAll('{shard}', String(index));
}
