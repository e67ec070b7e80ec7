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

  const writer = (table: string) =>
    new TableWriter({
      database: { url: server.url, connect_timeout_ms: 5000, statement_timeout_ms: 60_000 },
      table,
      mode: 'append',
      key: [],
      letters: null,
      group: 'g',
      topic: 't',
      transactionTimeoutMs: 1000,
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
  const batch = (partition: number, from: bigint | null, to: bigint) => ({
    partition,
    from,
    to,
    columns: COLUMNS,
    rows: `${partition}\n`,
    letters: '',
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
