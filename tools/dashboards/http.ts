// The service: what clients get, how long it takes, and why some get nothing.
import { type DashboardSpec, line, NEUTRAL, NONE_IS_GOOD, now } from './panel.ts';

const HERE = 'instance=~"$instance"';
const API = `route=~"/api/.*",${HERE}`;
const quantile = (q: number, histogram: string, by = '') =>
  `histogram_quantile(${q}, sum by (le${by}) (rate(${histogram}[$__rate_interval])))`;

export const HTTP: DashboardSpec = {
  uid: 'sluice-http',
  title: 'Sluice / HTTP',
  description: 'The service: errors first, then time, then load.',
  choices: [{ name: 'instance', of: 'sluice_http_request_seconds_count' }],
  rows: {
    Errors: [
      { title: 'Share of requests failing', description: 'Requests answered with 5xx, over the windows of the alerts. The budget is 0.1 %.', kind: 'lines', unit: 'percentunit', min: 0, thresholds: ['green', [0.006, 'yellow'], [0.0144, 'red']], queries: ['5m', '30m', '1h', '6h'].map((w) => line(`sluice:http_errors:ratio_rate${w}`, w)) },
      { title: 'Errors by code', description: 'Error responses per second by code. docs/errors.md lists the responsible party and the action for each.', kind: 'stacked', unit: 'reqps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (code) (rate(sluice_http_errors_total{${HERE}}[$__rate_interval]))`, '{{code}}')] },
      { title: 'Answers cut', description: 'Responses truncated after their head, because of an error or a disconnected client.', kind: 'lines', unit: 'short', min: 0, thresholds: NONE_IS_GOOD, queries: [line(`increase(sluice_http_cut_answers_total{${HERE}}[15m])`, '{{instance}}')] },
      { title: 'Logins refused', description: 'Requests denied because of their key, by key and reason.', kind: 'stacked', unit: 'reqps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (key, reason) (rate(sluice_logins_failed_total{${HERE}}[$__rate_interval]))`, '{{key}}: {{reason}}')] },
      { title: 'Rows rejected by code', description: 'Applications that could not be scored, by code.', kind: 'stacked', unit: 'rowsps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (code) (rate(sluice_rows_rejected_total{${HERE}}[$__rate_interval]))`, '{{code}}')] },
      { title: 'Budget left', description: 'Share of the error budget (0.1 %) that remains at the rate of the last six hours.', kind: 'number', unit: 'percentunit', width: 8, thresholds: ['red', [0, 'yellow'], [0.5, 'green']], queries: [now('1 - max(sluice:http_errors:ratio_rate6h) / 0.001', 'left')] },
    ],
    Time: [
      { title: 'Time of an answer', description: 'Time to the end of a response, by share of requests. It includes large uploads: compare it by route.', kind: 'lines', unit: 's', min: 0, thresholds: ['green', [1, 'yellow'], [10, 'orange']], queries: [0.5, 0.95, 0.99].map((q) => line(quantile(q, `sluice_http_request_seconds_bucket{${API}}`), `${q * 100} %`)) },
      { title: 'Time by route', description: 'Time to the end of a response, 95 %, by route.', kind: 'lines', unit: 's', min: 0, thresholds: ['green', [1, 'yellow'], [10, 'orange']], queries: [line(quantile(0.95, `sluice_http_request_seconds_bucket{${API}}`, ', route'), '{{route}}')] },
      { title: 'Waiting for a turn', description: 'Time a predict request waits before its first row, 95 %. A ticket above five seconds.', kind: 'lines', unit: 's', min: 0, thresholds: ['green', [1, 'yellow'], [5, 'red']], queries: [line(quantile(0.95, `sluice_request_queue_seconds_bucket{${HERE}}`), '95 %')] },
    ],
    Load: [
      { title: 'Requests', description: 'Requests per second by status.', kind: 'stacked', unit: 'reqps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (status) (rate(sluice_http_request_seconds_count{${API}}[$__rate_interval]))`, '{{status}}')] },
      { title: 'Rows', description: 'Applications per second by model and outcome.', kind: 'stacked', unit: 'rowsps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (model, outcome) (rate(sluice_rows_total{${HERE}}[$__rate_interval]))`, '{{model}} {{outcome}}')] },
      { title: 'In progress', description: 'Predict requests in progress, and waiting predict requests.', kind: 'lines', unit: 'short', min: 0, thresholds: NEUTRAL, queries: [line(`sum(sluice_http_uploads_in_flight{${HERE}})`, 'answered'), line(`sum(sluice_http_requests_queued{${HERE}})`, 'waiting')] },
      { title: 'Bytes', description: 'Bytes of bodies read and of responses written.', kind: 'lines', unit: 'Bps', min: 0, thresholds: NEUTRAL, queries: [line(`sum(rate(sluice_http_request_body_bytes_total{${HERE}}[$__rate_interval]))`, 'in'), line(`sum(rate(sluice_http_answer_bytes_total{${HERE}}[$__rate_interval]))`, 'out')] },
      { title: 'Spilled', description: 'Response bytes in spill files, for clients that do not read yet.', kind: 'lines', unit: 'bytes', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (instance) (sluice_http_spilled_bytes{${HERE}})`, '{{instance}}')] },
      { title: 'Jobs', description: 'Asynchronous jobs by state.', kind: 'stacked', unit: 'short', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (state) (sluice_jobs{${HERE}})`, '{{state}}')] },
      { title: 'Uploads in parts', description: 'Incomplete resumable uploads, and uploads resumed within a quarter of an hour. Many resumptions indicate a bad connection, or a proxy that ends long requests.', kind: 'lines', unit: 'short', min: 0, thresholds: NEUTRAL, queries: [line(`sum(sluice_resumable_uploads{${HERE}})`, 'not whole'), line(`sum(increase(sluice_resumable_uploads_resumed_total{${HERE}}[15m]))`, 'gone on with')] },
      { title: 'Ends of uploads in parts', description: 'Resumable uploads within a quarter of an hour that were queued as a job, removed by their owner, or expired.', kind: 'stacked', unit: 'short', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (end) (increase(sluice_resumable_uploads_total{${HERE}}[15m]))`, '{{end}}')] },
    ],
    'Identity, audit, replicas': [
      { title: 'Keys of identity providers read', description: 'Readings of the keys of an identity provider per second, by outcome. A ticket if none succeeds for five minutes.', kind: 'stacked', unit: 'reqps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (issuer, outcome) (rate(sluice_oidc_key_reads_total{${HERE}}[$__rate_interval]))`, '{{issuer}}: {{outcome}}')] },
      { title: 'Age of their keys', description: 'Time since the keys of an identity provider were read. Beyond oidc.keys_max_age_ms (4 h) its tokens get 503.', kind: 'lines', unit: 's', min: 0, thresholds: ['green', [3600, 'yellow'], [14_400, 'red']], queries: [line(`max by (issuer) (sluice_oidc_keys_age_seconds{${HERE}})`, '{{issuer}}')] },
      { title: 'Replaced tokens in use', description: 'Requests per second with a token that a rotation has replaced. Its client must switch to the new token before the grace period ends.', kind: 'stacked', unit: 'reqps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (key) (rate(sluice_previous_tokens_total{${HERE}}[$__rate_interval]))`, '{{key}}')] },
      { title: 'Audit records', description: 'Records written to the audit log per second, by process.', kind: 'stacked', unit: 'none', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (instance) (rate(sluice_audit_records_total{${HERE}}[$__rate_interval]))`, '{{instance}}')] },
      { title: 'Audit log failing', description: 'Processes whose audit log cannot be written, and lost records. Pages.', kind: 'lines', unit: 'short', min: 0, thresholds: NONE_IS_GOOD, queries: [line(`sum by (instance) (sluice_audit_failed{${HERE}})`, '{{instance}} failing'), line(`sum by (instance) (increase(sluice_audit_lost_total{${HERE}}[15m]))`, '{{instance}} lost')] },
      { title: 'Jobs of replicas', description: 'Jobs taken over from unresponsive replicas, aborted by replicas that could not renew their lease, and failed because they crashed every replica.', kind: 'lines', unit: 'short', min: 0, thresholds: NONE_IS_GOOD, queries: [line(`sum(increase(sluice_job_takeovers_total{${HERE}}[15m]))`, 'taken over'), line(`sum(increase(sluice_job_leases_lost_total{${HERE}}[15m]))`, 'given up'), line(`sum(increase(sluice_jobs_crashed_total{${HERE}}[15m]))`, 'failed')] },
      { title: 'Table of jobs', description: '1 while the process reaches the job table, otherwise 0. At 0, job requests are 503 and predictions continue.', kind: 'lines', unit: 'none', min: 0, max: 1, thresholds: ['red', [1, 'green']], queries: [line(`min by (instance) (sluice_job_table_up{${HERE}})`, '{{instance}}')] },
    ],
    Bottleneck: [
      { title: 'Waiting for', description: 'Seconds per second that requests waited for their client to send (source), for workers, and for their client to read (sink).', kind: 'stacked', unit: 'none', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (for) (rate(sluice_wait_seconds_total{pipeline=~"http|jobs",${HERE}}[$__rate_interval]))`, '{{for}}')] },
      { title: 'Workers busy', description: 'Share of the time in which workers had a block.', kind: 'lines', unit: 'percentunit', min: 0, max: 1, thresholds: ['green', [0.95, 'orange']], queries: [line(`sluice:worker_utilisation:ratio_rate5m{${HERE}}`, '{{instance}}')] },
      { title: 'Last answer', description: 'Time of the last answered row. If it is old although requests arrive, the process hangs.', kind: 'number', unit: 's', width: 8, thresholds: ['green', [600, 'yellow']], queries: [now('time() - max(sluice_pipeline_last_answer_timestamp_seconds{pipeline="http"})', 'ago')] },
    ],
  },
}; // biome-ignore format: a table
