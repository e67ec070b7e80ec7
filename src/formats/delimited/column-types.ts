// Rejects typed columns that do not fit the model, once per stream and before the first row is scored.
import type { ColumnKind } from '../../core/batch.ts';
import type { TypedTable, ValueKind } from '../../core/block.ts';
import { type ErrorDetail, SluiceError } from '../../core/errors.ts';
import type { DeclaredColumns } from '../../core/input-declaration.ts';
import { type ColumnReader, columnReaders } from '../../inference/encode/column-reader.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { columnsOfInput, InputNames } from '../decode/input-names.ts';
import { headerFaults, refuseFaults } from './header.ts';

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
 * Prepares a table for the model before its first row is read. Rejects columns with an unsuitable type, and informs the
 * table which columns the model reads. A decimal column that the model reads as numbers and that is also passed through
 * stays a string, to keep its digits. Returns the model columns with such decimals.
 * @throws SluiceError bad_type | outcome_present | header_mismatch (missing or unknown columns)
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
  refuseOtherColumns(table, manifest, passthrough, declared);
  const names = new InputNames(declared ?? undefined);
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
 * @throws SluiceError outcome_present | header_mismatch, which lists every missing and every unknown column
 */
function refuseOtherColumns(
  { names: given }: TypedTable,
  { columns, outcome }: Manifest,
  passthrough: readonly string[] | '*',
  declared?: DeclaredColumns | null,
): void {
  const inputNames = new InputNames(declared ?? undefined);
  const model = new Set(columns.map(({ name }) => name));
  const names = inputNames.ofHeader(given, new Set([...model, ...(passthrough === '*' ? given : passthrough)]), false);
  if (outcome !== undefined && names.includes(outcome)) {
    throw new SluiceError('outcome_present', 'the input has the outcome column');
  }
  const others = names.filter((name) => name !== null && !model.has(name)) as string[];
  const faults = headerFaults({
    of: 'table',
    names,
    wanted: columnsOfInput(columns, inputNames).map(({ name }) => name),
    constants: Object.keys(inputNames.constants),
    outcome: null,
    passthrough: passthrough === '*' ? others : passthrough,
  });
  refuseFaults('header_mismatch', faults);
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
