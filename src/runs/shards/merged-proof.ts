// The manifest of a merged output, computed from the descriptions of its shard results. This manifest equals the
// manifest of a single run.

import type { KeyObject } from 'node:crypto';
import type { GateLimits } from '../../config/options/gate-limits.ts';
import { manifestNameOf } from '../../core/file-names.ts';
import type { RunCounts } from '../../engine/counts.ts';
import { namedFormat } from '../../formats/formats.ts';
import { type BlockRange, ContentDigests, type Digest, type Mark } from '../../proof/block-digests.ts';
import { seal } from '../../proof/envelope.ts';
import { finishedNow, type ProvenBlocks, statementOf } from '../../proof/statement.ts';
import { addTo, newCounts, tallyOfSaved } from '../accumulator.ts';
import { endpoint } from '../endpoint-specs.ts';
import { formatOf, listBlocks, previousOf, provenFile, provenRows } from '../plugins/manifest-content.ts';
import type { FoundPart } from '../plugins/shard-part.ts';
import type { PlannedFile, ShardPlan } from './shard-plan.ts';

/** One input with its shard results. */
export interface MergedFile {
  file: PlannedFile;
  output: string;
  /** Path of the rejects file. */
  list: string;
  parts: readonly FoundPart[];
}

/** Digest of one merged output. */
export interface JoinedOutput {
  stored: Digest;
  /** Offset in the uncompressed output at which each shard result begins, in bytes. */
  before: readonly number[];
}

/** Digests a merged rejects file while it is joined from the rejects files of the shards. */
export class JoinedList {
  readonly #digests = new ContentDigests();
  readonly #header: Uint8Array;
  readonly #marks = new Map<FoundPart, Mark[]>();
  readonly #starts = new Map<FoundPart, number>();

  constructor(header: Uint8Array) {
    this.#header = header;
  }

  /** `chunks`: the rejects file of the shard result, without its header. */
  async add(part: FoundPart, chunks: AsyncIterable<Uint8Array>): Promise<void> {
    const marks: Mark[] = [];
    this.#marks.set(part, marks);
    this.#starts.set(part, this.#digests.bytes);
    const ends = part.blocks.list.map(({ end }) => end - this.#header.length);
    let read = 0;
    for await (const chunk of chunks) {
      this.#begin();
      for (let at = 0; at < chunk.length; ) {
        const n = Math.min(chunk.length - at, (ends[marks.length] ?? Infinity) - read);
        this.#digests.add(chunk.subarray(at, at + n));
        at += n;
        read += n;
        if (read === ends[marks.length]) marks.push(this.#digests.mark()!);
      }
    }
  }

  /** Digest of the whole file. */
  end(): Digest {
    this.#begin();
    return this.#digests.digest;
  }

  /** Digests of the blocks of a shard result. */
  marksOf(part: FoundPart): readonly Mark[] {
    return this.#marks.get(part) ?? [];
  }

  /**
   * Length of the rejects file before the first of these shard results; the bytes before that offset belong to other
   * inputs.
   */
  startOf(parts: readonly FoundPart[]): number {
    const starts = parts.flatMap((part) => this.#starts.get(part) ?? []);
    return starts[0] ?? 0;
  }

  /** The header is added before the first rejected row, as in a single run. */
  #begin(): void {
    if (this.#digests.bytes === 0) this.#digests.add(this.#header);
  }
}

interface MergedProof {
  plan: ShardPlan;
  merged: MergedFile;
  output: JoinedOutput;
  /** Null without a rejects file. */
  list: { name: string; seen: JoinedList; stored: Digest } | null;
  allowEmpty: boolean;
  /** The limits that the output met; null without a gate. */
  gate: GateLimits | null;
  /** Key that signs the manifest; null if the manifest is not signed. */
  key: KeyObject | null;
}

/** The text of the manifest. */
export async function mergedManifest(proof: MergedProof): Promise<string> {
  const { plan, merged, output, list, allowEmpty, gate, key } = proof;
  const { file, parts } = merged;
  const [first] = parts as [FoundPart];
  const { model, evaluator: _, options, ...runtime } = first.made_by;
  const { compression } = namedFormat(merged.output);
  const written = endpoint(merged.output, { ...options.sink, compression }, 'csv');
  const statement = statementOf({
    model,
    // Machines may have used different evaluators, whose predictions are bit-identical.
    made_by: { ...runtime, evaluator: [...new Set(parts.map(({ made_by }) => made_by.evaluator))].sort().join(', ') },
    options: {
      ...options,
      source: { type: 'file', ...formatOf(file) },
      sink: { ...options.sink, ...formatOf(written) },
      allow_empty: allowEmpty,
      gate: gate ?? undefined,
      block_bytes: plan.block_bytes,
    },
    input: provenFile(file.name, { bytes: file.bytes, sha256: file.sha256 }),
    output: provenFile(merged.output, output.stored),
    list: list && provenFile(list.name, list.stored),
    rows: provenRows(sumOf(parts)),
    blocks: blocksOf(proof),
    previous: await previousOf(manifestNameOf(merged.output)),
    ...finishedNow(key),
  });
  return seal(statement, key);
}

export function sumOf(parts: readonly FoundPart[]): RunCounts {
  const counts = newCounts();
  for (const part of parts) addTo(counts, tallyOfSaved(part, null));
  return counts;
}

/** The blocks of all shard results, at their offsets in the merged files. */
function blocksOf({ plan, merged: { parts }, output, list }: MergedProof): ProvenBlocks {
  const moved = (blocks: readonly BlockRange[], by: number) =>
    blocks.map((block) => ({ ...block, end: block.end + by }));
  const pieces = parts.map((part) => plan.pieces.find((p) => p.shard === part.shard && p.file === part.file)!);
  const listed = parts.flatMap((part) => {
    const marks = list?.seen.marksOf(part) ?? [];
    const blocks = marks.map((mark, i) => ({ list: mark, rows: part.blocks.list[i]!.rows }));
    return [...blocks, { list: null, rows: part.rows - blocks.reduce((sum, { rows }) => sum + rows, 0) }];
  });
  return {
    input: parts.flatMap((part, i) => moved(part.blocks.input, pieces[i]!.from)),
    output: parts.flatMap((part, i) => moved(part.blocks.output, output.before[i]!)),
    list: list ? listBlocks(listed, list.seen.startOf(parts), list.stored.bytes) : [],
  };
}
