// The shared state of a sharded run, in a folder or under an object prefix: the run's decisions, the plan and the shard results. Files are
// never changed after creation, so neither clocks nor locks are needed:
//  1. Shard 0 writes plan.json, then run.json, which records the plan, the current inputs and the model version.
//  2. Each shard waits for run.json and publishes its result together with its description. An existing result is not scored again.
//  3. The process that finds all results creates merge.json with its shard number, unless another process did. The shard named there
//     merges the results, even after a restart.
//  4. merged.json marks the outputs as complete.
import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { putFirst, putStored, removeStored, storedSize, storedText } from '../../connectors/stored-bytes.ts';
import { SluiceError } from '../../core/errors.ts';
import { PART_ENDING } from '../../core/file-names.ts';
import { isObject, storeOf } from '../../storage/providers.ts';
import { deadlineOf } from '../deadline.ts';
import type { Endpoint } from '../endpoint-specs.ts';
import { type FoundPart, partsOf } from '../plugins/shard-part.ts';
import { filesOfParts, partNames, wholeParts } from './merge-parts.ts';
import type { ShardPlan } from './shard-plan.ts';

const KIND = 'sluice-shared-run';

/** An input as it was at the start of the run: its size in bytes, and its modification time or the object's ETag. */
interface SeenInput {
  name: string;
  bytes: number;
  mark: string;
}

/** Decisions of shard 0 that apply to all shards. */
export interface SharedRun {
  kind: typeof KIND;
  /** SHA-256 of the plan. */
  plan: string;
  shards: number;
  /** The configured reference, and the version to which it resolved at the start. An alias may move later. */
  asked: string;
  model: string;
  inputs: readonly SeenInput[];
  /** The flags that affect the plan or the bytes of the outputs, and the format of the outputs. */
  options: SharedOptions;
  /** The deadline as configured, and the moment that it meant at the start. A restarted shard keeps this moment. */
  deadline?: DecidedDeadline;
}

interface DecidedDeadline {
  asked: string;
  at: string;
}

/** The moment that a deadline means now, in the format of `--deadline` with its time zone. @throws SluiceError usage */
export const decidedDeadline = (asked: string): DecidedDeadline => ({
  asked,
  at: `${new Date(deadlineOf(asked)).toISOString().slice(0, 19)}Z`,
});

type SharedOptions = Readonly<Record<string, string | number | boolean>>;

/** @throws SluiceError input_not_found | storage_unavailable */
export async function seenInputs(inputs: readonly Endpoint[]): Promise<SeenInput[]> {
  return Promise.all(inputs.map(({ name }) => seenInput(name)));
}

async function seenInput(name: string): Promise<SeenInput> {
  const gone = (cause?: unknown) => new SluiceError('input_not_found', `${name} cannot be opened`, { cause });
  if (!isObject(name)) {
    const found = await stat(name).catch((cause: unknown) => {
      throw gone(cause);
    });
    return { name, bytes: found.size, mark: String(found.mtimeMs) };
  }
  const { store, key } = await storeOf(name);
  const found = await store.head(key);
  if (!found) throw gone();
  return { name, bytes: found.bytes, mark: found.version };
}

const changedOptions = (before: SharedOptions, now: SharedOptions): string[] =>
  [...new Set([...Object.keys(before), ...Object.keys(now)])].filter((key) => before[key] !== now[key]).sort();

export class SharedWork {
  readonly plan: string;
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder.replace(/\/$/, '');
    this.plan = this.#at('plan.json');
  }

  #at(name: string): string {
    return isObject(this.#folder) ? `${this.#folder}/${name}` : path.join(this.#folder, name);
  }

  /** Path pattern of shard results, with `{name}` and `{shard}`. `ending` includes the dot. */
  parts(ending: string): string {
    return this.#at(`parts/{name}.{shard}${ending}`);
  }

  /** Creates the folders, unless the state is in object storage. @throws SluiceError folder_unusable */
  async open(): Promise<void> {
    if (isObject(this.#folder)) return;
    try {
      await mkdir(this.#at('parts'), { recursive: true });
    } catch (cause) {
      throw new SluiceError('folder_unusable', `${this.#folder} cannot be used as the folder of this run`, { cause });
    }
  }

  /**
   * Returns null if shard 0 has not written run.json yet.
   * @throws SluiceError plan_invalid: run.json is invalid | storage_unavailable
   */
  async run(): Promise<SharedRun | null> {
    const text = await storedText(this.#at('run.json'));
    if (text === null) return null;
    try {
      const run = JSON.parse(text) as SharedRun;
      if (run.kind === KIND) return run;
    } catch {
      // Invalid JSON is treated like JSON that does not describe a run.
    }
    throw new SluiceError(
      'plan_invalid',
      `${this.#at('run.json')} does not describe a sharded run: use another folder`,
    );
  }

  /**
   * Writes run.json unless it already exists: two processes may briefly run shard 0.
   * @throws SluiceError output_* | storage_unavailable
   */
  async decide(run: Omit<SharedRun, 'kind'>): Promise<void> {
    await putFirst(this.#at('run.json'), `${JSON.stringify({ kind: KIND, ...run }, null, 1)}\n`);
  }

  /** @throws SluiceError usage: the folder belongs to another run */
  refuseAnother(run: SharedRun, now: Omit<SharedRun, 'kind' | 'plan' | 'model' | 'deadline'>): void {
    const what = (['shards', 'asked', 'inputs'] as const).filter((key) => !isDeepStrictEqual(run[key], now[key]));
    const names = { shards: 'number of shards', asked: 'model', inputs: 'inputs' };
    // Without this check, the existing results of other options would be merged as if they had these options.
    const changed = changedOptions(run.options ?? {}, now.options);
    if (what.length + changed.length === 0) return;
    const differs = [...what.map((key) => names[key]), ...changed].join(', ');
    throw new SluiceError(
      'usage',
      `${this.#folder} belongs to a run with another ${differs}: use a separate folder for each run`,
    );
  }

  /**
   * The complete results of a shard, or of all shards if `shard` is null. Returns null while results are missing.
   * @throws SluiceError storage_unavailable
   */
  async found(plan: ShardPlan, shard: number | null, ending: string): Promise<FoundPart[] | null> {
    const pieces = plan.pieces.filter((piece) => shard === null || piece.shard === shard);
    const names = partNames(this.parts(ending), { pieces, files: plan.files });
    for (const name of names) if ((await storedSize(`${name}${PART_ENDING}`)) === null) return null;
    const parts = await partsOf(names, plan);
    return shard === null ? wholeParts(plan, parts) : parts;
  }

  /**
   * The shard that merges the results: this shard, unless another shard claimed the merge first.
   * @throws SluiceError output_* | storage_unavailable
   */
  async merger(shard: number): Promise<number> {
    const said = await putFirst(this.#at('merge.json'), `${JSON.stringify({ shard })}\n`);
    return (JSON.parse(said) as { shard: number }).shard;
  }

  /**
   * Whether the results are merged into this output.
   * @throws SluiceError usage: they are merged into another output | storage_unavailable
   */
  async isMerged(output: string): Promise<boolean> {
    const text = await storedText(this.#at('merged.json'));
    if (text === null) return false;
    const merged = JSON.parse(text) as { output: string };
    if (merged.output === output) return true;
    throw new SluiceError(
      'usage',
      `${this.#folder} belongs to a run that was merged into ${merged.output}: use a separate folder for each run`,
    );
  }

  /** Removes the shard results after merging. @throws SluiceError storage_unavailable; Error of the file system */
  async removeParts(parts: readonly FoundPart[]): Promise<void> {
    const descriptions = parts.map(({ path: name }) => `${name}${PART_ENDING}`);
    for (const name of [...filesOfParts(parts).map((file) => file.name), ...descriptions]) await removeStored(name);
  }

  /** @throws SluiceError output_* | storage_unavailable */
  async merged(plan: ShardPlan, output: string): Promise<void> {
    await putStored(this.#at('merged.json'), `${JSON.stringify({ plan: plan.sha256, output })}\n`);
  }
}
