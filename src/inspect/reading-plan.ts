// Converts the matched columns of a file into declarations: renamed columns, ignored columns, or names by position.

import type { NumberNotation } from '../core/input-declaration.ts';
import { isListable, type ReadingPlan } from './score-command.ts';

/** The conclusions about a file that an answer to a question can change. */
export interface ReadingState {
  base: Pick<
    ReadingPlan,
    'file' | 'model' | 'registry' | 'output' | 'format' | 'compression' | 'delimiter' | 'encoding' | 'constants'
  >;
  /** Declared names of the fields, if the file has no header row; null: no names are declared. */
  fields: readonly string[] | null;
  /** Whether all unused columns are declared as ignored. */
  ignoresUnused: boolean;
  /** Names of the input columns; null: the file has no header row. */
  names: readonly string[] | null;
  width: number;
  /** Index of the input column by model column. */
  assigned: ReadonlyMap<string, number>;
  skip: number;
  /** See `FileSample`. */
  headerLines: number;
  isHeaderUnfit: boolean;
  cut: number;
  trailer: string | null;
  notation: NumberNotation;
  trim: boolean;
  nullValues: readonly string[];
}

/** Maximum number of ignored columns that are listed. If there are more, `*` is declared. */
const MOST_IGNORED = 40;

export function planOf(state: ReadingState): ReadingPlan {
  const { base, skip, cut, trailer, notation, trim, nullValues } = state;
  const rules = { notation, trim, nullValues, trailer };
  const { names } = state;
  if (names !== null && state.fields === null && !needsPositions(state, names)) {
    const rename = new Map<string, string>();
    for (const [column, at] of state.assigned) if (names[at] !== column) rename.set(column, names[at]!);
    return { ...base, ...rules, skip, cut, names: null, rename, ignore: ignoredNames(state, names) };
  }
  const fields = Array.from({ length: state.width }, (_, i) => {
    const declared = state.fields?.[i] ?? '';
    return declared === '' || state.assigned.has(declared) ? `unused_${i + 1}` : declared;
  });
  for (const [column, at] of state.assigned) fields[at] = column;
  const ignore = state.width > state.assigned.size ? ('*' as const) : [];
  // A header row that is replaced by declared names must be skipped.
  return {
    ...base,
    ...rules,
    skip: names === null || state.fields !== null ? skip : state.headerLines,
    cut,
    names: fields,
    rename: new Map(),
    ignore,
  };
}

/** Whether columns must be named by their position: a needed name occurs twice, or a flag cannot contain it. */
function needsPositions({ assigned, base, isHeaderUnfit }: ReadingState, names: readonly string[]): boolean {
  if (isHeaderUnfit) return true;
  if (base.format !== 'csv' && base.format !== 'tsv') return false;
  const counts = Map.groupBy(names, (name) => name);
  return [...assigned].some(([column, at]) => {
    const name = names[at]!;
    return counts.get(name)!.length > 1 || (name !== column && !isListable(name));
  });
}

function ignoredNames({ assigned, ignoresUnused }: ReadingState, names: readonly string[]): readonly string[] | '*' {
  if (ignoresUnused) return '*';
  const used = new Set(assigned.values());
  const ignored = [...new Set(names.filter((_, i) => !used.has(i)))];
  return ignored.length > MOST_IGNORED || !ignored.every(isListable) || ignored.includes('*') ? '*' : ignored;
}
