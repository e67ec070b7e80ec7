// What proof, checkpoints and gate cost: the same run with and without each, in turn, at two sizes.
import { createReadStream, createWriteStream, existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { loadavg } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { CACHE, type Program, REGISTRY } from './prepare.ts';
import { folder, measure, type Spread, say, spread, type Usage } from './run.ts';

export interface ProofResult {
  model: string;
  rounds: number;
  load: number;
  sizes: ProofSize[];
}

interface ProofSize {
  rows: number;
  inputBytes: number;
  /** Of the run without any of them. */
  cpuSeconds: Spread;
  kinds: {
    name: string;
    /** CPU beyond that of the run without, as a share of it, within rounds. Of that run itself: null. */
    more: Spread | null;
    peakBytes: Spread;
  }[];
}

const NO_CHECKPOINTS = ['--checkpoint-every', '0'];
const NO_MANIFEST = ['--no-manifest'];
/** Limits that every portfolio keeps: judging them is what costs. */
const GATE = ['--max-rejects', '0.9', '--max-missing', '1', '--max-unseen', '1', '--max-out-of-range', '1', '--max-psi', '999', '--max-score-psi', '999']; // biome-ignore format: one line

const KINDS: readonly (readonly [name: string, flags: readonly string[]])[] = [
  ['none of them', [...NO_CHECKPOINTS, ...NO_MANIFEST]],
  ['checkpoints', NO_MANIFEST],
  ['manifest', NO_CHECKPOINTS],
  ['gate', [...NO_CHECKPOINTS, ...NO_MANIFEST, ...GATE]],
  ['all three', GATE],
];

export interface ProofSetting {
  program: Program;
  /** A portfolio of `rows` rows. */
  input: string;
  rows: number;
  model: string;
  rounds: number;
  cores: number;
}

/** Measures at `rows` rows, and at ten times as many in half as many rounds. @throws Error when a run fails */
export async function benchProof(setting: ProofSetting): Promise<ProofResult> {
  const { model, rounds, input, rows } = setting;
  const load = loadavg()[0]!;
  const large = await repeated(input, 10);
  const sizes = [
    await sizeOf(setting, input, rows, rounds),
    await sizeOf(setting, large, rows * 10, Math.ceil(rounds / 2)),
  ];
  return { model, rounds, load, sizes };
}

async function sizeOf(
  { program, model, cores }: ProofSetting,
  input: string,
  rows: number,
  rounds: number,
): Promise<ProofSize> {
  const output = path.join(folder(CACHE, 'outputs', 'proof'), 'out.csv');
  const taken = KINDS.map((): Usage[] => []);
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < KINDS.length; i++) {
      // Another order each round, so that nobody always runs after the same neighbour.
      const at = (i + round) % KINDS.length;
      const [name, flags] = KINDS[at]!;
      const end = ['-m', model, '-o', output, '--registry', REGISTRY, '--quiet', '--workers', String(cores)];
      const usage = await measure({ args: [...program.sluice, 'score', input, ...end, ...flags] });
      taken[at]!.push(usage);
      rmSync(path.dirname(output), { recursive: true });
      folder(path.dirname(output));
      say(`round ${round + 1}/${rounds}  ${rows} rows, ${name}: CPU ${cpu(usage).toFixed(2)} s`);
    }
  }
  const [none] = taken as [Usage[]];
  return {
    rows,
    inputBytes: statSync(input).size,
    cpuSeconds: spread(none.map(cpu)),
    kinds: KINDS.map(([name], at) => ({
      name,
      more: at === 0 ? null : spread(taken[at]!.map((usage, round) => cpu(usage) / cpu(none[round]!) - 1)),
      peakBytes: spread(taken[at]!.map((usage) => usage.peakBytes)),
    })),
  };
}

const cpu = ({ userSeconds, systemSeconds }: Usage): number => userSeconds + systemSeconds;

/** The rows of a file so many times under one header. */
async function repeated(file: string, times: number): Promise<string> {
  const large = file.replace(/\.csv$/, `-x${times}.csv`);
  if (existsSync(large)) return large;
  const partial = `${large}.making`;
  let header = 0;
  for await (const chunk of createReadStream(file)) {
    header = (chunk as Buffer).indexOf(0x0a) + 1;
    break;
  }
  for (let n = 0; n < times; n++) {
    await pipeline(createReadStream(file, { start: n === 0 ? 0 : header }), createWriteStream(partial, { flags: n === 0 ? 'w' : 'a' })); // biome-ignore format: one line
  }
  renameSync(partial, large);
  return large;
}
