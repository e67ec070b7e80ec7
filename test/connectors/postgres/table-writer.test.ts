// A member that is suspended within a COPY holds the lock of its partition, which no timeout of the server ends.
import pg from 'pg';
import { beforeAll, expect, test } from 'vitest';
import { copyIn } from '../../../src/connectors/postgres/copy-in.ts';
import { TableWriter } from '../../../src/connectors/postgres/table-writer.ts';
import { requirePostgres } from '../../support/postgres/require.ts';
import { type PostgresServer, startPostgres } from '../../support/postgres/server.ts';

const COLUMNS = [{ name: 'x', kind: 'integer' as const }];

requirePostgres('a table that a topic is written to', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
    await server.query('CREATE TABLE rows (x int)');
    return () => server.stop();
  });

  const writer = (table: string, url = server.url, more: object = {}) =>
    new TableWriter({
      database: { url, connect_timeout_ms: 5000, statement_timeout_ms: 60_000 },
      table,
      mode: 'append',
      key: [],
      letters: null,
      group: 'g',
      topic: 't',
      transactionTimeoutMs: 1000,
      ...more,
    } as ConstructorParameters<typeof TableWriter>[0]);

  /** A session with a lock on the partition that sends only a part of its rows. */
  async function suspended(application: string): Promise<{ ended: () => boolean; close: () => Promise<void> }> {
    const client = new pg.Client({ connectionString: server.url, application_name: application });
    let ended = false;
    client.on('error', () => {
      ended = true;
    });
    await client.connect();
    await client.query('BEGIN');
    await client.query('UPDATE sluice_offsets SET next_offset = next_offset');
    const copy = copyIn(client as never, 'COPY rows FROM STDIN WITH (FORMAT csv)');
    await copy.write(Buffer.from('1\n')).catch(() => {});
    return { ended: () => ended, close: () => client.end().catch(() => {}) };
  }

  /** A batch of one row. */
  const batch = (partition: number, from: bigint | null, to: bigint, topicId: string | null = null) => ({
    partition,
    from: from === null ? null : { offset: from, topicId },
    to: { offset: to, topicId },
    columns: COLUMNS,
    rows: [`${partition}\n`],
    letters: [],
  });

  test('a session that waits within a COPY for too long is ended by the one that needs its lock', async () => {
    const own = writer('rows');
    await own.write(batch(0, null, 1n));
    const other = await suspended('sluice topic');
    await expect(own.write(batch(0, 1n, 2n))).rejects.toMatchObject({ code: 'database_failed' });
    await expect.poll(other.ended).toBe(true);
    await own.write(batch(0, 1n, 2n));
    expect((await server.query('SELECT count(*)::int AS n FROM rows WHERE x = 0')).rows).toEqual([{ n: 2 }]);
    await own.close();
    await other.close();
  });

  test('an offset of an earlier topic is not the offset of the topic, even if the number is the same', async () => {
    const own = writer('rows');
    await own.write(batch(2, null, 1n, 'a'));
    await expect(own.write(batch(2, 1n, 2n, 'b'))).rejects.toMatchObject({ code: 'database_failed' });
    await own.begin(2, { offset: 1n, topicId: 'a' }, { offset: 0n, topicId: 'b' });
    expect(await own.committed(2)).toEqual({ offset: 0n, topicId: 'b' });
    await own.write(batch(2, 0n, 2n, 'b'));
    expect((await server.query('SELECT count(*)::int AS n FROM rows WHERE x = 2')).rows).toEqual([{ n: 2 }]);
    await own.close();
  });

  test.each(['bigint', 'text', 'numeric'])(
    'a merge: the last of a key, and every row without a key; offsets are %s',
    async (type) => {
      const table = `merged_${type}`;
      await server.query(`CREATE TABLE ${table} (id text UNIQUE, part int, "offset" ${type}, decision text)`);
      const own = writer(table, server.url, { mode: 'merge', key: ['id'] });
      const columns = [
        { name: 'id', kind: null },
        { name: 'part', kind: null },
        { name: 'offset', kind: 'integer' as const },
      ];
      const rows = ['"a",1,8\n', '"a",1,9\n', '"a",1,10\n', ',1,11\n', ',2,12\n', '"b",1,13\n'];
      await own.write({ ...batch(0, null, 14n), columns, rows });
      const stored = () => server.query(`SELECT id, part, "offset"::int AS n FROM ${table} ORDER BY n`);
      const all = [
        { id: 'a', part: 1, n: 10 },
        { id: null, part: 1, n: 11 },
        { id: null, part: 2, n: 12 },
        { id: 'b', part: 1, n: 13 },
      ];
      expect((await stored()).rows).toEqual(all);
      await server.query(`UPDATE ${table} SET decision = 'approve' WHERE id = 'a'`);
      const mixed = own.write({ ...batch(0, 14n, 15n), columns, rows: ['"a",1,14\n'] });
      await expect(mixed).rejects.toMatchObject({ code: 'database_refused', message: expect.stringContaining('decision') }); // biome-ignore format: one line
      expect((await stored()).rows).toEqual(all);
      expect(await own.committed(0)).toEqual({ offset: 14n, topicId: null });
      await own.close();
    },
  );

  test.each([
    ['append', "coalesce(new.id, '') = 'b'", ['"a",1\n', '"b",2\n', ',3\n'], 1],
    ['append, a dead letter', 'false', ['"a",1\n'], 1],
    ['merge', "new.id = 'b'", ['"a",1\n', '"b",2\n', ',3\n'], 1],
    ['merge of identical rows', 'false', ['"z",0\n', '"a",1\n', ',3\n'], 0],
    ['merge without a key', 'new.id IS NULL', ['"z",0\n', '"a",1\n', ',3\n', ',4\n'], 2],
    ['merge of changed rows', 'true', ['"z",5\n'], 1],
  ] as const)('rows that a trigger discards end the batch: %s', async (mode, when, rows, lost) => {
    await server.query(`CREATE TABLE guarded (id text UNIQUE, "offset" bigint); INSERT INTO guarded VALUES ('z', 0);
      CREATE TABLE guarded_letters (topic text, partition int, "offset" bigint, key bytea, value bytea,
        error_code text, error_column text, error_message text);
      CREATE OR REPLACE FUNCTION discard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER discard BEFORE INSERT OR UPDATE ON guarded FOR EACH ROW WHEN (${when}) EXECUTE FUNCTION discard();
      CREATE TRIGGER discard BEFORE INSERT ON guarded_letters FOR EACH ROW EXECUTE FUNCTION discard()`);
    const own = writer('guarded', server.url, { mode: mode.split(/\W/)[0] as 'merge', key: ['id'], letters: 'guarded_letters' }); // biome-ignore format: one line
    const columns = [
      { name: 'id', kind: null },
      { name: 'offset', kind: 'integer' as const },
    ];
    const letters = mode.includes('letter') ? ['t,0,9,,,"bad_number",,\n'] : [];
    const from = await own.committed(0);
    const written = own.write({ ...batch(0, null, 20n), from, columns, rows, letters });
    if (lost === 0) await written;
    else {
      const says = `did not store all rows; a trigger or rule of the table discarded: ${lost}`;
      await expect(written).rejects.toMatchObject({ code: 'database_refused', message: expect.stringContaining(says) });
    }
    const { rows: stored } = await server.query('SELECT * FROM guarded');
    expect(stored.length).toBe(lost === 0 ? 3 : 1);
    expect(await own.committed(0)).toEqual(lost === 0 ? { offset: 20n, topicId: null } : from);
    await own.close();
    await server.query('DROP TABLE guarded, guarded_letters; DELETE FROM sluice_offsets');
  });

  test.each(['append', 'merge'] as const)('a new model version has other columns: %s', async (mode) => {
    const table = `versions_${mode}`;
    await server.query(`CREATE TABLE ${table} (id text UNIQUE, "offset" bigint, decision boolean)`);
    const own = writer(table, server.url, { mode, key: ['id'] });
    const place = [
      { name: 'id', kind: null },
      { name: 'offset', kind: 'integer' as const },
    ];
    const write = (
      from: bigint | null,
      to: bigint,
      more: { name: string; kind: 'boolean' | 'text' }[],
      rows: string[],
    ) => own.write({ ...batch(0, from, to), columns: [...place, ...more] as never, rows });
    await write(null, 101n, [], ['"a",100\n']);
    await write(101n, 103n, [{ name: 'decision', kind: 'boolean' }], ['"b",101,t\n', '"c",102,f\n']);
    // The same name, but another type: the table is checked again.
    const mistyped = write(103n, 104n, [{ name: 'decision', kind: 'text' }], ['"d",103,"1"\n']);
    await expect(mistyped).rejects.toMatchObject({
      code: 'database_refused',
      message: expect.stringContaining('decision'),
    });
    await write(103n, 104n, [], ['"e",103\n']);
    expect((await server.query(`SELECT id, decision FROM ${table} ORDER BY "offset"`)).rows).toEqual([
      { id: 'a', decision: null },
      { id: 'b', decision: true },
      { id: 'c', decision: false },
      { id: 'e', decision: null },
    ]);
    await own.close();
  });

  test('a merge by an index in which NULLs are equal: the last row without a key', async () => {
    await server.query('CREATE TABLE equal_nulls (id text, "offset" int, UNIQUE NULLS NOT DISTINCT (id))');
    const own = writer('equal_nulls', server.url, { mode: 'merge', key: ['id'] });
    const columns = [
      { name: 'id', kind: null },
      { name: 'offset', kind: 'integer' as const },
    ];
    await own.write({ ...batch(0, null, 3n), columns, rows: [',1\n', ',2\n'] });
    await own.write({ ...batch(0, 3n, 5n), columns, rows: [',3\n', ',4\n'] });
    expect((await server.query('SELECT * FROM equal_nulls')).rows).toEqual([{ id: null, offset: 4 }]);
    await own.close();
  });

  test.each([true, false])('a table of offsets without topic ids; the role owns it: %s', async (owns) => {
    const schema = `earlier_${owns}`;
    await server.query(`CREATE SCHEMA ${schema}; CREATE ROLE ${schema} LOGIN PASSWORD 'p';
      CREATE TABLE ${schema}.rows (x int);
      CREATE TABLE ${schema}.sluice_offsets (pipeline text, target text, topic text, partition integer,
        next_offset bigint NOT NULL, updated_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (pipeline, target, topic, partition));
      INSERT INTO ${schema}.sluice_offsets VALUES ('g', 'rows', 't', 0, 5);
      GRANT USAGE ON SCHEMA ${schema} TO ${schema}; GRANT ALL ON ALL TABLES IN SCHEMA ${schema} TO ${schema};
      ${owns ? `ALTER TABLE ${schema}.sluice_offsets OWNER TO ${schema}` : ''}`);
    const url = new URL(server.url);
    [url.username, url.password] = [schema, 'p'];
    const own = writer(`${schema}.rows`, url.href);
    expect(await own.committed(0)).toEqual({ offset: 5n, topicId: null });
    expect(own.storesTopicIds).toBe(owns);
    await own.write({ ...batch(0, 5n, 6n), to: { offset: 6n, topicId: 'a' } });
    expect(await own.committed(0)).toEqual({ offset: 6n, topicId: owns ? 'a' : null });
    await own.write(batch(0, 6n, 7n, 'a'));
    await own.write(batch(1, null, 1n, 'a'));
    expect(await own.committed(1)).toEqual({ offset: 1n, topicId: owns ? 'a' : null });
    await own.close();
  });

  test('a transfer of a file is not ended', async () => {
    const own = writer('rows');
    await own.write(batch(1, null, 1n));
    const other = await suspended('sluice');
    await expect(own.write(batch(1, 1n, 2n))).rejects.toMatchObject({ code: 'database_failed' });
    expect(other.ended()).toBe(false);
    await other.close();
    await own.close();
  });
});
