// Refuses typed columns that cannot be those of the model, once for each stream and before any row is scored.
import type { ColumnKind } from '../../core/batch.ts';
import type { TypedTable, ValueKind } from '../../core/block.ts';
import { type ErrorDetail, SluiceError } from '../../core/errors.ts';
import type { DeclaredColumns } from '../../core/input-declaration.ts';
import { type ColumnReader, columnReaders } from '../../inference/encode/column-reader.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { columnsOfInput, InputNames } from '../decode/input-names.ts';
import { refuseFaults } from './header.ts';

/** A column of typed input: its name there, and what its values are. */
export interface TypedColumn {
  name: string;
  kind: ValueKind;
}

/** What a message calls the values. */
const CALLED: Readonly<Record<ValueKind, string>> = {
  number: 'numbers',
  decimal: 'decimals',
  boolean: 'booleans',
  text: 'text',
  date: 'dates',
  timestamp: 'timestamps',
  time: 'times of day',
  duration: 'durations',
  binary: 'bytes',
  null: 'nothing',
};

/** Whether values of this kind can represent those of a column without loss. */
function takes(reader: ColumnReader, kind: ValueKind): boolean {
  switch (kind) {
    case 'text':
    case 'null':
      return true;
    case 'number':
    case 'decimal':
      return reader.takesNumbers;
    case 'boolean':
      return reader.takesBooleans;
    default:
      return false;
  }
}

/** What to do about a column, by its name in the input and what the model takes. */
export type Remedy = (name: string, wanted: ColumnKind) => string;

/** Data frames: where the file they come from is read. */
const READ_AS_TEXT: Remedy = (name, wanted) =>
  wanted === 'number'
    ? 'send it as numbers'
    : `read it as text: schema_overrides={'${name}': pl.String} in polars, dtype={'${name}': str} in pandas`;

/**
 * The columns of the model whose type in the input cannot be theirs; empty: none. A number that is read as a category may have lost
 * something on the way, as 0230 read as a number is 230, and the score of another category looks as good as that of the right one.
 */
function mistypedColumns(
  columns: readonly TypedColumn[],
  manifest: Manifest,
  declared: DeclaredColumns | null | undefined,
  remedy: Remedy,
): ErrorDetail[] {
  const names = new InputNames(declared ?? undefined);
  const kinds = new Map(columns.map(({ name, kind }) => [name, kind]));
  return columnsOfInput(columnReaders(manifest), names).flatMap((reader): ErrorDetail[] => {
    const name = names.inInput(reader.name);
    const kind = kinds.get(name);
    if (kind === undefined || takes(reader, kind)) return [];
    const wanted = reader.kind === 'category' || reader.kind === 'text' ? 'text' : `a ${reader.kind}`;
    const message = `column ${reader.name} contains ${CALLED[kind]}, but the model takes ${wanted}; ${remedy(name, reader.kind)}`;
    return [{ code: 'bad_type', column: reader.name, message }];
  });
}

/** @throws SluiceError bad_type: every column that is at fault is named */
export function refuseMistyped(
  columns: readonly TypedColumn[],
  manifest: Manifest,
  declared?: DeclaredColumns | null,
  remedy = READ_AS_TEXT,
): void {
  refuseFaults('bad_type', mistypedColumns(columns, manifest, declared, remedy));
}

/** A table has its columns in every row: a missing one is misspelled, as in a header row. */
function refuseAbsent(passthrough: readonly string[], isThere: (name: string) => boolean): void {
  const details = passthrough.flatMap((name, i): ErrorDetail[] => {
    if (isThere(name)) return [];
    return [{ code: 'missing_column', message: `passthrough column ${i + 1} is not in the input` }];
  });
  refuseFaults('header_mismatch', details);
}

/**
 * Fits a table to the model before its first row is read: refuses columns of other types, and says which of them the model reads. A
 * decimal of a number column that is passed through, too, keeps its digits: the model reads the text of it.
 * @throws SluiceError bad_type | header_mismatch: a passthrough column is missing
 */
export function fitTable(
  table: TypedTable,
  manifest: Manifest,
  passthrough: readonly string[] | '*',
  declared?: DeclaredColumns | null,
): void {
  const { kinds } = table;
  refuseMistyped(
    table.names.map((name, i) => ({ name, kind: kinds[i]! })),
    manifest,
    declared,
  );
  const names = new InputNames(declared ?? undefined);
  refuseAbsent(passthrough === '*' ? [] : passthrough, (name) => table.names.includes(names.inInput(name)));
  const kindOf = (name: string) => kinds[table.names.indexOf(names.inInput(name))];
  const isExact = ({ name, kind }: Manifest['columns'][number]): boolean =>
    kind === 'number' && kindOf(name) === 'decimal' && passthrough !== '*' && passthrough.includes(name);
  table.readForModel(new Set(manifest.columns.filter((c) => !isExact(c)).map(({ name }) => names.inInput(name))));
}

/**
 * Refuses a table whose columns differ from those of the model: every one of its rows would be rejected.
 * @throws SluiceError outcome_present | header_mismatch: every column that is missing, and the place of every other one
 */
export function refuseOtherColumns(
  { names }: TypedTable,
  { columns, outcome }: Manifest,
  passthrough: readonly string[] | '*',
): void {
  if (outcome !== undefined && names.includes(outcome)) {
    throw new SluiceError('outcome_present', 'the input has the outcome column');
  }
  const known = new Set(columns.map(({ name }) => name));
  const missing = columns.flatMap(({ name }): ErrorDetail[] =>
    names.includes(name) ? [] : [{ code: 'missing_column', column: name, message: `the column ${name} is missing` }],
  );
  const other = names.flatMap((name, i): ErrorDetail[] => {
    if (names.indexOf(name) < i) return [{ code: 'duplicate_column', message: `column ${i + 1} occurs twice` }];
    if (known.has(name) || passthrough === '*' || passthrough.includes(name)) return [];
    return [{ code: 'unexpected_column', message: `column ${i + 1} is not a column of the model` }];
  });
  refuseFaults('header_mismatch', [...missing, ...other]);
}

/** The columns of a table that are outside the model, as the output calls them: what `passthrough: *` means. */
export function columnsBeside(
  columns: readonly string[],
  { columns: model, outcome }: Manifest,
  declared?: DeclaredColumns | null,
): string[] {
  const names = new InputNames(declared ?? undefined);
  const own = new Set(model.map(({ name }) => name));
  const meant = columns.map((name) => names.meaning(name, own));
  return [...new Set(meant.filter((name) => name !== null && !own.has(name) && name !== outcome))] as string[];
}
