// What a value means for a column, whatever format, library or database it comes from. This is the whole rule; it shares nothing with `src`.
import {
  type Cell,
  type Column,
  type Declared,
  Fault,
  featureOf,
  knownValues,
  meansMissing,
  readMissing,
  readNumber,
  readText,
  takesBooleans,
  takesNumbers,
} from '../oracle.ts';

/** A value: null, the exact text of a number, a boolean, a text, or anything else as it is passed through. */
export type Value = null | { n: string } | { b: boolean } | { t: string } | { o: unknown };
/** Kinds of types; `mixed`: each value has its own. */
export type Kind = 'number' | 'decimal' | 'boolean' | 'text' | 'null' | 'mixed' | 'date' | 'timestamp' | 'time' | 'duration' | 'binary' | 'nested'; // biome-ignore format: one line

/** What has to come of a value: what the model gets, or the code that its row is rejected with. */
export type Meaning = { feature: number | string } | { code: string };
export interface Setting {
  declared: Declared;
  numbers: 'refuse' | 'accept';
}

/** Whether a column takes a type. A type that it does not take is refused before the first row where the format has types. */
export function takesKind(column: Column, kind: Kind, { numbers }: Setting): boolean {
  if (kind === 'text' || kind === 'null' || kind === 'mixed') return true;
  if (kind === 'number' || kind === 'decimal') return takesNumbers(column, { numbers } as { numbers?: 'accept' });
  return kind === 'boolean' && takesBooleans(column);
}

function cellOf(value: Value, column: Column, setting: Setting): Cell {
  const { declared } = setting;
  const manifest = { numbers: setting.numbers } as { numbers?: 'accept' };
  if (value === null) return readMissing(column);
  if ('t' in value) return readText(value.t, column, manifest, declared);
  if ('o' in value) return new Fault('bad_type');
  if ('b' in value) {
    if (!takesBooleans(column)) return new Fault('bad_type');
    // A boolean is itself, whatever words a package or an input has for it.
    return column.kind === 'boolean' ? Number(value.b) : readText(String(value.b), column, manifest, {});
  }
  const number = Number(value.n);
  if (Number.isNaN(number)) return readMissing(column);
  // Neither JSON nor CSV has an infinity: it is the text that stands for it.
  if (!Number.isFinite(number)) return readText(value.n, column, manifest, declared);
  if (!takesNumbers(column, manifest)) return new Fault('bad_type');
  if (meansMissing(number, column, declared)) return readMissing(column);
  if (column.kind === 'number') return readNumber(number, column);
  // As a category or a text, a number is its plain text; a whole number that a double may have rounded has none.
  if (Number.isInteger(number) && !Number.isSafeInteger(number)) return new Fault('bad_type');
  const text = String(number);
  if (column.kind === 'text') return text;
  if (knownValues(column).includes(text)) return readText(text, column, manifest, {});
  return readText(text, { ...column, missing: { ...column.missing, values: [] } }, manifest, {});
}

export function meaningOf(value: Value, column: Column, setting: Setting): Meaning {
  const cell = cellOf(value, column, setting);
  return cell instanceof Fault ? { code: cell.code } : { feature: featureOf(cell, column) };
}
