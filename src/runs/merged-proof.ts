// The manifest of an output that was joined from the parts of shards: what one run over the whole file leaves, made of what the shards saw.
import type { KeyObject } from 'node:crypto';
import path from 'node:path';
import { LF } from '../core/ascii.ts';
import { namedFormat } from '../core/file-format.ts';
import { manifestNameOf } from '../core/sidecar-files.ts';
import type { RunCounts } from '../engine/counts.ts';
import { ByteWitness, type Digest, type Mark } from '../proof/byte-witness.ts';
import { seal } from '../proof/envelope.ts';
import { blockOfEntry, finishedNow, type ProvenBlock, type ProvenFile, statementOf } from '../proof/statement.ts';
import { addTo, newCounts, tallyOfSaved } from './accumulator.ts';
import { endpoint } from './endpoints.ts';
import { formatOf, previousOf, provenFile, provenRows } from './plugins/output-manifest.ts';
import type { FoundPart } from './plugins/shard-part.ts';
import type { PlannedFile, ShardPlan } from './shard-plan.ts';

/** What one input comes to. */
export interface MergedFile {
  file: PlannedFile;
  output: string;
  /** Of rejected rows. */
  list: string;
  parts: readonly FoundPart[];
}

/** What was written of an output. */
export interface JoinedOutput {
  stored: Digest;
  content: Digest;
  /** Bytes of it, unpacked, before each part. */
  before: readonly number[];
}

/** Sees a list of rejected rows while it is joined, and says where each block of each part ends in it. */
export class JoinedList {
  readonly #witness = new ByteWitness();
  readonly #header: Uint8Array;
  readonly #marks = new Map<FoundPart, Mark[]>();

  constructor(header: Uint8Array) {
    this.#header = header;
  }

  /** Without its header. */
  async add(part: FoundPart, chunks: AsyncIterable<Uint8Array>): Promise<void> {
    const marks: Mark[] = [];
    this.#marks.set(part, marks);
    const lines = linesOfBlocks(part, this.#header);
    const settle = (): void => {
      for (; lines[marks.length] === 0; ) marks.push(this.#witness.mark());
    };
    settle();
    for await (const chunk of chunks) {
      this.#begin();
      for (let at = 0; at < chunk.length; settle()) {
        const end = chunk.indexOf(LF, at) + 1 || chunk.length;
        this.#witness.add(chunk.subarray(at, end));
        if (chunk[end - 1] === LF) lines[marks.length]! -= 1;
        at = end;
      }
    }
  }

  /** All of it. */
  end(): Digest {
    this.#begin();
    return this.#witness.digest;
  }

  /** Of the blocks of a part. */
  marksOf(part: FoundPart): readonly Mark[] {
    return this.#marks.get(part) ?? [];
  }

  /** One run writes the header when it rejects its first row. */
  #begin(): void {
    if (this.#witness.bytes === 0) this.#witness.add(this.#header);
  }
}

/** Lines of the list of a part, block by block, without its header. */
function linesOfBlocks({ blocks }: FoundPart, header: Uint8Array): number[] {
  let due = header.filter((byte) => byte === LF).length;
  return blocks.map(([, , , , list]) => {
    const lines = list?.[1] ?? 0;
    if (lines === 0) return 0;
    const own = lines - due;
    due = 0;
    return own;
  });
}

export interface MergedProof {
  plan: ShardPlan;
  merged: MergedFile;
  output: JoinedOutput;
  /** null: there is none. */
  list: { name: string; seen: JoinedList; stored: Digest } | null;
  allowEmpty: boolean;
  /** null: it is not signed. */
  key: KeyObject | null;
}

/** The text of the manifest. */
export async function mergedManifest(proof: MergedProof): Promise<string> {
  const { plan, merged, output, list, allowEmpty, key } = proof;
  const { file, parts } = merged;
  const [first] = parts as [FoundPart];
  const { model, evaluator: _, options, ...runtime } = first.made_by;
  const { compression } = namedFormat(merged.output);
  const written = endpoint(merged.output, { ...options.sink, compression }, 'csv');
  const statement = statementOf({
    model,
    // Where machines chose differently, the answers are the same bits all the same.
    made_by: { ...runtime, evaluator: [...new Set(parts.map(({ made_by }) => made_by.evaluator))].sort().join(', ') },
    options: {
      ...options,
      source: { type: 'file', ...formatOf(file) },
      sink: { ...options.sink, ...formatOf(written) },
      allow_empty: allowEmpty,
      block_bytes: plan.block_bytes,
    },
    input: inputOf(file, first),
    output: provenFile(merged.output, output.stored, output.content),
    list: list && provenFile(list.name, list.stored, list.stored),
    rows: provenRows(sumOf(parts)),
    blocks: [...blocksOf(proof)],
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

function inputOf(file: PlannedFile, { content }: FoundPart): ProvenFile {
  const { bytes, sha256, format, compression } = file;
  const stored = { bytes, sha256 };
  if (format === 'parquet') return provenFile(file.name, stored, null);
  return { name: path.basename(file.name), stored, content: compression === 'none' ? stored : content };
}

/** The blocks of all parts, where they lie in the whole. */
function* blocksOf({ plan, merged: { file, parts }, output, list }: MergedProof): Generator<ProvenBlock> {
  let text = 0;
  for (const [i, part] of parts.entries()) {
    const piece = plan.pieces.find((p) => p.shard === part.shard && p.file === part.file)!;
    const before = file.format === 'parquet' ? text : piece.from;
    const marks = list?.seen.marksOf(part);
    for (const [b, entry] of part.blocks.entries()) {
      const block = blockOfEntry(entry);
      const moved = (mark: Mark, by: number): Mark => ({ ...mark, end: mark.end + by });
      yield {
        ...block,
        input: moved(block.input, before),
        output: block.output && moved(block.output, output.before[i]!),
        list: marks?.[b] ?? null,
      };
    }
    text += part.text_bytes ?? 0;
  }
}
