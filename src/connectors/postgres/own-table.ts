// Creates the tables that Sluice needs for its own data.
import type { Database } from './database.ts';
import { sqlStateOf } from './faults.ts';

/**
 * Creates a table if it is missing. If the role may not create tables, an administrator can create the table
 * beforehand.
 */
export async function ensureTable(client: Database, name: string, create: string): Promise<void> {
  const there = await client.query<{ there: boolean }>('SELECT to_regclass($1) IS NOT NULL AS there', [name]);
  if (there.rows[0]!.there) return;
  try {
    await client.query(create);
  } catch (error) {
    // Another session may have created the table at the same time.
    if (!['42P07', '23505'].includes(sqlStateOf(error) ?? '')) throw error;
  }
}
