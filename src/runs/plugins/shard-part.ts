// The description of a shard result: plan, shard, package, settings, counts and digests. `sluice merge` relies only on
// this description.

import { createHash } from 'node:crypto';
import path from 'node:path';
import { namedText } from '../../connectors/stored-bytes.ts';
import { SluiceError } from '../../core/errors.ts';
import { isPlainName, PART_ENDING, sidecarKind } from '../../core/file-names.ts';
import type { RunCounts } from '../../engine/counts.ts';
import type { CommitSet } from '../../io/sink/commit-set.ts';
import type { Digest } from '../../proof/block-digests.ts';
import type { JsonValue } from '../../proof/canonical-json.ts';
import type { Predicate, ProvenBlocks } from '../../proof/statement.ts';
import { type SavedTally, TallyAccumulator } from '../accumulator.ts';
import type { RunPlugin } from '../plugin.ts';
import type { ShardPlan, ShardSpec } from '../shards/shard-plan.ts';
import { modelOf, optionsOf, RUNTIME } from './manifest-content.ts';
import { type ObservedStep, ProofObserver } from './output-manifest.ts';

/** A file of the shard result. */
export interface StoredFile {
  name: string;
  bytes: number;
  sha256: string;
}

interface PartDescription extends Omit<SavedTally, 'details'> {
  kind: 'sluice-part';
  /** SHA-256 of the plan, and the indexes of the shard and of the file in it. */
  plan: string;
  shard: number;
  file: number;
  output: StoredFile;
  /** Null if no row was rejected. */
  rejects: StoredFile | null;
  made_by: MadeBy;
  /** Blocks as in a manifest. Offsets in the input are relative to the start of the piece. */
  blocks: ProvenBlocks;
}

/**
 * Package and settings that produced a shard result. Results to be merged must agree in everything except the
 * evaluator.
 */
interface MadeBy {
  model: Predicate['model'];
  sluice: string;
  node: string;
  onnxruntime: string;
  evaluator: string;
  /** The options as the manifest of a single run lists them, but without the input. */
  options: PartOptions;
}

interface PartOptions {
  sink: { [key: string]: JsonValue | undefined };
  score: { passthrough?: readonly string[] | '*' };
  [key: string]: JsonValue | undefined;
}

/** Adds the description of a shard result to the set that publishes the result. @throws SluiceError output_* */
async function describePart(set: CommitSet, output: string, part: PartDescription): Promise<void> {
  const sink = await set.open(`${output}${PART_ENDING}`, { beside: true });
  await sink.write(Buffer.from(`${JSON.stringify({ ...part, sha256: digestOfPart(part) })}\n`));
  await sink.commit();
}

const digestOfPart = (part: PartDescription): string => createHash('sha256').update(JSON.stringify(part)).digest('hex');

/** A shard result and the path of its output. */
export interface FoundPart extends PartDescription {
  path: string;
}

/**
 * Reads the descriptions next to the outputs in `files`. Rejects files and descriptions in `files` are ignored.
 * @throws SluiceError parts_mismatch: a description is missing, damaged, or belongs to another plan
 */
export async function partsOf(files: readonly string[], plan: ShardPlan): Promise<FoundPart[]> {
  const parts: FoundPart[] = [];
  const outputs = files.filter((name) => sidecarKind(name) === null);
  for (const file of outputs) {
    const wrong = (why: string, cause?: unknown) => new SluiceError('parts_mismatch', `${file}${why}`, { cause });
    let said: PartDescription & { sha256: string };
    try {
      said = JSON.parse(await namedText(`${file}${PART_ENDING}`));
    } catch (cause) {
      if (cause instanceof SluiceError && cause.code !== 'input_not_found') throw cause;
      throw wrong(` is not a part of a sharded run: ${path.basename(file)}${PART_ENDING} is missing or damaged`, cause);
    }
    const { sha256, ...part } = said;
    if (part.kind !== 'sluice-part' || sha256 !== digestOfPart(part)) throw wrong(`${PART_ENDING} was changed`);
    if (part.plan !== plan.sha256) throw wrong(' belongs to another plan');
    if (part.output.name !== path.basename(file)) throw wrong(' was renamed');
    if (part.rejects !== null && !isPlainName(part.rejects.name))
      throw wrong(`${PART_ENDING} names a rejects file in another folder`);
    if (Array.isArray(part.blocks) || part.blocks?.input.some(({ digest }) => digest === undefined))
      throw wrong(' was described by an earlier release of Sluice: score its shard again');
    parts.push({ ...part, path: file });
  }
  return parts;
}

/** Observes one piece of a shard, and describes the result of the piece in a sidecar file. */
class PieceObserver extends ProofObserver {
  state = new TallyAccumulator();
  readonly #shard: ShardSpec;
  readonly #set: CommitSet;
  readonly #evaluator: () => string;

  constructor(
    of: ObservedStep,
    { shard, set, evaluator }: { shard: ShardSpec; set: CommitSet; evaluator: () => string },
  ) {
    super(of);
    this.#shard = shard;
    this.#set = set;
    this.#evaluator = evaluator;
  }

  override begin(): void {
    super.begin();
    this.state = new TallyAccumulator();
  }

  async scored({ rejected }: Readonly<RunCounts>): Promise<void> {
    const { spec, model, input, output } = this.of;
    const { source: _, ...options } = optionsOf(spec, input, output);
    const { details: __, ...tally } = this.state.save();
    const seen = await this.current.seen();
    const stored = ({ name, stored }: { name: string; stored: Digest }): StoredFile => ({ name, ...stored });
    await describePart(this.#set, output.name, {
      kind: 'sluice-part',
      plan: this.#shard.plan.sha256,
      shard: this.#shard.index,
      file: input.planned!.piece.file,
      ...tally,
      output: stored({ ...seen.output, name: path.basename(output.name) }),
      rejects: rejected === 0 ? null : seen.list && stored(seen.list),
      made_by: {
        model: modelOf(model),
        ...RUNTIME,
        evaluator: this.#evaluator(),
        options: JSON.parse(JSON.stringify(options)),
      },
      blocks: seen.blocks,
    });
  }
}

/** Writes a description of each shard result, for `sluice merge`. */
export const shardPartPlugin: RunPlugin = {
  plan({ spec, model, rejects, evaluator }) {
    const { shard } = spec;
    if (!shard) return null;
    return ({ input, output, set }) =>
      output &&
      new PieceObserver({ spec, model, input, output, rejects, key: null, earlier: null }, { shard, set, evaluator });
  },
};
