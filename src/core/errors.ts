// The catalogue of error codes, with the cause, HTTP status, retryability and remedy of each code.

/** The cause of an error; it determines who must fix the error. */
type Fault = 'input' | 'usage' | 'dependency' | 'overload' | 'bug';

export interface ErrorEntry {
  fault: Fault;
  /** HTTP status of the response if this error ends a request. An error of a single row does not end a request. */
  status: number;
  retryable: boolean;
  /** true: the error rejects a single application and never ends a run. */
  row?: true;
  /** true: the messages contain no value of an input, so they are logged. The log has the summary of other errors of inputs. */
  logged?: true;
  summary: string;
  action: string;
}

const input = (summary: string, action: string, status = 400): ErrorEntry => ({
  fault: 'input',
  status,
  retryable: false,
  summary,
  action,
});
const logged = (summary: string, action: string): ErrorEntry => ({ ...input(summary, action), logged: true });
const row = (summary: string, action: string): ErrorEntry => ({ ...input(summary, action), row: true });
const usage = (summary: string, action: string): ErrorEntry => ({ ...input(summary, action), fault: 'usage' });
const conflict = (summary: string, action: string): ErrorEntry => ({ ...usage(summary, action), status: 409 });
const dependency = (summary: string, action: string, status = 503): ErrorEntry => ({
  fault: 'dependency',
  status,
  retryable: true,
  summary,
  action,
});

const bug = (summary: string, action: string, retryable = false): ErrorEntry => ({
  fault: 'bug',
  status: 500,
  retryable,
  summary,
  action,
});

// Errors of resumable uploads, with the HTTP statuses of the tus protocol.

const UPLOAD_ERRORS = {
  upload_not_found: input(
    'The upload does not exist.',
    'Start a new upload: this one expired (jobs.upload_ttl_ms), was deleted, or belongs to another key.',
    404,
  ),
  upload_offset_conflict: input(
    'The Upload-Offset is not the number of bytes that the server has.',
    'Send HEAD to get the current offset, and resume from there.',
    409,
  ),
  upload_locked: {
    ...input(
      'Another request is writing to the upload.',
      'Send HEAD after Retry-After, and resume from the offset it returns.',
      423,
    ),
    retryable: true,
  },
  upload_too_large: input(
    'The upload is larger than the limit or than its Upload-Length.',
    'Send the correct Upload-Length; for larger uploads raise limits.body_bytes, or split the file.',
    413,
  ),
  upload_checksum_mismatch: {
    ...input(
      'A part of the upload does not match its Upload-Checksum.',
      'Send the part again: the server discarded it.',
      460,
    ),
    retryable: true,
  },
  upload_media_type: input(
    'A part of the upload has the wrong media type.',
    'Send it with Content-Type: application/offset+octet-stream.',
    415,
  ),
  tus_version: input('The request uses another version of the tus protocol.', 'Send Tus-Resumable: 1.0.0.', 412),
} as const satisfies Record<string, ErrorEntry>;

/** All error codes. docs/errors.md is generated from this table; a test checks that they agree. */
export const ERRORS = {
  // --- a single application is invalid; the others are scored
  malformed_record: row(
    'A record breaks the quoting rules of RFC 4180.',
    'Put quotes around the whole field, and double each quote inside the field.',
  ),
  empty_row: row(
    'An application has no value in any column of the model.',
    'Remove rows that hold only delimiters; spreadsheets often append them.',
  ),
  column_count: row(
    'A record has more or fewer fields than the header row.',
    'Look for an unquoted delimiter in a field.',
  ),
  invalid_utf8: row(
    'A record is not valid UTF-8, or contains bytes that the declared encoding does not define.',
    'Export the file as UTF-8, or declare its encoding (docs/input.md).',
  ),
  invalid_character: row('A text value contains a NUL character.', 'Remove the NUL character.'),
  record_too_long: row(
    'A record is longer than the limit for one row.',
    'Look for an unclosed quote, or raise the limit (--max-row-bytes, limits.row_bytes).',
  ),
  bad_number: row(
    'A value in a number column is not a plain decimal number.',
    'Use digits and a decimal point without spaces or thousands separators, or declare the number format (docs/input.md).',
  ),
  number_out_of_range: row(
    'A number is outside the range that the model package or its number type allows.',
    'Check the unit of the column (cents, thousands, percent).',
  ),
  bad_boolean: row(
    'A value in a boolean column is neither true nor false.',
    'Send a value that the model package lists in true_values or false_values; without these lists, send true or false.',
  ),
  bad_type: row(
    'A value or column has a type that the model column does not accept, such as a number for a text category.',
    'Read or send the column as text: as a number, `0230` loses its leading zero. In JSON, send a number, boolean, string or null.',
  ),
  unseen_category: row(
    'A category did not occur in the training data.',
    'Map it to a known category, or register a model that accepts unseen categories.',
  ),
  missing_value: row('A required value is missing.', 'Send a value for the column that the message names.'),
  missing_column: row('An application lacks a column of the model.', 'Send every column; use null for missing values.'),
  unexpected_column: row(
    'A column is neither a model column nor passed through.',
    'Remove the column, ignore it, or pass it through.',
  ),
  duplicate_column: row('A column or key occurs twice.', 'Send each column once.'),
  outcome_present: row('The applications contain the outcome column.', 'Remove the outcome column.'),
  malformed_json: row('A JSON text is malformed.', 'Check the row that the message names, or the end of the body.'),
  malformed_avro: row(
    'The value of a record is not Avro data that matches a schema of the schema registry.',
    'Check the producer of the record.',
  ),
  malformed_protobuf: row(
    'The value of a record is not Protobuf data that matches a schema of the schema registry.',
    'Check the producer of the record.',
  ),
  not_an_object: row('A JSON record is not an object.', 'Send one object per application.'),
  nesting_too_deep: row('A JSON record is nested deeper than the limit.', 'Send flat objects.'),
  row_crashed_worker: row(
    'Scoring this application on its own crashed a worker twice.',
    'Keep the row and report it: the model or Sluice has a defect.',
  ),
  not_finite: row('The model returned NaN or infinity.', 'Check how the model handles this application.'),
  interpretation_inexact: row(
    'The base value and effects of this application do not add up to its prediction.',
    'The prediction is valid, but do not give reasons to the applicant. Report the row and the model.',
  ),
  interpretation_failed: row(
    'Interpreting this application crashed its worker, exceeded the time limit, or failed.',
    'The prediction is valid, but do not give reasons to the applicant. Report the row and the model.',
  ),
  not_a_probability: row(
    'The model returned numbers that are not probabilities.',
    'Register the model again: its output may contain raw scores.',
  ),
  output_too_large: row(
    'The prediction is larger than the output topic accepts.',
    'Raise max.message.bytes of the topic, or request fewer passthrough columns and effects.',
  ),

  // --- the whole input is invalid
  empty_input: logged('The input has no header row.', 'Send a header row with the column names.'),
  wrong_delimiter: logged('The header row uses another delimiter.', 'Specify the delimiter that the message names.'),
  header_mismatch: input(
    'The header row does not match the columns of the model.',
    'Compare the header with the model columns that the message lists.',
  ),
  foreign_content: logged(
    'The input is not CSV or JSON text: it is compressed, a spreadsheet, or in another encoding.',
    'Convert or declare the input as the message says.',
  ),
  invalid_encoding: logged(
    'The input is not valid text in UTF-8 or the declared encoding.',
    'Export the file as UTF-8, or declare its encoding (docs/input.md).',
  ),
  invalid_row: logged(
    'An application is invalid and on_invalid is fail.',
    'Correct the row, or set on_invalid to report: then the other rows are scored.',
  ),

  nothing_scored: logged('No application of the input could be scored.', 'Check the errors that the summary lists.'),
  gate_stopped: input(
    'The input does not meet a limit of the gate; nothing was published.',
    'Check the input before you raise a limit: usually the sender changed it. `sluice inspect FILE --model REF` finds lost leading zeros, changed spellings and changed units; docs/gate.md lists the steps.',
  ),
  control_total_mismatch: input(
    'The input does not match the control totals of its sender: row count, digest, trailer or companion file.',
    'Ask the sender for the complete file; nothing was published.',
  ),
  truncated_input: logged('The input ended in the middle of a value.', 'Send the complete input again.'),
  limit_exceeded: logged(
    'A limit was exceeded.',
    'Send less at once, wait, or raise the limit that the message names.',
  ),

  invalid_content: input(
    'The body does not match its Content-Type or Content-Encoding.',
    'Check Content-Type and Content-Encoding.',
  ),
  bad_request: input(
    'The request is malformed.',
    'Compare the request with the description of the operation in /docs.',
  ),
  interpretation_unavailable: input(
    'This model does not support interpretation.',
    'Request predictions without interpretation.',
  ),
  interpretation_over_budget: input(
    'Every method of interpretation needs more evaluations than max_evaluations allows.',
    'Raise max_evaluations to the number that the message names, or request predictions without interpretation.',
  ),
  not_found: input('This path does not exist.', 'Check the path; /docs lists all operations.', 404),
  method_not_allowed: input(
    'The path does not support this method.',
    'Use a method that the Allow header of the response lists.',
    405,
  ),
  job_not_found: input(
    'The job does not exist.',
    'Check the id and the API key; finished jobs are deleted after jobs.keep_ms.',
    404,
  ),
  jobs_unavailable: dependency(
    'The jobs are unreachable: their table in the database, or their files in object storage.',
    'Retry with the same Idempotency-Key; queued jobs are not lost.',
  ),
  job_lease_lost: dependency(
    'This server could not renew its lease on a job or an upload in time.',
    'For a job, do nothing: another server runs it. For an upload, send it again with the same Idempotency-Key.',
  ),
  job_crashed: usage(
    'The number of servers that crashed while running this job reached jobs.max_crashes.',
    'Find the cause of the crashes (usually memory) before sending the same input again, or send it in smaller files.',
  ),
  job_not_finished: input(
    'The job has no result yet.',
    'Wait until its state is done. A job that failed or was cancelled has none.',
    409,
  ),
  ...UPLOAD_ERRORS,
  several_files: input('A form contains more than one file.', 'Send one file per request.'),
  digest_mismatch: input(
    'The body does not match its digest.',
    'Send the body again, and check the proxies between client and server.',
  ),
  idempotency_conflict: input(
    'The Idempotency-Key was used for a request with another format, query or pipeline.',
    'Use a new Idempotency-Key for each request.',
  ),
  idempotency_key_reused: input(
    'The Idempotency-Key was used with another body.',
    'Use a new Idempotency-Key for each body; the earlier job is unchanged.',
  ),
  unauthorized: input(
    'The request has no valid API key, token or certificate.',
    'Send Authorization: API-Key <token>.',
    401,
  ),
  invalid_token: input(
    'The token was not accepted.',
    'Get a new token from the identity provider; docs/identity.md lists the required claims.',
    401,
  ),
  identity_provider_unavailable: dependency(
    'The signing keys of an identity provider cannot be read.',
    'Check that the provider runs, and check oidc.jwks_url and oidc.ca. API keys and client certificates still work.',
  ),
  audit_unavailable: dependency(
    'The audit log cannot be written, so the operation was not performed.',
    'Free space on the disk of audit.file, or repair the disk. With audit.on_failure: continue, the service works without records.',
  ),
  audit_broken: usage(
    'The audit log was changed after it was written.',
    'Compare the record that the message names with a backup of the log; all records before it are intact.',
  ),
  forbidden: input(
    'The credentials do not permit this operation.',
    'Request a key with the required scope or model.',
    403,
  ),
  https_required: input('The service accepts HTTPS only.', 'Use an address that starts with https://.', 400),
  client_gone: {
    fault: 'input',
    status: 400,
    retryable: true,
    summary: 'The client closed the connection or read too slowly.',
    action: 'Send the request again.',
  },
  overloaded: {
    fault: 'overload',
    status: 503,
    retryable: true,
    summary: 'Too many requests are waiting.',
    action: 'Retry after the time in Retry-After.',
  },
  stopping: {
    fault: 'overload',
    status: 503,
    retryable: true,
    summary: 'The server is stopping.',
    action: 'Send the request again after the time in Retry-After.',
  },

  // --- outcomes
  outcomes_invalid: input('Outcomes and predictions cannot be joined.', 'Follow the message; no report was written.'),
  bad_time: input(
    'A month or time has the wrong format.',
    'Write months as 2026-03 and times as 2026-03-09T17:04:05Z.',
  ),

  // --- files and runs
  input_not_found: usage('The input cannot be opened.', 'Check the path and its permissions.'),
  input_unreadable: dependency('Reading the input failed.', 'Check the disk or the network file system.'),
  input_changed: dependency('The input changed or vanished while it was read.', 'Run again when the file is complete.'),
  plan_invalid: usage('The file is not a plan of shards, or was changed.', 'Create the plan again with sluice plan.'),
  deadline_unreachable: usage(
    'No number of shards can finish before the deadline.',
    'Start earlier, or move the deadline.',
  ),
  parts_mismatch: input(
    'The parts do not form one sharded run: a part is missing, duplicated, changed, or from another package, release or set of options.',
    'Run the named shards again, then merge.',
  ),
  manifest_invalid: usage(
    'The manifest of an output is missing, damaged, or signed with another key.',
    'Restore output and manifest of that run from the archive. If the message names a key, check that --key is the public key of the signer.',
  ),
  verification_failed: usage(
    'The output, its input or its package does not match the manifest.',
    'Check the blocks and files that the message names, and score the input again.',
  ),
  output_exists_as_folder: usage('The output path is a folder.', 'Specify a file.'),
  output_unwritable: usage('The output cannot be created.', 'Check that its folder exists and is writable.'),
  output_full: dependency(
    'There is no space left for the output.',
    'Free space and run again; only a complete output has its final name.',
  ),
  output_failed: dependency(
    'Writing the output failed.',
    'Check the disk and run again; only a complete output has its final name.',
  ),
  output_closed: dependency(
    'The program that reads the output closed it before the end.',
    'Check why the program stopped reading, and run again.',
  ),
  cancelled: { fault: 'usage', status: 503, retryable: true, summary: 'The run was cancelled.', action: 'Run again.' },
  usage: usage('The command line or request is invalid.', 'See --help, or /docs for a request.'),
  folder_unusable: usage(
    'A configured folder is not writable.',
    'Check the path, permissions, free space, and whether the volume is mounted.',
  ),
  folder_in_use: dependency(
    'Another server uses the same folder.',
    'Give each server its own jobs.folder, or stop the other server first.',
  ),
  internal_error: bug(
    'Unexpected internal error.',
    'Report the error with its log line, and with the request id if there is one.',
  ),

  // --- Kafka
  kafka_config: usage(
    'The Kafka settings are invalid.',
    'Check the files, variables and topics that the message names.',
  ),
  kafka_unreachable: dependency('No Kafka broker answers.', 'Check the addresses, the network and the brokers.'),
  kafka_authentication: usage(
    'Kafka rejected the login, or the TLS handshake failed.',
    'Check the mechanism, user name, password or token, and certificates.',
  ),
  kafka_token_unavailable: dependency(
    'No token for the Kafka login is available.',
    'Check the token endpoint and the brokers that validate its tokens; Sluice retries.',
  ),
  kafka_not_authorized: usage(
    'Kafka denied an operation.',
    'Grant the named permission: read, write, describe on the topics; read on the group; write on the transactional ids.',
  ),
  kafka_topic_missing: usage('A topic does not exist.', 'Create the topic; Sluice does not create topics.'),
  kafka_codec: input(
    'A compressed batch of a topic cannot be decompressed.',
    'Check the producer; supported codecs are gzip, snappy, lz4 and zstd.',
  ),
  kafka_offset_lost: input(
    'Records were deleted from the topic before the group read them, or the topic was created again.',
    'Find out which records were lost. Then set the group offset manually, or set on_offset_lost to earliest or latest.',
  ),
  kafka_record_too_large: usage(
    'A record is larger than its topic accepts, and no dead-letter topic is configured.',
    'Raise max.message.bytes of the topic, or configure a dead-letter topic.',
  ),
  kafka_partitions_differ: usage(
    'The partition counts of two topics of a pipeline do not match.',
    'Add partitions to the named topic, or set partition: source or key in the sink.',
  ),
  kafka_time_refused: dependency(
    'A topic rejected the timestamp of a record.',
    'If Sluice wrote the record again with the current time, no action is necessary. Otherwise check the clocks and the message.timestamp settings of the topic.',
  ),
  kafka_rebalanced: dependency(
    'Partitions were reassigned during processing.',
    'No action is necessary: the members that now own the partitions read all uncommitted records again.',
  ),
  kafka_instance_taken: usage(
    'Another member joined the group with the same instance_id.',
    'Give every member a unique instance_id, or remove the setting.',
  ),
  dead_letters_taken_over: dependency(
    'Another command is processing dead letters of the same topic.',
    'Wait until the other command ends, and run this command again: no dead letter is processed twice.',
  ),
  kafka_failed: dependency(
    'Kafka returned an error.',
    'Check the brokers; records that were not acknowledged are read again.',
  ),

  checkpoint_mismatch: usage(
    'Cannot resume: input, package, options or version differ from the interrupted run.',
    'Undo the change, or start from the beginning: with --restart, or with another upload.',
  ),

  // --- databases
  database_unreachable: dependency(
    'The database is unreachable.',
    'Check that the database runs, its address and the network; nothing was written.',
  ),
  database_refused: usage(
    'The database rejected a statement.',
    'Follow the message: grant the missing permission, or correct the table, query or columns.',
  ),
  database_failed: dependency(
    'The database failed, or its connection was lost.',
    'Run again: the table contains either all rows of the run or none. If it contains all rows, running again changes nothing.',
  ),

  // --- object storage
  storage_unavailable: dependency(
    'Object storage is unreachable or denied the request.',
    'Check the address, the credentials and their permissions; no partial output remains.',
  ),

  // --- models
  model_not_found: input('The model, version or alias does not exist.', 'List the available models.', 404),
  model_invalid: usage(
    'The model file or package cannot be served.',
    'Follow the message if it names a remedy; otherwise export the model and register it again.',
  ),
  model_hash_mismatch: usage(
    'A file of the package differs from the registered one.',
    'Restore the file, or register a new version.',
  ),
  lock_missing: usage(
    'The package has no package.lock, and the configuration requires one.',
    'Create it with sluice model seal.',
  ),
  signature_missing: usage(
    'The package is not signed, and the configuration requires a signature.',
    'Sign it with sluice model sign.',
  ),
  signature_invalid: usage(
    'The package was changed after it was signed, or was not signed with a trusted key.',
    'Do not use the package; find out who changed or signed it.',
  ),
  approval_missing: usage(
    'The version is not approved, and the configuration requires approval.',
    'Approve it with sluice model approve.',
  ),
  approval_refused: usage(
    'A version cannot be approved by the person who added it.',
    'Have another person approve it with their key.',
  ),
  model_retired: usage(
    'The version is retired.',
    'Move the alias to another version, or name the version by its number (id:N), which still loads it.',
  ),
  model_in_use: conflict(
    'The version is the target of an alias, or a process has loaded it.',
    'Move its aliases and let running processes end, or use --force with a reason, which is recorded.',
  ),
  registration_refused: usage(
    'The model cannot be registered in its current form.',
    'Follow the message and register again.',
  ),
  registration_contradicted: usage(
    'The training table contradicts the registration: another column order, code map, class or missing value fits the outcomes better.',
    'Correct the registration as the message says, or use --force with a reason, which is recorded in the package.',
  ),
  training_data_invalid: usage(
    'The training table cannot be read.',
    'Provide a delimited UTF-8 file with a header row.',
  ),
  self_test_failed: usage(
    'The model does not reproduce the predictions of the training library.',
    'Check the listed likely causes; do not serve the model.',
  ),
  version_exists: conflict('This version already exists; versions never change.', 'Register a new version.'),
  schema_registry_unavailable: dependency(
    'The schema registry is unreachable.',
    'Check that the schema registry runs, and check its address.',
  ),
  metrics_unavailable: dependency(
    'The metrics of the service cannot be read.',
    'Check the address of the service, the CA file and the API key.',
  ),
  registry_unavailable: dependency('The model registry is unreachable.', 'Check its address and credentials.'),
  model_failed: bug(
    'The model failed on an input that it should accept.',
    'Run `sluice model verify` on the package, and report the failure.',
  ),
  worker_failed: bug('Worker threads keep crashing.', 'Check the message of the last crash and report it.', true),
  count_mismatch: bug(
    'The number of rows read differs from scored + rejected.',
    'Do not use the output, and report the error.',
  ),
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof ERRORS;

/** The codes that reject a single application. All other codes end a run. */
export const ROW_CODES = Object.entries(ERRORS as Record<string, ErrorEntry>).flatMap(([code, entry]) =>
  entry.row ? [code as ErrorCode] : [],
);

export interface ErrorDetail {
  code: ErrorCode;
  message: string;
  row?: number;
  column?: string;
  /** For a missing column: the input column with the most similar name. */
  suggestion?: string;
}

/** An error with a code of the catalogue, which ends a run or a request. It never contains input values. */
export class SluiceError extends Error {
  readonly code: ErrorCode;
  readonly details: readonly ErrorDetail[];
  /** Machine-readable fields of the response, such as a limit's name, value and unit. */
  readonly extra: Readonly<Record<string, unknown>>;
  /** Message for the log, without values of an application. undefined: the log contains the summary of the code. */
  readonly logMessage: string | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      cause?: unknown;
      details?: readonly ErrorDetail[];
      extra?: Record<string, unknown>;
      logMessage?: string;
    } = {},
  ) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.name = 'SluiceError';
    this.code = code;
    this.details = options.details ?? [];
    this.extra = options.extra ?? {};
    this.logMessage = options.logMessage;
  }

  get entry(): ErrorEntry {
    return ERRORS[this.code];
  }
}

/** Converts any thrown value to a SluiceError; other errors get the code `fallback`. */
export function asSluiceError(error: unknown, fallback: ErrorCode): SluiceError {
  if (error instanceof SluiceError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new SluiceError(fallback, message, { cause: error });
}

/** Message and code on one line, followed by any further lines of the message, such as a table. */
export function toldError({ message, code }: SluiceError): string {
  const [first, ...more] = message.split('\n');
  return [`${first} [${code}]`, ...more].join('\n');
}

export const tooMany = (limit: string, value: number, unit = limit): SluiceError =>
  new SluiceError('limit_exceeded', `more than ${value} ${unit} (limit ${limit})`, { extra: { limit, value, unit } });

// Texts of details that are shown only at a terminal. They may quote names in the input, which no response and no log
// may contain.

/** The texts are not stored in the details, so that they are never part of a serialised error. */
const TERMINAL_TEXTS = new WeakMap<ErrorDetail, string>();

/** Attaches a text for the terminal to a detail. */
export function withTerminalText(detail: ErrorDetail, text: string): ErrorDetail {
  TERMINAL_TEXTS.set(detail, text);
  return detail;
}

/** The text for the terminal; default: the message. */
export const terminalText = (detail: ErrorDetail): string => TERMINAL_TEXTS.get(detail) ?? detail.message;
