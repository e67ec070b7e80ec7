// A shard as a run of files: its pieces are the inputs, and each output has its description beside it.
import path from 'node:path';
import type { RunCounts } from '../engine/counts.ts';
import type { CommitSet } from '../io/sink/commit-set.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { Digest } from '../proof/byte-witness.ts';
import { entryOf } from '../proof/statement.ts';
import type { TallyAccumulator } from './accumulator.ts';
import type { Endpoint, OpenSource } from './endpoints.ts';
import { modelOf, optionsOf, RUNTIME, type RunProof } from './run-proof.ts';
import { describePart, type MadeBy, type StoredFile } from './shard-part.ts';
import { inputsOfShard, type ShardSpec } from './shard-plan.ts';
import type { FileRunSpec } from './spec.ts';

/** One input a piece, in the order of the plan. @throws SluiceError usage: there is no such shard */
export const shardInputs = ({ plan, index }: ShardSpec): Endpoint[] =>
  inputsOfShard(plan, index).map((planned) => {
    const { name, format, compression, delimiter } = planned.file;
    return { name, format, compression, delimiter, planned };
  });

export interface ScoredPiece {
  spec: FileRunSpec;
  shard: ShardSpec;
  input: Endpoint;
  output: Endpoint;
  model: ModelPackage;
  evaluator: string;
  counts: Readonly<RunCounts>;
  findings: TallyAccumulator;
  source: OpenSource;
  proof: RunProof;
}

/** Describes a piece that was scored, beside its output. @throws SluiceError output_* | model_invalid */
export async function describePiece(set: CommitSet, piece: ScoredPiece): Promise<void> {
  const { shard, input, counts, findings, source, output, proof } = piece;
  const { rejected } = counts;
  const { details: _, ...found } = findings.save();
  const seen = await proof.seen();
  const stored = ({ name, stored }: { name: string; stored: Digest }): StoredFile => ({ name, ...stored });
  await describePart(set, output.name, {
    kind: 'sluice-part',
    plan: shard.plan.sha256,
    shard: shard.index,
    file: input.planned!.piece.file,
    ...found,
    output: stored({ ...seen.output, name: path.basename(output.name) }),
    rejects: rejected === 0 ? null : seen.list && stored(seen.list),
    text_bytes: source.textBytes?.() ?? null,
    made_by: madeBy(piece),
    content: seen.input.content,
    blocks: seen.blocks.map(entryOf),
  });
}

function madeBy({ spec, model, input, output, evaluator }: ScoredPiece): MadeBy {
  const { source: _, ...options } = optionsOf(spec, input, output);
  return { model: modelOf(model), ...RUNTIME, evaluator, options: JSON.parse(JSON.stringify(options)) };
}
