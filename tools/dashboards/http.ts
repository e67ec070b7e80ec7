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
      { title: 'Share of requests failing', description: 'Requests answered with 5xx, over the windows of the alerts. 0.1 % is the budget.', kind: 'lines', unit: 'percentunit', min: 0, thresholds: ['green', [0.006, 'yellow'], [0.0144, 'red']], queries: ['5m', '30m', '1h', '6h'].map((w) => line(`sluice:http_errors:ratio_rate${w}`, w)) },
      { title: 'Errors by code', description: 'Error answers a second by code. Whose fault each is and what to do: docs/errors.md.', kind: 'stacked', unit: 'reqps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (code) (rate(sluice_http_errors_total{${HERE}}[$__rate_interval]))`, '{{code}}')] },
      { title: 'Answers cut', description: 'Answers broken off after their head, because of an error or because the client went.', kind: 'lines', unit: 'short', min: 0, thresholds: NONE_IS_GOOD, queries: [line(`increase(sluice_http_cut_answers_total{${HERE}}[15m])`, '{{instance}}')] },
      { title: 'Logins refused', description: 'Requests refused because of their key, by key and reason.', kind: 'stacked', unit: 'reqps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (key, reason) (rate(sluice_logins_failed_total{${HERE}}[$__rate_interval]))`, '{{key}}: {{reason}}')] },
      { title: 'Rows rejected by code', description: 'Applications that could not be scored, by code.', kind: 'stacked', unit: 'rowsps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (code) (rate(sluice_rows_rejected_total{${HERE}}[$__rate_interval]))`, '{{code}}')] },
      { title: 'Budget left', description: 'Share of the error budget (0.1 %) that the last six hours left.', kind: 'number', unit: 'percentunit', width: 8, thresholds: ['red', [0, 'yellow'], [0.5, 'green']], queries: [now('1 - max(sluice:http_errors:ratio_rate6h) / 0.001', 'left')] },
    ],
    Time: [
      { title: 'Time of an answer', description: 'Time to the end of an answer, by share of requests. Large uploads are in it: see it by route.', kind: 'lines', unit: 's', min: 0, thresholds: ['green', [1, 'yellow'], [10, 'orange']], queries: [0.5, 0.95, 0.99].map((q) => line(quantile(q, `sluice_http_request_seconds_bucket{${API}}`), `${q * 100} %`)) },
      { title: 'Time by route', description: 'Time to the end of an answer, 95 %, by route.', kind: 'lines', unit: 's', min: 0, thresholds: ['green', [1, 'yellow'], [10, 'orange']], queries: [line(quantile(0.95, `sluice_http_request_seconds_bucket{${API}}`, ', route'), '{{route}}')] },
      { title: 'Waiting for a turn', description: 'Time a predict request waits before its first row, 95 %. A ticket above five seconds.', kind: 'lines', unit: 's', min: 0, thresholds: ['green', [1, 'yellow'], [5, 'red']], queries: [line(quantile(0.95, `sluice_request_queue_seconds_bucket{${HERE}}`), '95 %')] },
    ],
    Load: [
      { title: 'Requests', description: 'Requests a second by status.', kind: 'stacked', unit: 'reqps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (status) (rate(sluice_http_request_seconds_count{${API}}[$__rate_interval]))`, '{{status}}')] },
      { title: 'Rows', description: 'Applications a second by model and outcome.', kind: 'stacked', unit: 'rowsps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (model, outcome) (rate(sluice_rows_total{${HERE}}[$__rate_interval]))`, '{{model}} {{outcome}}')] },
      { title: 'In progress', description: 'Predict requests being answered, and those that wait for their turn.', kind: 'lines', unit: 'short', min: 0, thresholds: NEUTRAL, queries: [line(`sum(sluice_http_uploads_in_flight{${HERE}})`, 'answered'), line(`sum(sluice_http_requests_queued{${HERE}})`, 'waiting')] },
      { title: 'Bytes', description: 'Bytes of bodies read and of answers written.', kind: 'lines', unit: 'Bps', min: 0, thresholds: NEUTRAL, queries: [line(`sum(rate(sluice_http_request_body_bytes_total{${HERE}}[$__rate_interval]))`, 'in'), line(`sum(rate(sluice_http_answer_bytes_total{${HERE}}[$__rate_interval]))`, 'out')] },
      { title: 'Spilled', description: 'Answer bytes that wait in files for clients that do not read yet.', kind: 'lines', unit: 'bytes', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (instance) (sluice_http_spilled_bytes{${HERE}})`, '{{instance}}')] },
      { title: 'Jobs', description: 'Asynchronous jobs by state.', kind: 'stacked', unit: 'short', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (state) (sluice_jobs{${HERE}})`, '{{state}}')] },
      { title: 'Uploads in parts', description: 'Resumable uploads that are not whole, and parts in a quarter of an hour that went on after a break: many breaks are a bad line, or a proxy that ends long requests.', kind: 'lines', unit: 'short', min: 0, thresholds: NEUTRAL, queries: [line(`sum(sluice_resumable_uploads{${HERE}})`, 'not whole'), line(`sum(increase(sluice_resumable_uploads_resumed_total{${HERE}}[15m]))`, 'gone on with')] },
      { title: 'Ends of uploads in parts', description: 'Resumable uploads in a quarter of an hour that were queued as a job, removed by their owner, or expired because nothing came any more.', kind: 'stacked', unit: 'short', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (end) (increase(sluice_resumable_uploads_total{${HERE}}[15m]))`, '{{end}}')] },
    ],
    'Identity, audit, replicas': [
      { title: 'Keys of identity providers read', description: 'Times a second the keys of an identity provider were read, or could not be. A ticket if none is read for five minutes.', kind: 'stacked', unit: 'reqps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (issuer, outcome) (rate(sluice_oidc_key_reads_total{${HERE}}[$__rate_interval]))`, '{{issuer}}: {{outcome}}')] },
      { title: 'Age of their keys', description: 'Time since the keys of an identity provider were read. Beyond oidc.keys_max_age_ms (4 h) its tokens are answered 503.', kind: 'lines', unit: 's', min: 0, thresholds: ['green', [3600, 'yellow'], [14_400, 'red']], queries: [line(`max by (issuer) (sluice_oidc_keys_age_seconds{${HERE}})`, '{{issuer}}')] },
      { title: 'Replaced tokens in use', description: 'Requests a second with a token that a rotation has replaced: who sends it has to change over before its grace ends.', kind: 'stacked', unit: 'reqps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (key) (rate(sluice_previous_tokens_total{${HERE}}[$__rate_interval]))`, '{{key}}')] },
      { title: 'Audit records', description: 'Records a second that were written to the audit log, by process.', kind: 'stacked', unit: 'none', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (instance) (rate(sluice_audit_records_total{${HERE}}[$__rate_interval]))`, '{{instance}}')] },
      { title: 'Audit log failing', description: 'Processes whose audit log cannot be written, and records lost by it. Pages.', kind: 'lines', unit: 'short', min: 0, thresholds: NONE_IS_GOOD, queries: [line(`sum by (instance) (sluice_audit_failed{${HERE}})`, '{{instance}} failing'), line(`sum by (instance) (increase(sluice_audit_lost_total{${HERE}}[15m]))`, '{{instance}} lost')] },
      { title: 'Jobs of replicas', description: 'Jobs taken over from replicas that were silent, given up by replicas that could not renew their lease, and failed because every replica ended that ran them.', kind: 'lines', unit: 'short', min: 0, thresholds: NONE_IS_GOOD, queries: [line(`sum(increase(sluice_job_takeovers_total{${HERE}}[15m]))`, 'taken over'), line(`sum(increase(sluice_job_leases_lost_total{${HERE}}[15m]))`, 'given up'), line(`sum(increase(sluice_jobs_crashed_total{${HERE}}[15m]))`, 'failed')] },
      { title: 'Table of jobs', description: '1 while the process reaches the table of jobs, 0 while it does not: it answers 503 for jobs then, and predictions go on.', kind: 'lines', unit: 'none', min: 0, max: 1, thresholds: ['red', [1, 'green']], queries: [line(`min by (instance) (sluice_job_table_up{${HERE}})`, '{{instance}}')] },
    ],
    Bottleneck: [
      { title: 'Waiting for', description: 'Seconds a second requests waited for their client to send (source), for workers, and for their client to read (sink).', kind: 'stacked', unit: 'none', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (for) (rate(sluice_wait_seconds_total{pipeline=~"http|jobs",${HERE}}[$__rate_interval]))`, '{{for}}')] },
      { title: 'Workers busy', description: 'Share of the time in which workers had a block.', kind: 'lines', unit: 'percentunit', min: 0, max: 1, thresholds: ['green', [0.95, 'orange']], queries: [line(`sluice:worker_utilisation:ratio_rate5m{${HERE}}`, '{{instance}}')] },
      { title: 'Last answer', description: 'When the last row was answered. Old and with requests: something hangs.', kind: 'number', unit: 's', width: 8, thresholds: ['green', [600, 'yellow']], queries: [now('time() - max(sluice_pipeline_last_answer_timestamp_seconds{pipeline="http"})', 'ago')] },
    ],
  },
}; // biome-ignore format: a table
