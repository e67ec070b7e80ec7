// Rejects typed columns that do not fit the model, once per stream and before the first row is scored.
import type { ColumnKind } from '../../core/batch.ts';
import type { TypedTable, ValueKind } from '../../core/block.ts';
import { type ErrorDetail, SluiceError } from '../../core/errors.ts';
import type { DeclaredColumns } from '../../core/input-declaration.ts';
import { type ColumnReader, columnReaders } from '../../inference/encode/column-reader.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { columnsOfInput, InputNames } from '../decode/input-names.ts';
import { missingPassthrough, namedAtTerminal, refuseFaults } from './header.ts';

/** A column of typed input: its name in the input and the kind of its values. */
export interface TypedColumn {
  name: string;
  kind: ValueKind;
}

/** Names of value kinds in messages. */
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
  nested: 'nested values',
  null: 'nothing',
};

/** Whether a column accepts values of this kind without loss. */
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

/** Describes how to correct a column, given its input name and the kind of values that the model needs. */
export type Remedy = (name: string, wanted: ColumnKind) => string;

/** For data frames: correct the type where the original file is read. */
const READ_AS_TEXT: Remedy = (name, wanted) =>
  wanted === 'number'
    ? 'send it as numbers'
    : `read it as text: schema_overrides={'${name}': pl.String} in polars, dtype={'${name}': str} in pandas`;

/**
 * Model columns whose input type does not fit. Codes must not arrive as numbers, because leading zeros are lost: 0230
 * becomes 230, which may be another category with an equally plausible score.
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

/** @throws SluiceError bad_type, which lists every column with an unsuitable type */
export function refuseMistyped(
  columns: readonly TypedColumn[],
  manifest: Manifest,
  declared?: DeclaredColumns | null,
  remedy = READ_AS_TEXT,
): void {
  refuseFaults('bad_type', mistypedColumns(columns, manifest, declared, remedy));
}

/**
 * Rejects missing passthrough columns. All rows of a table have the same columns, so a missing column is misspelled, as
 * in a header row.
 */
function refuseAbsent(passthrough: readonly string[], isThere: (name: string) => boolean): void {
  const details = passthrough.flatMap((name, i): ErrorDetail[] => {
    if (isThere(name)) return [];
    return [missingPassthrough(name, i, 'is not in the input')];
  });
  refuseFaults('header_mismatch', details);
}

/**
 * Prepares a table for the model before its first row is read. Rejects columns with an unsuitable type, and informs the
 * table which columns the model reads. A decimal column that the model reads as numbers and that is also passed through
 * stays a string, to keep its digits. Returns the model columns with such decimals.
 * @throws SluiceError bad_type | header_mismatch (missing passthrough column)
 */
export function fitTable(
  table: TypedTable,
  manifest: Manifest,
  passthrough: readonly string[] | '*',
  declared?: DeclaredColumns | null,
): string[] {
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
  const used = new Set([
    ...manifest.columns.map(({ name }) => name),
    ...(passthrough === '*' ? table.names : passthrough),
  ]);
  table.readForModel(
    new Set(manifest.columns.filter((c) => !isExact(c)).map(({ name }) => names.inInput(name))),
    new Set(table.names.filter((name) => names.meaning(name, used) === null)),
  );
  return manifest.columns.filter(isExact).map(({ name }) => name);
}

/**
 * Rejects a table whose columns differ from those of the model, because every row would be rejected.
 * @throws SluiceError outcome_present | header_mismatch, which lists every missing column and the position of every
 * unknown column
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
    const what = 'is not a column of the model';
    return [namedAtTerminal({ code: 'unexpected_column', message: `column ${i + 1} ${what}` }, name, what)];
  });
  refuseFaults('header_mismatch', [...missing, ...other]);
}

/** The output names of the table's columns outside the model: the columns that `passthrough: *` selects. */
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
