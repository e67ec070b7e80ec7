// Decodes and encodes sampled records in the same way as a run, but with the reference decoder and without evaluating the model.
import { MISSING, newBatch, newColumns } from '../core/batch.ts';
import type { TypedTable } from '../core/block.ts';
import { asSluiceError, type SluiceError } from '../core/errors.ts';
import {
  HeaderTaker,
  type InputFormat,
  type StreamOptions,
  streamSpec,
  withNamedColumns,
} from '../engine/stream-spec.ts';
import { createDecoder } from '../formats/choose-decoder.ts';
import { rejectEmptyRows } from '../formats/decode/decoder.ts';
import { columnReaders } from '../inference/encode/column-reader.ts';
import { Encoder } from '../inference/encode/encoder.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { RejectedRow } from './inspection.ts';
import type { SampledRecords } from './sample-records.ts';

const BATCH_ROWS = 512;
const MOST_LISTED = 5;
/** Maximum number of unseen texts that are remembered per column. */
const MOST_UNSEEN = 1000;

export interface TrialColumn {
  missing: number;
  unseen: number;
  rejected: number;
  /** Distinct texts of unseen categories. */
  unseenTexts: Set<string>;
}

export interface Trial {
  rows: number;
  rejected: number;
  first: RejectedRow[];
  columns: ReadonlyMap<string, TrialColumn>;
  /** The error that would end the run before its first row; null: there is none. */
  error: SluiceError | null;
}

/** Decodes a sample. `typed`: the columnar table from which the records come, if any. */
export function trialDecode(
  model: ModelPackage,
  sample: SampledRecords,
  input: InputFormat,
  typed?: TypedTable,
): Trial {
  const columns = new Map(model.manifest.columns.map(({ name }): [string, TrialColumn] => [name, emptyColumn()]));
  const trial: Trial = { rows: sample.count, rejected: 0, first: [], columns, error: null };
  try {
    decode(model, sample, input, typed, trial, columns);
    return trial;
  } catch (error) {
    return { ...trial, error: asSluiceError(error, 'internal_error') };
  }
}

const emptyColumn = (): TrialColumn => ({ missing: 0, unseen: 0, rejected: 0, unseenTexts: new Set() });

function decode(
  model: ModelPackage,
  sample: SampledRecords,
  input: InputFormat,
  typed: TypedTable | undefined,
  trial: Trial,
  columns: Map<string, TrialColumn>,
): void {
  const { manifest } = model;
  const options: StreamOptions = withNamedColumns({
    model,
    chunks: { async *[Symbol.asyncIterator]() {}, ...(typed ? { columns: typed } : {}) },
    input,
    output: { format: 'csv', delimiter: ',' },
    passthrough: [],
  });
  const taker = new HeaderTaker(options);
  if (sample.header) taker.take(sample.header);
  const spec = streamSpec(options, taker.fitted);
  const readers = columnReaders(manifest, spec.input.texts ?? null, spec.input.decimals ?? []);
  const decoder = createDecoder(readers, spec.input, 'reference');
  const kinds = readers.map(({ kind }) => kind);
  const batch = newBatch(newColumns(kinds, BATCH_ROWS), BATCH_ROWS);
  const encoder = new Encoder(manifest, kinds, BATCH_ROWS);
  for (let from = 0; from < sample.count; from += BATCH_ROWS) {
    const to = Math.min(sample.count, from + BATCH_ROWS);
    decoder.decode(sample, from, to, batch);
    rejectEmptyRows(batch);
    if (batch.rejections.length < batch.rows) encoder.encode(batch);
    for (const { index, code, column, message } of batch.rejections) {
      trial.rejected++;
      const own = column === null ? undefined : columns.get(column);
      if (own) own.rejected++;
      if (trial.first.length < MOST_LISTED) trial.first.push({ row: from + index + 1, column, code, message });
    }
    for (const [c, data] of batch.columns.entries()) {
      const own = columns.get(readers[c]!.name)!;
      for (let r = 0; r < batch.rows; r++) {
        if (batch.rejected[r] === 1) continue;
        const { kind, numbers, codes, texts } = data;
        const isMissing =
          kind === 'number' ? Number.isNaN(numbers[r]) : kind === 'text' ? !texts[r] : codes[r] === MISSING;
        if (isMissing) own.missing++;
      }
      for (const r of data.unseenRows) {
        if (batch.rejected[r] === 1) continue;
        own.unseen++;
        const text = data.texts[r];
        if (typeof text === 'string' && own.unseenTexts.size < MOST_UNSEEN) own.unseenTexts.add(text);
      }
    }
  }
}
