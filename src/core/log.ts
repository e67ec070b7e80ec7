// The typed log: a type of messages that cannot contain input values, and the table of all log events.
import { type ErrorCode, SluiceError } from './errors.ts';

// The events of the log. The text of an event describes when it is logged. docs/logs.md is generated from this table; a
// test checks that they agree.
export const LOG_EVENTS = {
  service_started: 'the service accepts requests',
  service_stopping: 'the service was asked to stop; running responses may finish',
  service_stopped: 'the service has stopped',
  dev_key: 'the API key of a service with --dev',
  request: 'a request ended: answered, rejected or cut off',
  keys_kept: 'the changed key file cannot be used; the previous keys remain valid',
  issuer_unreachable:
    'the signing keys of an identity provider cannot be read; the last known keys are used for oidc.keys_max_age_ms',
  issuer_reached: 'the signing keys of an identity provider can be read again',
  audit_head: 'the hash of the last audit record, logged every ten minutes and at the end; store it outside the server',
  audit_failed: 'the audit log cannot be written',
  audit_restored: 'the audit log can be written again, and waiting records were written',
  certificate_kept: 'the changed certificate cannot be used; the previous certificate is served',
  job_queued: 'an upload was accepted as a job, or a job was queued again because the service stops',
  upload_expired: 'an abandoned resumable upload was deleted',
  job_started: 'a job is being scored',
  job_done: 'the result of a job is available',
  job_failed: 'a job failed permanently',
  job_put_off: 'a dependency of a job is unavailable; the job is retried later',
  job_cancelled: 'the owner cancelled a job',
  job_taken_over: 'the lease of a job expired on another server; the job restarts here',
  job_lease_lost: 'this server could not renew its lease on a job; another server runs it',
  job_table_down: 'the shared job table is unreachable; job requests are answered with 503',
  job_table_up: 'the shared job table is reachable again',
  folder_in_use: 'another server uses the jobs folder',
  model_swapped: 'a reference now resolves to another version',
  model_stale:
    'a newer version does not load, or files of the served version changed; the loaded version is still served',
  model_load_failed: 'a version cannot be loaded',
  model_unlocked: 'a package without package.lock is used; its files cannot be compared with the registered ones',
  model_retired: 'a retired version was loaded by its number, as replays do',
  worker_died: 'a worker crashed and is replaced',
  registry_down: 'the registry is unreachable; the last known versions are served',
  registry_up: 'the registry is reachable again',
  cache_damaged: 'a cached package is damaged and is fetched again',
  run_started: 'a run has started',
  run_repeated: 'an identical run already appended its rows to the table; nothing was changed',
  interpretation_estimated: 'the estimated time for the interpretations of a run, logged once after its first rows',
  run_progress: 'progress of a run, every ten seconds',
  run_stopping: 'a run was asked to stop',
  run_finished:
    'a run ended, with the counts of published inputs; `msg` adds the rows that a gate stopped; level error if it failed',
  total_line_scored: 'the last line of an input looks like a total line, but was read as an application',
  run_resumed: 'a run resumes an interrupted run',
  run_not_resumed: 'an interrupted run was found, but this run starts from the beginning; `msg` gives the reason',
  input_done_before: 'an identical run already scored an input of a pattern; its output is unchanged',
  run_left: 'a run failed; its partial output is kept so that it can be resumed',
  checkpoint_failed: 'a checkpoint could not be written; an interrupted run would resume from the previous one',
  deadline_at_risk: 'a run is estimated to end after its deadline',
  deadline_safe: 'a run is estimated to end in time again',
  deadline_missed: 'a run ended after its deadline',
  run_record_not_written: 'the record of a run could not be written',
  report_not_left: 'the report of a run could not be written',
  metrics_not_left: 'the metrics of a run could not be written to their file or pushed',
  command_failed: 'an error ended `serve` or `run`, or prevented its start',
  metrics_served: 'the address of the metrics of a run',
  partitions_assigned: 'the group assigned other partitions to this member',
  transaction_aborted: 'a transaction was aborted; its records are read again',
  consumer_restarted: 'the consumer restarts after a failure',
  offset_lost:
    'a committed offset no longer exists; reading continues elsewhere, and applications may have been skipped',
  answers_retimed: 'predictions have the current time as their timestamp instead of the time of their applications',
  topic_notice: 'a setting or change of a topic affects a pipeline; `msg` says how',
  topic_trouble: 'brokers or a topic are currently unavailable',
  topic_well: 'brokers and topics are available again',
  pipeline_paused: 'a pipeline waits, because its model cannot be used',
  pipeline_resumed: 'a paused pipeline continues, because its model is available again',
  scoring_retried: 'records could not be scored; scoring is retried',
  database_down: 'a table cannot be written; the write is retried and nothing is lost',
  database_up: 'the table can be written again',
  offsets_without_topic: 'sluice_offsets has no column topic_id, so a topic that is created again is not recognized',
  partition_overtaken: 'another member wrote rows of a partition; this member continues after them',
  file_taken_over: 'a partition was reassigned before its file was published; its member reads the records again',
  left_over_kept: 'a temporary file of another run was found and left untouched; `msg` says why',
  background_failed: 'a background task failed',
  process_fault: 'an uncaught exception or an unhandled rejection',
  process_warning: 'a warning of Node.js',
  tracing_failed: 'spans cannot be sent to the trace endpoint; logged once a minute',
  ended_by_force: 'the process did not end in time after a signal or the end of its run, and was terminated',
} as const satisfies Record<string, string>;

export type LogEvent = keyof typeof LOG_EVENTS;

declare const WORD: unique symbol;

/**
 * A text that is safe to log: it comes from the program or its configuration, or it is an ID. It never comes from an
 * input. A plain string is not assignable to this type.
 */
export type Word = string & { readonly [WORD]: true };

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'fatal';

type Field = Word | ErrorCode | number | boolean | null | undefined | readonly Word[] | readonly number[];

/** Additional fields of a log line. Their names are in snake_case and include the unit. */
export type LogFields = Readonly<Record<string, Field>>;

/** Writes a log line. `says`: the message for operators. Programs read `event` and `fields`. Never throws. */
export type Log = (level: LogLevel, event: LogEvent, says: Word, fields?: LogFields) => void;

export const SILENT: Log = () => {};

/** `` words`partition ${partition} was lost` ``: literal text with safe texts and numbers inserted. */
export function words(parts: TemplateStringsArray, ...holes: readonly (Word | number | bigint | boolean)[]): Word {
  return String.raw({ raw: parts }, ...holes) as Word;
}

/** A type that accepts only literal texts, and rejects `string` and template patterns. */
export type Literal<T extends string> = Record<never, never> extends Record<T, 1> ? never : T;

/** Converts a literal text of the program, such as the state of a job. */
export const fixedWord = <const T extends string>(text: Literal<T>): Word => text as string as Word;

/**
 * Marks a name as safe to log: the name of a topic, file, model, key or host that comes from an operator or another
 * component. Callers guarantee that the name does not come from an input. A name in a request is allowed only after it
 * was resolved.
 */
export const named = (text: string): Word => text.replaceAll(/\p{Cc}+/gu, ' ').slice(0, 500) as Word;

/** Matches visible ASCII characters without spaces, up to the length that W3C and most proxies support. */
const ID = /^[\x21-\x7e]{1,128}$/;

/** Checks an ID, for example of a request; null: the text is not a valid ID. */
export const idOf = (text: string | undefined): Word | null =>
  text !== undefined && ID.test(text) ? (text as Word) : null;

const FRAMES = 8;
/** Matches error codes of the system and of Node.js, which are in upper case. */
const SYSTEM_CODE = /^[A-Z][A-Z0-9_]{1,60}$/;
const KIND = /^[A-Za-z][A-Za-z0-9_.]{0,60}$/;

/**
 * The stack frames of an error, innermost first. Never includes text of the message, which may have several lines that
 * look like frames.
 */
export function framesOf(error: unknown): Word[] {
  if (!(error instanceof Error) || typeof error.stack !== 'string') return [];
  const { stack, message } = error;
  // If the message was changed after the error was created, the stack does not contain it, and no frames are returned.
  const at = message === '' ? 0 : stack.indexOf(message);
  if (at < 0) return [];
  const lines = stack.slice(at + message.length).split('\n');
  const frames = lines.filter((line) => /^\s+at \S/.test(line)).map((line) => line.trim().replace(/^at /, ''));
  return frames.slice(0, FRAMES).map(named);
}

/** The name and system code of an unknown error, such as `TypeError` or `Error ENOSPC`. */
export function kindOf(error: unknown): Word {
  if (!(error instanceof Error)) return words`a value that is not an Error was thrown`;
  const { code } = error as NodeJS.ErrnoException;
  const kind = KIND.test(error.name) ? error.name : 'Error';
  return (typeof code === 'string' && SYSTEM_CODE.test(code) ? `${kind} ${code}` : kind) as Word;
}

/**
 * The description of an error for the log. If it is a SluiceError about the server or its dependencies: its message. If
 * it is a SluiceError about an input: the summary of its code, unless it has a message for the log or messages of its
 * code are logged. Any other error: only its kind, because its message may quote an input, as the messages of JSON.parse
 * do.
 */
export function saysOf(error: unknown): Word {
  if (!(error instanceof SluiceError)) return kindOf(error);
  const { fault, logged, summary } = error.entry;
  if (error.code === 'internal_error') return kindOf(error.cause ?? error);
  if (error.logMessage !== undefined) return named(error.logMessage);
  return named(!logged && (fault === 'input' || fault === 'bug') ? summary : error.message);
}

/** The fields of an error: its code. For unexpected errors, also stack and cause. */
export function faultFields(error: unknown): LogFields {
  if (error instanceof SluiceError && error.code !== 'internal_error') {
    const { cause } = error;
    // For a missing file or an invalid setting, the stack adds nothing to the message.
    const isPlain = error.entry.fault === 'usage' || error.entry.fault === 'input';
    const known = cause === undefined || cause instanceof SluiceError || isPlain;
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

/** The message of an error with its code and remedy. */
export function withAction(error: SluiceError): Word {
  return words`${saysOf(error)} [${fixedWord(error.code)}]. ${named(error.entry.action)}`;
}

/** Describes any error on one line. For unknown errors, this includes the place where it was thrown. */
export function faultOf(error: unknown): Word {
  if (error instanceof SluiceError) return words`${saysOf(error)} [${fixedWord(error.code)}]`;
  const [first] = framesOf(error);
  return first === undefined ? kindOf(error) : words`${kindOf(error)} at ${first}`;
}

/** Adds fixed fields to all lines of a log. */
export const withFields =
  (log: Log, fixed: LogFields): Log =>
  (level, event, says, fields) =>
    log(level, event, says, { ...fixed, ...fields });
