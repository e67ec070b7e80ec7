// Runs of `score` that are interrupted, and what must come of going on with them: the files of an unbroken run.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { tableFromArrays, tableToIPC, utf8 } from '@uwdata/flechette';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { readCheckpoints } from '../../src/runs/plugins/checkpoint-journal.ts';
import { type Run, scratch, sluice, start } from './cli.ts';

/** Numbers in [0, 1), the same for the same seed. */
export function seeded(seed: number): () => number {
  let state = (seed * 2_654_435_761) >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

export interface Job {
  folder: string;
  input: string;
  output: string;
  /** Flags besides those of checkpoints. */
  flags: readonly string[];
}

/** An input of made-up applications, some of them broken, under the name `input`. */
export function jobOf(
  input: string,
  output: string,
  { rows = 6000, seed = 11, flags = [] as readonly string[] } = {},
): Job {
  const folder = path.join(scratch(), 'work');
  mkdirSync(folder);
  const csv = Buffer.concat([...generatePortfolio({ rows, seed, faults: Math.floor(rows / 100), oddness: 'none' })]);
  writeFileSync(path.join(folder, input), packed(input, written(input, csv)));
  return { folder, input, output, flags: ['--evaluator', 'native', '--block-bytes', '4096', ...flags] };
}

/** The applications in the format of a name; what is broken as CSV becomes an application with one odd column. */
function written(name: string, csv: Buffer): Buffer {
  if (/\.(parquet|arrow)$/.test(name)) return asTable(name, csv);
  if (!/\.(ndjson|json)\b/.test(name)) return csv;
  const [head, ...lines] = csv.toString().trimEnd().split('\n').map((line) => line.split(',')); // biome-ignore format: one line
  const objects = lines.map((cells) => JSON.stringify(Object.fromEntries(head!.map((column, i) => [column, cells[i] ?? '?'])))); // biome-ignore format: one line
  return Buffer.from(name.includes('.ndjson') ? `${objects.join('\n')}\n` : `[${objects.join(',')}]`);
}

/** The lines of CSV that have all cells, as a table of texts. */
function asTable(name: string, csv: Buffer): Buffer {
  const [head, ...all] = csv.toString().trimEnd().split('\n').map((line) => line.split(',')); // biome-ignore format: one line
  const rows = all.filter((cells) => cells.length === head!.length);
  const columns = head!.map((column, i) => ({ name: column, data: rows.map((cells) => cells[i]!) }));
  if (name.endsWith('.parquet')) {
    const columnData = columns.map((column) => ({ ...column, type: 'STRING' as const }));
    return Buffer.from(parquetWriteBuffer({ columnData, rowGroupSize: 700 }));
  }
  const table = tableFromArrays(columns.map(({ name, data }) => [name, data] as [string, string[]]), { types: Object.fromEntries(head!.map((column) => [column, utf8()])) }); // biome-ignore format: one line
  return Buffer.from(tableToIPC(table, { format: 'stream' })!);
}

const packed = (name: string, bytes: Buffer): Buffer =>
  name.endsWith('.gz') ? gzipSync(bytes) : name.endsWith('.zst') ? zstdCompressSync(bytes) : bytes;

export const argsOf = ({ input, output, flags }: Job, ...more: readonly string[]): string[] => [
  ...['score', input, '-m', 'credit-default', '-o', output, '--json', ...flags, ...more],
];

export const OFTEN = ['--checkpoint-every', '0.001'];

export const scoreJob = (job: Job, ...more: readonly string[]): Promise<Run> =>
  sluice(argsOf(job, ...more), { cwd: job.folder });

export interface Made {
  files: Record<string, string>;
  counts: unknown;
}

/** All that is visible of a job but its input, with what the summary says of the whole. */
export function madeBy(job: Job, { stdout }: Run): Made {
  const files = visibleIn(job);
  const { rows, scored, rejected, rejectedByCode, drift, bytesRead, bytesWritten } = JSON.parse(stdout);
  return { files, counts: { rows, scored, rejected, rejectedByCode, drift, bytesRead, bytesWritten } };
}

/** The same files, without what each manifest says of the one before it: a run that was killed at its very end has left one. */
export function unchained<T extends Pick<Made, 'files'>>({ files, ...rest }: T): T {
  const told = (text: string) => {
    const { payload } = JSON.parse(text);
    if (payload === undefined) return text;
    const statement = JSON.parse(Buffer.from(payload, 'base64').toString());
    return JSON.stringify({ ...statement, predicate: { ...statement.predicate, previous: null } });
  };
  const each = Object.entries(files).map(([name, text]) => [name, name.endsWith('.manifest.json') ? told(text) : text]);
  return { ...rest, files: Object.fromEntries(each) } as T;
}

function visibleIn({ folder, input }: Job): Record<string, string> {
  const names = readdirSync(folder).filter((name) => name !== input && !name.startsWith('.'));
  return Object.fromEntries(names.map((name) => [name, readFileSync(path.join(folder, name), 'latin1')]));
}

/** What is visible of a job whose run did not come to its end, as `unchained` gives it. */
export const inSight = (job: Job): Record<string, string> => unchained({ files: visibleIn(job) }).files;

/**
 * Whether the files found are nothing, or the beginning of a commit: the output first, then one after the other what lies beside
 * it. The next run brings it to its end. `made`: the files of an unbroken run.
 */
export function isCommitBegun(found: Made['files'], made: Made['files'], { output }: Job): boolean {
  const names = Object.keys(found);
  const same = names.every((name) => found[name] === made[name]);
  return names.length === 0 || (names.includes(output) && same);
}

export const hiddenIn = ({ folder }: Job): string[] => readdirSync(folder).filter((name) => name.startsWith('.'));

export const journalOf = (job: Job): string | null => {
  const name = hiddenIn(job).find((n) => n.endsWith('.checkpoint'));
  return name === undefined ? null : path.join(job.folder, name);
};

/** A run that ends meanwhile takes its journal along. */
function textIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** A run that ends before it could be caught is started again so many times. */
const TRIES = 20;

interface Catching {
  checkpoints?: number;
  more?: readonly string[];
  /** The command line; default: that of the job. */
  args?: readonly string[];
}

/** Starts a run and does something to its process once it has so many checkpoints; gives the rows they speak of. */
export async function atCheckpoint(
  job: Job,
  act: (pid: number) => void,
  { checkpoints = 2, more = [], args = argsOf(job, ...OFTEN, '--workers', '1', ...more) }: Catching = {},
): Promise<{ done: Promise<Run>; rows: number }> {
  for (let tries = 1; ; tries++) {
    const { child, done } = start([...args], { cwd: job.folder });
    let ended = false;
    done.then(() => {
      ended = true;
    });
    while (!ended) {
      const journal = journalOf(job);
      const lines = journal === null ? [] : textIfThere(journal).split('\n');
      if (lines.length > checkpoints + 1) {
        act(child.pid!);
        const last = lines.at(-2)!;
        return { done, rows: JSON.parse(last.slice(last.indexOf(' ') + 1)).rows };
      }
      await sleep(2);
    }
    if (tries === TRIES) throw new Error(`it ended before ${checkpoints} checkpoints: ${(await done).stderr}`);
  }
}

/** Leaves what a killed run leaves, with checkpoints of fewer than `before` rows. A signal that comes too late is tried again. */
export async function killedRun(
  job: Job,
  { before = Number.POSITIVE_INFINITY, ...catching }: Catching & { before?: number } = {},
): Promise<{ rows: number }> {
  for (let tries = 1; ; tries++) {
    const { done, rows } = await atCheckpoint(job, (pid) => process.kill(pid, 'SIGKILL'), catching);
    const { signal } = await done;
    const journal = journalOf(job);
    const lines = journal === null ? [] : ((await readCheckpoints(journal))!.lines as { rows: number }[]);
    if (signal === 'SIGKILL' && lines.length > 0 && lines.at(-1)!.rows < before) return { rows };
    if (tries === TRIES) throw new Error('the signal always came too late');
  }
}
