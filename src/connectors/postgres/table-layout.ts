// The columns of predictions in a table: their names and types, and whether an existing table is compatible with them.
import { SluiceError } from '../../core/errors.ts';
import { isVaryingColumn, type PredictionColumn, predictionColumns } from '../../formats/write/prediction-fields.ts';
import { Interpreter } from '../../inference/evaluate/prediction.ts';
import type { InterpretationSpec } from '../../inference/explain/interpretation.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import type { Database } from './database.ts';
import { listOf, sqlIdentifier, sqlName, type TableName } from './names.ts';

export interface StoredColumn {
  name: string;
  /** null: an existing table may have any type; a new table has text. */
  kind: PredictionColumn['kind'] | null;
  /** Column type in a new table; default: the type of its kind. */
  made?: string;
}

/** Column types by kind in new tables. */
const MADE = { integer: 'bigint', number: 'double precision', text: 'text', boolean: 'boolean' } as const;
const TEXTS = ['text', 'character varying', 'character', 'citext'];
/** Types in an existing table that can store every value of a kind. */
const TAKES: Readonly<Record<PredictionColumn['kind'], readonly string[]>> = {
  integer: ['bigint', 'integer', 'numeric', 'double precision', ...TEXTS],
  number: ['double precision', 'numeric', 'real', ...TEXTS],
  boolean: ['boolean', ...TEXTS],
  text: TEXTS,
};

/** The columns of a predictions file, in the order of the file. */
export const predictionLayout = (
  manifest: Manifest,
  passthrough: readonly string[],
  interpretation: InterpretationSpec | null,
): StoredColumn[] => [
  ...passthrough.map((name) => ({ name, kind: null })),
  ...predictionColumns(new Interpreter(manifest), interpretation, manifest.columns).map(({ name, kind }) => ({
    name,
    kind,
  })),
];

/** A table with the columns to write. */
export interface Target {
  name: TableName;
  exists: boolean;
  columns: readonly StoredColumn[];
  /** Type of each column, without modifiers in brackets. */
  types: readonly string[];
  /** Names of the columns that can store an empty text. */
  texts: ReadonlySet<string>;
  /** Key columns; empty: rows are never updated. */
  key: readonly string[];
  /** Whether the unique index on the key treats NULLs as different from each other. */
  nullsDiffer: boolean;
  /** Columns in which other runs store parts of a prediction, and this run does not. Only known with a key. */
  foreign: readonly string[];
}

/** Privileges that each mode of writing requires. */
const RIGHTS = {
  append: ['SELECT', 'INSERT'],
  merge: ['SELECT', 'INSERT', 'UPDATE'],
  replace: ['SELECT', 'INSERT', 'DELETE'],
} as const;
export type TableMode = keyof typeof RIGHTS;

interface TargetOptions {
  columns: readonly StoredColumn[];
  key: readonly string[];
  mode: TableMode;
}

/**
 * Inspects the table to which rows will be written.
 * @throws SluiceError database_refused if an existing table does not fit, or the role may not write to it
 */
export async function inspectTarget(
  client: Database,
  name: TableName,
  { columns, key, mode }: TargetOptions,
): Promise<Target> {
  const found = await client.query<{ oid: string | null; kind: string | null }>(
    'SELECT c.oid::text AS oid, c.relkind AS kind FROM pg_class c WHERE c.oid = to_regclass($1)',
    [sqlName(name)],
  );
  const table = found.rows[0];
  if (!table?.oid) {
    await assertMayCreate(client, name);
    const types = columns.map((c) => c.made ?? MADE[c.kind ?? 'text']);
    const texts = new Set(columns.filter((_, i) => types[i] === 'text').map((c) => c.name));
    return { name, exists: false, columns, types, texts, key, nullsDiffer: true, foreign: [] };
  }
  if (!['r', 'p'].includes(table.kind!)) throw refused(name, 'exists, but is not a table');
  await assertMayWrite(client, name, table.oid, mode);
  const there = await columnsOf(client, table.oid);
  const faults = columns.flatMap((column) => faultOf(column, there.get(column.name)));
  const named = new Set(columns.map((c) => c.name));
  for (const [column, { required }] of there) {
    if (required && !named.has(column))
      faults.push(`its column ${column} requires a value, but predictions have none for it`);
  }
  const index = key.length > 0 ? await uniqueIndex(client, table.oid, key) : null;
  if (key.length > 0 && !index) faults.push(`it has no unique index on (${key.join(', ')})`);
  else if (index?.deferrable) faults.push(`its unique index on (${key.join(', ')}) is deferrable`);
  if (index && (await isInherited(client, table.oid)))
    faults.push('other tables inherit from it, and its unique index does not cover their rows');
  if (faults.length > 0) throw refused(name, `does not fit: ${faults.join('; ')}`);
  const foreign = key.length > 0 ? [...there.keys()].filter((column) => isPart(column) && !named.has(column)) : [];
  return { ...present(name, columns, there), key, nullsDiffer: index?.nullsDiffer ?? true, foreign };
}

/** Whether runs store a part of a prediction, or its model, in a column of this name. */
const isPart = (column: string): boolean => isVaryingColumn(column) || ['model_id', 'model_version'].includes(column);

const present = (name: TableName, columns: readonly StoredColumn[], there: ReadonlyMap<string, Present>): Target => ({
  name,
  exists: true,
  columns,
  types: columns.map((c) => there.get(c.name)!.type),
  texts: new Set(columns.filter((c) => there.get(c.name)!.text).map((c) => c.name)),
  key: [],
  nullsDiffer: true,
  foreign: [],
});

/**
 * Inspects an existing table for comparison. Requires only the privilege to read.
 * @throws SluiceError database_refused if the table does not exist or does not fit
 */
export async function readableTarget(
  client: Database,
  name: TableName,
  columns: readonly StoredColumn[],
): Promise<Target> {
  const found = await client.query<{ oid: string | null }>('SELECT to_regclass($1)::oid::text AS oid', [sqlName(name)]);
  const oid = found.rows[0]?.oid;
  if (!oid) throw refused(name, 'does not exist');
  const there = await columnsOf(client, oid);
  const missing = columns.filter((column) => !there.has(column.name)).map((column) => column.name);
  if (missing.length > 0) throw refused(name, `has no column ${missing.join(', ')}`);
  return present(name, columns, there);
}

const refused = (name: TableName, why: string): SluiceError =>
  new SluiceError('database_refused', `the table ${sqlName(name)} ${why}`);

async function assertMayCreate(client: Database, name: TableName): Promise<void> {
  const { rows } = await client.query<{ may: boolean | null }>(
    "SELECT has_schema_privilege(coalesce($1::text, current_schema()), 'CREATE') AS may",
    [name.schema],
  );
  if (rows[0]!.may !== true) throw refused(name, 'does not exist, and the role may not create it');
}

async function assertMayWrite(client: Database, name: TableName, oid: string, mode: TableMode): Promise<void> {
  const asked = RIGHTS[mode].map((right) =>
    right === 'DELETE'
      ? `has_table_privilege($1::oid, '${right}') AS "${right}"`
      : `has_any_column_privilege($1::oid, '${right}') AS "${right}"`,
  );
  const { rows } = await client.query<Record<string, boolean>>(`SELECT ${asked.join(', ')}`, [oid]);
  const missing = RIGHTS[mode].filter((right) => rows[0]![right] !== true);
  if (missing.length === 0) return;
  const says = `the table ${sqlName(name)}: the role has no right to ${missing.join(', ')}`;
  throw new SluiceError('database_refused', says);
}

interface Present {
  type: string;
  /** Whether the type stores texts; also a domain over such a type. */
  text: boolean;
  /** Whether the column is NOT NULL and has no default, identity or generator. */
  required: boolean;
  generated: boolean;
}

async function columnsOf(client: Database, oid: string): Promise<Map<string, Present>> {
  const { rows } = await client.query<Present & { name: string }>(
    `SELECT attname AS name, format_type(atttypid, NULL) AS type, typcategory = 'S' AS text,
            attgenerated <> '' AS generated, attnotnull AND NOT atthasdef AND attidentity = '' AS required
       FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
      WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped`,
    [oid],
  );
  return new Map(rows.map(({ name, ...rest }) => [name, rest]));
}

function faultOf({ name, kind }: StoredColumn, present: Present | undefined): string[] {
  if (!present) return [`it has no column ${name}${kind === null ? '' : ` (${MADE[kind]})`}`];
  if (present.generated) return [`its column ${name} is generated`];
  if (kind === null || TAKES[kind].includes(present.type)) return [];
  return [`its column ${name} has the type ${present.type} instead of ${MADE[kind]}`];
}

/** Whether tables inherit from the table, other than its partitions and the chunks of a hypertable of TimescaleDB. */
async function isInherited(client: Database, oid: string): Promise<boolean> {
  const { rowCount } = await client.query(
    `SELECT 1 FROM pg_inherits
       JOIN pg_class AS parent ON parent.oid = inhparent
       JOIN pg_class AS heir ON heir.oid = inhrelid
       JOIN pg_namespace AS space ON space.oid = heir.relnamespace
      WHERE inhparent = $1 AND parent.relkind = 'r' AND nspname <> '_timescaledb_internal'
      LIMIT 1`,
    [oid],
  );
  return rowCount === 1;
}

interface UniqueIndex {
  nullsDiffer: boolean;
  /** Whether a transaction may check the index at its end. ON CONFLICT does not support such an index. */
  deferrable: boolean;
}

/** The unique index on exactly these columns; null: there is none. */
async function uniqueIndex(client: Database, oid: string, key: readonly string[]): Promise<UniqueIndex | null> {
  // A conversion to JSON, because servers before PostgreSQL 15 do not have the column indnullsnotdistinct.
  const { rows } = await client.query<UniqueIndex & { columns: string[] }>(
    `SELECT array_agg(a.attname::text) AS columns, bool_or(NOT i.indimmediate) AS deferrable,
            coalesce(bool_and(to_jsonb(i) ->> 'indnullsnotdistinct' = 'false'), true) AS "nullsDiffer"
       FROM pg_index i
       JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
      WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
        AND i.indnkeyatts = i.indnatts
      GROUP BY i.indexrelid`,
    [oid],
  );
  const wanted = [...key].sort().join('\0');
  const found = rows.filter(({ columns }) => [...columns].sort().join('\0') === wanted);
  const index = found.find(({ nullsDiffer }) => !nullsDiffer) ?? found[0];
  // With several indexes on these columns, ON CONFLICT uses all of them.
  return index ? { ...index, deferrable: found.some(({ deferrable }) => deferrable) } : null;
}

const definitions = ({ columns, types }: Target): string =>
  columns.map(({ name }, i) => `${sqlIdentifier(name)} ${types[i]}`).join(', ');

/** Name of the temporary table that collects rows. It is visible only in the session and removed with the session. */
export const STAGING = 'pg_temp.sluice_staging';

/** SQL that creates the staging table. `emptied`: the rows of the table are deleted at the end of each transaction. */
export function createStaging(target: Target, { emptied = false } = {}): string {
  const names = listOf(target.columns.map((c) => c.name));
  return target.exists
    ? `CREATE TEMP TABLE sluice_staging${emptied ? ' ON COMMIT DELETE ROWS' : ''} AS SELECT ${names} FROM ${sqlName(target.name)} WITH NO DATA`
    : `CREATE TEMP TABLE sluice_staging (${definitions(target)})`;
}

export function createTarget(target: Target): string {
  const key = target.key.length === 0 ? '' : `, PRIMARY KEY (${listOf(target.key)})`;
  return `CREATE TABLE ${sqlName(target.name)} (${definitions(target)}${key})`;
}

/** SQL that loads CSV rows into a table. An unquoted empty field is NULL, and `""` is an empty text. */
export function copyInto(table: string, { columns, texts }: Target, header: boolean): string {
  const others = columns.map((c) => c.name).filter((name) => !texts.has(name));
  const force = others.length === 0 ? '' : `, FORCE_NULL (${listOf(others)})`;
  const names = listOf(columns.map((c) => c.name));
  return `COPY ${table} (${names}) FROM STDIN WITH (FORMAT csv, HEADER ${header}, NULL ''${force})`;
}

/**
 * SQL that adds rows to the target. If the target has a key, an existing row with the same key is replaced if it is not
 * identical. `from`: SQL that returns the rows.
 *
 * `*<>` compares the stored bytes of rows, because values can be equal but not identical: 1.0 and 1.00, or texts of the
 * type citext in another case. It also works for types without an equality operator.
 */
function insertFrom(target: Target, from: string): string {
  const { columns, key, name } = target;
  const insert = `INSERT INTO ${sqlName(name)} AS t (${listOf(columns.map((c) => c.name))}) ${from}`;
  if (key.length === 0) return insert;
  const names = columns.map((c) => sqlIdentifier(c.name));
  const rowOf = (table: string): string => `ROW(${names.map((c) => `${table}.${c}`).join(', ')})::record`;
  const set = names.map((c) => `${c} = EXCLUDED.${c}`).join(', ');
  return `${insert} ON CONFLICT (${listOf(key)}) DO UPDATE SET ${set} WHERE ${rowOf('t')} *<> ${rowOf('EXCLUDED')}`;
}

/**
 * Adds the staged rows to the target. `from`: SQL that returns those to add.
 * @throws SluiceError database_refused: as in `refuseMixedRows`, or the table did not store all rows
 */
export async function insertStaged(client: Database, target: Target, from = `TABLE ${STAGING}`): Promise<void> {
  await refuseMixedRows(client, target);
  const { rowCount } = await client.query(insertFrom(target, from));
  const isMerge = target.key.length > 0;
  // Most tables have no triggers. Their rows are not counted again for each batch of a topic.
  if (isMerge && !(await mayDiscard(client, target))) return;
  const { rows } = await client.query<{ n: string }>(`SELECT count(*) AS n FROM (${from}) AS s`);
  const missing = Number(rows[0]!.n) - rowCount!;
  if (missing === 0) return;
  // A merge does not write rows that are identical to stored ones.
  const lost = isMerge ? await unwritten(client, target, from) : missing;
  if (lost > 0) throw discarded(target, lost);
}

export const discarded = ({ name }: Pick<Target, 'name'>, rows: number): SluiceError =>
  refused(name, `did not store all rows; a trigger or rule of the table discarded: ${rows}`);

/**
 * Whether the table, or one of its partitions, has triggers or rules that can discard a change of a row. Such a change
 * does not fail: PostgreSQL only does not count it.
 */
export async function mayDiscard(client: Database, { name }: Pick<Target, 'name'>): Promise<boolean> {
  // In tgtype, the bits 1 and 2 are those of a trigger FOR EACH ROW and BEFORE the change.
  const { rows } = await client.query<{ may: boolean }>(
    `WITH parts AS (SELECT to_regclass($1)::oid AS relid UNION SELECT relid::oid FROM pg_partition_tree(to_regclass($1)))
     SELECT EXISTS (SELECT 1 FROM pg_trigger JOIN parts ON tgrelid = relid WHERE NOT tgisinternal AND tgtype & 3 = 3)
         OR EXISTS (SELECT 1 FROM pg_rewrite JOIN parts ON ev_class = relid) AS may`,
    [sqlName(name)],
  );
  return rows[0]!.may;
}

/** Number of rows to merge whose stored rows are neither identical nor written by this transaction. */
async function unwritten(client: Database, { name, key, columns }: Target, from: string): Promise<number> {
  const rowOf = (table: string): string => `ROW(${columns.map((c) => `${table}.${sqlIdentifier(c.name)}`).join(', ')})`;
  const isStored = `(t.xmin::text::bigint = txid_current() % 4294967296 OR ${rowOf('t')}::record *= ${rowOf('s')}::record)`;
  const stored = (equals: string): string => {
    const same = key.map((c) => `t.${sqlIdentifier(c)} ${equals} s.${sqlIdentifier(c)}`).join(' AND ');
    return `EXISTS (SELECT 1 FROM ${sqlName(name)} AS t WHERE ${same} AND ${isStored})`;
  };
  const isNull = key.map((c) => `s.${sqlIdentifier(c)} IS NULL`).join(' OR ');
  const { rows } = await client.query<{ n: string }>(
    `SELECT count(*) AS n FROM (${from}) AS s
      WHERE NOT ${stored('=')} AND NOT ((${isNull}) AND ${stored('IS NOT DISTINCT FROM')})`,
  );
  return Number(rows[0]!.n);
}

/**
 * Rejects rows that would be merged into rows with parts of other predictions: such a row would have the prediction of
 * this run next to the decision, the effects or the version of an earlier one.
 * @throws SluiceError database_refused
 */
async function refuseMixedRows(client: Database, { name, key, foreign }: Target): Promise<void> {
  if (foreign.length === 0) return;
  const same = key.map((c) => `t.${sqlIdentifier(c)} = s.${sqlIdentifier(c)}`).join(' AND ');
  const some = foreign.map((c) => `t.${sqlIdentifier(c)} IS NOT NULL`).join(' OR ');
  const { rowCount } = await client.query(
    `SELECT 1 FROM ${sqlName(name)} AS t JOIN ${STAGING} AS s ON ${same} WHERE ${some} LIMIT 1`,
  );
  if (!rowCount) return;
  const why = `has values of earlier predictions in columns that this run does not write: ${foreign.join(', ')}`;
  throw refused(name, `${why}. Rows with the same key would keep them; set these columns to NULL, or drop them`);
}
