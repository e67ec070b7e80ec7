// Reads a stored prediction, and converts the same row, scored again, to the types of the table for comparison.
import { copyIn } from './copy-in.ts';
import { connectDatabase, type Database, type DatabaseSettings, disconnect } from './database.ts';
import { databaseError } from './faults.ts';
import { sqlIdentifier, sqlName, tableName } from './names.ts';
import { copyInto, createStaging, readableTarget, STAGING, type StoredColumn, type Target } from './table-layout.ts';

/** Values as text, by column name. */
export type RowAsText = Readonly<Record<string, string | null>>;

interface StoredRows {
  /** The stored rows with this row number, from all appended runs. */
  stored: RowAsText[];
  again: RowAsText;
}

/**
 * Returns the stored rows with number `row`, and the new row converted to the types of the table. `csv`: the newly
 * scored row with a header, in the format of `OutputSpec.copy`. Both results omit the column `row`.
 * @throws SluiceError database_unreachable | database_refused | database_failed
 */
export async function storedRows(
  settings: DatabaseSettings & { table: string },
  columns: readonly StoredColumn[],
  { row, csv }: { row: number; csv: Buffer },
): Promise<StoredRows> {
  const name = tableName(settings.table);
  const client = await connectDatabase(settings);
  try {
    const target = await readableTarget(client, name, columns);
    await client.query(createStaging(target));
    const copy = copyIn(client, copyInto(STAGING, target, true));
    await copy.write(csv);
    await copy.end();
    const [again] = await textsOf(client, target, STAGING);
    return { stored: await textsOf(client, target, sqlName(name), row), again: again! };
  } catch (error) {
    throw databaseError(error, `the table ${sqlName(name)}`);
  } finally {
    await disconnect(client);
  }
}

/** The rows of the table `from` as texts. `row`: only rows with this number. */
async function textsOf(client: Database, { columns }: Target, from: string, row?: number): Promise<RowAsText[]> {
  const names = columns.map((c) => c.name).filter((name) => name !== 'row');
  const values = names.map((name) => `${sqlIdentifier(name)}::text AS ${sqlIdentifier(name)}`).join(', ');
  const where = row === undefined ? '' : ` WHERE ${sqlIdentifier('row')}::text = $1`;
  const found = await client.query<RowAsText>(
    `SELECT ${values} FROM ${from}${where}`,
    row === undefined ? [] : [String(row)],
  );
  return found.rows.map((texts) => ({ ...texts }));
}
