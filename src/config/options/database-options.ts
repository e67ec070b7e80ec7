// The keys that configure a database. Pipelines and the jobs of the service use the same keys.
import { maybe, whole } from './describe-option.ts';

/** Options for a database: its address, and its timeouts in ms. */
export const database = (timeouts = { connect: 10_000, statement: 3_600_000 }) => ({
  url: maybe('postgresql://user@host:port/database?sslmode=…, without a password', {
    otherwise: '$PGHOST, $PGUSER, $PGDATABASE and the other PG variables',
  }),
  url_env: maybe('instead of `url`: environment variable that contains the URL with its password'),
  connect_timeout_ms: whole('timeout of one connection attempt', [1], { default: timeouts.connect }),
  statement_timeout_ms: whole('timeout of a statement other than the transfer of rows; 0: none', [0], {
    default: timeouts.statement,
  }),
});
