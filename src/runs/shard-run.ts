// A shard as a run of files: its pieces are the inputs, and each output has its description beside it.
import type { RunCounts } from '../engine/counts.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { Endpoint, OpenSource } from './endpoints.ts';
import { type DigestedSet, type DriftTotal, describePart, madeBy } from './shard-part.ts';
import { inputsOfShard, type PlannedInput, type ShardSpec } from './shard-plan.ts';
import type { RunSpec } from './spec.ts';

/** One input a piece, in the order of the plan. @throws SluiceError usage: there is no such shard */
export const shardInputs = ({ plan, index }: ShardSpec): Endpoint[] =>
  inputsOfShard(plan, index).map((planned) => {
    const { name, format, compression, delimiter } = planned.file;
    return { name, format, compression, delimiter, planned };
  });

export interface ScoredPiece {
  spec: RunSpec;
  shard: ShardSpec;
  planned: PlannedInput;
  model: ModelPackage;
  counts: Readonly<RunCounts>;
  drift: DriftTotal;
  source: OpenSource;
  output: string;
  /** null: there is none. */
  list: string | null;
}

/** Describes a piece that was scored, beside its output. @throws SluiceError output_* | model_invalid */
export async function describePiece(set: DigestedSet, piece: ScoredPiece): Promise<void> {
  const { spec, shard, planned, model, counts, drift, source, output, list } = piece;
  const { rows, scored, rejected, rejectedByCode, interpreted, inexact } = counts;
  await describePart(set, output, {
    kind: 'sluice-part',
    plan: shard.plan.sha256,
    shard: shard.index,
    file: planned.piece.file,
    ...{ rows, scored, rejected, rejectedByCode, interpreted, inexact },
    output: set.storedAs(output)!,
    rejects: list === null || rejected === 0 ? null : set.storedAs(list),
    text_bytes: source.textBytes?.() ?? null,
    made_by: madeBy(spec, model),
    drift: drift.total,
  });
}
