// Defines the metrics of runs and of all processes: name, help text, labels and buckets of each metric, and the
// processes that export it.
import { collectDefaultMetrics } from 'prom-client';
import { VERSION } from '../core/version.ts';
import type { DriftMonitor } from '../drift/drift-monitor.ts';
import { DriftMetrics } from './drift-metrics.ts';
import {
  type Exporter,
  expositionOf,
  METRICS_PROCESSES,
  type MetricsProcess,
  type SeriesFilter,
} from './metric-registration.ts';
import { ServiceMetrics } from './service-metrics.ts';

/** Histograms by model have few buckets, because each bucket is a series per model. */
const FEW_SECONDS = [0.001, 0.01, 0.1, 1];
/** Loading a model includes a trial in a separate process, so even a fast load takes a second. */
const LOAD_SECONDS = [0.5, 1, 2, 5, 15, 60];

// The text that a run writes contains totals and results, but no gauges that are valid only while the process runs.
const ANY: readonly Exporter[] = METRICS_PROCESSES;
const ANY_AND_FILE: readonly Exporter[] = [...ANY, 'metrics_file'];
const BATCH: readonly Exporter[] = ['batch_run'];
const TOPIC: readonly Exporter[] = ['topic_run'];
const TOPIC_AND_FILE: readonly Exporter[] = ['topic_run', 'metrics_file'];
/**
 * Processes that follow aliases and reload models. A batch run, in contrast, uses the version that it resolved at its
 * start.
 */
const HOST: readonly Exporter[] = ['serve', 'topic_run'];
const HOST_AND_FILE: readonly Exporter[] = [...HOST, 'metrics_file'];
const RUN_AND_FILE: readonly Exporter[] = ['batch_run', 'topic_run', 'metrics_file'];
const FILE: readonly Exporter[] = ['metrics_file'];

/** Updates values that are computed on demand; called before every scrape. */
type Filler = () => void | Promise<void>;

/**
 * Metrics of a process. Only the families that apply to the process are exported. Otherwise, a zero from a process
 * without a job table would look like an unreachable job table. The values of labels are bounded: models by the
 * registry, codes by the catalogue, routes by their patterns, columns by the models. Metrics by column have a registry
 * of their own (`columns`), because they have a hundred times more series.
 */
export class Metrics extends ServiceMetrics {
  readonly #fillers = new Set<Filler>();
  readonly #drift = new DriftMetrics(this);
  #drifting: DriftMonitor | null = null;

  readonly ready = this.gauge(ANY, 'sluice_ready', 'result of /readyz: 1 ready, 0 not ready', []);
  readonly rows = this.counter(ANY_AND_FILE, 'sluice_rows_total', 'applications by outcome', ['model', 'outcome']);
  readonly rejected = this.counter(ANY_AND_FILE, 'sluice_rows_rejected_total', 'rejected applications by error code', [
    'model',
    'code',
  ]);
  readonly interpreted = this.counter(
    ANY_AND_FILE,
    'sluice_rows_interpreted_total',
    'applications interpreted (explained), or without interpretation because effects did not add up or could not be computed (inexact)',
    ['model', 'outcome'],
  );
  readonly evaluations = this.counter(
    ANY_AND_FILE,
    'sluice_interpretation_evaluations_total',
    'rows scored by black-box models to compute effects',
    ['model'],
  );
  readonly explainedShare = this.gauge(
    BATCH,
    'sluice_interpretation_done_ratio',
    'completed share of the work of a run over files with interpretation, 0 to 1',
    ['pipeline'],
  );
  readonly columnRejected = this.counter(
    ANY,
    'sluice_column_rejected_total',
    'applications rejected because of a column, by error code',
    ['model', 'column', 'code'],
    true,
  );
  readonly scoring = this.histogram(
    ANY_AND_FILE,
    'sluice_block_scoring_seconds',
    'time to score a block',
    ['model'],
    FEW_SECONDS,
  );
  readonly workers = this.gauge(ANY, 'sluice_workers', 'workers (threads or processes) that take blocks', []);
  readonly workerBusy = this.counter(
    ANY_AND_FILE,
    'sluice_worker_busy_seconds_total',
    'time workers spent on blocks',
    [],
  );
  readonly waited = this.counter(
    ANY_AND_FILE,
    'sluice_wait_seconds_total',
    'time spent waiting for the source, for the workers or for the sink; the longest wait shows the bottleneck',
    ['pipeline', 'for'],
  );
  readonly inFlight = this.gauge(ANY, 'sluice_in_flight_bytes', 'bytes of applications in memory', ['pipeline']);
  readonly inFlightBudget = this.gauge(
    ANY,
    'sluice_in_flight_budget_bytes',
    'limit of bytes of applications in memory',
    ['pipeline'],
  );
  readonly lastAnswer = this.gauge(
    ANY_AND_FILE,
    'sluice_pipeline_last_answer_timestamp_seconds',
    'when the last application was answered and committed',
    ['pipeline'],
  );
  readonly certificateExpiry = this.gauge(
    ANY,
    'sluice_certificate_expiry_timestamp_seconds',
    'when the first certificate of a chain in use expires',
    ['use'],
  );
  readonly diskFree = this.gauge(ANY, 'sluice_disk_free_bytes', 'free space where files are written', ['use']);
  readonly workerDeaths = this.counter(
    ANY_AND_FILE,
    'sluice_worker_deaths_total',
    'workers that crashed and were replaced',
    ['model'],
  );
  readonly loadFailures = this.counter(
    HOST_AND_FILE,
    'sluice_model_load_failures_total',
    'versions that could not be loaded, by the id of their model',
    ['model', 'code'],
  );
  readonly modelLoad = this.histogram(
    HOST_AND_FILE,
    'sluice_model_load_seconds',
    'time from requesting a version until its workers are ready',
    [],
    LOAD_SECONDS,
  );
  readonly modelsLoaded = this.gauge(ANY, 'sluice_models_loaded', 'versions whose workers are open', []);
  readonly explainMemory = this.gauge(
    HOST,
    'sluice_explain_memory_bytes',
    'memory of the lookup tables for effects, over all models and workers',
    [],
  );
  readonly explainMemoryLimit = this.gauge(
    HOST,
    'sluice_explain_memory_limit_bytes',
    'maximum of sluice_explain_memory_bytes (explain_memory_bytes)',
    [],
  );
  readonly evictions = this.counter(
    HOST_AND_FILE,
    'sluice_model_evictions_total',
    'versions closed to make room for others (models_max)',
    [],
  );
  readonly stale = this.gauge(
    HOST,
    'sluice_model_stale',
    '1 while the served version is not the version that the registry names: that version does not load, or files of the served version changed',
    ['reference'],
  );
  readonly lookups = this.counter(
    ANY_AND_FILE,
    'sluice_registry_lookups_total',
    'requests to a remote registry; stale: it did not answer, and the last known version is served',
    ['outcome'],
  );
  readonly swaps = this.counter(
    HOST_AND_FILE,
    'sluice_model_swaps_total',
    'changes of the version that a reference resolves to',
    ['model'],
  );
  readonly served = this.gauge(
    ANY,
    'sluice_model_served_info',
    '1 for the version that each reference resolves to, with its package hash',
    ['reference', 'version', 'package_sha256'],
  );
  readonly unlocked = this.gauge(
    HOST,
    'sluice_model_without_lock',
    '1 while a reference resolves to a package without package.lock, whose files cannot be compared with the registered ones',
    ['reference'],
  );
  readonly transactions = this.histogram(
    TOPIC_AND_FILE,
    'sluice_kafka_transaction_seconds',
    'time of a transaction, from its beginning to its commit',
    ['pipeline'],
  );
  readonly transactionRecords = this.counter(
    TOPIC_AND_FILE,
    'sluice_kafka_records_total',
    'records answered and committed',
    ['pipeline'],
  );
  readonly aborts = this.counter(
    TOPIC_AND_FILE,
    'sluice_kafka_aborts_total',
    'transactions aborted; their records are read again',
    ['pipeline', 'reason'],
  );
  readonly fences = this.counter(
    TOPIC_AND_FILE,
    'sluice_kafka_fences_total',
    'producers that fenced the previous producer of a transactional id',
    ['pipeline'],
  );
  readonly resets = this.counter(
    TOPIC_AND_FILE,
    'sluice_kafka_resets_total',
    'times that reading continued at another offset than expected',
    ['pipeline'],
  );
  readonly offsetsLost = this.counter(
    TOPIC_AND_FILE,
    'sluice_kafka_offsets_lost_total',
    'partitions whose committed offset is no longer in the topic; reading continued elsewhere, and the records in between were not read',
    ['pipeline'],
  );
  readonly restarts = this.counter(
    TOPIC_AND_FILE,
    'sluice_kafka_restarts_total',
    'consumers replaced after a failure',
    ['pipeline'],
  );
  readonly oversized = this.counter(
    TOPIC_AND_FILE,
    'sluice_kafka_oversized_total',
    'predictions larger than their topic accepts',
    ['pipeline'],
  );
  readonly retimed = this.counter(
    TOPIC_AND_FILE,
    'sluice_kafka_retimed_total',
    'predictions with the current time, because their topic would have rejected or soon deleted them with the time of their application',
    ['pipeline'],
  );
  readonly partitions = this.gauge(TOPIC, 'sluice_kafka_partitions', 'partitions assigned to this member', [
    'pipeline',
    'topic',
  ]);
  readonly lag = this.gauge(
    TOPIC,
    'sluice_kafka_lag_records',
    'records of the partition that are not committed yet, also while nothing is read',
    ['pipeline', 'topic', 'partition'],
  );
  readonly lagSeconds = this.gauge(
    TOPIC,
    'sluice_kafka_lag_seconds',
    'age of the oldest uncommitted record of the partition, also while nothing is read; 0 if none is waiting',
    ['pipeline', 'topic', 'partition'],
  );
  readonly deadLetters = this.counter(
    TOPIC_AND_FILE,
    'sluice_dead_letters_total',
    'records written to the dead-letter topic and committed, by error code',
    ['pipeline', 'code'],
  );
  readonly retried = this.counter(
    TOPIC_AND_FILE,
    'sluice_kafka_retries_total',
    'records written to the retry topic, by error code; they count as rows once they are answered or become dead letters',
    ['pipeline', 'code'],
  );
  readonly retryWaiting = this.gauge(
    TOPIC,
    'sluice_kafka_retry_waiting_records',
    'records of the retry topic that wait for their next attempt, in the partitions of this member',
    ['pipeline'],
  );
  readonly paused = this.gauge(TOPIC, 'sluice_kafka_paused', '1 while nothing is read', ['pipeline']);
  readonly modelUnavailable = this.gauge(
    TOPIC,
    'sluice_pipeline_model_unavailable',
    '1 while a pipeline waits because its model cannot be loaded',
    ['pipeline'],
  );
  readonly background = this.counter(
    ANY_AND_FILE,
    'sluice_background_failures_total',
    'failures of background tasks; see the log',
    ['task'],
  );
  readonly processFaults = this.counter(
    ANY_AND_FILE,
    'sluice_process_faults_total',
    'uncaught errors; an exception other than one of the operating system ends the process after a regular stop',
    ['kind'],
  );

  readonly runLastSuccess = this.gauge(
    FILE,
    'sluice_run_last_success_timestamp_seconds',
    'when a run last ended with exit code 0 or 3 (some rows rejected)',
    ['pipeline'],
  );
  readonly runLastEnd = this.gauge(FILE, 'sluice_run_last_end_timestamp_seconds', 'when a run last ended', [
    'pipeline',
  ]);
  readonly runExitCode = this.gauge(FILE, 'sluice_run_last_exit_code', 'exit code of the last run', ['pipeline']);
  readonly runSeconds = this.gauge(FILE, 'sluice_run_last_duration_seconds', 'how long the last run took', [
    'pipeline',
  ]);
  readonly runRows = this.gauge(FILE, 'sluice_run_rows', 'applications of the last run by outcome', [
    'pipeline',
    'outcome',
  ]);
  readonly runSlack = this.gauge(
    RUN_AND_FILE,
    'sluice_run_deadline_slack_seconds',
    'time from the actual or estimated end of the run to its deadline; below 0: late',
    ['pipeline'],
  );

  constructor(role: MetricsProcess) {
    super(role);
    // Event-loop delay, heap, garbage collection, CPU, descriptors.
    collectDefaultMetrics({ register: this.registry });
    // Alert rules need the start time of the process to count events before the first scrape. Metrics by column need it
    // as well, because they are scraped separately.
    this.columns.registerMetric(this.registry.getSingleMetric('process_start_time_seconds')!);
    const build = this.gauge(ANY_AND_FILE, 'sluice_build_info', '1 for the running version', ['version', 'node']);
    build.set({ version: VERSION, node: process.version }, 1);
  }

  /**
   * Calls `fill` before every scrape, until the returned function is called. If `fill` fails, its values stay
   * unchanged.
   */
  onScrape(fill: Filler): () => void {
    this.#fillers.add(fill);
    return () => this.#fillers.delete(fill);
  }

  /** Exports the drift of the rows that an account has counted. */
  measureDrift(monitor: DriftMonitor): void {
    this.#drifting = monitor;
  }

  /** All metrics except those by column, in the Prometheus text format. */
  async text(filter: SeriesFilter | null = null): Promise<string> {
    await this.fill();
    if (this.#drifting) this.#drift.fill(this.#drifting);
    return expositionOf(this.registry, filter);
  }

  /** The metrics by column, in the Prometheus text format. */
  async columnsText(filter: SeriesFilter | null = null): Promise<string> {
    await this.fill();
    if (this.#drifting) this.#drift.fillColumns(this.#drifting);
    return expositionOf(this.columns, filter);
  }

  /** Sets the results of a finished run: the drift over all its rows. */
  async fillRun(pipeline: string): Promise<void> {
    await this.fill();
    if (this.#drifting) this.#drift.fillRun(this.#drifting, pipeline);
  }

  /** Updates all values. `text` and `columnsText` call this method. */
  async fill(): Promise<void> {
    // `Promise.all` is not used, because one failing measurement must not prevent the others.
    const filled = await Promise.allSettled([...this.#fillers].map(async (fill) => fill()));
    for (const { status } of filled) if (status === 'rejected') this.background.inc({ task: 'measuring' });
  }
}
