// `sluice plan`: files in, a plan of shards out.
import type { Command } from 'commander';
import type { FileSource } from '../../config/pipeline-schema.ts';
import { SluiceError } from '../../core/errors.ts';
import { DEFAULT_MAX_RECORD_BYTES } from '../../engine/score-chunks.ts';
import { putFile } from '../../io/sink/file-sink.ts';
import { count } from '../../monitor/progress.ts';
import { inputsOf, STDIO } from '../../runs/endpoints.ts';
import { planShards } from '../../runs/plan-shards.ts';
import { refuseSameFiles } from '../../runs/same-files.ts';
import { planText, type ShardPlan } from '../../runs/shard-plan.ts';
import { COMMAND_TABLES, type PlanFlags } from './flag-tables.ts';
import { addFlags } from './flags.ts';
import { specOf } from './score.ts';
import { signalled } from './signals.ts';

export function addPlanCommand(program: Command): void {
  addFlags(program.command('plan'), COMMAND_TABLES.plan).action(async (file: string, flags: PlanFlags) => {
    await plan(file, flags);
  });
}

async function plan(file: string, flags: PlanFlags): Promise<void> {
  const {
    output,
    inputFormat,
    inputCompression,
    delimiter,
    maxRowBytes: recordBytes = DEFAULT_MAX_RECORD_BYTES,
  } = flags;
  const { shards } = flags;
  if (shards === undefined) throw new SluiceError('usage', 'how many shards? Say it with --shards');
  const said = { inputFormat, inputCompression, delimiter };
  const { source } = specOf(file, { model: '-', output: STDIO, onInvalid: 'report', ...defined(said) });
  const inputs = await inputsOf(source as FileSource);
  if (output !== STDIO) {
    const read = inputs.map(({ name }) => ({ name, role: 'the input' }));
    await refuseSameFiles(read, [{ name: output, role: 'the plan' }]);
  }
  const { signal, dispose } = signalled();
  const began = performance.now();
  try {
    const made = await planShards({ inputs, shards, recordBytes, signal });
    if (output === STDIO) process.stdout.write(planText(made));
    else await putFile(output, planText(made));
    tell(made, { ...flags, seconds: (performance.now() - began) / 1000 });
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    dispose();
  }
}

/** Flags that were given. */
const defined = <T extends object>(flags: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined)) as never;

function tell(made: ShardPlan, { output, json, quiet, seconds }: PlanFlags & { seconds: number }): void {
  const { files, pieces, shards } = made;
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const rows = pieces.every((piece) => piece.rows !== null)
    ? pieces.reduce((sum, piece) => sum + piece.rows!, 0)
    : null;
  const busy = new Set(pieces.map(({ shard }) => shard)).size;
  if (json) {
    const said = {
      plan: output,
      sha256: made.sha256,
      files: files.length,
      bytes,
      rows,
      shards,
      empty: shards - busy,
      seconds,
    };
    (output === STDIO ? process.stderr : process.stdout).write(`${JSON.stringify(said)}\n`);
  } else if (!quiet) {
    const of = `${count(files.length)} file${files.length === 1 ? '' : 's'}, ${count(bytes)} bytes${rows === null ? '' : `, ${count(rows)} rows`}`;
    const idle = busy === shards ? '' : ` (${shards - busy} of them with nothing to do)`;
    const rate = (bytes / Math.max(seconds, 1e-9) / 1e9).toFixed(2);
    process.stderr.write(`${of} → ${shards} shards${idle} in ${output}, ${seconds.toFixed(1)} s, ${rate} GB/s\n`);
  }
}
