// The one table of metrics: names, units, labels and buckets; nothing is measured that is not in it.
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** Metrics of one server. Labels are bounded: models by the registry, codes by the catalogue, routes by their patterns. */
export class Metrics {
  readonly registry = new Registry();

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
  readonly scoring = this.#histogram('sluice_block_scoring_seconds', 'time of scoring a block', ['model']);
  readonly queueWait = this.#histogram('sluice_request_queue_seconds', 'time a predict request waits for its turn', []);
  readonly requests = this.#histogram('sluice_http_request_seconds', 'time to the end of the answer', [
    'route',
    'status',
  ]);
  readonly uploads = this.#gauge('sluice_http_uploads_in_flight', 'predict requests being answered', []);
  readonly waiting = this.#gauge('sluice_http_requests_queued', 'predict requests waiting for their turn', []);
  readonly bytesIn = this.#counter('sluice_http_request_body_bytes_total', 'bytes of bodies read', []);
  readonly bytesOut = this.#counter('sluice_http_answer_bytes_total', 'bytes of answers written', []);
  readonly spilled = this.#gauge('sluice_http_spilled_bytes', 'answer bytes waiting in files for their reader', []);
  readonly workerDeaths = this.#counter('sluice_worker_deaths_total', 'workers that died and were replaced', ['model']);
  readonly loadFailures = this.#counter(
    'sluice_model_load_failures_total',
    'versions that could not be loaded, by the id of their model',
    ['model', 'code'],
  );
  readonly stale = this.#gauge(
    'sluice_model_stale',
    '1 while an older version than the registry names answers, because the newer one does not load',
    ['reference'],
  );
  readonly lookups = this.#counter(
    'sluice_registry_lookups_total',
    'questions to a remote registry; stale: it did not answer and the last meaning holds',
    ['outcome'],
  );
  readonly swaps = this.#counter('sluice_model_swaps_total', 'changes of the version a reference means', ['model']);
  readonly served = this.#gauge('sluice_model_served_info', '1 for the version each reference means', [
    'reference',
    'version',
  ]);
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
  readonly jobs = this.#gauge('sluice_jobs', 'asynchronous jobs by state', ['state']);

  constructor() {
    this.#gauge('process_resident_memory_bytes', 'resident memory of the process', []).inc(0);
    const memory = this.registry.getSingleMetric('process_resident_memory_bytes') as Gauge;
    memory.set(process.memoryUsage.rss());
    this.collectMemory = () => memory.set(process.memoryUsage.rss());
  }

  readonly collectMemory: () => void;

  /** The text exposition format. */
  async text(): Promise<string> {
    this.collectMemory();
    return this.registry.metrics();
  }

  #counter<L extends string>(name: string, help: string, labelNames: L[]): Counter<L> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }
  #gauge<L extends string>(name: string, help: string, labelNames: L[]): Gauge<L> {
    return new Gauge({ name, help, labelNames, registers: [this.registry] });
  }
  #histogram<L extends string>(name: string, help: string, labelNames: L[]): Histogram<L> {
    return new Histogram({ name, help, labelNames, buckets: SECONDS, registers: [this.registry] });
  }
}
