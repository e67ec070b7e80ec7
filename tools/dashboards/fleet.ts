// The first look: is anything wrong, where, and what is the bottleneck.
import { type DashboardSpec, line, NEUTRAL, NONE_IS_GOOD, now } from './panel.ts';

const HERE = 'instance=~"$instance"';
/** Of processes of Sluice; `max`, because several runs may have left theirs at one node exporter. */
const OURS = `* on (job, instance) group_left () max by (job, instance) (sluice_build_info{${HERE}})`;

export const FLEET: DashboardSpec = {
  uid: 'sluice-fleet',
  title: 'Sluice / Fleet',
  description: 'All processes of Sluice: who is late, who fails, who is short of what.',
  choices: [{ name: 'instance', of: 'sluice_build_info' }],
  rows: {
    'Is anything wrong': [
      { title: 'Alerts firing', description: 'Alerts of Sluice that are firing; docs/runbooks.md has their runbooks.', kind: 'number', unit: 'short', thresholds: NONE_IS_GOOD, queries: [now('count(ALERTS{alertname=~"Sluice.*",alertstate="firing"}) or vector(0)', 'firing')] },
      { title: 'Not ready', description: 'Processes whose /readyz fails: models are not loaded, or partitions make no progress.', kind: 'number', unit: 'short', thresholds: NONE_IS_GOOD, queries: [now(`count(sluice_ready{${HERE}} == 0) or vector(0)`, 'not ready')] },
      { title: 'Longest lag', description: 'Age of the oldest uncommitted application of any topic. Pages at five minutes if it grows.', kind: 'number', unit: 's', thresholds: ['green', [60, 'yellow'], [300, 'red']], queries: [now('max(sluice:kafka_lag_seconds:max)', 'lag')] },
      { title: 'Requests failing', description: 'Share of requests answered with 5xx within five minutes. The budget is 0.1 %; 1.44 % pages.', kind: 'number', unit: 'percentunit', thresholds: ['green', [0.001, 'yellow'], [0.0144, 'red']], queries: [now('max(sluice:http_errors:ratio_rate5m)', 'failing')] },
      { title: 'Workers busy', description: 'Share of the time in which workers of the busiest process had a block. Near 100 %, CPU is the bottleneck.', kind: 'number', unit: 'percentunit', thresholds: ['green', [0.8, 'yellow'], [0.95, 'orange']], queries: [now(`max(sluice:worker_utilisation:ratio_rate5m{${HERE}})`, 'busy')] },
      { title: 'Largest drift', description: 'Largest PSI of any column over the last hour. Below 0.1: no drift; above 0.25: drift.', kind: 'number', unit: 'none', thresholds: ['green', [0.1, 'yellow'], [0.25, 'red']], queries: [now('max(sluice:column_psi:1h)', 'PSI')] },
    ],
    'Late and failing': [
      { title: 'Lag in seconds', description: 'Age of the oldest uncommitted application, by pipeline and topic. A line that rises one second per second indicates no progress.', kind: 'lines', unit: 's', min: 0, thresholds: ['green', [300, 'red']], queries: [line('sluice:kafka_lag_seconds:max', '{{pipeline}} {{topic}}')] },
      { title: 'Share of requests failing', description: 'Requests answered with 5xx, over five minutes and over an hour.', kind: 'lines', unit: 'percentunit', min: 0, thresholds: ['green', [0.0144, 'red']], queries: [line('sluice:http_errors:ratio_rate5m', '5 min'), line('sluice:http_errors:ratio_rate1h', '1 h')] },
      { title: 'Rows rejected', description: 'Share of the applications that could not be scored, by model.', kind: 'lines', unit: 'percentunit', min: 0, thresholds: ['green', [0.02, 'yellow'], [0.3, 'red']], queries: [line('sluice:rows_rejected:ratio_rate15m', '{{model}}')] },
    ],
    'Work and bottleneck': [
      { title: 'Rows', description: 'Applications per second, by outcome: read = scored + rejected.', kind: 'stacked', unit: 'rowsps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (outcome) (rate(sluice_rows_total{${HERE}}[$__rate_interval]))`, '{{outcome}}')] },
      { title: 'Waiting for', description: 'Seconds per second spent waiting for the source, the workers and the sink. The largest is the bottleneck. If only the source is large, the pipeline is idle.', kind: 'stacked', unit: 'none', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (pipeline, for) (rate(sluice_wait_seconds_total{${HERE}}[$__rate_interval]))`, '{{pipeline}}: {{for}}')] },
      { title: 'Workers busy', description: 'Share of the time in which workers had a block, by process.', kind: 'lines', unit: 'percentunit', min: 0, max: 1, thresholds: ['green', [0.95, 'orange']], queries: [line(`sluice:worker_utilisation:ratio_rate5m{${HERE}}`, '{{instance}}')] },
      { title: 'In flight', description: 'Bytes of applications in memory compared with their limit. If it stays full, the sink or the workers are too slow.', kind: 'lines', unit: 'percentunit', min: 0, max: 1, thresholds: ['green', [0.9, 'orange']], queries: [line(`max by (pipeline) (sluice_in_flight_bytes{${HERE}} / (sluice_in_flight_budget_bytes{${HERE}} > 0))`, '{{pipeline}}')] },
      { title: 'Models loaded', description: 'Model versions with workers, by process, and versions closed to make room for others.', kind: 'lines', unit: 'short', min: 0, thresholds: NEUTRAL, queries: [line(`sluice_models_loaded{${HERE}}`, '{{instance}}'), line(`increase(sluice_model_evictions_total{${HERE}}[$__rate_interval])`, '{{instance}} evicted')] },
      { title: 'Worker deaths', description: 'Workers that crashed and were replaced. The log has a line with the reason for each.', kind: 'lines', unit: 'short', min: 0, thresholds: NONE_IS_GOOD, queries: [line(`sum by (model) (increase(sluice_worker_deaths_total{${HERE}}[15m]))`, '{{model}}')] },
    ],
    Processes: [
      { title: 'CPU', description: 'Cores in use, by process.', kind: 'lines', unit: 'none', min: 0, thresholds: NEUTRAL, queries: [line(`rate(process_cpu_seconds_total[$__rate_interval]) ${OURS}`, '{{instance}}')] },
      { title: 'Memory', description: 'Resident memory. It depends on workers and models, not on the input. A line that rises for days indicates a leak.', kind: 'lines', unit: 'bytes', min: 0, thresholds: NEUTRAL, queries: [line(`process_resident_memory_bytes ${OURS}`, '{{instance}}')] },
      { title: 'Event loop', description: 'Delay of the main thread in one of a hundred cycles. Above a second, probes and heartbeats are delayed.', kind: 'lines', unit: 's', min: 0, thresholds: ['green', [0.2, 'yellow'], [1, 'red']], queries: [line(`nodejs_eventloop_lag_p99_seconds ${OURS}`, '{{instance}}')] },
      { title: 'Heap', description: 'JavaScript heap in use.', kind: 'lines', unit: 'bytes', min: 0, thresholds: NEUTRAL, queries: [line(`nodejs_heap_size_used_bytes ${OURS}`, '{{instance}}')] },
      { title: 'Garbage collection', description: 'Share of the time spent on garbage collection.', kind: 'lines', unit: 'percentunit', min: 0, thresholds: ['green', [0.1, 'yellow']], queries: [line(`sum by (job, instance) (rate(nodejs_gc_duration_seconds_sum[$__rate_interval])) ${OURS}`, '{{instance}}')] },
      { title: 'Disk left', description: 'Free space where responses, jobs, outputs and packages are written. Pages below 1 GiB.', kind: 'lines', unit: 'bytes', min: 0, thresholds: ['red', [2 ** 30, 'yellow'], [10 * 2 ** 30, 'green']], queries: [line(`min by (instance, use) (sluice_disk_free_bytes{${HERE}})`, '{{instance}} {{use}}')] },
    ],
    'Faults and expiry': [
      { title: 'Log lines', description: 'Lines of the log by level. Errors have a request id or a run id.', kind: 'stacked', unit: 'none', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (level) (rate(sluice_log_lines_total{${HERE}}[$__rate_interval]))`, '{{level}}')] },
      { title: 'Faults', description: 'Uncaught errors that the process survived, and failures of background tasks.', kind: 'lines', unit: 'short', min: 0, thresholds: NONE_IS_GOOD, queries: [line(`sum by (kind) (increase(sluice_process_faults_total{${HERE}}[15m]))`, '{{kind}}'), line(`sum by (task) (increase(sluice_background_failures_total{${HERE}}[15m]))`, '{{task}}')] },
      { title: 'Certificates', description: 'Time until a certificate expires. A ticket at 14 days, a page at 2.', kind: 'number', unit: 's', thresholds: ['red', [2 * 86_400, 'yellow'], [14 * 86_400, 'green']], width: 4, queries: [now('min by (use) (sluice_certificate_expiry_timestamp_seconds) - time()', '{{use}}')] },
      { title: 'Keys', description: 'Time until an API key expires, for keys with an expiry. A ticket at 14 days.', kind: 'number', unit: 's', thresholds: ['red', [2 * 86_400, 'yellow'], [14 * 86_400, 'green']], width: 4, queries: [now('min by (key) (sluice_key_expiry_timestamp_seconds) - time()', '{{key}}')] },
      { title: 'Versions', description: 'Running versions by process. Several versions are normal only during a rollout.', kind: 'table', unit: 'none', thresholds: NEUTRAL, queries: [now('count by (version, node) (sluice_build_info)', '{{version}}')] },
      { title: 'Registry', description: 'Requests to a remote registry by outcome. Stale: the registry did not respond, and the last known version is served.', kind: 'stacked', unit: 'none', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (outcome) (rate(sluice_registry_lookups_total{${HERE}}[$__rate_interval]))`, '{{outcome}}')] },
    ],
  },
}; // biome-ignore format: a table
