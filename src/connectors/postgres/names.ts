// Parses and quotes names of tables and columns for SQL.
import pg from 'pg';
import { SluiceError } from '../../core/errors.ts';

export const sqlIdentifier = (name: string): string => pg.escapeIdentifier(name);
export const literalOf = (text: string): string => pg.escapeLiteral(text);
export const listOf = (names: readonly string[]): string => names.map(sqlIdentifier).join(', ');

export interface TableName {
  /** null: the database resolves the table through its search path. */
  schema: string | null;
  table: string;
}

/** Maximum length of a name, bytes. PostgreSQL truncates longer names, which could make two names equal. */
const NAME_BYTES = 63;

/** Parses `table` or `schema.table`; case-sensitive. @throws SluiceError usage */
export function tableName(said: string): TableName {
  const parts = said.split('.');
  if (parts.length > 2 || parts.some((p) => p === '' || Buffer.byteLength(p) > NAME_BYTES || p.includes('\0'))) {
    throw new SluiceError(
      'usage',
      `a table name must be table or schema.table; each part has at most ${NAME_BYTES} bytes`,
    );
  }
  return parts.length === 1 ? { schema: null, table: parts[0]! } : { schema: parts[0]!, table: parts[1]! };
}

/** The quoted SQL name. */
export const sqlName = ({ schema, table }: TableName): string =>
  schema === null ? sqlIdentifier(table) : `${sqlIdentifier(schema)}.${sqlIdentifier(table)}`;

/** The quoted SQL name of another table in the same schema. */
export const beside = ({ schema }: TableName, table: string): string => sqlName({ schema, table });
