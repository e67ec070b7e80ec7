// Columns of every type of PostgreSQL that lenders have, as every kind of column: the values mean what they mean in all other formats.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import YAML from 'yaml';
import { openQuery } from '../../src/connectors/postgres/query-source.ts';
import { SluiceError } from '../../src/core/errors.ts';
import { driveRun } from '../../src/doors/commands/drive-run.ts';
import type { Manifest } from '../../src/model/package/manifest.ts';
import { readPipeline } from '../../src/runs/read-pipeline.ts';
import { requirePostgres } from '../support/postgres/require.ts';
import { type PostgresServer, startPostgres } from '../support/postgres/server.ts';
import { type Answer, Crossing } from './types/crossing.ts';
import { PASSING, registryOfKinds } from './types/entry-points.ts';
import { ALL, ALWAYS, inputOf, type KindColumn } from './types/model.ts';
import { type Kind, type Setting, takesKind, type Value } from './types/rule.ts';

const TEXTS = ['', 'A', 'NULL', '36.0', ' 36', '36', 'Zürich', '€ “x”', '007', '0230', '1e2', 'true', 'True', '1', '0', '1.50', '-999', 'NA', 'NaN', 'Infinity', '"', 'two\nlines', 'a,b', '日本 😀', '2024-02-29', 'Y', 'N', '\\N', '1,5']; // biome-ignore format: a list
const DECIMALS = ['0', '1', '36', '36.60', '0.1', '1.50', '-999', '100', '230', '601', '-0.05', '1.234', '9007199254740991', '12345678901234567890.50']; // biome-ignore format: a list
const FLOATS = ['0', '1', '36', '0.5', '1.5', '-999', '1e22', '1234567', '1.234', 'NaN', 'Infinity', '-Infinity'];
const WHOLE = ['0', '1', '36', '-7', '100', '230', '-999', '601'];

const numbers = (texts: readonly string[]): Value[] => [...texts.map((n) => ({ n })), null];
const texts = (values: readonly string[]): Value[] => [...values.map((t) => ({ t })), null];
const others = (...values: string[]): Value[] => values.map((o) => ({ o }));

/** By type, its kind and values. Values of other kinds are refused, whatever they are. */
const TYPES: readonly (readonly [type: string, kind: Kind, values: readonly Value[]])[] = [
  ['smallint', 'number', numbers(WHOLE)],
  ['integer', 'number', numbers(WHOLE)],
  ['bigint', 'number', numbers([...WHOLE, '9007199254740991', '-9007199254740991'])],
  ['oid', 'number', numbers(['0', '36', '4294967295'])],
  // A real is read as its shortest text, as drivers read it.
  ['real', 'number', numbers(['0', '1', '36', '0.5', '0.1', '36.6', '1.5', '-999', 'NaN', 'Infinity', '-Infinity'])],
  ['double precision', 'number', numbers([...FLOATS, '0.1', '36.6', '5e-324', '1e300', '1234567.89'])],
  ['numeric', 'decimal', numbers([...DECIMALS, 'NaN'])],
  ['numeric(38,10)', 'decimal', numbers(DECIMALS)],
  ['numeric(9,0)', 'decimal', numbers(WHOLE)],
  ['numeric(12,2)', 'decimal', numbers(['36.00', '36.60', '-999.00', '0.10'])],
  ['money', 'decimal', numbers(['36.00', '36.60', '-999.00', '1234.50'])],
  ['boolean', 'boolean', [{ b: true }, { b: false }, null]],
  ['text', 'text', texts(TEXTS)],
  ['varchar', 'text', texts(TEXTS)],
  ['varchar(20)', 'text', texts(TEXTS)],
  ['char(12)', 'text', texts(TEXTS.filter((t) => !/^$/.test(t)))],
  ['name', 'text', texts(TEXTS)],
  ['mood', 'text', texts(['A', '36.0', '007', 'Y'])],
  ['padded', 'text', texts(['A', '36.0', '007', 'Y'])],
  ['amount', 'decimal', numbers(['36.00', '-999.00'])],
  ['uuid', 'text', texts(['00000000-0000-0000-0000-000000000007'])],
  ['inet', 'text', texts(['10.0.0.1'])],
  ['xml', 'text', texts(['<a>1</a>'])],
  ['int4range', 'text', texts(['[1,3)'])],
  // A single bit is the text 1 or 0; more bits are no number.
  ['bit', 'text', texts(['1', '0'])],
  ['bit(3)', 'binary', others('101')],
  ['varbit', 'binary', others('1')],
  ['date', 'date', others('2024-02-29')],
  ['time', 'time', others('12:34:56')],
  ['timetz', 'time', others('12:34:56+01')],
  ['timestamp', 'timestamp', others('2024-02-29 12:34:56')],
  ['timestamptz', 'timestamp', others('2024-02-29 12:34:56+01')],
  ['interval', 'duration', others('1 day')],
  ['bytea', 'binary', others('\\x00ff')],
  ['integer[]', 'nested', others('{36}')],
  ['pair', 'nested', others('(1,2)')],
]; // biome-ignore format: a table

const SETTING: Setting = { declared: {}, numbers: 'refuse' };
/** A database has booleans where a data frame has 0 and 1. */
const takes = (column: KindColumn, kind: Kind): boolean =>
  (kind === 'boolean' && column.kind === 'number') || takesKind({ ...column, input: inputOf(column) }, kind, SETTING);
function valueIn(column: KindColumn, value: Value): Value {
  if (value === null) return null;
  if ('b' in value && column.kind === 'number') return { n: value.b ? '1' : '0' };
  // A database gives all digits of a number, so that none is too large for a category: it is its text.
  const isLarge =
    'n' in value && Math.abs(Number(value.n)) > Number.MAX_SAFE_INTEGER && Number.isFinite(Number(value.n));
  if (!isLarge || column.kind === 'number') return value;
  return { t: /[.]/.test(value.n) ? value.n.replace(/0+$/, '') : String(Number(value.n)) };
}

const literal = (value: Value): string => {
  if (value === null) return 'NULL';
  const text = String(Object.values(value)[0]);
  return `'${text.replaceAll("'", "''")}'`;
};

requirePostgres('types of PostgreSQL', () => {
  const crossing = new Crossing();
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
    await server.query(`CREATE TYPE mood AS ENUM ('A', '36.0', '007', 'Y'); CREATE DOMAIN padded AS char(12);
      CREATE DOMAIN amount AS numeric(12,2); CREATE TYPE pair AS (a int, b int)`);
  });
  afterAll(async () => {
    await server.stop();
    await crossing.close();
  });

  /** The rows as CSV, or the columns that are refused. */
  async function read(
    columns: readonly KindColumn[],
    type: string,
    values: readonly Value[],
  ): Promise<string | string[]> {
    const rows = values.map((value, row) => `(${literal(value)}::${type}, ${row})`).join(', ');
    const query = `SELECT ${columns.map(({ name }) => `v AS "${name}"`).join(', ')}, row AS "${ALWAYS}"
      FROM (VALUES ${rows}) AS t(v, row) ORDER BY row`;
    const all = [...columns, { name: ALWAYS, kind: 'number' }];
    const manifest = { columns: all, inputs: [], outcome: undefined } as unknown as Manifest;
    const settings = { url: server.url, connect_timeout_ms: 60_000, statement_timeout_ms: 60_000, query };
    try {
      const source = await openQuery(settings, { manifest, passthrough: [] });
      const chunks: Buffer[] = [];
      for await (const chunk of source.chunks) chunks.push(Buffer.from(chunk));
      await source.close();
      return Buffer.concat(chunks).toString();
    } catch (error) {
      if (!(error instanceof SluiceError) || error.code !== 'bad_type') throw error;
      return error.details.map(({ column }) => column!);
    }
  }

  test.each(['json', 'jsonb'])('members of %s: numbers, booleans and texts as in JSON', async (type) => {
    const members = ['36', '36.60', 'true', '"36"', '"A"', 'null', '{"a": 1}'];
    const refused = ALL.filter(({ kind }) => kind === 'category' || kind === 'text').map(({ name }) => name);
    expect(await read(ALL, type, others(...members))).toEqual(refused);
    const spec = ALL.find(({ name }) => name === 'number')!;
    const values: Value[] = [
      { n: '36' },
      { n: '36.60' },
      { t: 'true' },
      { t: '36' },
      { t: 'A' },
      null,
      { t: '{"a": 1}' },
    ];
    const answers = await crossing.csv((await read([spec], type, others(...members))) as string, spec, []);
    expect(crossing.compare(answers as Answer[], spec, SETTING, { name: type, values })).toEqual([]);
  });

  test('values of every type are passed through to a table as the texts that the database has for them', async () => {
    const kinds = registryOfKinds();
    const file = path.join(kinds.folder, 'pass.yaml');
    try {
      const names = TYPES.map((_, i) => `c${i}`);
      await server.query(`CREATE TABLE given (${TYPES.map(([type], i) => `c${i} ${type}`).join(', ')}, "row" int)`);
      for (let row = 0; row < Math.max(...TYPES.map(([, , values]) => values.length)); row++) {
        const cells = TYPES.map(([type, , values]) => `${literal(values[row] ?? null)}::${type}`);
        await server.query(`INSERT INTO given VALUES (${cells.join(', ')}, ${row})`);
      }
      const end = { type: 'postgres', url_env: 'SLUICE_TYPES_DATABASE' };
      const pipeline = {
        model: PASSING,
        source: { ...end, table: 'given', key: ['row'] },
        score: { workers: 1, passthrough: names },
        sink: { ...end, table: 'passed', mode: 'replace' },
      };
      process.env.SLUICE_TYPES_DATABASE = server.url;
      writeFileSync(file, YAML.stringify(pipeline));
      const options = { name: 'types', registry: kinds.folder, quiet: true };
      await driveRun({ ...(await readPipeline(file)), resume: 'restart' }, options);
      // ISO 8601 for times and intervals, and JSON for what has parts; an inet of one address has no mask.
      const written: Record<string, string> = { inet: "'10.0.0.1'", timestamp: "'2024-02-29T12:34:56'", timestamptz: "'2024-02-29T11:34:56+00:00'", interval: "'P1D'", 'integer[]': "'[36]'", pair: `'{"a":1,"b":2}'` }; // biome-ignore format: one line
      const texts = names.map((name, i) => {
        const text = written[TYPES[i]![0]];
        return text === undefined ? `${name}::text` : `CASE WHEN ${name} IS NULL THEN NULL ELSE ${text} END AS ${name}`;
      });
      const wanted = await server.query(`SELECT ${texts.join(', ')} FROM given ORDER BY "row"`);
      const padded = names.filter((_, i) => /^(char|padded)/.test(TYPES[i]![0]));
      const { rows } = await server.query(`SELECT ${names.join(', ')} FROM passed ORDER BY "row"`);
      // Padding is no part of the text of a char, but of its value.
      const trimmed = (all: Record<string, string | null>[]) => all.map((row) => ({ ...row, ...Object.fromEntries(padded.map((name) => [name, row[name]?.trimEnd()])) })); // biome-ignore format: one line
      expect(trimmed(rows as never)).toEqual(trimmed(wanted.rows as never));
    } finally {
      delete process.env.SLUICE_TYPES_DATABASE;
      kinds.remove();
    }
  });

  test.each(TYPES)('%s', async (type, kind, values) => {
    const given = ALL.filter((column) => takes(column, kind));
    const refused = ALL.filter((column) => !takes(column, kind)).map(({ name }) => name);
    if (refused.length > 0) expect(await read(ALL, type, values)).toEqual(refused);
    if (given.length === 0) return;
    const text = await read(given, type, values);
    if (typeof text !== 'string') throw new Error(`refused: ${text.join(', ')}`);
    const found: string[] = [];
    for (const spec of given) {
      const answers = await crossing.csv(
        text,
        spec,
        given.filter((c) => c !== spec).map(({ name }) => name),
      );
      if (typeof answers === 'string') found.push(`${spec.name}: refused, ${answers}`);
      else {
        const cells = { name: `${type} as ${spec.name}`, values: values.map((value) => valueIn(spec, value)) };
        found.push(...crossing.compare(answers, spec, SETTING, cells));
      }
    }
    expect(found).toEqual([]);
  });
});
