// Tables of Sluice's own beside those it writes to.
import type { Database } from './database.ts';
import { sqlStateOf } from './faults.ts';

/** Creates one where it is not there; whoever may not create one can be given it. */
export async function ensureTable(client: Database, name: string, create: string): Promise<void> {
  const there = await client.query<{ there: boolean }>('SELECT to_regclass($1) IS NOT NULL AS there', [name]);
  if (there.rows[0]!.there) return;
  try {
    await client.query(create);
  } catch (error) {
    // Somebody else creates it at the same time.
    if (!['42P07', '23505'].includes(sqlStateOf(error) ?? '')) throw error;
  }
}
