// Rows of texts as what the model takes: samples, backgrounds and self-tests, encoded by the rules that applications are.
import { newBatch, newColumns } from '../../core/batch.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { type ColumnReader, columnReaders } from './column-reader.ts';
import { type EncodedInput, Encoder } from './encoder.ts';

export interface EncodedRows {
  inputs: readonly EncodedInput[];
  rows: number;
  /** Row → reason it was rejected. */
  rejected: ReadonlyMap<number, { column: string | null; code: string }>;
}

/**
 * Encodes rows of texts. `fields[i]` is the position of column i of the manifest in a row.
 * Arrays hold `paddedRows(rows.length)` rows; rejected rows are copies of a valid one.
 */
export function encodeRows(
  manifest: Manifest,
  rows: readonly (readonly string[])[],
  fields: readonly number[],
): EncodedRows {
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
  const encoder = new Encoder(manifest, kinds, n);
  return { inputs: rejected.size < n ? encoder.encode(batch) : encoder.inputs, rows: n, rejected };
}
