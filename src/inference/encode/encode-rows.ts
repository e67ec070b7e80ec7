// Rows of texts as what the model takes: samples, backgrounds and self-tests, encoded by the rules that applications are.
import { type ColumnBatch, type ColumnKind, newBatch, newColumns } from '../../core/batch.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { type ColumnReader, columnReaders } from './column-reader.ts';
import { type EncodedInput, Encoder } from './encoder.ts';

/** Row → reason it was rejected. */
type Rejected = ReadonlyMap<number, { column: string | null; code: string }>;

export interface EncodedRows {
  inputs: readonly EncodedInput[];
  rows: number;
  rejected: Rejected;
}

/** Rows of texts as columns, before they become what a model takes. */
export interface ReadRows {
  readonly batch: ColumnBatch;
  readonly kinds: readonly ColumnKind[];
  readonly rejected: Rejected;
}

/** Reads rows of texts. `fields[i]` is the position of column i of the manifest in a row. */
export function readRows(
  manifest: Manifest,
  rows: readonly (readonly string[])[],
  fields: readonly number[],
): ReadRows {
  const readers: ColumnReader[] = columnReaders(manifest);
  const n = rows.length;
  const kinds = readers.map((r) => r.kind);
  const batch = newBatch(newColumns(kinds, n), n);
  batch.rows = n;
  const rejected = new Map<number, { column: string | null; code: string }>();
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < readers.length; j++) {
      const fault = readers[j]!.readText(rows[i]![fields[j]!] ?? '', batch.columns[j]!, i);
      if (!fault || rejected.has(i)) continue;
      rejected.set(i, { column: readers[j]!.name, code: fault.code });
      batch.rejected[i] = 1;
      batch.rejections.push({ index: i, code: fault.code, column: readers[j]!.name, message: fault.message });
    }
  }
  return { batch, kinds, rejected };
}

/**
 * Encodes rows that were read by a manifest whose columns hold the same values: codes, replacements and places may differ.
 * Arrays hold `paddedRows(rows)` rows; rejected rows are copies of a valid one.
 */
export function encodeRead(manifest: Manifest, { batch, kinds, rejected }: ReadRows): readonly EncodedInput[] {
  const encoder = new Encoder(manifest, kinds, batch.rows);
  return rejected.size < batch.rows ? encoder.encode(batch) : encoder.inputs;
}

/** Reads and encodes rows of texts, as `readRows` and `encodeRead` do. */
export function encodeRows(
  manifest: Manifest,
  rows: readonly (readonly string[])[],
  fields: readonly number[],
): EncodedRows {
  const read = readRows(manifest, rows, fields);
  return { inputs: encodeRead(manifest, read), rows: rows.length, rejected: read.rejected };
}
