// An example application derived from a manifest: for a first call of the service, and to try a package without a self-test.
import { categoriesOf } from '../../model/package/category-files.ts';
import type { ColumnSpec, Manifest } from '../../model/package/manifest.ts';

/** A value each column takes, as native JSON types. */
export function sampleApplication(manifest: Manifest): Record<string, string | number | boolean | null> {
  return Object.fromEntries(manifest.columns.map((c) => [c.name, sampleValue(c, manifest.baseline?.columns[c.name])]));
}

/** The same as texts in the order of the columns. */
export const sampleRow = (manifest: Manifest): string[] =>
  Object.values(sampleApplication(manifest)).map((v) => (v === null ? '' : String(v)));

type ColumnBaseline = NonNullable<Manifest['baseline']>['columns'][string];

function sampleValue(c: ColumnSpec, baseline: ColumnBaseline | undefined): string | number | boolean | null {
  if (c.kind === 'boolean') return false;
  if (c.kind === 'number') {
    const edges = baseline?.edges ?? [];
    if (edges.length > 0) return edges[edges.length >> 1]!;
    if (baseline?.min !== undefined) return baseline.min;
    const range = Array.isArray(c.range) ? { min: c.range[0], max: c.range[1] } : (c.range ?? {});
    return range.min ?? range.max ?? 1;
  }
  const counts = baseline && !Array.isArray(baseline.counts) ? Object.keys(baseline.counts)[0] : undefined;
  return counts ?? categoriesOf(c)?.values[0] ?? (c.missing?.as === 'error' ? 'A' : '');
}
