// Maps PostgreSQL errors to error codes.
// The message of the server is reported only if it cannot contain a value of a row.
import { SluiceError } from '../../core/errors.ts';

/** Fields of an error of the server. The error of a failed connection has only a Node.js error code. */
interface Refusal {
  code?: unknown;
  message?: unknown;
  constraint?: unknown;
  column?: unknown;
  where?: unknown;
}

const SQLSTATE = /^[0-9A-Z]{5}$/;

/** SQLSTATE classes whose messages contain only names of tables, columns and roles, never values of a row. */
const SAFE_CLASSES = new Set(['0A', '25', '28', '3D', '3F', '42', '53', '54', '55', '57', '58']);

/**
 * Matches SQLSTATEs after which a retry may succeed: lost connections, idle sessions, transaction conflicts, lack of
 * resources, operator intervention.
 */
const PASSING = /^(08|25P03|40|53|55P03|57|58)/;

/** Messages for SQLSTATEs whose original messages contain values. */
const WORDS: Readonly<Record<string, string>> = {
  '21000': 'the written rows contain a duplicate key',
  '22001': 'a text is too long for its column',
  '22003': 'a number is out of the range of its column',
  '22007': 'a text is not a date or time',
  '22008': 'a date or time is out of range',
  '22012': 'the query divides by zero',
  '22021': 'a text contains a character that the database cannot store',
  '22P02': 'a text is not of the type of its column',
  '22P04': 'the columns do not fit',
  '23502': 'a column must have a value',
  '23503': 'a foreign key refers to a missing row',
  '23505': 'a unique key already exists',
  '23514': 'a check constraint of the table is violated',
};

export const sqlStateOf = (error: unknown): string | null => {
  const code = (error as Refusal | null)?.code;
  return typeof code === 'string' && SQLSTATE.test(code) && !code.startsWith('E') ? code : null;
};

/**
 * Converts any database failure to a SluiceError: `database_refused` if a retry would fail too, `database_failed` if a
 * retry may succeed. `doing`: the operation, with the name of the table or server.
 */
export function databaseError(error: unknown, doing: string): SluiceError {
  if (error instanceof SluiceError) return error;
  const state = sqlStateOf(error);
  const code = state !== null && !PASSING.test(state) ? 'database_refused' : 'database_failed';
  return new SluiceError(code, `${doing}: ${saysOfDatabase(error)}`, { cause: error });
}

/** The reason for the failure, without values of any row. */
export function saysOfDatabase(error: unknown): string {
  const refusal = (error ?? {}) as Refusal;
  const state = sqlStateOf(error);
  if (state === null) return connectionWords(refusal);
  const safe = SAFE_CLASSES.has(state.slice(0, 2)) && typeof refusal.message === 'string';
  const words = safe ? (refusal.message as string) : (WORDS[state] ?? 'the database rejected it');
  const places = [named('column', refusal.column), named('constraint', refusal.constraint), copyPlace(refusal.where)];
  const at = places.filter((place) => place !== null).join(', ');
  return `${words}${at === '' ? '' : ` (${at})`}, SQLSTATE ${state}`;
}

const named = (what: string, name: unknown): string | null => (typeof name === 'string' ? `${what} ${name}` : null);

/**
 * Extracts the location from text such as `COPY staging, line 3, column points: "…"`. Omits the text after the colon,
 * which is a value.
 */
function copyPlace(where: unknown): string | null {
  const place = typeof where === 'string' ? /^COPY \S+, line (\d+)(?:, column ([^:]+))?/.exec(where) : null;
  if (!place) return null;
  return place[2] === undefined ? `row ${place[1]}` : `row ${place[1]}, column ${place[2]}`;
}

/** The message for a failed connection: a Node.js error code, or the rewritten message of a known client error. */
function connectionWords({ code, message }: Refusal): string {
  if (typeof code === 'string') return `the connection failed (${code})`;
  const said = typeof message === 'string' ? message : '';
  if (/timeout/i.test(said)) return 'it did not answer in time';
  if (/does not support SSL/i.test(said)) return 'the server does not support TLS; use sslmode=disable';
  if (/password/i.test(said)) return 'it requires a password, but the URL, $PGPASSWORD and .pgpass contain none';
  return 'the connection was lost';
}
