// The keys that say which database is used, for pipelines and for the jobs of the service.
import { maybe, whole } from './describe-option.ts';

/** Which database an end is, and how long it is waited for. */
export const database = (timeouts = { connect: 10_000, statement: 3_600_000 }) => ({
  url: maybe('postgresql://user@host:port/database?sslmode=…, without a password', {
    otherwise: 'what $PGHOST, $PGUSER, $PGDATABASE … say',
  }),
  url_env: maybe('instead of `url`: environment variable that holds it, password and all'),
  connect_timeout_ms: whole('longest time for one attempt to connect', [1], { default: timeouts.connect }),
  statement_timeout_ms: whole('longest time for a statement other than the transfer of rows; 0: any', [0], {
    default: timeouts.statement,
  }),
});
