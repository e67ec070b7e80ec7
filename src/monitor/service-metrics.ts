// Defines the metrics that only `sluice serve` exports: requests, keys, the audit log, jobs and uploads.
import { type Exporter, MetricFamilies } from './metric-registration.ts';

const SERVE: readonly Exporter[] = ['serve'];

export class ServiceMetrics extends MetricFamilies {
  readonly queueWait = this.histogram(
    SERVE,
    'sluice_request_queue_seconds',
    'time a predict request waits for its turn',
    [],
  );
  readonly requests = this.histogram(SERVE, 'sluice_http_request_seconds', 'time to the end of the answer', [
    'route',
    'status',
  ]);
  readonly protocols = this.counter(SERVE, 'sluice_http_protocol_requests_total', 'requests by version of HTTP', [
    'protocol',
  ]);
  readonly uploads = this.gauge(SERVE, 'sluice_http_uploads_in_flight', 'predict requests being answered', []);
  readonly waiting = this.gauge(SERVE, 'sluice_http_requests_queued', 'predict requests waiting for their turn', []);
  readonly httpErrors = this.counter(
    SERVE,
    'sluice_http_errors_total',
    'requests answered with an error, by its code',
    ['code'],
  );
  readonly cutAnswers = this.counter(
    SERVE,
    'sluice_http_cut_answers_total',
    'answers that were broken off after their head, because of an error or because the client went',
    [],
  );
  readonly failedLogins = this.counter(
    SERVE,
    'sluice_logins_failed_total',
    'requests refused because of who they are of: no key, an unknown or expired one, without the scope or not for the model',
    ['key', 'reason'],
  );
  readonly previousTokens = this.counter(
    SERVE,
    'sluice_previous_tokens_total',
    'requests with a token that `sluice keys rotate` has replaced: who sends it has not changed over yet',
    ['key'],
  );
  readonly issuerKeysAge = this.gauge(
    SERVE,
    'sluice_oidc_keys_age_seconds',
    'time since the keys of an identity provider were read; beyond oidc.keys_max_age_ms its tokens are answered 503',
    ['issuer'],
  );
  readonly issuerReads = this.counter(
    SERVE,
    'sluice_oidc_key_reads_total',
    'times the keys of an identity provider were read, or could not be',
    ['issuer', 'outcome'],
  );
  readonly auditRecords = this.counter(SERVE, 'sluice_audit_records_total', 'records written to the audit log', []);
  readonly auditLost = this.counter(
    SERVE,
    'sluice_audit_lost_total',
    'records that could not be written to the audit log; it says so itself when it can be written again',
    [],
  );
  readonly auditFailed = this.gauge(SERVE, 'sluice_audit_failed', '1 while the audit log cannot be written', []);
  readonly keyExpiry = this.gauge(
    SERVE,
    'sluice_key_expiry_timestamp_seconds',
    'when a key expires, for those that do',
    ['key'],
  );
  readonly bytesIn = this.counter(SERVE, 'sluice_http_request_body_bytes_total', 'bytes of bodies read', []);
  readonly bytesOut = this.counter(SERVE, 'sluice_http_answer_bytes_total', 'bytes of answers written', []);
  readonly spilled = this.gauge(
    SERVE,
    'sluice_http_spilled_bytes',
    'answer bytes waiting in files for their reader',
    [],
  );
  readonly jobs = this.gauge(
    SERVE,
    'sluice_jobs',
    'asynchronous jobs by state; where servers share them, told by the one that cleans up',
    ['state'],
  );
  readonly jobTakeovers = this.counter(
    SERVE,
    'sluice_job_takeovers_total',
    'jobs begun again because the server that ran them did not renew its lease',
    [],
  );
  readonly jobLeasesLost = this.counter(
    SERVE,
    'sluice_job_leases_lost_total',
    'jobs that this server gave up because it could not renew their lease',
    [],
  );
  readonly jobsCrashed = this.counter(
    SERVE,
    'sluice_jobs_crashed_total',
    'jobs that failed because servers ended while they ran them (jobs.max_crashes)',
    [],
  );
  readonly jobTableUp = this.gauge(
    SERVE,
    'sluice_job_table_up',
    '1 while the table of jobs can be reached, else 0',
    [],
  );
  readonly resumableUploads = this.gauge(
    SERVE,
    'sluice_resumable_uploads',
    'resumable uploads that are not whole; they count for the quotas of jobs',
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
    'requests that went on with an upload whose last one was cut, or which came before this start of the server',
    [],
  );
  readonly logLines = this.counter(
    SERVE,
    'sluice_log_lines_total',
    'lines of the log, also those that its level leaves out',
    ['level'],
  );
}
