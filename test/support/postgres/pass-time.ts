// Time of a table of jobs in PostgreSQL, which takes its time from the database: its rows become older.
import type { PostgresServer } from './server.ts';

/** As if `ms` had passed since the rows of this table of jobs were written. */
export async function passTime(server: PostgresServer, table: string, ms: number): Promise<void> {
  const earlier = (column: string) => `${column} = ${column} - interval '${ms} ms'`;
  const earlierMs = (column: string) => `${column} = ${column} - ${ms}`;
  const columns = [...['lease_until', 'not_before', 'started'].map(earlier), ...['created', 'finished'].map(earlierMs)];
  await server.query(`UPDATE ${table} SET ${columns.join(', ')}`);
  await server.query(`UPDATE ${table}_meta SET ${earlier('until')}`);
  await server.query(`UPDATE ${table}_uploads SET ${earlierMs('touched')}`);
}
