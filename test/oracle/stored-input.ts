// The table of a combination as the bytes of its format, and the same as the oracle reads it.
import { gzipSync, zstdCompressSync } from 'node:zlib';
import * as flechette from '@uwdata/flechette';
import type { SchemaElement } from 'hyparquet';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { encoded } from '../support/encodings.ts';
import type { Case, CaseColumn } from './combinations.ts';
import type { Declared, Input, TypedColumn } from './oracle.ts';

export interface StoredInput {
  bytes: Buffer;
  input: Input;
  declared: Declared;
}

const DELIMITERS = { tab: '\t', comma: ',', semicolon: ';', pipe: '|' } as const;
export const delimiterOf = (c: Pick<Case, 'input' | 'delimiter' | 'entry'>): string =>
  c.input === 'tsv' ? '\t' : DELIMITERS[c.delimiter];

/** Values that are valid in each column of the models. */
const CONSTANTS: Record<string, string> = { amount: '100', term: '12', banned: 'true', product: '0230', region: '1', purpose: 'car' }; // biome-ignore format: one line
const RENAMED = new Set(['amount', 'product', 'id', 'branch']);

const isTable = ({ input }: Case) => input === 'parquet' || input === 'arrow';
const isDelimited = ({ input }: Case) => input === 'csv' || input === 'tsv';

/** The columns as the input has them, and what is declared about them. */
function declaredColumns(c: Case): { columns: CaseColumn[]; declared: Declared } {
  const { declared: d } = c;
  const constant = d.constant !== null && c.columns.filter(({ name }) => name !== d.constant).length > 0 ? d.constant : null; // biome-ignore format: one line
  const rename: Record<string, string> = {};
  const columns = c.columns
    .filter(({ name }) => name !== constant || (c.passthrough !== '*' && c.passthrough.includes(name)))
    .filter(({ name }) => name !== constant)
    .map((column) => {
      const known = c.passthrough === '*' || c.passthrough.includes(column.name) || column.name in CONSTANTS;
      if (!d.rename || !RENAMED.has(column.name) || !known) return column;
      rename[column.name] = `${column.name} of old`;
      return { ...column, name: `${column.name} of old` };
    });
  const rows = c.columns[0]!.cells.length;
  if (d.ignore !== 'none') columns.push({ name: 'junk', type: 'text', cells: Array(rows).fill('"j", ;|\n') });
  const ignore = d.ignore === 'none' ? undefined : d.ignore === 'rest' ? ('*' as const) : ['junk'];
  const names = d.header ? undefined : columns.map(({ name }) => name);
  const declared: Declared = {
    ...(names && !names.some((name) => name.includes(',')) ? { names } : {}),
    ...(Object.keys(rename).length > 0 ? { rename } : {}),
    ...(ignore ? { ignore } : {}),
    ...(constant === null ? {} : { constants: { [constant]: CONSTANTS[constant]! } }),
    ...(d.encoding === 'utf-8' ? {} : { encoding: d.encoding }),
    ...(d.decimal === 'point' ? {} : { decimal: d.decimal }),
    ...(d.thousands === null ? {} : { thousands: d.thousands }),
    ...(d.trim ? { trim: true } : {}),
    ...(d.nullValues ? { null_values: ['NULL', '36.0'] } : {}),
  };
  return { columns, declared };
}

/** Whether an encoding has this character. */
const has = (encoding: Case['declared']['encoding'], ch: string): boolean => {
  const code = ch.codePointAt(0)!;
  if (encoding === 'windows-1251') return code < 128 || '€“”'.includes(ch);
  if (encoding === 'windows-1252') return code < 256 || '€“”Š'.includes(ch);
  return encoding !== 'latin1' || code < 256;
};
/** What an encoding has no byte for becomes something else: the case is about what it has. */
const encodable = (text: string, encoding: Case['declared']['encoding']): string =>
  encoding === 'utf-8' ? text : [...text].map((ch) => (has(encoding, ch) ? ch : '?')).join('');

const stored = (text: string, { declared: { encoding }, layout }: Case): Buffer =>
  encoded(encoding === 'utf-8' && layout.mark ? `\ufeff${text}` : text, encoding);

/** A cell of a number column in the notation that is declared. */
const local = (text: string, { decimal }: Declared, isNumber: boolean): string =>
  decimal === 'comma' && isNumber && /^[-+]?\d*\.\d+$/.test(text) ? text.replace('.', ',') : text;

const NUMBERS = new Set(['amount', 'term', 'amount of old']);

function delimited(c: Case, columns: readonly CaseColumn[], declared: Declared): string {
  const delimiter = delimiterOf(c);
  const must = (text: string) => text.includes(delimiter) || /["\r\n]/.test(text);
  const field = (text: string) => (must(text) || c.layout.quoteAll ? `"${text.replaceAll('"', '""')}"` : text);
  const rows = columns[0]!.cells.length;
  const cell = (column: CaseColumn, row: number) =>
    field(encodable(local(column.cells[row] ?? '', declared, NUMBERS.has(column.name)), c.declared.encoding));
  const records = Array.from({ length: rows }, (_, row) => {
    const fields = columns.map((column) => cell(column, row));
    if (c.broken.includes(row)) return row % 2 === 0 || fields.length < 3 ? [...fields, 'more'] : fields.slice(0, -1);
    return fields;
  });
  const lines = records.map((fields) => (fields.length === 1 && fields[0] === '' ? '""' : fields.join(delimiter)));
  // Where values are trimmed, names are, too.
  const shown = (name: string, i: number) => (declared.trim && i === 0 ? ` ${name}\t` : name);
  if (!declared.names) lines.unshift(columns.map(({ name }, i) => field(encodable(shown(name, i), c.declared.encoding))).join(delimiter)); // biome-ignore format: one line
  let text = '';
  for (const [i, line] of lines.entries()) {
    const end = c.layout.ends === 'lf' || (c.layout.ends === 'mixed' && i % 3 === 0) ? '\n' : '\r\n';
    text += line + (i < lines.length - 1 || c.layout.finalEnd ? end : '');
    if (c.layout.blankLines && i % 4 === 1 && i < lines.length - 1) text += end;
  }
  return text;
}

const NUMBER_TOKEN = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const TOKENS = ['1.10', '12345678901234567890', '-0', '1e3', 'true', 'null', '{"a": [1, "x"]}', '[]', '"\\u00fc"', '""', '"null"', '9007199254740993', '12345678.1234567891', '0.0000001', '1.5']; // biome-ignore format: a pool

function jsonRecord(c: Case, columns: readonly CaseColumn[], declared: Declared, row: number): string {
  const members = columns.flatMap((column, i) => {
    const text = column.cells[row]!;
    const key = JSON.stringify(encodable(column.name, c.declared.encoding));
    const isModel = column.name in CONSTANTS || column.name.endsWith(' of old');
    if (column.name === 'junk') return [`${key}:{"deep": [1, {"x": "}"}]}`];
    if (!isModel && text === null && (row + i) % 2 === 0) return [];
    // Values that span lines are for arrays alone: a line of NDJSON ends there.
    if (!isModel && c.input === 'json' && (row + i) % 5 === 2) return [`${key}:{\n "a": [1,\r\n "x\\n"]\n}`];
    if (!isModel && c.native && (row * 7 + i) % 3 === 0) return [`${key}: ${TOKENS[(row * 5 + i) % TOKENS.length]}`];
    if (text === null) return [`${key}:null`];
    const shown = encodable(local(text, declared, NUMBERS.has(column.name)), c.declared.encoding);
    if (isModel && c.native && (NUMBER_TOKEN.test(shown) || shown === 'true' || shown === 'false')) return [`${key}:${shown}`]; // biome-ignore format: one line
    return [`${key}:${JSON.stringify(shown)}`];
  });
  // Keys need not stand in the same order in every record.
  if (c.layout.quoteAll && row % 2 === 1) members.reverse();
  const space = c.layout.blankLines ? ' ' : '';
  return `{${space}${members.join(`,${space}`)}${space}}`;
}

function json(c: Case, columns: readonly CaseColumn[], declared: Declared): string {
  const rows = columns[0]!.cells.length;
  const records = Array.from({ length: rows }, (_, row) => {
    const record = jsonRecord(c, columns, declared, row);
    if (!c.broken.includes(row)) return record;
    // A key that is there twice, a record that is cut, one that is no object.
    if (row % 2 === 1) {
      const [twice, other] = [row, row + 1].map((i) => JSON.stringify(encodable(columns[i % columns.length]!.name, c.declared.encoding))); // biome-ignore format: one line
      // It may stand where another key should, so that there are as many as elsewhere.
      if (row % 4 === 3) return record.replace(`${other}:`, () => `${twice}:`);
      return record.replace(/^\{/, () => `{${twice}:"x",`);
    }
    return c.input === 'ndjson' && row % 4 === 0 ? '{"amount": 1,' : '[1, 2]';
  });
  if (c.input === 'json')
    return `${c.layout.blankLines ? ' [ ' : '['}${records.join(c.layout.quoteAll ? ' ,\n' : ',')}]`;
  const end = c.layout.ends === 'crlf' ? '\r\n' : '\n';
  const lines = records.map((record, i) => (c.layout.blankLines && i % 4 === 1 ? record + end : record));
  return lines.length === 0 ? '' : lines.join(end) + (c.layout.finalEnd ? end : '');
}

/** The values of a column with the type it has; text that is none of the type is no value. */
function typed({ name, type, cells }: CaseColumn): TypedColumn {
  const value = (text: string | null): TypedColumn['values'][number] => {
    if (text === null) return null;
    switch (type) {
      case 'int64':
        return /^-?\d+$/.test(text) ? BigInt(text) : null;
      case 'float64':
        return Number(text);
      case 'boolean':
        return text === 'true';
      default:
        return text;
    }
  };
  return { name, type, values: cells.map(value) };
}

const DAY_MS = 86_400_000;
const SCALE = 2;
const unscaled = (text: string): bigint => {
  const [whole, fraction = ''] = text.split('.');
  return BigInt(whole + fraction.padEnd(SCALE, '0'));
};
const dayOf = (text: string): Date => {
  const [year, month, day] = text.split('-').map(Number) as [number, number, number];
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return date;
};

function parquet(columns: readonly TypedColumn[], c: Case): Buffer {
  const element = ({ name, type }: TypedColumn): SchemaElement => {
    const common = { name, repetition_type: 'OPTIONAL' as const };
    switch (type) {
      case 'text':
        return { ...common, type: 'BYTE_ARRAY', converted_type: 'UTF8' };
      case 'int64':
        return { ...common, type: 'INT64' };
      case 'float64':
        return { ...common, type: 'DOUBLE' };
      case 'boolean':
        return { ...common, type: 'BOOLEAN' };
      case 'date':
        return { ...common, type: 'INT32', converted_type: 'DATE' };
      case 'decimal':
        return { ...common, type: 'FIXED_LEN_BYTE_ARRAY', type_length: 16, converted_type: 'DECIMAL', scale: SCALE, precision: 22 }; // biome-ignore format: one line
    }
  };
  const columnData = columns.map(({ name, type, values }) => ({
    name,
    data: values.map((v) => (v === null ? undefined : type === 'date' ? dayOf(v as string) : type === 'decimal' ? unscaled(v as string) : v)), // biome-ignore format: one line
  }));
  const schema: SchemaElement[] = [{ name: 'root', num_children: columns.length }, ...columns.map(element)];
  const rowGroupSize = c.layout.quoteAll ? 3 : 1000;
  return Buffer.from(parquetWriteBuffer({ columnData: columnData as never, schema, rowGroupSize, statistics: c.layout.finalEnd })); // biome-ignore format: one line
}

function arrow(columns: readonly TypedColumn[], c: Case): Buffer {
  const typeOf = ({ type }: TypedColumn): flechette.DataType => {
    switch (type) {
      case 'text':
        return c.layout.mark ? flechette.dictionary(flechette.utf8()) : c.layout.blankLines ? flechette.largeUtf8() : flechette.utf8(); // biome-ignore format: one line
      case 'int64':
        return flechette.int64();
      case 'float64':
        return flechette.float64();
      case 'boolean':
        return flechette.bool();
      case 'date':
        return flechette.dateDay();
      case 'decimal':
        return flechette.decimal(22, SCALE);
    }
  };
  const maxBatchRows = c.layout.quoteAll ? 3 : 1000;
  const table = flechette.tableFromColumns(
    columns.map((column) => {
      const values = column.values.map((v) => (v === null ? null : column.type === 'date' ? dayOf(v as string).getTime() / DAY_MS * DAY_MS : column.type === 'decimal' ? unscaled(v as string) : v)); // biome-ignore format: one line
      return [column.name, flechette.columnFromArray(values, typeOf(column), { maxBatchRows })];
    }) as never,
  );
  return Buffer.from(flechette.tableToIPC(table, { format: 'stream' })!);
}

export function storedInput(c: Case): StoredInput {
  const { columns, declared } = declaredColumns(c);
  if (isTable(c)) {
    const table = columns.map(typed);
    const bytes = c.input === 'parquet' ? parquet(table, c) : arrow(table, c);
    return { bytes: packed(bytes, c), input: { format: 'table', columns: table }, declared };
  }
  const text = isDelimited(c) ? delimited(c, columns, declared) : json(c, columns, declared);
  const bytes = stored(text, c);
  const input: Input = isDelimited(c)
    ? { format: 'delimited', bytes, delimiter: delimiterOf(c) }
    : { format: c.input as 'json' | 'ndjson', bytes };
  return { bytes: packed(bytes, c), input, declared };
}

function packed(bytes: Buffer, { inputCompression }: Case): Buffer {
  if (inputCompression === 'none') return bytes;
  return inputCompression === 'gzip' ? gzipSync(bytes) : zstdCompressSync(bytes);
}
