// Predictions in a table: collected where nobody sees them, published whole, the same after a repetition, and refused in words.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { predictionLayout, type StoredColumn } from '../../../src/connectors/postgres/table-layout.ts';
import { openTableSink, type TableSinkSettings } from '../../../src/connectors/postgres/table-sink.ts';
import { SluiceError } from '../../../src/core/errors.ts';
import { isVaryingColumn } from '../../../src/formats/write/prediction-fields.ts';
import type { InterpretationSpec } from '../../../src/inference/explain/interpretation.ts';
import type { ByteSink } from '../../../src/io/sink/byte-sink.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import { requirePostgres } from '../../support/postgres/require.ts';
import { type PostgresServer, startPostgres } from '../../support/postgres/server.ts';

const COLUMNS: StoredColumn[] = [
  { name: 'id', kind: null },
  { name: 'note', kind: null },
  { name: 'row', kind: 'integer' },
  { name: 'probability', kind: 'number' },
  { name: 'prediction', kind: 'boolean' },
  { name: 'error_code', kind: 'text' },
];
/** The columns of predictions that every run writes. */
const ALWAYS = ['row', 'error_code', 'error_column', 'error_message'];
const HEADER = 'id,note,row,probability,prediction,error_code\n';
const ROWS = ['"a","",1,0.25,false,', '"b",,2,0.875,true,', '"c","=1+1, ""x""\n-",3,,,bad_number'];

test('the columns of a prediction that only some runs write', () => {
  const columns = [{ name: 'a.b' }, { name: 'x\ny' }, { name: 'z' }] as Manifest['columns'];
  const binary = { task: 'binary', classes: [0, 1], positive_class: 1, scorecard: { base_points: 1, base_odds: 1, points_to_double_odds: 1 }, decisions: [{ name: 'a', min_probability: 0 }] }; // biome-ignore format: one line
  const some = [binary, { task: 'multiclass', classes: ['p', 'q.r\ns'] }, { task: 'regression' }, { task: 'score' }];
  const spec = { effects: true, reasons: true, interactions: 3 } as unknown as InterpretationSpec;
  const names = some.flatMap((one) =>
    predictionLayout({ ...one, columns } as unknown as Manifest, [], spec).map(({ name }) => name),
  );
  expect(names).toEqual(expect.arrayContaining(['points', 'decision', 'value', 'effect.x\ny', 'interaction.3.effect']));
  expect(names.filter((name) => !isVaryingColumn(name) && !ALWAYS.includes(name))).toEqual([]);
  const others = [...ALWAYS, 'id', 'effects', 'my_value', 'probability2', 'interaction.first', 'effect'];
  expect(others.filter(isVaryingColumn)).toEqual([]);
});

requirePostgres('a table as the sink', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  const settings = (table: string, more: Partial<TableSinkSettings> = {}): TableSinkSettings => ({
    url: server.url,
    table,
    mode: 'append',
    connect_timeout_ms: 5000,
    statement_timeout_ms: 60_000,
    ...more,
  });
  const open = (
    table: string,
    more?: Partial<TableSinkSettings>,
    input = 'an input',
    columns = COLUMNS,
    stored = new Map<string, number>(),
  ) => openTableSink(settings(table, more), { columns, inputDigest: () => input, stored });
  const put = async (sink: ByteSink, rows = ROWS, header = HEADER): Promise<void> => {
    await sink.write(Buffer.from(header));
    for (const row of rows) await sink.write(Buffer.from(`${row}\n`));
    await sink.commit();
  };
  const rowsOf = async (table: string) => (await server.query(`SELECT * FROM ${table} ORDER BY row`)).rows;
  const failure = async (work: Promise<unknown>): Promise<SluiceError> => {
    const error = await work.then(
      () => null,
      (e: unknown) => e,
    );
    expect(error).toBeInstanceOf(SluiceError);
    return error as SluiceError;
  };
  /** Which version of each row there is: rows that are written again have another. */
  const versions = async (table: string) =>
    (await server.query(`SELECT row, xmin::text FROM ${table} ORDER BY 1`)).rows;

  test('the table is made, NULL is no empty text, and nothing is there before the end', async () => {
    const sink = await open('made');
    await sink.write(Buffer.from(HEADER));
    await sink.write(Buffer.from(`${ROWS[0]}\n`));
    expect((await server.query("SELECT to_regclass('made') AS t")).rows).toEqual([{ t: null }]);
    for (const row of ROWS.slice(1)) await sink.write(Buffer.from(`${row}\n`));
    await sink.commit();
    expect(await rowsOf('made')).toEqual([
      { id: 'a', note: '', row: '1', probability: 0.25, prediction: false, error_code: null },
      { id: 'b', note: null, row: '2', probability: 0.875, prediction: true, error_code: null },
      { id: 'c', note: '=1+1, "x"\n-', row: '3', probability: null, prediction: null, error_code: 'bad_number' },
    ]);
  });

  test('identical inputs of one run are all appended, once', async () => {
    for (let repetition = 0; repetition < 2; repetition++) {
      const stored = new Map<string, number>();
      for (const input of ['one', 'other', 'one', 'one']) await put(await open('copies', {}, input, COLUMNS, stored));
      expect((await rowsOf('copies')).length).toBe(12);
    }
    expect((await server.query("SELECT sum(rows) AS rows FROM sluice_runs WHERE target = 'copies'")).rows).toEqual([
      { rows: '12' },
    ]);
  });

  test('a table that was dropped gets its rows again', async () => {
    await put(await open('dropped'));
    await server.query('DROP TABLE dropped');
    await put(await open('dropped'));
    expect((await rowsOf('dropped')).length).toBe(3);
    await put(await open('dropped'));
    expect((await rowsOf('dropped')).length).toBe(3);
  });

  test('an append that is repeated adds nothing; another input does', async () => {
    await put(await open('appended'));
    const before = await versions('appended');
    await put(await open('appended'));
    expect(await versions('appended')).toEqual(before);
    await put(await open('appended', {}, 'another input'));
    await put(await open('appended'), ROWS.slice(0, 1));
    expect((await rowsOf('appended')).length).toBe(7);
  });

  test.each([
    ['numeric', '1.0', '1.00'],
    ['interval', '30 days', '1 mon'],
    ['json', '{"a":1}', '{"a":2}'],
    ['citext', 'smith', 'Smith'],
    ['point', '(1,2)', '(1,3)'],
  ])(
    'a merge replaces a %s that is equal but not identical, and leaves an identical one alone',
    async (type, before, now) => {
      const table = `equal_${type}`;
      await server.query('CREATE EXTENSION IF NOT EXISTS citext');
      await server.query(
        `CREATE TABLE ${table} (id text PRIMARY KEY, note ${type}, row int, probability float8, prediction boolean, error_code text)`,
      );
      const merge = { mode: 'merge', key: ['id'] } as const;
      const row = (value: string) => [`"a","${value.replaceAll('"', '""')}",1,0.25,false,`];
      const stored = async () => (await server.query(`SELECT note::text, xmin::text FROM ${table}`)).rows[0];
      await put(await open(table, merge), row(before));
      const first = await stored();
      await put(await open(table, merge), row(before));
      expect(await stored()).toEqual(first);
      await put(await open(table, merge), row(now));
      expect(await stored()).toMatchObject({ note: now });
    },
  );

  test('a merge replaces by key, and leaves rows alone that are the same', async () => {
    const merge = { mode: 'merge', key: ['id'] } as const;
    await put(await open('merged', merge));
    const before = await versions('merged');
    await put(await open('merged', merge));
    expect(await versions('merged')).toEqual(before);
    await put(await open('merged', merge), ['"b",,2,0.5,false,', '"d",,4,0.75,true,']);
    expect((await rowsOf('merged')).map((r) => [r.id, r.probability])).toEqual([
      ['a', 0.25],
      ['b', 0.5],
      ['c', null],
      ['d', 0.75],
    ]);
    const after = await versions('merged');
    expect(after.filter((v, i) => v.xmin === before[i]?.xmin).map((v) => v.row)).toEqual(['1', '3']);
  });

  test('a key that is NULL or there twice, and a table without an index on it, are refused', async () => {
    const merge = { mode: 'merge', key: ['id'] } as const;
    const nulls = await failure(put(await open('keyed', merge), [',,1,,,']));
    expect([nulls.code, nulls.message]).toEqual(['database_refused', 'the key of "keyed" (id) is NULL in a row']);
    const twice = await failure(put(await open('keyed', merge), ['"x",,1,,,', '"x",,2,,,']));
    expect(twice.message).toBe('the key of "keyed" (id) is not unique in the input; duplicate values: 1');
    await put(await open('without_key'));
    await server.query('CREATE TABLE unkeyed AS SELECT * FROM without_key');
    const unkeyed = await failure(open('unkeyed', merge));
    expect(unkeyed.message).toBe('the table "unkeyed" does not fit: it has no unique index on (id)');
    // An index on more columns, on some rows or on an expression tells no rows apart by this key.
    await server.query('CREATE UNIQUE INDEX ON unkeyed (id, row)');
    await server.query('CREATE UNIQUE INDEX ON unkeyed (id) WHERE row > 0');
    await server.query('CREATE UNIQUE INDEX ON unkeyed (lower(id))');
    expect((await failure(open('unkeyed', merge))).code).toBe('database_refused');
    await server.query('ALTER TABLE unkeyed ADD UNIQUE (id) DEFERRABLE');
    const deferrable = await failure(open('unkeyed', merge));
    expect(deferrable.message).toBe('the table "unkeyed" does not fit: its unique index on (id) is deferrable');
    await server.query('CREATE UNIQUE INDEX ON unkeyed (id)');
    expect((await failure(open('unkeyed', merge))).message).toBe(deferrable.message);
    await server.query('ALTER TABLE unkeyed DROP CONSTRAINT unkeyed_id_key');
    await server.query('CREATE TABLE heir () INHERITS (unkeyed)');
    const inherited = await failure(open('unkeyed', merge));
    expect(inherited.message).toContain('does not fit: other tables inherit from it');
    await server.query('CREATE SCHEMA _timescaledb_internal');
    await server.query('ALTER TABLE heir SET SCHEMA _timescaledb_internal');
    await put(await open('unkeyed', merge), ['"d",,4,0.75,true,']);
    expect((await rowsOf('unkeyed')).length).toBe(4);
  });

  test('a merge never leaves the decision, the effects or the version of another prediction in its rows', async () => {
    const merge = { mode: 'merge', key: ['id'] } as const;
    await put(await open('mixed', merge));
    await server.query(`ALTER TABLE mixed ADD decision text, ADD "effect.x" float8, ADD model_version text,
      ADD remark text DEFAULT 'own'`);
    // These columns have no values yet, and the column of the user is left alone.
    await put(await open('mixed', merge), ['"b",,2,0.5,false,']);
    await server.query("UPDATE mixed SET decision = 'approve', \"effect.x\" = 1 WHERE id = 'b'");
    const before = await rowsOf('mixed');
    const mixed = await failure(put(await open('mixed', merge), ['"b",,2,0.1,false,', '"e",,5,0.1,false,']));
    expect([mixed.code, mixed.message]).toEqual([
      'database_refused',
      'the table "mixed" has values of earlier predictions in columns that this run does not write: decision, effect.x, model_version. Rows with the same key would keep them; set these columns to NULL, or drop them',
    ]);
    expect(await rowsOf('mixed')).toEqual(before);
    // Rows with other keys may belong to another model.
    await put(await open('mixed', merge), ['"e",,5,0.1,false,']);
    const decided: StoredColumn[] = [...COLUMNS, { name: 'decision', kind: 'text' }, { name: 'effect.x', kind: 'number' }]; // biome-ignore format: one line
    const header = `${HEADER.trimEnd()},decision,effect.x\n`;
    await put(await open('mixed', merge, 'x', decided), ['"b",,2,0.1,false,,decline,'], header);
    const { rows } = await server.query('SELECT decision, "effect.x", remark FROM mixed WHERE id = \'b\'');
    expect(rows).toEqual([{ decision: 'decline', 'effect.x': null, remark: 'own' }]);
  });

  test.each(['text', 'varchar(9)', 'char(3)', 'words', 'elsewhere.citext'])(
    'an empty text is not NULL in a column of the type %s',
    async (type) => {
      await server.query(`CREATE SCHEMA IF NOT EXISTS elsewhere; DROP DOMAIN IF EXISTS words CASCADE;
        CREATE DOMAIN words AS text; DROP EXTENSION IF EXISTS citext CASCADE; CREATE EXTENSION citext SCHEMA elsewhere`);
      await server.query(
        `CREATE TABLE empty_texts (id text, note ${type}, row int, probability float8, prediction boolean, error_code text)`,
      );
      await put(await open('empty_texts', { mode: 'replace' }), ROWS.slice(0, 2));
      const { rows } = await server.query('SELECT id, note IS NULL AS none FROM empty_texts ORDER BY 1');
      await server.query('DROP TABLE empty_texts');
      expect(rows).toEqual([{ id: 'a', none: false }, { id: 'b', none: true }]); // biome-ignore format: one line
    },
  );

  test('a replacement is seen whole: until it is committed readers have what was there', async () => {
    await put(await open('replaced', { mode: 'replace' }));
    const sink = await open('replaced', { mode: 'replace' });
    await sink.write(Buffer.from(`${HEADER}"z",,9,0.5,true,\n`));
    expect((await rowsOf('replaced')).map((r) => r.id)).toEqual(['a', 'b', 'c']);
    await sink.commit();
    expect((await rowsOf('replaced')).map((r) => r.id)).toEqual(['z']);
  });

  test('what is aborted, and what the connection is lost of, leaves nothing', async () => {
    await put(await open('kept', { mode: 'replace' }));
    for (const end of ['abort', 'terminate', 'crash'] as const) {
      const sink = await open('kept', { mode: 'replace' });
      await sink.write(Buffer.from(`${HEADER}"z",,9,0.5,true,\n`));
      if (end === 'abort') await sink.abort();
      else {
        const kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice'";
        if (end === 'crash') await server.crash();
        else await server.query(kill);
        const lost = await failure(sink.commit());
        expect([lost.code, lost.entry.retryable]).toEqual(['database_failed', true]);
        await sink.abort();
      }
      expect((await rowsOf('kept')).map((r) => r.id)).toEqual(['a', 'b', 'c']);
    }
  });

  const discard = (table: string, change: string, when: string): string =>
    `CREATE TRIGGER discard BEFORE ${change} ON ${table} FOR EACH ROW WHEN (${when}) EXECUTE FUNCTION discard()`;

  test.each<[string, Partial<TableSinkSettings>, (table: string) => string, says: string | null]>([
    ['append', {}, (t) => discard(t, 'INSERT', "new.id = 'f'"), 'discarded: 1'],
    ['append', {}, (t) => `CREATE RULE r AS ON INSERT TO ${t} WHERE new.row > 1 DO INSTEAD NOTHING`, 'discarded: 2'],
    ['replace', { mode: 'replace' }, (t) => discard(t, 'INSERT', "new.id = 'b'"), 'discarded: 1'],
    ['replace', { mode: 'replace' }, (t) => discard(t, 'DELETE', "old.id = 'b'"), 'kept earlier rows'],
    ['replace', { mode: 'replace' }, (t) => `CREATE RULE r AS ON DELETE TO ${t} DO INSTEAD NOTHING`, 'kept earlier rows'], // biome-ignore format: one line
    ['replace', { mode: 'replace' }, (t) => discard(t, 'DELETE', 'false'), null],
    ['merge', { mode: 'merge', key: ['id'] }, (t) => discard(t, 'UPDATE', "old.id = 'b'"), 'discarded: 1'],
    ['merge', { mode: 'merge', key: ['id'] }, (t) => discard(t, 'INSERT', "new.id = 'e'"), 'discarded: 1'],
    ['merge', { mode: 'merge', key: ['id'] }, (t) => discard(t, 'UPDATE', "old.id = 'c'"), null],
    ['merge of a partition', { mode: 'merge', key: ['id'] }, (t) => discard(`${t}_part`, 'UPDATE', "old.id = 'b'"), 'discarded: 1'], // biome-ignore format: one line
  ])('rows that the table does not store, or does not delete, end the run: %s %o', async (_, more, guard, says) => {
    await server.query(`CREATE OR REPLACE FUNCTION discard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      DROP TABLE IF EXISTS guarded;
      CREATE TABLE guarded (id text PRIMARY KEY, note text, row int, probability float8, prediction boolean, error_code text)
        PARTITION BY LIST (id);
      CREATE TABLE guarded_part PARTITION OF guarded DEFAULT;
      INSERT INTO guarded SELECT id, '', row, 0.25, false, NULL FROM (VALUES ('b', 9), ('c', 3)) AS v (id, row)`);
    await server.query(guard('guarded'));
    const before = await versions('guarded');
    const rows = ['"e",,1,0.25,false,', '"b",,2,0.875,true,', '"c","",3,0.25,false,'];
    const done = open('guarded', more).then((sink) => put(sink, more.mode === undefined ? [rows[0]!, '"f",,2,1,true,', '"h",,4,1,true,'] : rows)); // biome-ignore format: one line
    if (says === null) {
      await done;
      expect((await rowsOf('guarded')).map((r) => r.id)).toEqual(['e', 'b', 'c']);
      return;
    }
    const error = await failure(done);
    expect([error.code, error.message]).toEqual(['database_refused', expect.stringContaining(says)]);
    expect(await versions('guarded')).toEqual(before);
  });

  test('a table that does not fit is refused before the first row, each fault by its column', async () => {
    const cases: [ddl: string, says: string][] = [
      [
        '(id text, note text, row bigint, probability float8, prediction boolean)',
        'it has no column error_code (text)',
      ],
      ['(id text, row bigint, probability float8, prediction boolean, error_code text)', 'it has no column note'],
      ['(id text, note text, row smallint, probability float8, prediction boolean, error_code text)', 'its column row has the type smallint instead of bigint'], // biome-ignore format: one line
      ['(id text, note text, row bigint, probability integer, prediction boolean, error_code text)', 'its column probability has the type integer instead of double precision'], // biome-ignore format: one line
      ['(id text, note text, row bigint, probability float8, prediction boolean, error_code text, branch text NOT NULL)', 'its column branch requires a value, but predictions have none for it'], // biome-ignore format: one line
      ['(id text, note text GENERATED ALWAYS AS (id) STORED, row bigint, probability float8, prediction boolean, error_code text)', 'its column note is generated'], // biome-ignore format: one line
    ];
    for (const [i, [ddl, says]] of cases.entries()) {
      await server.query(`CREATE TABLE misfit${i} ${ddl}`);
      const error = await failure(open(`misfit${i}`));
      expect([error.code, error.message]).toEqual(['database_refused', `the table "misfit${i}" does not fit: ${says}`]);
    }
    await server.query('CREATE VIEW a_view AS SELECT * FROM misfit0');
    expect((await failure(open('a_view'))).message).toBe('the table "a_view" exists, but is not a table');
    await server.query(
      'CREATE TABLE fits (n serial, note varchar(20), id int, row int, probability numeric, prediction text, error_code varchar(5) DEFAULT NULL)',
    );
    await put(await open('fits'), ['"7","x",1,0.25,true,']);
    expect(await rowsOf('fits')).toEqual([
      { n: 1, note: 'x', id: 7, row: 1, probability: '0.25', prediction: 'true', error_code: null },
    ]);
  });

  test('what the database refuses of a row is told without the value', async () => {
    await server.query(
      `CREATE TABLE strict (id int, note varchar(8), row bigint, probability float8 CHECK (probability < 1), prediction boolean, error_code text UNIQUE NOT NULL)`,
    );
    const cases: [row: string, says: string][] = [
      ['"secret","x",1,0.5,true,a', 'a text is not of the type of its column (row 2, column id), SQLSTATE 22P02'],
      ['"99999999999","x",1,0.5,true,a', 'a text is not of the type of its column'],
      ['"1","secret secret",1,0.5,true,a', 'a text is too long for its column (row 2, column note), SQLSTATE 22001'],
      [
        '"1","x",1,5,true,secret',
        'a check constraint of the table is violated (constraint strict_probability_check), SQLSTATE 23514',
      ],
      ['"1","x",1,0.5,true,', 'a column must have a value (column error_code), SQLSTATE 23502'],
      ['"1","x",1,0.5,true,secret\n"1","x",1,0.5,true,secret', 'a unique key already exists (constraint strict_error_code_key), SQLSTATE 23505'], // biome-ignore format: one line
      ['"1","x\0secret",1,0.5,true,a', 'SQLSTATE 22021'],
      ['"1","x",1,0.5,true,a,secret', 'SQLSTATE 22P04'],
    ];
    for (const [row, says] of cases) {
      const error = await failure(put(await open('strict'), [row]));
      expect(error.code).toBe('database_refused');
      if (!row.includes('9999')) expect(error.message).toContain(says);
      expect(error.message).not.toMatch(/secret|99999/);
    }
    expect(await rowsOf('strict')).toEqual([]);
  });

  test('who may not do what is needed is told what was refused', async () => {
    const merge = { mode: 'merge', key: ['id'] } as const;
    await put(await open('added_to'));
    await put(await open('merged_into', merge));
    await put(await open('replaced_by', { mode: 'replace' }));
    await server.query("CREATE ROLE clerk LOGIN PASSWORD 'pw'; GRANT SELECT ON added_to TO clerk");
    const clerk = server.urlOf('clerk', 'pw');
    const says = async (table: string, more: Partial<TableSinkSettings>) => {
      const { code, message } = await failure(open(table, { url: clerk, ...more }));
      expect(code).toBe('database_refused');
      return message;
    };
    expect(await says('added_to', {})).toBe('the table "added_to": the role has no right to INSERT');
    expect(await says('merged_into', merge)).toBe(
      'the table "merged_into": the role has no right to SELECT, INSERT, UPDATE',
    );
    expect(await says('replaced_by', { mode: 'replace' })).toBe('the table "replaced_by": the role has no right to SELECT, INSERT, DELETE'); // biome-ignore format: one line
    expect(await says('new', { mode: 'replace' })).toBe(
      'the table "new" does not exist, and the role may not create it',
    );
    // The documented grants are enough.
    await server.query('GRANT SELECT, INSERT ON added_to TO clerk; GRANT SELECT, INSERT ON sluice_runs TO clerk');
    await put(await open('added_to', { url: clerk }, 'by the clerk'));
    await server.query(
      'GRANT SELECT, INSERT, UPDATE ON merged_into TO clerk; GRANT SELECT, INSERT, DELETE ON replaced_by TO clerk',
    );
    await put(await open('merged_into', { url: clerk, ...merge }), ['"b",,2,0.125,false,']);
    await put(await open('replaced_by', { url: clerk, mode: 'replace' }));
    expect((await rowsOf('added_to')).length).toBe(6);
  });
});
