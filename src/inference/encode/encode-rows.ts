// Encodes rows of texts (samples, backgrounds, self-tests) by the same rules as applications, and derives an example
// row.

import { type ColumnBatch, type ColumnKind, newBatch, newColumns } from '../../core/batch.ts';
import { ownValue } from '../../core/own-keys.ts';
import { categoriesOf } from '../../model/package/category-files.ts';
import type { ColumnSpec, Manifest } from '../../model/package/manifest.ts';
import { type ColumnReader, columnReaders } from './column-reader.ts';
import { type EncodedInput, Encoder } from './encoder.ts';

/** Maps a rejected row to the reason for its rejection. */
type Rejected = ReadonlyMap<number, { column: string | null; code: string }>;

export interface EncodedRows {
  inputs: readonly EncodedInput[];
  rows: number;
  rejected: Rejected;
}

/** Rows of texts as columns, before encoding for a model. */
export interface ReadRows {
  readonly batch: ColumnBatch;
  readonly kinds: readonly ColumnKind[];
  readonly rejected: Rejected;
}

/** Reads rows of texts. `fields[i]`: position in a row of the manifest's column i. */
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
 * Encodes rows for a manifest. The rows may have been read with another manifest whose columns have the same values;
 * codes, replacements and positions may differ. The arrays have `paddedRows(rows)` rows. Rejected rows become copies of
 * a valid row.
 */
export function encodeRead(manifest: Manifest, { batch, kinds, rejected }: ReadRows): readonly EncodedInput[] {
  const encoder = new Encoder(manifest, kinds, batch.rows);
  return rejected.size < batch.rows ? encoder.encode(batch) : encoder.inputs;
}

/** Reads and encodes rows of texts; see `readRows` and `encodeRead`. */
export function encodeRows(
  manifest: Manifest,
  rows: readonly (readonly string[])[],
  fields: readonly number[],
): EncodedRows {
  const read = readRows(manifest, rows, fields);
  return { inputs: encodeRead(manifest, read), rows: rows.length, rejected: read.rejected };
}

// The example row serves two purposes: the first call of a service, and the trial of a package without a self-test.

/** An application with a valid value for each column, as native JSON types. */
export function sampleApplication(manifest: Manifest): Record<string, string | number | boolean | null> {
  return Object.fromEntries(
    manifest.columns.map((c) => [c.name, sampleValue(c, ownValue(manifest.baseline?.columns, c.name))]),
  );
}

/** The example application as texts in column order; a boolean is a word that its column accepts. */
export function sampleRow(manifest: Manifest): string[] {
  const values = sampleApplication(manifest);
  return manifest.columns.map(({ name, false_values }) => {
    const value = values[name] ?? '';
    return value === false ? (false_values?.[0] ?? 'false') : String(value);
  });
}

type ColumnBaseline = NonNullable<Manifest['baseline']>['columns'][string];

function sampleValue(c: ColumnSpec, baseline: ColumnBaseline | undefined): string | number | boolean | null {
  if (c.kind === 'boolean') return false;
  if (c.kind === 'number') {
    const edges = baseline?.edges ?? [];
    const range = Array.isArray(c.range) ? { min: c.range[0], max: c.range[1] } : (c.range ?? {});
    if (edges.length > 0) return readable(edges[edges.length >> 1]!, range);
    if (baseline?.min !== undefined) return baseline.min;
    return range.min ?? range.max ?? 1;
  }
  const counts = baseline && !Array.isArray(baseline.counts) ? Object.keys(baseline.counts)[0] : undefined;
  return counts ?? categoriesOf(c)?.values[0] ?? (c.missing?.as === 'error' ? 'A' : '');
}

/** Significant digits of example values below 100; larger values have two decimals. */
const DIGITS = 4;

/**
 * Rounds a quantile such as 3629.5299999999997, unless the result would be outside the range of its column. Whole
 * numbers are not changed.
 */
function readable(quantile: number, { min = -Infinity, max = Infinity }: { min?: number; max?: number }): number {
  const rounded = Number(Math.abs(quantile) < 100 ? quantile.toPrecision(DIGITS) : quantile.toFixed(2));
  return Number.isInteger(quantile) || rounded < min || rounded > max ? quantile : rounded;
}
