// Finds the columns of a file without a header row: they have the order of the model, if the values of every field agree with this order.

import type { TextRules } from '../core/input-declaration.ts';
import { withoutBlanks } from '../core/input-declaration.ts';
import {
  type ColumnReader,
  isMissingWord,
  LOCAL_NOTATIONS,
  numberIn,
  PLAIN_NOTATION,
} from '../inference/encode/column-reader.ts';
import { isCompatible } from './column-values.ts';

/** Minimum fraction of the texts of a field that must be numbers in some notation. */
const NUMERIC = 0.95;
const NOTATIONS = [PLAIN_NOTATION, ...LOCAL_NOTATIONS];
const ANY_RULES: TextRules = { ...PLAIN_NOTATION, trim: true, nullValues: [] };

/**
 * The indexes of the field that can be the first model column, such that all model columns are compatible with their
 * fields. If there are several, the file does not decide. `cells[i]`: the texts of field i.
 */
export function compatibleOffsets(readers: readonly ColumnReader[], cells: readonly (readonly unknown[])[]): number[] {
  const spare = cells.length - readers.length;
  const offsets: number[] = [];
  for (let offset = 0; offset <= spare; offset++) {
    if (readers.every((reader, i) => fits(reader, cells[i + offset]!))) offsets.push(offset);
  }
  return offsets;
}

/** The first model column that does not fit the field at its position; null: all columns fit. */
export const firstMisfit = (
  readers: readonly ColumnReader[],
  cells: readonly (readonly unknown[])[],
): ColumnReader | null => readers.find((reader, i) => !fits(reader, cells[i]!)) ?? null;

function fits(reader: ColumnReader, cells: readonly unknown[]): boolean {
  const texts = cells.flatMap((cell) => {
    const text = typeof cell === 'string' ? withoutBlanks(cell) : '';
    return text === '' || (isMissingWord(text) && !reader.codes.has(text)) ? [] : [text];
  });
  if (reader.kind !== 'number') return isCompatible(reader, texts, ANY_RULES) ?? true;
  const numbers = texts.filter((text) => NOTATIONS.some((notation) => !Number.isNaN(numberIn(text, notation)))).length;
  return numbers >= NUMERIC * texts.length;
}
