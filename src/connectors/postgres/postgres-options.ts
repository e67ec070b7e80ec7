// Options of tables and queries in a pipeline.
import { type Static, Type } from 'typebox';
import { database } from '../../config/options/database-options.ts';
import { choice, closed, literal, maybe, text } from '../../config/options/describe-option.ts';

const keyColumns = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 1, description }));

const source = Type.Object(
  {
    type: literal('postgres'),
    ...database(),
    table: maybe('table or schema.table: its columns of the model, and those passed through'),
    query: maybe('instead of `table`: a SELECT'),
    key: keyColumns('columns the rows are ordered by, so that their numbers mean something'),
  },
  closed,
);

const sink = Type.Object(
  {
    type: literal('postgres'),
    ...database(),
    table: text('table or schema.table; made where it is not there'),
    mode: choice(
      'rows are added, take the place of those with the same key, or of all',
      ['append', 'merge', 'replace'],
      {
        default: 'append',
      },
    ),
    key: keyColumns('merge: columns passed through that tell rows apart'),
  },
  closed,
);

const deadLetter = Type.Object(
  { type: literal('postgres'), table: text('from a topic to a table: table of rejected applications, beside it') },
  closed,
);

/** Imported on demand by `postgres-connector.ts`. */
export const POSTGRES_ENDS = { source, sink, deadLetter };

export type PostgresSource = Static<typeof source>;
export type PostgresSink = Static<typeof sink>;
