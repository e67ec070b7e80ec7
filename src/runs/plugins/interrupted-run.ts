// Finds the interrupted run of an output, and decides whether this run can resume it.

import { stat } from 'node:fs/promises';
import path from 'node:path';
import { connectorOf } from '../../connectors/connectors.ts';
import { STDIO } from '../../connectors/stdio/stdio-connector.ts';
import { storedSize } from '../../connectors/stored-bytes.ts';
import { SluiceError } from '../../core/errors.ts';
import { type Log, named, words } from '../../core/log.ts';
import { VERSION } from '../../core/version.ts';
import { blockBytesOf } from '../../engine/score-chunks.ts';
import { isColumnar } from '../../formats/formats.ts';
import type { CommitSet } from '../../io/sink/commit-set.ts';
import { isRevocable } from '../../io/sink/file-sink.ts';
import type { LeftOver } from '../../io/sink/temporary-files.ts';
import { dropKept, type KeptFile } from '../../io/sink/temporary-files.ts';
import type { Prefix } from '../../io/source/byte-taps.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { ProvenBlock } from '../../proof/statement.ts';
import { isObject } from '../../storage/providers.ts';
import type { SavedTally } from '../accumulator.ts';
import type { Endpoint } from '../endpoint-specs.ts';
import type { FileRunSpec, Resume } from '../spec.ts';
import { type JournalRead, readCheckpoints } from './checkpoint-journal.ts';

/** First line of a journal. */
export interface CheckpointHead {
  journal: 'sluice-checkpoints';
  format: 4;
  identity: RunIdentity;
  evaluator: string;
}

/** Any later line of a journal: the durable state after a number of blocks. */
export interface Checkpoint {
  blocks: number;
  rows: number;
  inputEnd: number;
  /**
   * SHA-256 of the input up to `inputRead`, which is at least `inputEnd`. Null if the digests in `proof` identify the
   * input.
   */
  read: Prefix | null;
  /** Uncompressed length of the output in bytes. */
  written: number;
  /** Raw length of the output and of the rejects file in bytes. `list` is null while no rejects file exists. */
  output: number;
  list: number | null;
  /** Counts of the blocks since the previous line. */
  tally: SavedTally;
  /** Digests of these blocks for the manifest; absent if the run writes no manifest. */
  proof?: readonly ProvenBlock[];
}

export interface Interrupted {
  journal: JournalRead;
  head: CheckpointHead;
  last: Checkpoint;
  tallies: SavedTally[];
  /** The blocks of all lines in the journal. */
  proven: readonly ProvenBlock[];
}

export interface Search {
  set: CommitSet;
  output: string;
  list: string | null;
  identity: RunIdentity;
  resume: Resume;
  log: Log;
}

export interface Found {
  /** Path of the journal, which this process now owns. */
  file: string;
  run: Interrupted;
}

/**
 * Finds the run to resume and takes ownership of its files. Null if this run starts from the beginning.
 * @throws SluiceError checkpoint_mismatch: the interrupted run had another input, package, option or version;
 * output_unwritable
 */
export async function findInterrupted(search: Search): Promise<Found | null> {
  const { set, output, list, identity, resume, log } = search;
  const beside = await set.interrupted(output);
  if (resume === 'restart') {
    for (const file of list === null ? [output] : [output, list]) await dropKept(file);
    return null;
  }
  const candidates: { leftOver: LeftOver; run: Interrupted }[] = [];
  for (const leftOver of beside.filter((l) => l.standing !== 'running')) {
    const run = await readRun(leftOver.file);
    if (run) candidates.push({ leftOver, run });
  }
  candidates.sort((a, b) => b.run.last.rows - a.run.last.rows);
  const first = candidates[0];
  if (resume === 'no') {
    const rows = first?.run.last.rows ?? 0;
    const says = words`an interrupted run wrote ${rows} rows of ${named(output)} (resume it with --resume); starting from the beginning`;
    if (first) log('warn', 'run_not_resumed', says, { rows });
    return null;
  }
  const fits = candidates.find(({ run }) => differencesOf(run.head.identity, identity).length === 0);
  if (fits) return adopt(fits, search);
  if (first) throw mismatch(output, first.run, differencesOf(first.run.head.identity, identity));
  if (beside.some((l) => l.standing === 'running')) {
    const says = words`another run is writing ${named(output)}; starting from the beginning`;
    log('warn', 'run_not_resumed', says, { rows: 0 });
  }
  return null;
}

async function adopt(
  { leftOver, run }: { leftOver: LeftOver; run: Interrupted },
  { set, output, list, log }: Search,
): Promise<Found | null> {
  const { last } = run;
  const files: KeptFile[] = [{ target: output, bytes: last.output }];
  if (last.list !== null) files.push({ target: list!, bytes: last.list });
  const file = await set.adopt(leftOver, output, files);
  if (file !== null) {
    log('info', 'run_resumed', words`resuming ${named(output)} after row ${last.rows}`, { rows: last.rows });
    return { file, run };
  }
  const says = words`the partial output of ${named(output)} is incomplete; starting from the beginning`;
  log('warn', 'run_not_resumed', says, { rows: last.rows });
  return null;
}

/** Returns null if the file is not a journal, or if a power failure occurred before the first checkpoint. */
async function readRun(file: string): Promise<Interrupted | null> {
  const journal = await readCheckpoints(file);
  if (journal === null || journal.lines.length < 2) return null;
  const [head, ...lines] = journal.lines as [CheckpointHead, ...Checkpoint[]];
  if (head.journal !== 'sluice-checkpoints' || head.format !== 4) return null;
  return {
    journal,
    head,
    last: lines.at(-1)!,
    tallies: lines.map((line) => line.tally),
    proven: lines.flatMap((line) => line.proof ?? []),
  };
}

export function mismatch(output: string, { last }: Pick<Interrupted, 'last'>, differences: readonly string[]) {
  const what = `${output}: cannot resume the interrupted run, which wrote ${last.rows} rows`;
  const help = 'restore what changed, or use --restart';
  return new SluiceError('checkpoint_mismatch', `${what}: ${differences.join(', ')} changed; ${help}`);
}

/**
 * Values that identify a run. Each key is the name used in messages: "the input", "the package", the name of an option,
 * "the version of Sluice".
 */
export type RunIdentity = Record<string, unknown>;

/** Keys of a spec that do not affect the output. */
const WITHOUT_EFFECT = new Set(['path', 'workers', 'batch_rows', 'batch_wait_ms']);

export interface IdentifiedRun {
  spec: FileRunSpec;
  model: ModelPackage;
  input: Endpoint;
  output: Endpoint;
  /** Path of the rejects file; null if there is none. */
  list: string | null;
  /** Options of features that distinguish this run from others. */
  distinguishing: Readonly<Record<string, unknown>>;
}

/** @throws SluiceError model_invalid; Error of the file system */
export async function identityOf({
  spec,
  model,
  input,
  output,
  list,
  distinguishing,
}: IdentifiedRun): Promise<RunIdentity> {
  const { source, sink, dead_letter, score, on_invalid, allow_empty, list_only_if_any, tuning } = spec;
  const beside = list === null ? null : path.relative(path.dirname(path.resolve(output.name)), path.resolve(list));
  return {
    'the name of the input': input.name,
    // The input of a query is identified by its rows.
    ...(input.query ? {} : { 'the size of the input': await storedSize(input.name) }),
    'the model': model.ref,
    'the content of its package': model.sha256,
    ...flat('source', { ...source, ...input, name: undefined }),
    ...flat('sink', { ...sink, ...output, name: undefined }),
    ...flat('dead_letter', { ...dead_letter, beside, list_only_if_any }),
    ...flat('score', score),
    on_invalid,
    allow_empty: allow_empty ?? false,
    'the bytes of a block': tuning?.blockBytes ?? blockBytesOf(isColumnar(input.format)),
    // Prevents resuming runs of earlier versions, which identified a table by its rows as lines of text.
    ...(isColumnar(input.format) ? { 'the identity of the table': 'its cells' } : {}),
    ...distinguishing,
    'whether a manifest is written': spec.manifest !== false,
    'the version of Sluice': VERSION,
    // Compression and number formatting depend on the version of Node.
    'the version of Node': process.version,
  };
}

/** Flattens a part of a spec into settings with dotted names. */
function flat(prefix: string, part: object): RunIdentity {
  const found: RunIdentity = {};
  for (const [key, value] of Object.entries(part)) {
    // Only keys of the first level are excluded; deeper keys may be column names.
    if (value === undefined || (!prefix.includes('.') && WITHOUT_EFFECT.has(key))) continue;
    const name = `${prefix}.${key}`;
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) Object.assign(found, flat(name, value));
    else found[name] = value;
  }
  return found;
}

/** Names of the values in which two runs differ. */
export function differencesOf(before: RunIdentity, now: RunIdentity): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...names].filter((name) => JSON.stringify(before[name]) !== JSON.stringify(now[name]));
}

/** The files of a step, to decide whether the step can be resumed. */
export interface ResumedStep {
  input: Endpoint;
  output: Endpoint | null;
  /** Path of the step's rejects file; null if there is none. */
  list: string | null;
  /** Whether several inputs share the rejects file. */
  shared: boolean;
}

/**
 * Returns why a run cannot be resumed. If `refused`, `--resume` is an error; otherwise, the run silently starts from
 * the beginning.
 */
export async function obstacleOf({ input, output, list, shared }: ResumedStep) {
  if (input.name === STDIO) return { refused: true, why: 'standard input cannot be read again' };
  if (input.planned) return { refused: true, why: 'a shard always starts from its beginning' };
  const obstacle = input.query ? (connectorOf(input.query).resumeObstacle?.(input.query) ?? null) : null;
  if (obstacle !== null) return { refused: true, why: obstacle };
  if (output === null) return { refused: true, why: 'only runs into files can be resumed' };
  if (output.name === STDIO) return { refused: true, why: 'runs into standard output cannot be resumed' };
  if (isColumnar(output.format)) {
    const what = output.format === 'parquet' ? 'a Parquet file' : 'an Arrow table';
    return { refused: false, why: `${what} cannot be appended to` };
  }
  if (shared) {
    return { refused: false, why: 'several inputs share one rejects file; put {name} in its path' };
  }
  const away = [output.name, list].find((name) => name !== null && isObject(name));
  if (away !== undefined) return { refused: false, why: `${away} is in object storage, which cannot be appended to` };
  const file = input.query || isObject(input.name) ? null : await stat(input.name).catch(() => null);
  // A missing input is not an obstacle here; opening it reports the error.
  if (file?.isFile() === false) {
    return { refused: true, why: `${input.name} is not a regular file and cannot be read again` };
  }
  for (const file of list === null ? [output.name] : [output.name, list]) {
    if (!(await isRevocable(file))) return { refused: true, why: `${file} is not a regular file` };
  }
  return null;
}
