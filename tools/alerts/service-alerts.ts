// Alerts of processes and of the HTTP service: answers, workers, logins, certificates, disks.
import { type Alert, grown, INSTANCE, increaseOf, PROCESSES, SCOPE, SERVICE } from './rule.ts';
import { secondsOf } from './times.ts';

/** Of requests, 99.9 % shall be answered. */
const ERROR_BUDGET = 0.001;
/** Times the budget: so the budget of 30 days is gone in two days, or in five. */
const [FAST_BURN, SLOW_BURN] = [14.4, 6];
const GIB = 2 ** 30;
const MANY_LOGINS = 20;
const MANY_DEATHS = 2;
const [MANY_CUTS, CUT_SHARE] = [3, 0.01];
const MANY_FAILURES = 5;

const burns = (window: string, times: number) => `sluice:http_errors:ratio_rate${window} > ${times * ERROR_BUDGET}`;
const byScopeAnd = (...labels: string[]) => `by (${[SCOPE, ...labels].join(', ')})`;
const expiresWithin = (metric: string, label: string, days: number) =>
  `min ${byScopeAnd(label)} (${metric}) - time() < ${days * secondsOf('1d')}`;

export const SERVICE_ALERTS: readonly Alert[] = [
  {
    name: 'SluiceErrorBudgetBurnFast',
    severity: 'page',
    exporters: SERVICE,
    for: '2m',
    expr: () => `${burns('1h', FAST_BURN)} and ${burns('5m', FAST_BURN)}`,
    summary:
      '{{ $value | humanizePercentage }} of requests fail: the error budget of a month is used up within two days',
  },
  {
    name: 'SluiceErrorBudgetBurnSlow',
    severity: 'ticket',
    exporters: SERVICE,
    for: '15m',
    expr: () => `${burns('6h', SLOW_BURN)} and ${burns('30m', SLOW_BURN)}`,
    summary:
      '{{ $value | humanizePercentage }} of requests fail: the error budget of a month is used up within five days',
  },
  {
    name: 'SluiceAnswersCut',
    severity: 'page',
    exporters: SERVICE,
    // Clients that go are cut answers, too: some there always are.
    expr: (t) =>
      `(${grown('sluice_http_cut_answers_total', [], t)} > ${MANY_CUTS}) > ${CUT_SHARE} * ${grown('sluice_http_request_seconds_count{route=~"/api/.*"}', [], t)}`,
    summary: '{{ $value | humanize }} responses were truncated after they had started',
  },
  {
    name: 'SluiceRequestsWait',
    severity: 'ticket',
    exporters: SERVICE,
    for: '10m',
    expr: (t) => `histogram_quantile(0.95, ${increaseOf('sluice_request_queue_seconds_bucket', ['le'], '5m', t)}) > 5`,
    summary: 'one request in twenty waits {{ $value | humanizeDuration }} before it is processed',
  },
  {
    name: 'SluiceDown',
    severity: 'page',
    exporters: PROCESSES,
    for: '5m',
    expr: () => `max ${byScopeAnd(...INSTANCE)} (up{job=~".*sluice.*",job!~".*columns.*"}) == 0`,
    summary: '{{ $labels.instance }} does not respond to scrapes',
  },
  {
    name: 'SluiceNotReady',
    severity: 'page',
    exporters: PROCESSES,
    refinedBy: ['sluice_kafka_paused'],
    for: '5m',
    // With the name of its pipeline where it runs one, so that it is told instead of what follows from it.
    expr: () => {
      const ready = `max ${byScopeAnd(...INSTANCE)} (sluice_ready)`;
      const pipeline = `(1 + 0 * max ${byScopeAnd(...INSTANCE, 'pipeline')} (sluice_kafka_paused))`;
      const on = `on (${[SCOPE, ...INSTANCE].join(', ')})`;
      return `(${ready} * ${on} group_right () ${pipeline} or (${ready} unless ${on} sluice_kafka_paused)) == 0`;
    },
    summary: '{{ $labels.instance }} is not ready: it gets no requests, or its partitions make no progress',
  },
  {
    name: 'SluiceWorkersDie',
    severity: 'page',
    exporters: PROCESSES,
    expr: (t) => `${grown('sluice_worker_deaths_total', ['model'], t)} > ${MANY_DEATHS}`,
    summary: '{{ $value | humanize }} workers of {{ $labels.model }} crashed',
  },
  {
    name: 'SluiceProcessFault',
    severity: 'ticket',
    exporters: PROCESSES,
    expr: (t) => `${grown('sluice_process_faults_total', [...INSTANCE, 'kind'], t)} > 0`,
    summary: '{{ $labels.instance }} survived an uncaught error ({{ $labels.kind }})',
  },
  {
    name: 'SluiceBackgroundWorkFails',
    severity: 'ticket',
    exporters: PROCESSES,
    expr: (t) => `${grown('sluice_background_failures_total', ['task'], t)} > ${MANY_FAILURES}`,
    summary: '{{ $value | humanize }} failures of the background task {{ $labels.task }}',
  },
  {
    name: 'SluiceEventLoopBlocked',
    severity: 'ticket',
    exporters: PROCESSES,
    for: '10m',
    expr: () =>
      'nodejs_eventloop_lag_p99_seconds * on (job, instance) group_left () max by (job, instance) (sluice_build_info) > 1',
    summary: 'the event loop of {{ $labels.instance }} is delayed by {{ $value | humanizeDuration }}',
  },
  {
    name: 'SluiceDiskLow',
    severity: 'page',
    exporters: PROCESSES,
    for: '5m',
    expr: (t) =>
      `min ${byScopeAnd(...INSTANCE, 'use')} (sluice_disk_free_bytes < ${GIB} or (predict_linear(sluice_disk_free_bytes[${t.span('1h')}], ${t.seconds('4h')}) < 0 and sluice_disk_free_bytes < ${10 * GIB}))`,
    summary: 'the disk for {{ $labels.use }} of {{ $labels.instance }} is full or will be within four hours',
  },
  {
    name: 'SluiceAuditFailed',
    severity: 'page',
    exporters: SERVICE,
    for: '2m',
    expr: () => `max ${byScopeAnd(...INSTANCE)} (sluice_audit_failed) > 0`,
    summary: 'the audit log of {{ $labels.instance }} cannot be written',
  },
  {
    name: 'SluiceIdentityProviderUnreachable',
    severity: 'ticket',
    exporters: SERVICE,
    for: '5m',
    expr: (t) => {
      const reads = (outcome: string) =>
        `${increaseOf(`sluice_oidc_key_reads_total{outcome="${outcome}"}`, ['issuer'], '5m', t)} > 0`;
      return `${reads('failed')} unless ${reads('ok')}`;
    },
    summary: 'the keys of the identity provider {{ $labels.issuer }} cannot be read',
  },
  {
    name: 'SluiceJobTableUnreachable',
    severity: 'page',
    exporters: SERVICE,
    for: '2m',
    expr: () => `min ${byScopeAnd(...INSTANCE)} (sluice_job_table_up) == 0`,
    summary: '{{ $labels.instance }} cannot reach the job table: jobs are not accepted, reported or run',
  },
  {
    name: 'SluiceJobCrashed',
    severity: 'ticket',
    exporters: SERVICE,
    expr: (t) => `${grown('sluice_jobs_crashed_total', [], t)} > 0`,
    summary: '{{ $value | humanize }} jobs failed because they crashed every server that ran them',
  },
  {
    name: 'SluiceCertificateExpiring',
    severity: 'ticket',
    exporters: PROCESSES,
    expr: () => expiresWithin('sluice_certificate_expiry_timestamp_seconds', 'use', 14),
    summary: 'the certificate for {{ $labels.use }} expires in {{ $value | humanizeDuration }}',
  },
  {
    name: 'SluiceCertificateExpiresSoon',
    severity: 'page',
    exporters: PROCESSES,
    expr: () => expiresWithin('sluice_certificate_expiry_timestamp_seconds', 'use', 2),
    summary: 'the certificate for {{ $labels.use }} expires in {{ $value | humanizeDuration }}',
  },
  {
    name: 'SluiceKeyExpiring',
    severity: 'ticket',
    exporters: SERVICE,
    // A key that expired days ago is one that nobody misses.
    expr: () => `${expiresWithin('sluice_key_expiry_timestamp_seconds', 'key', 14)} > ${-secondsOf('3d')}`,
    summary: 'the API key {{ $labels.key }} expires in {{ $value | humanizeDuration }}',
  },
  {
    name: 'SluiceLoginsFail',
    severity: 'ticket',
    exporters: SERVICE,
    expr: (t) => `${grown('sluice_logins_failed_total', ['key', 'reason'], t)} > ${MANY_LOGINS}`,
    summary: '{{ $value | humanize }} requests of the key {{ $labels.key }} were denied ({{ $labels.reason }})',
  },
  {
    name: 'SluiceRegistryOutage',
    severity: 'ticket',
    exporters: PROCESSES,
    for: '10m',
    expr: (t) => `${grown('sluice_registry_lookups_total{outcome="stale"}', [], t)} > 0`,
    summary: 'the model registry does not respond; the last known versions are served',
  },
];
