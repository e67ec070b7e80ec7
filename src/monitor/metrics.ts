// The one table of metrics: names, units, labels and buckets; nothing is measured that is not in it.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { VERSION } from '../core/version.ts';
import type { DriftMonitor } from '../drift/drift-monitor.ts';
import { DriftMetrics } from './drift-metrics.ts';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
/** Of histograms by model: each bucket is a series of every model. */
const FEW_SECONDS = [0.001, 0.01, 0.1, 1];
/** Loading tries a model in a process of its own: a fast one takes a second. */
const LOAD_SECONDS = [0.5, 1, 2, 5, 15, 60];

/** Brings what is measured only when it is asked for; called before every scrape. */
export type Filler = () => void | Promise<void>;

/**
 * Metrics of one process. Labels are bounded: models by the registry, codes by the catalogue, routes by their patterns, columns by the
 * models. What there is by column is in a registry of its own (`columns`), because it is a hundred times as much.
 */
export class Metrics {
  readonly registry = new Registry();
  readonly columns = new Registry();
  readonly #fillers = new Set<Filler>();
  readonly #drift = new DriftMetrics(this.registry, this.columns);
  #drifting: DriftMonitor | null = null;

  readonly ready = this.#gauge('sluice_ready', 'what /readyz says: 1 ready, 0 not', []);
  readonly rows = this.#counter('sluice_rows_total', 'applications by outcome', ['model', 'outcome']);
  readonly rejected = this.#counter('sluice_rows_rejected_total', 'rejected applications by error code', [
    'model',
    'code',
  ]);
  readonly interpreted = this.#counter(
    'sluice_rows_interpreted_total',
    'applications interpreted (explained), or left without because effects did not add up (inexact)',
    ['model', 'outcome'],
  );
  readonly evaluations = this.#counter(
    'sluice_interpretation_evaluations_total',
    'rows that models which cannot be traced were asked to score for effects',
    ['model'],
  );
  readonly explainedShare = this.#gauge(
    'sluice_interpretation_done_ratio',
    'of a run over files with interpretation: the share of its work that is done',
    ['pipeline'],
  );
  readonly columnRejected = this.#counter(
    'sluice_column_rejected_total',
    'applications rejected because of a column, by error code',
    ['model', 'column', 'code'],
    this.columns,
  );
  readonly scoring = this.#histogram('sluice_block_scoring_seconds', 'time of scoring a block', ['model'], FEW_SECONDS);
  readonly workers = this.#gauge('sluice_workers', 'workers (threads or processes) that take blocks', []);
  readonly workerBusy = this.#counter('sluice_worker_busy_seconds_total', 'time workers spent on blocks', []);
  readonly waited = this.#counter(
    'sluice_wait_seconds_total',
    'time spent waiting for the source, for the workers or for the sink: the largest is the bottleneck',
    ['pipeline', 'for'],
  );
  readonly inFlight = this.#gauge('sluice_in_flight_bytes', 'bytes of applications in memory', ['pipeline']);
  readonly inFlightBudget = this.#gauge('sluice_in_flight_budget_bytes', 'bytes of applications there may be', [
    'pipeline',
  ]);
  readonly lastAnswer = this.#gauge(
    'sluice_pipeline_last_answer_timestamp_seconds',
    'when the last application was answered for good',
    ['pipeline'],
  );
  readonly queueWait = this.#histogram('sluice_request_queue_seconds', 'time a predict request waits for its turn', []);
  readonly requests = this.#histogram('sluice_http_request_seconds', 'time to the end of the answer', [
    'route',
    'status',
  ]);
  readonly protocols = this.#counter('sluice_http_protocol_requests_total', 'requests by version of HTTP', [
    'protocol',
  ]);
  readonly http2Sessions = this.#gauge('sluice_http2_sessions', 'connections that speak HTTP/2', []);
  readonly http2Streams = this.#gauge('sluice_http2_streams', 'requests over HTTP/2 that are open', []);
  readonly http2Refused = this.#counter(
    'sluice_http2_refused_total',
    'beyond limits.http2_streams: requests refused; beyond limits.http2_sessions: connections that got HTTP/1.1; flood: connections ended because of their frames',
    ['reason'],
  );
  readonly uploads = this.#gauge('sluice_http_uploads_in_flight', 'predict requests being answered', []);
  readonly waiting = this.#gauge('sluice_http_requests_queued', 'predict requests waiting for their turn', []);
  readonly httpErrors = this.#counter('sluice_http_errors_total', 'requests answered with an error, by its code', [
    'code',
  ]);
  readonly cutAnswers = this.#counter(
    'sluice_http_cut_answers_total',
    'answers that were broken off after their head, because of an error or because the client went',
    [],
  );
  readonly failedLogins = this.#counter(
    'sluice_logins_failed_total',
    'requests refused because of who they are of: no key, an unknown or expired one, without the scope or not for the model',
    ['key', 'reason'],
  );
  readonly previousTokens = this.#counter(
    'sluice_previous_tokens_total',
    'requests with a token that `sluice keys rotate` has replaced: who sends it has not changed over yet',
    ['key'],
  );
  readonly issuerKeysAge = this.#gauge(
    'sluice_oidc_keys_age_seconds',
    'time since the keys of an identity provider were read; beyond oidc.keys_max_age_ms its tokens are answered 503',
    ['issuer'],
  );
  readonly issuerReads = this.#counter(
    'sluice_oidc_key_reads_total',
    'times the keys of an identity provider were read, or could not be',
    ['issuer', 'outcome'],
  );
  readonly auditRecords = this.#counter('sluice_audit_records_total', 'records written to the audit log', []);
  readonly auditLost = this.#counter(
    'sluice_audit_lost_total',
    'records that could not be written to the audit log; it says so itself when it can be written again',
    [],
  );
  readonly auditFailed = this.#gauge('sluice_audit_failed', '1 while the audit log cannot be written', []);
  readonly keyExpiry = this.#gauge('sluice_key_expiry_timestamp_seconds', 'when a key expires, for those that do', [
    'key',
  ]);
  readonly certificateExpiry = this.#gauge(
    'sluice_certificate_expiry_timestamp_seconds',
    'when the first certificate of a chain in use expires',
    ['use'],
  );
  readonly diskFree = this.#gauge('sluice_disk_free_bytes', 'space left where files are written', ['use']);
  readonly bytesIn = this.#counter('sluice_http_request_body_bytes_total', 'bytes of bodies read', []);
  readonly bytesOut = this.#counter('sluice_http_answer_bytes_total', 'bytes of answers written', []);
  readonly spilled = this.#gauge('sluice_http_spilled_bytes', 'answer bytes waiting in files for their reader', []);
  readonly workerDeaths = this.#counter('sluice_worker_deaths_total', 'workers that died and were replaced', ['model']);
  readonly loadFailures = this.#counter(
    'sluice_model_load_failures_total',
    'versions that could not be loaded, by the id of their model',
    ['model', 'code'],
  );
  readonly modelLoad = this.#histogram(
    'sluice_model_load_seconds',
    'time from asking for a version to its workers being ready',
    [],
    LOAD_SECONDS,
  );
  readonly modelsLoaded = this.#gauge('sluice_models_loaded', 'versions whose workers are open', []);
  readonly evictions = this.#counter(
    'sluice_model_evictions_total',
    'versions closed to make room for others (models_max)',
    [],
  );
  readonly stale = this.#gauge(
    'sluice_model_stale',
    '1 while another version than the registry has answers: the newer one does not load, or files of this one were changed',
    ['reference'],
  );
  readonly lookups = this.#counter(
    'sluice_registry_lookups_total',
    'questions to a remote registry; stale: it did not answer and the last meaning holds',
    ['outcome'],
  );
  readonly swaps = this.#counter('sluice_model_swaps_total', 'changes of the version a reference means', ['model']);
  readonly served = this.#gauge(
    'sluice_model_served_info',
    '1 for the version each reference means, with its package hash',
    ['reference', 'version', 'package_sha256'],
  );
  readonly unlocked = this.#gauge(
    'sluice_model_without_lock',
    '1 while a reference means a package without package.lock: nothing says whether its files are those that were registered',
    ['reference'],
  );
  readonly transactions = this.#histogram(
    'sluice_kafka_transaction_seconds',
    'time of a transaction, from its beginning to its commit',
    ['pipeline'],
  );
  readonly transactionRecords = this.#counter('sluice_kafka_records_total', 'records answered and committed', [
    'pipeline',
  ]);
  readonly aborts = this.#counter('sluice_kafka_aborts_total', 'transactions given up; their records are read again', [
    'pipeline',
    'reason',
  ]);
  readonly fences = this.#counter(
    'sluice_kafka_fences_total',
    'producers that took over, and fenced the ones before them',
    ['pipeline'],
  );
  readonly resets = this.#counter('sluice_kafka_resets_total', 'reading went on at another offset than expected', [
    'pipeline',
  ]);
  readonly offsetsLost = this.#counter(
    'sluice_kafka_offsets_lost_total',
    'partitions whose committed offset the topic no longer has: reading went on elsewhere, what lay between was not read',
    ['pipeline'],
  );
  readonly restarts = this.#counter('sluice_kafka_restarts_total', 'consumers replaced after a failure', ['pipeline']);
  readonly oversized = this.#counter('sluice_kafka_oversized_total', 'answers too large for their topic', ['pipeline']);
  readonly retimed = this.#counter(
    'sluice_kafka_retimed_total',
    'predictions with the time of now, because their topic would have refused or soon removed them with that of their application',
    ['pipeline'],
  );
  readonly partitions = this.#gauge('sluice_kafka_partitions', 'partitions this member has', ['pipeline', 'topic']);
  readonly lag = this.#gauge(
    'sluice_kafka_lag_records',
    'records of the partition that are not committed yet, also while nothing is read',
    ['pipeline', 'topic', 'partition'],
  );
  readonly lagSeconds = this.#gauge(
    'sluice_kafka_lag_seconds',
    'age of the oldest record of the partition that is not committed, also while nothing is read; 0 when none waits',
    ['pipeline', 'topic', 'partition'],
  );
  readonly deadLetters = this.#counter(
    'sluice_dead_letters_total',
    'records put into the dead letter topic and committed, by error code',
    ['pipeline', 'code'],
  );
  readonly retried = this.#counter(
    'sluice_kafka_retries_total',
    'records put into the retry topic, by error code; they count as rows when they are answered or dead letters',
    ['pipeline', 'code'],
  );
  readonly retryWaiting = this.#gauge(
    'sluice_kafka_retry_waiting_records',
    'records of the retry topic that wait for their next attempt, in the partitions of this member',
    ['pipeline'],
  );
  readonly paused = this.#gauge('sluice_kafka_paused', '1 while nothing is read', ['pipeline']);
  readonly modelUnavailable = this.#gauge(
    'sluice_pipeline_model_unavailable',
    '1 while a pipeline waits because its model cannot be loaded',
    ['pipeline'],
  );
  readonly background = this.#counter(
    'sluice_background_failures_total',
    'failures of work that nobody waits for; the log says more',
    ['task'],
  );
  readonly jobs = this.#gauge(
    'sluice_jobs',
    'asynchronous jobs by state; where servers share them, told by the one that cleans up',
    ['state'],
  );
  readonly jobTakeovers = this.#counter(
    'sluice_job_takeovers_total',
    'jobs begun again because the server that ran them did not renew its lease',
    [],
  );
  readonly jobLeasesLost = this.#counter(
    'sluice_job_leases_lost_total',
    'jobs that this server gave up because it could not renew their lease',
    [],
  );
  readonly jobsCrashed = this.#counter(
    'sluice_jobs_crashed_total',
    'jobs that failed because servers ended while they ran them (jobs.max_crashes)',
    [],
  );
  readonly jobTableUp = this.#gauge('sluice_job_table_up', '1 while the table of jobs can be reached, else 0', []);
  readonly resumableUploads = this.#gauge(
    'sluice_resumable_uploads',
    'resumable uploads that are not whole; they count for the quotas of jobs',
    [],
  );
  readonly resumableUploadEnds = this.#counter(
    'sluice_resumable_uploads_total',
    'resumable uploads by how they ended: queued as a job, removed by their owner, expired',
    ['end'],
  );
  readonly uploadsResumed = this.#counter(
    'sluice_resumable_uploads_resumed_total',
    'requests that went on with an upload whose last one was cut, or which came before this start of the server',
    [],
  );
  readonly logLines = this.#counter(
    'sluice_log_lines_total',
    'lines of the log, also those that its level leaves out',
    ['level'],
  );
  readonly processFaults = this.#counter(
    'sluice_process_faults_total',
    'errors that nobody caught; an exception that is none of the operating system ends the process in order',
    ['kind'],
  );

  readonly runLastSuccess = this.#gauge(
    'sluice_run_last_success_timestamp_seconds',
    'when a run last ended with exit code 0 or 3 (some rows rejected)',
    ['pipeline'],
  );
  readonly runLastEnd = this.#gauge('sluice_run_last_end_timestamp_seconds', 'when a run last ended', ['pipeline']);
  readonly runExitCode = this.#gauge('sluice_run_last_exit_code', 'exit code of the last run', ['pipeline']);
  readonly runSeconds = this.#gauge('sluice_run_last_duration_seconds', 'how long the last run took', ['pipeline']);
  readonly runRows = this.#gauge('sluice_run_rows', 'applications of the last run by outcome', ['pipeline', 'outcome']);
  readonly runSlack = this.#gauge(
    'sluice_run_deadline_slack_seconds',
    'time from the end of the run, or the one foreseen, to its deadline; below 0: late',
    ['pipeline'],
  );

  constructor() {
    // Event-loop delay, heap, garbage collection, CPU, descriptors.
    collectDefaultMetrics({ register: this.registry });
    const build = this.#gauge('sluice_build_info', '1 for the version that runs', ['version', 'node']);
    build.set({ version: VERSION, node: process.version }, 1);
  }

  /** Has `fill` called before every scrape, until the function given back is. One that fails leaves what it fills as it was. */
  onScrape(fill: Filler): () => void {
    this.#fillers.add(fill);
    return () => this.#fillers.delete(fill);
  }

  /** Has the drift of what one account counts measured. */
  measureDrift(monitor: DriftMonitor): void {
    this.#drifting = monitor;
  }

  /** The text exposition format, of all but what there is by column. */
  async text(): Promise<string> {
    await this.fill();
    if (this.#drifting) this.#drift.fill(this.#drifting);
    return this.registry.metrics();
  }

  /** The same for what there is by column. */
  async columnsText(): Promise<string> {
    await this.fill();
    if (this.#drifting) this.#drift.fillColumns(this.#drifting);
    return this.columns.metrics();
  }

  /** Brings everything up to date; `text` does so by itself. */
  async fill(): Promise<void> {
    // Not `all`: what can be measured is worth having while something else cannot.
    const filled = await Promise.allSettled([...this.#fillers].map(async (fill) => fill()));
    for (const { status } of filled) if (status === 'rejected') this.background.inc({ task: 'measuring' });
  }

  #counter<L extends string>(name: string, help: string, labelNames: L[], registry = this.registry): Counter<L> {
    return new Counter({ name, help, labelNames, registers: [registry] });
  }
  #gauge<L extends string>(name: string, help: string, labelNames: L[]): Gauge<L> {
    return new Gauge({ name, help, labelNames, registers: [this.registry] });
  }
  #histogram<L extends string>(name: string, help: string, labelNames: L[], buckets = SECONDS): Histogram<L> {
    return new Histogram({ name, help, labelNames, buckets, registers: [this.registry] });
  }
}
