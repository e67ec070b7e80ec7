// Defines the metrics that only `sluice serve` exports: requests, keys, the audit log, jobs and uploads.
import { type Exporter, MetricFamilies } from './metric-registration.ts';

const SERVE: readonly Exporter[] = ['serve'];

export class ServiceMetrics extends MetricFamilies {
  readonly queueWait = this.histogram(
    SERVE,
    'sluice_request_queue_seconds',
    'time a predict request waits before it is processed',
    [],
  );
  readonly requests = this.histogram(SERVE, 'sluice_http_request_seconds', 'time to the end of the response', [
    'route',
    'status',
  ]);
  readonly protocols = this.counter(SERVE, 'sluice_http_protocol_requests_total', 'requests by version of HTTP', [
    'protocol',
  ]);
  readonly uploads = this.gauge(SERVE, 'sluice_http_uploads_in_flight', 'predict requests being answered', []);
  readonly waiting = this.gauge(SERVE, 'sluice_http_requests_queued', 'predict requests waiting', []);
  readonly httpErrors = this.counter(
    SERVE,
    'sluice_http_errors_total',
    'requests answered with an error, by its code',
    ['code'],
  );
  readonly cutAnswers = this.counter(
    SERVE,
    'sluice_http_cut_answers_total',
    'responses cut off after their header, by an error or by the client',
    [],
  );
  readonly failedLogins = this.counter(
    SERVE,
    'sluice_logins_failed_total',
    'requests refused by authentication or authorization: no key, an unknown or expired key, missing scope or model',
    ['key', 'reason'],
  );
  readonly previousTokens = this.counter(
    SERVE,
    'sluice_previous_tokens_total',
    'requests with a token that `sluice keys rotate` replaced: the client still uses the old one',
    ['key'],
  );
  readonly issuerKeysAge = this.gauge(
    SERVE,
    'sluice_oidc_keys_age_seconds',
    'time since the keys of an identity provider were read; beyond oidc.keys_max_age_ms its tokens get 503',
    ['issuer'],
  );
  readonly issuerReads = this.counter(
    SERVE,
    'sluice_oidc_key_reads_total',
    'attempts to read the signing keys of an identity provider, by outcome',
    ['issuer', 'outcome'],
  );
  readonly auditRecords = this.counter(SERVE, 'sluice_audit_records_total', 'records written to the audit log', []);
  readonly auditLost = this.counter(
    SERVE,
    'sluice_audit_lost_total',
    'records that could not be written to the audit log; the log records their number once it is writable again',
    [],
  );
  readonly auditFailed = this.gauge(SERVE, 'sluice_audit_failed', '1 while the audit log cannot be written', []);
  readonly keyExpiry = this.gauge(
    SERVE,
    'sluice_key_expiry_timestamp_seconds',
    'time at which a key expires; absent for keys without expiry',
    ['key'],
  );
  readonly bytesIn = this.counter(SERVE, 'sluice_http_request_body_bytes_total', 'bytes of bodies read', []);
  readonly bytesOut = this.counter(SERVE, 'sluice_http_answer_bytes_total', 'bytes of responses written', []);
  readonly spilled = this.gauge(
    SERVE,
    'sluice_http_spilled_bytes',
    'bytes in temporary files: responses that clients have not read yet, and Parquet files',
    [],
  );
  readonly jobs = this.gauge(
    SERVE,
    'sluice_jobs',
    'asynchronous jobs by state; shared jobs are reported by the server that cleans up',
    ['state'],
  );
  readonly jobTakeovers = this.counter(
    SERVE,
    'sluice_job_takeovers_total',
    'jobs restarted because the lease of their server expired',
    [],
  );
  readonly jobLeasesLost = this.counter(
    SERVE,
    'sluice_job_leases_lost_total',
    'jobs that this server lost because it could not renew their lease',
    [],
  );
  readonly jobsCrashed = this.counter(
    SERVE,
    'sluice_jobs_crashed_total',
    'jobs that failed because servers crashed while running them (jobs.max_crashes)',
    [],
  );
  readonly jobTableUp = this.gauge(SERVE, 'sluice_job_table_up', '1 while the job table is reachable, otherwise 0', []);
  readonly resumableUploads = this.gauge(
    SERVE,
    'sluice_resumable_uploads',
    'incomplete resumable uploads; they count towards the job quotas',
    [],
  );
  readonly resumableUploadEnds = this.counter(
    SERVE,
    'sluice_resumable_uploads_total',
    'resumable uploads by how they ended: queued as a job, removed by their owner, expired',
    ['end'],
  );
  readonly uploadsResumed = this.counter(
    SERVE,
    'sluice_resumable_uploads_resumed_total',
    'requests that resumed an upload after an interrupted request or a restart of the server',
    [],
  );
  readonly logLines = this.counter(SERVE, 'sluice_log_lines_total', 'log lines, including those below the log level', [
    'level',
  ]);
}
