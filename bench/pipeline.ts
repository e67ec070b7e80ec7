// A pipeline file against the flags of `sluice score`: the same run said in other words must not cost more.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import path from 'node:path';
import { sluice } from './contenders.ts';
import { inPairs, type Ratios, ratios } from './pairs.ts';
import { CACHE, nameOf, type Program, REGISTRY } from './prepare.ts';
import { type Command, folder, measure, median, say } from './run.ts';

export interface PipelineResult {
  rows: number;
  rounds: number;
  /** Load average of the last minute before each model. */
  load: number[];
  models: {
    model: string;
    name: string;
    /** Of `sluice score`, median. */
    cpuSeconds: number;
    /** `sluice run` ÷ `sluice score`. */
    ratios: Ratios;
  }[];
}

export interface PipelineSetting {
  program: Program;
  input: string;
  models: readonly string[];
  rows: number;
  rounds: number;
  cores: number;
}

/** @throws Error when the two do not write the same bytes */
export async function benchPipeline(setting: PipelineSetting): Promise<PipelineResult> {
  const { program, input, models, rows, rounds, cores } = setting;
  const outputs = folder(CACHE, 'outputs');
  const [ran, scored] = [path.join(outputs, 'run.ndjson'), path.join(outputs, 'score.ndjson')];
  const score = sluice(program, 'score', '', ['--workers', String(cores)]);
  const result: PipelineResult = { rows, rounds, load: [], models: [] };
  for (const model of models) {
    result.load.push(loadavg()[0]!);
    const run = runOf(program, { model, input, output: ran, workers: cores });
    const pairs = await inPairs(
      [run, score.command({ model }, input, scored)],
      rounds,
      measure,
      async (round, [a, b]) => {
        const cpu = (u: typeof a) => (u.userSeconds + u.systemSeconds).toFixed(2);
        say(`round ${round + 1}/${rounds}  ${model}: run CPU ${cpu(a)} s, score CPU ${cpu(b)} s`);
        if (round === 0 && !readFileSync(ran).equals(readFileSync(scored)))
          throw new Error(`${model}: sluice run and sluice score write different bytes`);
      },
    );
    const cpuSeconds = median(pairs.map(([, b]) => b.userSeconds + b.systemSeconds));
    result.models.push({ model, name: nameOf(model), cpuSeconds, ratios: ratios(pairs) });
  }
  for (const file of [ran, scored]) rmSync(file);
  return result;
}

interface RunFile {
  model: string;
  input: string;
  output: string;
  workers: number;
}

/** `sluice run` of a pipeline file that says what the flags say. */
function runOf(program: Program, { model, input, output, workers }: RunFile): Command {
  const file = path.join(folder(CACHE, 'outputs'), `${model}.yaml`);
  const quoted = JSON.stringify;
  writeFileSync(
    file,
    `model: ${model}
source: { type: file, path: ${quoted(input)} }
score: { workers: ${workers} }
sink: { type: file, path: ${quoted(output)} }
`,
  );
  return { args: [...program.sluice, 'run', file, '--registry', REGISTRY] };
}
