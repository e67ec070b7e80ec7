// `sluice score --plan`: the run of one shard, of flags and plan. What decides where records end is said by the plan alone.
import { SluiceError } from '../../core/errors.ts';
import { DELIMITERS, type DelimiterName } from '../../io/decode/header.ts';
import { STDIO } from '../../runs/endpoints.ts';
import { readPlan, type ShardPlan } from '../../runs/shard-plan.ts';
import type { RunSpec } from '../../runs/spec.ts';
import type { ScoreFlags } from './flag-tables.ts';

/** Flags that a plan makes idle: they would say again, or otherwise, what it says. */
const OF_THE_PLAN = {
  inputFormat: '--input-format',
  inputCompression: '--input-compression',
  delimiter: '--delimiter',
  maxRowBytes: '--max-row-bytes',
} as const;

/** @throws SluiceError usage | input_not_found | plan_invalid */
export async function specOfShard(
  file: string | undefined,
  options: ScoreFlags & { plan: string },
  env: Readonly<Record<string, string | undefined>>,
  specOf: (file: string, options: ScoreFlags) => RunSpec,
): Promise<RunSpec> {
  if (file !== undefined) throw new SluiceError('usage', 'the plan names the input: leave it out');
  for (const [key, flag] of Object.entries(OF_THE_PLAN)) {
    if (options[key as keyof typeof OF_THE_PLAN] !== undefined)
      throw new SluiceError('usage', `the plan says what ${flag} says: give it to sluice plan`);
  }
  if (options.rejects !== undefined) {
    throw new SluiceError(
      'usage',
      'rejected rows of a shard are listed beside its output: give --rejects to sluice merge',
    );
  }
  const plan = await readPlan(options.plan);
  const index = shardOf(options, env);
  const output = outputOf(options.output, plan, index);
  const first = plan.files[0]!;
  const delimiter = Object.entries(DELIMITERS).find(([, mark]) => mark === first.delimiter)![0] as DelimiterName;
  const said = { ...options, output, inputFormat: first.format, inputCompression: first.compression, delimiter };
  const spec = specOf(first.name, { ...said, maxRowBytes: plan.record_bytes });
  if (spec.sink.type === 'file' && (spec.sink.format === 'json' || spec.sink.format === 'parquet')) {
    throw new SluiceError('usage', `parts of ${spec.sink.format} cannot be joined: write csv, tsv or ndjson`);
  }
  // Whether anything was scored is asked of all shards together, when they are merged.
  return { ...spec, allow_empty: true, shard: { plan, index, path: options.plan } };
}

function shardOf({ shard }: ScoreFlags, env: Readonly<Record<string, string | undefined>>): number {
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
