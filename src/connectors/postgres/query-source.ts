// Reads a table or query as an input: one snapshot, streamed as CSV with the text values that the model expects.
//
// The server writes CSV (COPY … TO STDOUT), because CSV is the format that the engine reads fastest. An outer query
// converts values that CSV cannot express. In model columns, NULL becomes a text that the model reads as missing, and
// booleans become the texts of the model for true and false. Passthrough columns become JSON tokens, in which NULL
// differs from an empty text.
import { to as copyTo } from 'pg-copy-streams';
import type { ValueKind } from '../../core/block.ts';
import { SluiceError } from '../../core/errors.ts';
import { type Remedy, refuseMistyped, type TypedColumn } from '../../formats/delimited/column-types.ts';
import type { ByteSource } from '../../io/source/byte-source.ts';
import type { ColumnSpec, Manifest } from '../../model/package/manifest.ts';
import { connectDatabase, type Database, type DatabaseSettings, disconnect } from './database.ts';
import { databaseError } from './faults.ts';
import { listOf, literalOf, sqlIdentifier, sqlName, tableName } from './names.ts';

export interface QuerySettings extends DatabaseSettings {
  table?: string | undefined;
  query?: string | undefined;
  key?: readonly string[] | undefined;
}

export interface QueryOptions {
  manifest: Manifest;
  passthrough: readonly string[] | '*';
}

/** PostgreSQL type OIDs (pg_type.dat): boolean, numeric, money, JSON, floating-point, bit and text types. */
const BOOL = 16;
const NUMERIC = 1700;
/** An amount with the currency sign of the server's locale. */
const MONEY = 790;
const JSONS = new Set([114, 3802]);
const FLOATS = new Set([700, 701]);
/** bit(n) and bit varying, which are not decimal numbers; a single bit is 1 or 0. */
const BIT = 1560;
const BITS = new Set([BIT, 1562]);
/** character(n), whose values are padded with blanks that do not count. */
const BPCHAR = 1042;
const TEXTS = new Set([25, BPCHAR, 1043, 18, 19]);
/** Value kinds by type OID. Arrays and rows are nested, too. All other types are read as text. */
const KINDS: Readonly<Record<number, ValueKind>> = {
  [BOOL]: 'boolean',
  [NUMERIC]: 'decimal',
  [MONEY]: 'decimal',
  17: 'binary',
  114: 'nested',
  3802: 'nested',
  20: 'number',
  21: 'number',
  23: 'number',
  26: 'number',
  700: 'number',
  701: 'number',
  1082: 'date',
  1083: 'time',
  1114: 'timestamp',
  1184: 'timestamp',
  1186: 'duration',
  1266: 'time',
};

/**
 * Opens a read-only transaction with one snapshot of the database and starts to read. Memory holds only a few blocks,
 * because the server waits for the reader.
 * @throws SluiceError database_unreachable | database_refused | usage; while reading: database_failed
 */
export async function openQuery(settings: QuerySettings, options: QueryOptions): Promise<ByteSource> {
  const doing = `the ${settings.table === undefined ? 'query' : `table ${sqlName(tableName(settings.table))}`}`;
  const client = await connectDatabase(settings);
  try {
    await client.query('BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const select = await selectOf(client, settings, options);
    await client.query('SET LOCAL statement_timeout = 0');
    return readingFrom(client, `COPY (${select}) TO STDOUT WITH (FORMAT csv, HEADER true)`, doing);
  } catch (error) {
    await disconnect(client);
    throw databaseError(error, doing);
  }
}

function readingFrom(client: Database, statement: string, doing: string): ByteSource {
  const stream = client.query(copyTo(statement, { highWaterMark: 256 * 1024 }));
  // Read calls report errors to the reader. This listener is needed if a run ends before it reads: closing the
  // connection then emits an error event, which must not end the process.
  stream.on('error', () => {});
  let read = 0;
  return {
    chunks: {
      async *[Symbol.asyncIterator]() {
        try {
          for await (const chunk of stream) {
            read += (chunk as Buffer).length;
            yield chunk as Buffer;
          }
        } catch (error) {
          throw databaseError(error, doing);
        }
      },
    },
    totalBytes: null,
    bytesRead: () => read,
    close: () => disconnect(client),
  };
}

interface Field {
  name: string;
  type: number;
  kind: ValueKind;
}

/** The types among `types` that are arrays or rows. */
async function nestedTypes(client: Database, types: readonly number[]): Promise<ReadonlySet<number>> {
  const unknown = types.filter((type) => !(type in KINDS) && !TEXTS.has(type));
  if (unknown.length === 0) return new Set();
  const found = await client.query(
    "SELECT oid::int8 AS oid FROM pg_catalog.pg_type WHERE oid = ANY($1::oid[]) AND typcategory IN ('A', 'C', 'P')",
    [unknown],
  );
  return new Set(found.rows.map(({ oid }) => Number(oid)));
}

async function selectOf(client: Database, settings: QuerySettings, options: QueryOptions): Promise<string> {
  const { table, query, key } = settings;
  // The line break ends a comment at the end of the query, which would otherwise hide the SQL that follows.
  const from = table === undefined ? `(${withoutEnd(query!)}\n)` : sqlName(tableName(table));
  const described = await client.query(`SELECT * FROM ${from} AS q LIMIT 0`);
  const nested = await nestedTypes(
    client,
    described.fields.map((f) => f.dataTypeID),
  );
  const all = described.fields.map(({ name, dataTypeID: type, dataTypeModifier }): Field => {
    const isBits = BITS.has(type) && !(type === BIT && dataTypeModifier === 1);
    return { name, type, kind: nested.has(type) ? 'nested' : isBits ? 'binary' : (KINDS[type] ?? 'text') };
  });
  const fields = table === undefined ? all : all.filter(({ name }) => isWanted(name, options));
  const columns = new Map(options.manifest.columns.map((c) => [c.name, c]));
  refuseBoth(options);
  refuseMistyped(typedColumns(fields, columns), options.manifest, null, castInQuery);
  const outcome = options.manifest.outcome;
  const expressions = fields.map((field) => {
    const column = columns.get(field.name);
    const plain = column === undefined && (field.name === outcome || !isPassed(field.name, options));
    const value = column ? ofModel(field, column) : plain ? `q.${sqlIdentifier(field.name)}` : asToken(field);
    return `${fields.length === 1 ? neverBlank(value) : value} AS ${sqlIdentifier(field.name)}`;
  });
  const order = key === undefined ? '' : ` ORDER BY ${listOf(key)}`;
  const inner = key === undefined ? from : `(SELECT * FROM ${from} AS s${order})`;
  // If the list of expressions is empty, no column is selected, and the header check reports the missing columns.
  return `SELECT ${expressions.join(', ')} FROM ${inner} AS q`;
}

/**
 * Rejects a column that is both a model column and passed through. A model column needs the texts of the model, and a
 * passthrough column needs JSON tokens.
 */
function refuseBoth({ manifest, passthrough }: QueryOptions): void {
  const both = passthrough === '*' ? undefined : manifest.columns.find(({ name }) => passthrough.includes(name))?.name;
  if (both === undefined) return;
  const message = `passthrough: ${both} is a model column; select it again under another name and pass that through`;
  throw new SluiceError('usage', message);
}

/**
 * The columns to check against the model. Booleans in number columns are omitted, because they are written as 1 and 0,
 * and so is JSON in number and boolean columns, because its numbers and booleans have the same text.
 */
const typedColumns = (fields: readonly Field[], columns: ReadonlyMap<string, ColumnSpec>): TypedColumn[] =>
  fields.filter(({ name, type, kind }) => {
    const wanted = columns.get(name)?.kind;
    if (JSONS.has(type)) return wanted === 'category' || wanted === 'text';
    return kind !== 'boolean' || wanted !== 'number';
  });

const castInQuery: Remedy = (name, wanted) =>
  wanted === 'number'
    ? 'convert it to a number in a query'
    : `store it as text in the table, or convert it in a query: ${name}::text, lpad(${name}::text, 4, '0') if leading zeros were lost, ->> instead of -> for a member of JSON`;

function withoutEnd(query: string): string {
  let text = query.trim();
  while (text.endsWith(';')) text = text.slice(0, -1).trimEnd();
  return text;
}

const isPassed = (name: string, { passthrough }: QueryOptions): boolean =>
  passthrough === '*' || passthrough.includes(name);

/**
 * Whether a column of a table is needed: model columns and passthrough columns are, but the outcome, which a training
 * table contains, never is.
 */
const isWanted = (name: string, options: QueryOptions): boolean =>
  name !== options.manifest.outcome &&
  (isPassed(name, options) || options.manifest.columns.some((column) => column.name === name));

const asToken = ({ name }: Field): string => `coalesce(to_json(q.${sqlIdentifier(name)})::text, 'null')`;

/** The SQL expression for a model column. @throws SluiceError database_refused if the model has no text for NULL */
function ofModel({ name, type }: Field, column: ColumnSpec): string {
  // A category has no trailing zeros, so they are removed from a numeric.
  const isWord = column.kind === 'category' || column.kind === 'text';
  const as = `q.${sqlIdentifier(name)}`;
  const isDecimal = type === NUMERIC || type === MONEY;
  const number = type === MONEY ? `${as}::numeric` : type === NUMERIC || FLOATS.has(type) ? `nullif(${as}, 'NaN')` : as;
  const value = isDecimal && isWord ? `trim_scale(${number})` : isText(type) ? textOf(as, type) : number;
  const missing = column.missing?.values ?? [''];
  const absent = missing.includes('') ? null : missing[0];
  // An empty text is neither a number nor a truth value, so such a row is rejected. As a category it would be unseen.
  if (absent === undefined && isWord)
    throw new SluiceError(
      'database_refused',
      `the column ${name}: the model has no text for a missing value, so NULL would become an empty text; add a text to missing.values of the column in model.yaml`,
    );
  const or = absent ? literalOf(absent) : null;
  if (type === BOOL) {
    const [yes, no] = wordsOf(column);
    return `CASE WHEN ${value} THEN ${literalOf(yes)} WHEN NOT ${value} THEN ${literalOf(no)} ELSE ${or} END`;
  }
  return or === null ? value : `coalesce(${value}::text, ${or})`;
}

/**
 * An expression that is never NULL. If a row has a single column, COPY writes NULL as a blank line, which is no record.
 * It writes an empty text as `""`.
 */
const neverBlank = (value: string): string => `coalesce((${value})::text, '')`;

const isText = (type: number): boolean => type === BPCHAR || JSONS.has(type);
/** Text without padding, or the text of a JSON value: of a string without its quotes; of null it is NULL. */
const textOf = (as: string, type: number): string => (type === BPCHAR ? `${as}::text` : `(${as} #>> '{}')`);

/** The texts for true and false in a model column. */
function wordsOf(column: ColumnSpec): [string, string] {
  if (column.kind === 'number') return ['1', '0'];
  if (column.kind !== 'boolean') return ['true', 'false'];
  return [column.true_values?.[0] ?? 'true', column.false_values?.[0] ?? 'false'];
}
