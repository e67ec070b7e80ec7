// What is said of a part, beside it: of which plan and shard it is, what made it, what is in it. Merging believes nothing else.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../core/errors.ts';
import { VERSION } from '../core/version.ts';
import type { DriftCounts } from '../drift/drift-counts.ts';
import type { RunCounts, Tally } from '../engine/counts.ts';
import type { ByteSink } from '../io/sink/byte-sink.ts';
import { CommitSet } from '../io/sink/commit-set.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { ShardPlan } from './shard-plan.ts';
import type { RunSpec } from './spec.ts';

const ENDING = '.part.json';

/** A file as it is stored, beside the description. */
export interface StoredFile {
  name: string;
  bytes: number;
  sha256: string;
}

export interface PartDescription
  extends Pick<RunCounts, 'rows' | 'scored' | 'rejected' | 'rejectedByCode' | 'interpreted' | 'inexact'> {
  kind: 'sluice-part';
  /** Name of the plan, and the piece of it. */
  plan: string;
  shard: number;
  file: number;
  output: StoredFile;
  /** null: no row was rejected. */
  rejects: StoredFile | null;
  /** Of Parquet: bytes of the lines that it is read as. */
  text_bytes: number | null;
  made_by: MadeBy;
  drift: { cells: number[]; numbers: number[] } | null;
}

/** What has to be the same for all parts: everything that can change a byte of the output. */
export interface MadeBy {
  model: string;
  package: string;
  sluice: string;
  options: Record<string, unknown>;
}

export function madeBy(spec: RunSpec, model: ModelPackage): MadeBy {
  const { workers: _, batch_rows: _rows, batch_wait_ms: _ms, evaluator: _evaluator, ...score } = spec.score;
  const { sink, on_invalid } = spec;
  const { format, delimiter, compression } = sink.type === 'file' ? sink : {};
  const options = { ...score, output: { format, delimiter, compression }, on_invalid };
  return { model: model.ref, package: model.sha256, sluice: VERSION, options: JSON.parse(JSON.stringify(options)) };
}

/** Drift counts of parts of an answer, added up. */
export class DriftTotal {
  #cells: number[] | null = null;
  readonly #numbers = new Map<number, number>();

  add({ drift }: Pick<Tally, 'drift'>): void {
    if (!drift) return;
    this.#cells ??= Array.from(drift.cells, () => 0);
    for (const [i, n] of drift.cells.entries()) this.#cells[i]! += n;
    for (let i = 0; i < drift.numbers.length; i += 2) {
      const place = drift.numbers[i]!;
      this.#numbers.set(place, (this.#numbers.get(place) ?? 0) + drift.numbers[i + 1]!);
    }
  }

  /** As plain data; null: nothing was measured. */
  get total(): PartDescription['drift'] {
    if (!this.#cells) return null;
    return { cells: this.#cells, numbers: [...this.#numbers].sort(([a], [b]) => a - b).flat() };
  }
}

export const driftCountsOf = ({ cells, numbers }: NonNullable<PartDescription['drift']>): DriftCounts => ({
  cells: Uint32Array.from(cells),
  numbers: Uint32Array.from(numbers),
});

/** A set that knows the hash of what it was given, as it is stored. */
export class DigestedSet extends CommitSet {
  readonly #stored = new Map<string, () => StoredFile>();

  override async open(file: string, options: { beside?: boolean } = {}): Promise<ByteSink> {
    const sink = await super.open(file, options);
    const hash = createHash('sha256');
    this.#stored.set(file, () => ({
      name: path.basename(file),
      bytes: sink.bytesWritten,
      sha256: hash.copy().digest('hex'),
    }));
    return {
      revocable: sink.revocable,
      get bytesWritten() {
        return sink.bytesWritten;
      },
      write: (bytes) => {
        hash.update(bytes);
        return sink.write(bytes);
      },
      commit: () => sink.commit(),
      abort: () => sink.abort(),
    };
  }

  /** null: nothing was opened under this name. */
  storedAs(file: string): StoredFile | null {
    return this.#stored.get(file)?.() ?? null;
  }
}

/** Adds the description of an output to its set. @throws SluiceError output_* */
export async function describePart(set: CommitSet, output: string, part: PartDescription): Promise<void> {
  const sink = await set.open(`${output}${ENDING}`, { beside: true });
  await sink.write(Buffer.from(`${JSON.stringify({ ...part, sha256: digestOfPart(part) })}\n`));
  await sink.commit();
}

const digestOfPart = (part: PartDescription): string => createHash('sha256').update(JSON.stringify(part)).digest('hex');

/** A part with its folder. */
export interface FoundPart extends PartDescription {
  folder: string;
}

/**
 * The descriptions of files, of which lists and descriptions themselves are left out.
 * @throws SluiceError parts_mismatch: a part without a description, one that is damaged, or of another plan
 */
export async function partsOf(files: readonly string[], plan: ShardPlan): Promise<FoundPart[]> {
  const parts: FoundPart[] = [];
  const outputs = files.filter((name) => !name.endsWith(ENDING) && !/\.(rejects\.csv|manifest\.json)$/.test(name));
  for (const file of outputs) {
    const wrong = (why: string, cause?: unknown) => new SluiceError('parts_mismatch', `${file}${why}`, { cause });
    let said: PartDescription & { sha256: string };
    try {
      said = JSON.parse(await readFile(`${file}${ENDING}`, 'utf8'));
    } catch (cause) {
      throw wrong(
        ` is no part of a run in shards: ${path.basename(file)}${ENDING} is not beside it, or damaged`,
        cause,
      );
    }
    const { sha256, ...part } = said;
    if (part.kind !== 'sluice-part' || sha256 !== digestOfPart(part)) throw wrong(`${ENDING} was changed`);
    if (part.plan !== plan.sha256) throw wrong(' is a part of another plan');
    if (part.output.name !== path.basename(file)) throw wrong(' was given another name since it was made');
    parts.push({ ...part, folder: path.dirname(file) });
  }
  return parts;
}
