// Checks whether the values of an input column can be the values of a model column, given the declarations found so far.
import { type TextRules, withoutBlanks } from '../core/input-declaration.ts';
import { type ColumnReader, numberIn } from '../inference/encode/column-reader.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { trainingFit, type ValueFit } from './training-fit.ts';

/** Minimum fraction of the values that a number or boolean column must accept, so that they can be its values. */
const COMPATIBLE = 0.95;
/** Minimum fraction of known categories. It is lower, because categories may be new. */
const KNOWN = 0.8;
/** PSI below which a distribution is similar to the training data. `DIFFERENT`: PSI from which it differs clearly. */
export const SIMILAR = 0.5;
export const DIFFERENT = 1;

/** Whether texts can be values of the column; null: the column accepts any text. */
export function isCompatible(reader: ColumnReader, cells: readonly unknown[], rules: TextRules): boolean | null {
  if (reader.kind === 'text') return null;
  const values = presentValues(reader, cells, rules);
  if (values.length === 0) return true;
  const read = values.filter((value) => valueIn(reader, value, rules) !== null).length;
  return read >= (reader.kind === 'category' ? KNOWN : COMPATIBLE) * values.length;
}

/** How well the cells fit the training data of the column. */
export function fitOfCells(
  manifest: Manifest,
  reader: ColumnReader,
  cells: readonly unknown[],
  rules: TextRules,
): ValueFit {
  const values = presentValues(reader, cells, rules).flatMap((value) => {
    const found = valueIn(reader, value, rules);
    return found === null ? [] : [found];
  });
  return trainingFit(manifest, reader, values);
}

function presentValues(reader: ColumnReader, cells: readonly unknown[], { trim, nullValues }: TextRules): unknown[] {
  const missing = new Set([...reader.missingTexts, ...nullValues]);
  return cells
    .map((cell) => (trim && typeof cell === 'string' ? withoutBlanks(cell) : cell))
    .filter((cell) => cell !== undefined && cell !== null && !(typeof cell === 'string' && missing.has(cell)));
}

/** The number, code or category of a value; null: the column does not accept it. */
function valueIn(reader: ColumnReader, value: unknown, rules: TextRules): number | string | null {
  if (reader.kind === 'number') {
    const number = typeof value === 'number' ? value : typeof value === 'string' ? numberIn(value, rules) : Number.NaN;
    return Number.isNaN(number) ? null : number;
  }
  const text = typeof value === 'string' ? value : String(value);
  if (reader.kind === 'boolean') return reader.codes.get(text) ?? null;
  return reader.kind === 'text' || reader.codes.has(text) ? text : null;
}

/** Pairs of number or boolean columns whose values fit the training data better if the two columns are swapped. */
export function swappedPairs(
  manifest: Manifest,
  columns: readonly { reader: ColumnReader; cells: readonly unknown[] }[],
  rules: TextRules,
): [string, string][] {
  const distanceOf = (a: number, b: number) => fitOfCells(manifest, columns[a]!.reader, columns[b]!.cells, rules).psi;
  const own = columns.map((_, i) => distanceOf(i, i));
  const found: [string, string][] = [];
  for (const [i, first] of columns.entries()) {
    for (let j = i + 1; j < columns.length; j++) {
      const second = columns[j]!;
      // At least one column of a swapped pair does not fit. This condition also limits the number of comparisons.
      if (first.reader.kind !== second.reader.kind || own[i] === null || own[j] === null) continue;
      if (own[i]! < SIMILAR && own[j]! < SIMILAR) continue;
      const [there, back] = [distanceOf(i, j), distanceOf(j, i)];
      if (there === null || back === null || own[i]! + own[j]! - there - back < DIFFERENT) continue;
      found.push([first.reader.name, second.reader.name]);
    }
  }
  return found;
}
