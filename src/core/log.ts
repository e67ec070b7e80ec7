// The typed log: what happened, in words whose type cannot hold a value of an input, and the table of all events.
import { type ErrorCode, SluiceError } from './errors.ts';

// Events of the log: names that a machine can filter by, and when a line has them.

/** docs/logs.md is generated from this table and tested against it. */
export const LOG_EVENTS = {
  service_started: 'the service takes requests',
  service_stopping: 'it was told to stop: running answers may finish',
  service_stopped: 'it has stopped',
  dev_key: 'the key of a service with --dev',
  request: 'a request is over: answered, refused or cut',
  keys_kept: 'the file of keys changed and cannot be used: the keys stay as they are',
  issuer_unreachable: 'the keys of an identity provider cannot be read: its last ones go on for a while',
  issuer_reached: 'they can be read again',
  audit_head: 'how far the audit log is, every ten minutes and when it is closed: a sum to keep elsewhere',
  audit_failed: 'the audit log cannot be written',
  audit_restored: 'it can be written again, and what waited is written',
  certificate_kept: 'the certificate changed and cannot be used: it stays as it is',
  job_queued: 'an upload is accepted as a job, or a job is queued again because the service stops',
  upload_expired: 'a resumable upload was abandoned: it is removed',
  job_started: 'a job is being scored',
  job_done: 'its result is there',
  job_failed: 'it failed for good',
  job_put_off: 'something it needs is away: it is tried again',
  job_cancelled: 'its owner cancelled it',
  job_taken_over: 'a job whose server did not renew its lease begins again here',
  job_lease_lost: 'this server could not renew the lease of a job and gives it up: another one runs it',
  job_table_down: 'the table of jobs that servers share cannot be reached: requests for jobs are answered 503',
  job_table_up: 'it can be reached again',
  folder_in_use: 'another server works in the folder of the jobs',
  model_swapped: 'a reference means another version from now on',
  model_stale:
    'a newer version does not load, or files of the one that is served were changed: what was loaded still answers',
  model_load_failed: 'a version cannot be loaded',
  model_unlocked:
    'a package without package.lock is used: nothing says whether its files are those that were registered',
  model_retired: 'a retired version is loaded by its number, as replays do',
  worker_died: 'a worker died and is replaced',
  registry_down: 'the registry cannot be reached: references keep their last meaning',
  registry_up: 'the registry is reached again',
  cache_damaged: 'a cached package is damaged and fetched again',
  run_started: 'a run has begun',
  run_repeated: 'this very run had appended its rows to the table before: nothing was changed',
  interpretation_estimated: 'how long the interpretations of a run take, once, when its first rows were measured',
  run_progress: 'how far it is, every ten seconds',
  run_stopping: 'it was told to stop',
  run_finished: 'it has ended, with its counts',
  run_resumed: 'it goes on with a run that was interrupted',
  run_not_resumed: 'a run was interrupted, and this one begins from the start all the same',
  input_done_before: 'an input of a pattern was scored by an earlier run, and its output stays as it is',
  run_left: 'a run failed, and what it wrote stays to be gone on with',
  checkpoint_failed: 'a checkpoint could not be written: if the run is interrupted, it goes on from the one before',
  deadline_at_risk: 'a run will end after its deadline, as far as can be foreseen',
  deadline_safe: 'it is foreseen to end in time again',
  deadline_missed: 'it ended after its deadline',
  report_not_left: 'the report of a run cannot be left in its file',
  metrics_not_left: 'the metrics of a run cannot be left in their file or at the push gateway',
  command_failed: 'an error ended `serve` or `run`, or did not let it begin',
  metrics_served: 'where the metrics of a run are',
  partitions_assigned: 'the group gave this member other partitions',
  transaction_aborted: 'a transaction was given up, its records are read again',
  consumer_restarted: 'the consumer starts again after a failure',
  answers_retimed: 'predictions have another time than their applications',
  topic_notice: 'something about a topic that an operator should know',
  topic_trouble: 'brokers or a topic cannot be used now',
  topic_well: 'they can be used again',
  pipeline_paused: 'a pipeline waits for its model',
  pipeline_resumed: 'it goes on',
  scoring_retried: 'records could not be scored and are tried again',
  database_down: 'a table cannot be written to now: it is tried again, and nothing is lost',
  database_up: 'it is written to again',
  partition_overtaken: 'another member wrote rows of a partition: this one reads on behind them',
  file_taken_over: 'a partition was taken away while its file was written',
  left_over_kept: 'something that a killed run left behind stays',
  background_failed: 'work that nobody waits for failed',
  process_fault: 'an error that nobody caught: a rejection or an exception',
  process_warning: 'a warning of Node',
  tracing_failed: 'spans cannot be sent to the endpoint of traces; told once a minute',
  ended_by_force: 'the process did not end within its deadline',
} as const satisfies Record<string, string>;

export type LogEvent = keyof typeof LOG_EVENTS;

declare const WORD: unique symbol;

/** A word of the program, of its configuration, or an id: never one of an input. A plain string is none. */
export type Word = string & { readonly [WORD]: true };

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'fatal';

type Field = Word | ErrorCode | number | boolean | null | undefined | readonly Word[] | readonly number[];

/** What a line has besides its words, by name in snake_case with its unit. */
export type LogFields = Readonly<Record<string, Field>>;

/** Takes a line. `says`: the line for a person; a machine reads `event` and `fields`. Never throws. */
export type Log = (level: LogLevel, event: LogEvent, says: Word, fields?: LogFields) => void;

export const SILENT: Log = () => {};

/** `` words`partition ${partition} was lost` ``: literal text around words and numbers. */
export function words(parts: TemplateStringsArray, ...holes: readonly (Word | number | bigint | boolean)[]): Word {
  return String.raw({ raw: parts }, ...holes) as Word;
}

/** Refuses `string` and patterns of it, and lets through what is spelled out in the program. */
export type Literal<T extends string> = Record<never, never> extends Record<T, 1> ? never : T;

/** A value of a closed list of the program, such as the state of a job. */
export const fixedWord = <const T extends string>(text: Literal<T>): Word => text as string as Word;

/**
 * A name that an operator gave or another component is known by: of a topic, a file, a model, a key, a host. Whoever calls this says that
 * it is none of an input; what came with a request is none either, until it was looked up.
 */
export const named = (text: string): Word => text.replaceAll(/\p{Cc}+/gu, ' ').slice(0, 500) as Word;

/** Visible ASCII without spaces, at most so long as W3C and most proxies pass on. */
const ID = /^[\x21-\x7e]{1,128}$/;

/** An id, of a request for instance; null where the text is none. */
export const idOf = (text: string | undefined): Word | null =>
  text !== undefined && ID.test(text) ? (text as Word) : null;

const FRAMES = 8;
/** Names of errors of the system and of Node are upper case. */
const SYSTEM_CODE = /^[A-Z][A-Z0-9_]{1,60}$/;
const KIND = /^[A-Za-z][A-Za-z0-9_.]{0,60}$/;

/** Where an error was thrown, innermost first. Never a part of its message, which may span lines and look like a frame. */
export function framesOf(error: unknown): Word[] {
  if (!(error instanceof Error) || typeof error.stack !== 'string') return [];
  const { stack, message } = error;
  // A message that was changed after the error was made is not the one in the stack: only what follows the last line of text counts.
  const at = message === '' ? 0 : stack.indexOf(message);
  if (at < 0) return [];
  const lines = stack.slice(at + message.length).split('\n');
  const frames = lines.filter((line) => /^\s+at \S/.test(line)).map((line) => line.trim().replace(/^at /, ''));
  return frames.slice(0, FRAMES).map(named);
}

/** Kind and system code of an unknown error: `TypeError`, `Error ENOSPC`. */
export function kindOf(error: unknown): Word {
  if (!(error instanceof Error)) return words`something was thrown that is no error`;
  const { code } = error as NodeJS.ErrnoException;
  const kind = KIND.test(error.name) ? error.name : 'Error';
  return (typeof code === 'string' && SYSTEM_CODE.test(code) ? `${kind} ${code}` : kind) as Word;
}

/**
 * What may be said of an error: the sentence of a SluiceError that is about the server or what it needs, the catalogue's where it is
 * about an input or a bug, and of anything else its kind, because the message of JSON.parse, for one, quotes what it was given.
 */
export function saysOf(error: unknown): Word {
  if (!(error instanceof SluiceError)) return kindOf(error);
  const { fault, summary } = error.entry;
  if (error.code === 'internal_error') return kindOf(error.cause ?? error);
  return named(fault === 'input' || fault === 'bug' ? summary : error.message);
}

/** `code` of an error, and for one that nobody foresaw where it was thrown and what it came from. */
export function faultFields(error: unknown): LogFields {
  if (error instanceof SluiceError && error.code !== 'internal_error') {
    const { cause } = error;
    const known = cause === undefined || cause instanceof SluiceError;
    return { code: error.code, ...(known ? {} : { cause: kindOf(cause), cause_stack: framesOf(cause) }) };
  }
  const { cause } = (error ?? {}) as { cause?: unknown };
  return {
    code: 'internal_error',
    kind: kindOf(error),
    stack: framesOf(error),
    ...(cause === undefined ? {} : { cause: kindOf(cause), cause_stack: framesOf(cause) }),
  };
}

/** The sentence of an error of this program with its code and what mends it. */
export function withAction(error: SluiceError): Word {
  return words`${saysOf(error)} [${fixedWord(error.code)}]. ${named(error.entry.action)}`;
}

/** Any error in one line: what may be said of it, and of an unknown one where it was thrown. */
export function faultOf(error: unknown): Word {
  if (error instanceof SluiceError) return words`${saysOf(error)} [${fixedWord(error.code)}]`;
  const [first] = framesOf(error);
  return first === undefined ? kindOf(error) : words`${kindOf(error)} at ${first}`;
}

/** The same log with fields that all of its lines have. */
export const withFields =
  (log: Log, fixed: LogFields): Log =>
  (level, event, says, fields) =>
    log(level, event, says, { ...fixed, ...fields });
