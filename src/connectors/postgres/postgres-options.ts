// Pipeline options of tables and queries.
import type { Static } from 'typebox';
import { database } from '../../config/options/database-options.ts';
import { choice, closed, literal, maybe, text } from '../../config/options/describe-option.ts';
import { Type } from '../../config/schema.ts';

const keyColumns = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 1, description }));

const source = Type.Object(
  {
    type: literal('postgres'),
    ...database(),
    table: maybe('table or schema.table; the columns of the model and the passthrough columns are read'),
    query: maybe('instead of `table`: a SELECT statement'),
    key: keyColumns('columns that order the rows, so that row numbers are reproducible'),
  },
  closed,
);

const sink = Type.Object(
  {
    type: literal('postgres'),
    ...database(),
    table: text('table or schema.table; created if missing'),
    mode: choice(
      'append adds rows, merge replaces rows with the same key, replace replaces all rows',
      ['append', 'merge', 'replace'],
      {
        default: 'append',
      },
    ),
    key: keyColumns('merge: passed-through columns that identify a row'),
  },
  closed,
);

const deadLetter = Type.Object(
  { type: literal('postgres'), table: text('from a topic to a table: table of rejected applications') },
  closed,
);

export const POSTGRES_ENDS = { source, sink, deadLetter };

export type PostgresSource = Static<typeof source>;
export type PostgresSink = Static<typeof sink>;
