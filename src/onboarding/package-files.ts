// Rows of applications as files of a package: which are picked, and how they are written.
import { Random } from '../core/random.ts';
import type { Manifest } from '../model/package/manifest.ts';

/** A random sample that is the same whenever it is drawn. */
export function pickRows<R>(rows: readonly R[], n: number): R[] {
  const random = new Random();
  random.seed(1, 0);
  const left = [...rows];
  const picked: R[] = [];
  while (picked.length < n && left.length > 0)
    picked.push(...left.splice(Math.floor(random.uniform() * left.length), 1));
  return picked;
}

/** Rows as a CSV with the columns of the manifest; `fields[i]` is the field of column i. */
export function toCsv(manifest: Manifest, rows: readonly (readonly string[])[], fields: readonly number[]): string {
  const lines = [manifest.columns.map((c) => c.name), ...rows.map((r) => fields.map((f) => r[f]!))];
  return lines.map((l) => `${csvLine(l)}\n`).join('');
}

export const csvLine = (cells: readonly string[]): string => cells.map(quoted).join(',');

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
