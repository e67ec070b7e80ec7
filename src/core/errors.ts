// The catalogue of error codes: whose fault each is, its HTTP status, whether a retry helps and what to do next.

/** Whose fault an error is: it decides who is woken at night. */
type Fault = 'input' | 'usage' | 'dependency' | 'overload' | 'bug';

export interface ErrorEntry {
  fault: Fault;
  /** HTTP status of the answer when this error ends a request. Row-level codes never end one by themselves. */
  status: number;
  retryable: boolean;
  /** true: marks one rejected application and never ends a run. */
  row?: true;
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

// Statuses of the tus protocol for resumable uploads.

const UPLOAD_ERRORS = {
  upload_not_found: input(
    'There is no such upload.',
    'Begin a new one: it was removed, or nothing came for jobs.upload_ttl_ms; or it is of another key.',
    404,
  ),
  upload_offset_conflict: input(
    'A part of an upload begins elsewhere than the bytes that are there end.',
    'Ask with HEAD how many there are, and go on from there.',
    409,
  ),
  upload_locked: {
    ...input('Another request writes to the upload.', 'Ask with HEAD after Retry-After, and go on from there.', 423),
    retryable: true,
  },
  upload_too_large: input(
    'An upload is larger than it may be, or than it said it would be.',
    'Say the right Upload-Length; a larger upload wants a higher limits.body_bytes, or several files.',
    413,
  ),
  upload_checksum_mismatch: {
    ...input(
      'A part of an upload is not what its Upload-Checksum says.',
      'Send it again: nothing of it was kept.',
      460,
    ),
    retryable: true,
  },
  upload_media_type: input(
    'A part of an upload has another media type.',
    'Send it with Content-Type: application/offset+octet-stream.',
    415,
  ),
  tus_version: input('The request speaks another version of tus.', 'Send Tus-Resumable: 1.0.0.', 412),
} as const satisfies Record<string, ErrorEntry>;

/** Every code Sluice can answer with. docs/errors.md is generated from this table and tested against it. */
export const ERRORS = {
  // --- one application is wrong; the others are scored
  malformed_record: row(
    'A record breaks the quoting rules of RFC 4180.',
    'Quote whole fields only, double quotes inside them.',
  ),
  empty_row: row(
    'An application has no value in any column of the model.',
    'Look for rows of nothing but delimiters, such as those a spreadsheet leaves at its end.',
  ),
  column_count: row('A record has more or fewer fields than the header.', 'Look for an unquoted delimiter in a field.'),
  invalid_utf8: row(
    'A record is not valid UTF-8, or has bytes that the declared encoding does not define.',
    'Export the file as UTF-8, or declare its encoding (docs/input.md).',
  ),
  invalid_character: row('A text value holds a NUL character.', 'Remove the NUL character.'),
  record_too_long: row(
    'A record is longer than the limit for one row.',
    'Look for an unclosed quote or raise the limit.',
  ),
  bad_number: row(
    'A number column holds something that is not a plain decimal number.',
    'Write digits with a point and no spaces or thousands separators, or declare how they are written (docs/input.md).',
  ),
  number_out_of_range: row(
    'A number is outside what the model package or its number type allows.',
    'Check the unit of the column.',
  ),
  bad_boolean: row('A boolean column holds a word that is neither true nor false.', 'Use the words the package lists.'),
  bad_type: row(
    'A value or a column has a type that the column of the model cannot take, such as a number for a category of text.',
    'Read or send the column as text; `0230` as a number has lost its zero. In JSON send a number, a boolean, a string or null.',
  ),
  unseen_category: row('A category was not in the training data.', 'Map it to a known category.'),
  missing_value: row('A value is missing in a column that must have one.', 'Fill the column.'),
  missing_column: row('An application lacks a column of the model.', 'Send every column; use null for missing values.'),
  unexpected_column: row(
    'A column is not one of the model and is not passed through.',
    'Remove it or name it in passthrough.',
  ),
  duplicate_column: row('A column or key is there twice.', 'Send each column once.'),
  outcome_present: row('The outcome column is part of the application.', 'Remove the outcome column.'),
  malformed_json: row('A JSON text is malformed.', 'Look at the row named, or at the end of the body.'),
  malformed_avro: row(
    'A value is not Avro of a schema that the registry knows.',
    'Look at the producer of the record.',
  ),
  malformed_protobuf: row(
    'A value is not Protobuf of a schema that the registry knows.',
    'Look at the producer of the record.',
  ),
  not_an_object: row('A JSON record is not an object.', 'Send one object an application.'),
  nesting_too_deep: row('A JSON record is nested deeper than the limit.', 'Send flat objects.'),
  row_crashed_worker: row(
    'Scoring this application alone brought its worker down twice.',
    'Keep the row and report it: this is a defect of the model or of Sluice.',
  ),
  not_finite: row('The model answered with NaN or infinity.', 'Check the model on this application.'),
  interpretation_inexact: row(
    'Base and effects of this application do not add up to its prediction.',
    'The prediction stands; do not give reasons. Report it with the model.',
  ),
  interpretation_failed: row(
    'Interpreting this application alone ended its worker, exceeded the time limit, or failed.',
    'The prediction stands; do not give reasons. Keep the row and report it with the model.',
  ),
  not_a_probability: row(
    'The model answered with numbers that are no probabilities.',
    'Register the model again: its output may hold raw scores.',
  ),
  output_too_large: row(
    'The answer is larger than the output topic takes.',
    'Raise max.message.bytes of the topic, or ask for fewer passthrough columns and effects.',
  ),

  // --- the whole input is wrong
  empty_input: input('The input has no header row.', 'Send a header row with the column names.'),
  wrong_delimiter: input('The header row is separated by another character.', 'Name the delimiter the file uses.'),
  header_mismatch: input('The header row does not fit the columns of the model.', 'Compare it with the model columns.'),
  foreign_content: input(
    'The input is no text of records: it is packed, a workbook, or in another encoding.',
    'Do what the message says.',
  ),
  invalid_encoding: input(
    'The input is not UTF-8 text, or not text of the declared encoding.',
    'Export the file as UTF-8, or declare its encoding (docs/input.md).',
  ),
  invalid_row: input('An application is invalid and on_invalid is fail.', 'Repair the row or use on_invalid=report.'),

  nothing_scored: input('No application of the input could be scored.', 'Look at the errors listed.'),
  gate_stopped: input(
    'The input is further from the training than the gate allows; nothing is published.',
    'Look at the columns named before you lift a limit: most often the sender has changed something.',
  ),
  control_total_mismatch: input(
    'The input is not what its sender says it is: rows, digest, trailer, or the file that comes with it.',
    'Ask the sender for the whole file; nothing of this one was published.',
  ),
  truncated_input: input('The input ended in the middle of a value.', 'Send the input again, whole.'),
  limit_exceeded: input('A limit was exceeded.', 'Send less at once or later, or raise the limit named.'),

  invalid_content: input('The body is encoded or framed wrongly.', 'Check Content-Type and Content-Encoding.'),
  bad_request: input('The request is malformed.', 'See the operation in /docs.'),
  interpretation_unavailable: input('This model has no interpretation.', 'Ask for predictions without it.'),
  interpretation_over_budget: input(
    'No method of interpretation takes as few evaluations as max_evaluations allows.',
    'Raise max_evaluations to the number that the message names, or ask for predictions without interpretation.',
  ),
  not_found: input('There is nothing under this path.', 'See /docs.', 404),
  method_not_allowed: input('The path does not take this method.', 'See /docs.', 405),
  job_not_found: input('There is no such job.', 'Jobs are kept for a time only; check the id and the key.', 404),
  jobs_unavailable: dependency(
    'Jobs cannot be reached: their table in the database, or their files in object storage.',
    'Try again, with the same Idempotency-Key; queued jobs are not lost.',
  ),
  job_lease_lost: dependency(
    'This server could not renew its lease of a job or of an upload in time.',
    'Nothing: a job is run by another server. An upload is sent again, with the same Idempotency-Key.',
  ),
  job_crashed: usage(
    'Servers ended without a word while they ran this job, as often as jobs.max_crashes allows.',
    'Look at what ended them (memory, most often) before the same is sent again; in smaller parts it may pass.',
  ),
  job_not_finished: input('The job has no result yet.', 'Ask for its state first.', 409),
  ...UPLOAD_ERRORS,
  several_files: input('A form holds more than one file.', 'Send one file a request.'),
  digest_mismatch: input(
    'A body is not the one its digest describes.',
    'Send it again, and look at what lies between client and server.',
  ),
  idempotency_conflict: input('The Idempotency-Key was used for another request.', 'Use a new key.'),
  idempotency_key_reused: input(
    'The Idempotency-Key was used for another body.',
    'Use a new key for each body; the earlier job is as it was.',
  ),
  unauthorized: input('No valid API key, token or certificate was given.', 'Send Authorization: API-Key <token>.', 401),
  invalid_token: input(
    'A token was not accepted.',
    'Ask the identity provider for a new one; what it has to hold stands in docs/identity.md.',
    401,
  ),
  identity_provider_unavailable: dependency(
    'The keys of an identity provider cannot be read.',
    'Check its address, the authorities it is trusted by and that it runs; API keys and certificates are taken meanwhile.',
  ),
  audit_unavailable: dependency(
    'The audit log cannot be written, and nothing is done that cannot be recorded.',
    'Free space or repair the disk of audit.file; audit.on_failure: continue does without records.',
  ),
  audit_broken: usage(
    'An audit log is not what was written.',
    'Compare what is named with a copy; everything before it is whole.',
  ),
  forbidden: input('The API key does not permit this.', 'Ask for a key with the scope or model.', 403),
  https_required: input('Only HTTPS is served.', 'Use https://.', 400),
  client_gone: {
    fault: 'input',
    status: 400,
    retryable: true,
    summary: 'The client closed the connection, or was too slow.',
    action: 'Send again.',
  },
  overloaded: {
    fault: 'overload',
    status: 503,
    retryable: true,
    summary: 'Too many requests wait already.',
    action: 'Send again after Retry-After.',
  },
  stopping: {
    fault: 'overload',
    status: 503,
    retryable: true,
    summary: 'The server is stopping.',
    action: 'Send again: another instance will answer.',
  },

  // --- outcomes
  outcomes_invalid: input(
    'Labels and predictions cannot be joined.',
    'Do what the message says; nothing was reported.',
  ),
  bad_time: input('A month or a time is something else.', 'Write months as 2026-03 and times as 2026-03-09T17:04:05Z.'),

  // --- files and runs
  input_not_found: usage('The input cannot be opened.', 'Check the path and its permissions.'),
  input_unreadable: dependency('Reading the input failed.', 'Check the disk or the network file system.'),
  input_changed: dependency('The input changed or vanished while it was read.', 'Run again when the file is complete.'),
  plan_invalid: usage('The file is no plan of shards, or was changed.', 'Make it again with sluice plan.'),
  deadline_unreachable: usage('No number of shards ends before the deadline.', 'Begin earlier, or move the deadline.'),
  parts_mismatch: input(
    'The parts are not those of one run in shards: one is missing, there twice, changed or of another package, release or options.',
    'Run the shards that are named again, then merge.',
  ),
  manifest_invalid: usage(
    'The manifest of an output is missing, damaged, or signed by somebody else.',
    'Take the manifest of that run from the archive.',
  ),
  verification_failed: usage(
    'An output, its input or its package is not what the manifest says.',
    'See what is named; score the input again.',
  ),
  output_exists_as_folder: usage('The output path is a folder.', 'Name a file.'),
  output_unwritable: usage('The output cannot be created.', 'Check that its folder exists and is writable.'),
  output_full: dependency(
    'There is no space left for the output.',
    'Free space and run again; nothing was left behind.',
  ),
  output_failed: dependency('Writing the output failed.', 'Check the disk and run again; nothing was left behind.'),
  output_closed: dependency('The reader of the output went away.', 'Run again.'),
  cancelled: { fault: 'usage', status: 503, retryable: true, summary: 'The run was cancelled.', action: 'Run again.' },
  usage: usage('The command line is wrong.', 'See --help.'),
  folder_unusable: usage(
    'A folder of the configuration cannot be written to.',
    'Check the path, its permissions, the space left and that its volume is mounted.',
  ),
  folder_in_use: dependency(
    'Another server works in the same folder.',
    'Give each server a jobs.folder of its own, or stop the other one first.',
  ),
  internal_error: bug(
    'Something went wrong that has no name.',
    'Report it with the request id and the line of the log that has it.',
  ),

  // --- Kafka
  kafka_config: usage('The Kafka settings cannot be used.', 'Check the files, variables and topics named.'),
  kafka_unreachable: dependency('No Kafka broker answers.', 'Check the addresses, the network and the brokers.'),
  kafka_authentication: usage(
    'Kafka refused the login, or the TLS handshake failed.',
    'Check the mechanism, the name, the password or the token, and the certificates.',
  ),
  kafka_token_unavailable: dependency(
    'There is no token to log in to Kafka with now.',
    'Look at the token endpoint and at the brokers that check its tokens; it is tried again.',
  ),
  kafka_not_authorized: usage(
    'Kafka does not permit this.',
    'Grant the permission named: read, write, describe on the topics; read on the group; write on its transactional ids.',
  ),
  kafka_topic_missing: usage('A topic does not exist.', 'Create it; Sluice creates none.'),
  kafka_codec: input(
    'A compressed batch of a topic cannot be unpacked.',
    'Look at the producer that wrote it; gzip, snappy, lz4 and zstd are read.',
  ),
  kafka_offset_lost: input(
    'Records the group has not read yet are no longer in the topic.',
    'Find out what was lost, then set the offset of the group by hand or on_offset_lost to earliest or latest.',
  ),
  kafka_record_too_large: usage(
    'A record is larger than its topic takes, and there is no dead letter topic.',
    'Raise max.message.bytes of the topic or configure a dead letter topic.',
  ),
  kafka_partitions_differ: usage(
    'Two topics of a pipeline have numbers of partitions that do not fit together.',
    'Add partitions to the topic named, or say in the sink which partition a prediction goes to (partition: source or key).',
  ),
  kafka_time_refused: dependency(
    'A topic does not take the time of a record.',
    'Nothing, if it is written again with the time of now; else compare the clocks and the message.timestamp settings of the topic.',
  ),
  kafka_rebalanced: dependency(
    'The group gave the partitions to other members meanwhile.',
    'Nothing: what was not committed is read again by whoever has them now.',
  ),
  kafka_instance_taken: usage(
    'Another member joined the group under the same instance name.',
    'Give every member an instance_id of its own, or none.',
  ),
  dead_letters_taken_over: dependency(
    'Another command settles dead letters of the same topic.',
    'Wait for it to end and run this one again: what was settled stays so, and nothing is settled twice.',
  ),
  kafka_failed: dependency('Kafka failed.', 'Look at the brokers; what was not acknowledged is read again.'),

  checkpoint_mismatch: usage(
    'A run that was interrupted was another one: its input, package, options or version have changed.',
    'Run it as it was, or begin from the start with --restart.',
  ),

  // --- databases
  database_unreachable: dependency(
    'The database cannot be reached.',
    'Check its address, the network and that it runs; nothing was written.',
  ),
  database_refused: usage(
    'The database refuses what the pipeline asks of it.',
    'Do what the message says: grant what is missing, or make table, query and columns fit.',
  ),
  database_failed: dependency(
    'The database failed, or the connection to it was lost.',
    'Run again: nothing of the run is visible, or all of it, and then the repetition changes nothing.',
  ),

  // --- object storage
  storage_unavailable: dependency(
    'Object storage cannot be reached, or refuses.',
    'Check the address, the credentials and what they may do; an output that was begun is not there.',
  ),

  // --- models
  model_not_found: input('No such model, version or alias.', 'List the models.', 404),
  model_invalid: usage('The model package cannot be served.', 'Repair the package as the message says.'),
  model_hash_mismatch: usage(
    'A file of a package is not the one registered.',
    'Restore it, or register a new version.',
  ),
  lock_missing: usage('A package has no package.lock, and one is required.', 'Write it: sluice model seal.'),
  signature_missing: usage('A package is not signed, and has to be.', 'Have it signed: sluice model sign.'),
  signature_invalid: usage('A package is not as a trusted key signed it.', 'Find out who changed or signed it.'),
  approval_missing: usage('A version is not approved, and has to be.', 'Have it approved: sluice model approve.'),
  approval_refused: usage('Who added a version cannot approve it.', 'Have it approved with the key of somebody else.'),
  model_retired: usage('A version is retired.', 'Point the alias elsewhere; by its number (id:N) it still loads.'),
  model_in_use: conflict(
    'A version is what a reference means, or a process has it loaded.',
    'Point its aliases elsewhere and let what runs end; or --force with the reason, which is kept.',
  ),
  registration_refused: usage(
    'The model cannot be registered as it is.',
    'Do what the message says and register again.',
  ),
  registration_contradicted: usage(
    'The training table contradicts the registration: another order, other codes, another class or value for missing fits better.',
    'Register it as the message says, or with --force and the reason, which is kept in the package.',
  ),
  training_data_invalid: usage('The training table cannot be read.', 'Give a delimited UTF-8 file with a header row.'),
  self_test_failed: usage(
    'The model does not reproduce the predictions of the training library.',
    'Look at the likely causes listed; do not serve it.',
  ),
  version_exists: conflict(
    'This version is registered already; versions never change.',
    'Register under a new version.',
  ),
  schema_registry_unavailable: dependency(
    'The schema registry cannot be reached.',
    'Check its address and that it runs.',
  ),
  registry_unavailable: dependency('The model registry cannot be reached.', 'Check its address and credentials.'),
  model_failed: bug('The model failed on an input it should have taken.', 'Verify the package; report the failure.'),
  worker_failed: bug('Worker threads keep dying.', 'Look at the message of the last death; report it.', true),
  count_mismatch: bug('Rows read are not rows scored + rejected + skipped.', 'Do not use the output; report this.'),
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof ERRORS;

/** Codes of applications, as opposed to those that end a run. */
export const ROW_CODES = Object.entries(ERRORS as Record<string, ErrorEntry>).flatMap(([code, entry]) =>
  entry.row ? [code as ErrorCode] : [],
);

export interface ErrorDetail {
  code: ErrorCode;
  message: string;
  row?: number;
  column?: string;
}

/** An error that ends a run or a request, with a code of the catalogue. Never carries values of the input. */
export class SluiceError extends Error {
  readonly code: ErrorCode;
  readonly details: readonly ErrorDetail[];
  /** Machine-readable extras of the answer, such as a limit's name, value and unit. */
  readonly extra: Readonly<Record<string, unknown>>;

  constructor(
    code: ErrorCode,
    message: string,
    options: { cause?: unknown; details?: readonly ErrorDetail[]; extra?: Record<string, unknown> } = {},
  ) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.name = 'SluiceError';
    this.code = code;
    this.details = options.details ?? [];
    this.extra = options.extra ?? {};
  }

  get entry(): ErrorEntry {
    return ERRORS[this.code];
  }
}

/** Anything thrown as a SluiceError; what is none gets the code `fallback`. */
export function asSluiceError(error: unknown, fallback: ErrorCode): SluiceError {
  if (error instanceof SluiceError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new SluiceError(fallback, message, { cause: error });
}

/** Message and code on one line; what else the message has, such as a table, below. */
export function toldError({ message, code }: SluiceError): string {
  const [first, ...more] = message.split('\n');
  return [`${first} [${code}]`, ...more].join('\n');
}

export const tooMany = (limit: string, value: number, unit = limit): SluiceError =>
  new SluiceError('limit_exceeded', `more than ${value} ${unit} (limit ${limit})`, { extra: { limit, value, unit } });
