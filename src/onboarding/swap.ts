// One way in which a registration may be wrong: what would be otherwise, in words and as a manifest.
import type { ColumnSpec, Manifest } from '../model/package/manifest.ts';

export interface Swap {
  /** What it is about; of several swaps about one thing, the best is told. */
  readonly subject: string;
  /** What would be otherwise: "with a and b exchanged". */
  readonly words: string;
  /** What the given registration has there instead. */
  readonly given: string;
  /** How to register it so. */
  readonly mend: string;
  /** true: the user said what is given; false: it was assumed. */
  readonly declared: boolean;
  /** true: one of very many that are tried, and hardly ever what went wrong. */
  readonly rare?: true;
  /** The manifest with what would be otherwise; columns hold the same values. */
  readonly apply: (manifest: Manifest) => Manifest;
}

/** A manifest with some columns changed. */
export function withColumns(manifest: Manifest, change: (spec: ColumnSpec) => ColumnSpec): Manifest {
  return { ...manifest, columns: manifest.columns.map(change) };
}

/** `a, b and 3 more`. */
export function someNames(names: readonly string[], most = 4): string {
  if (names.length <= most + 1) return names.join(', ');
  return `${names.slice(0, most).join(', ')} and ${names.length - most} more`;
}
