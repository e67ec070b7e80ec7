// What each alert is for, as series written by hand: when it fires, and what looks like it and is none of its business.

/** A series and its values, a minute apart, in promtool's notation: `0+5x30`, `_x20 1x10`. */
type Written = Readonly<Record<string, string>>;

export interface RuleCase {
  series: Written;
  /** When it is looked at. */
  at: string;
  /** Also fires, with the same cause; Alertmanager tells the cause alone. */
  also?: readonly string[];
}

export interface AlertCases {
  fires: readonly RuleCase[];
  quiet: readonly RuleCase[];
}

const P = 'job="sluice",instance="a:1"';
const UP = { [`up{${P}}`]: '1x60' };
/** A process that has run for days, found by a Prometheus that has just started. */
const FOUND_LATE = { [`up{${P}}`]: '_x20 1x30', [`process_start_time_seconds{${P}}`]: '_x20 -1000000x30' };

const at = (time: string, series: Written, also?: readonly string[]): RuleCase => ({
  series,
  at: time,
  ...(also ? { also } : {}),
});

/** A process that started in the 20th minute and counted before its first scrape, and one that did so long ago. */
const YOUNG = { [`up{${P}}`]: '_x20 1x60', [`process_start_time_seconds{${P}}`]: '_x20 1190x60' };
const OLD = { [`up{${P}}`]: '_x20 1x60', [`process_start_time_seconds{${P}}`]: '_x20 -1000000x60' };
/** A value with which a series appears in the 20th minute, and at which it stays. */
const appears = (value: number): string => `_x20 ${value}x60`;

/** A gauge that says by 1 that something is so: for long enough, or too short. */
const state = (series: string): AlertCases => ({
  fires: [at('10m', { [series]: '1x20' })],
  quiet: [at('10m', { [series]: '1 1 0x20' }), at('10m', { [series]: '0x20' })],
});

/** A counter of rare events: more than `bearable` of them. */
const rare = (series: string, bearable: number): AlertCases => ({
  fires: [
    at('30m', { ...UP, [series]: `0x20 0+${bearable + 1}x30` }),
    at('25m', { ...UP, [series]: `_x20 ${bearable + 1}x20` }),
  ],
  quiet: [
    at('30m', { ...UP, [series]: `0x20 ${bearable === 0 ? 0 : 1}x30` }),
    at('50m', { ...UP, [series]: `_x20 ${bearable + 5}x40` }),
    at('25m', { ...FOUND_LATE, [series]: `_x20 ${bearable + 5}x20` }),
  ],
});

/** Silent where an older version of that model answers, and of that model alone. */
function notLoadable(): AlertCases {
  const failures = `sluice_model_load_failures_total{${P},model="credit",code="model_invalid"}`;
  const stale = (model: string) => ({ [`sluice_model_stale{${P},reference="${model}@champion"}`]: '0x20 1x40' });
  const grows = { ...UP, [failures]: '0x20 0+1x40' };
  const { fires, quiet } = rare(failures, 0);
  return {
    fires: [...fires, at('24m', { ...grows, ...stale('other') })],
    quiet: [...quiet, at('24m', { ...grows, ...stale('credit') })],
  };
}

const KEY_READS = (outcome: string) => `sluice_oidc_key_reads_total{${P},issuer="corporate",outcome="${outcome}"}`;

const api = (status: number, route = '/api/v1/scoring/predict.json') =>
  `sluice_http_request_seconds_count{${P},route="${route}",status="${status}"}`;

/** Rows of bins a minute, and the shares of their baseline. */
function bins(
  name: 'score' | 'column',
  rows: Readonly<Record<string, readonly [rows: number, share: number]>>,
  counted: (rows: number) => string = (perMinute) => `0+${perMinute}x120`,
) {
  const column = name === 'column' ? ',column="income"' : '';
  return Object.fromEntries(
    Object.entries(rows).flatMap(([bin, [count, share]]) => [
      [`sluice_${name}_bin_rows_total{${P},model="credit"${column},bin="${bin}"}`, counted(count)],
      [`sluice_${name}_baseline_ratio{${P},model="credit"${column},bin="${bin}"}`, `${share}x120`],
    ]),
  );
}

const drift = (name: 'score' | 'column'): AlertCases => ({
  fires: [
    at('90m', bins(name, { 0: [90, 0.5], 1: [10, 0.5] })),
    at('90m', bins(name, { 0: [100, 0.6], 1: [0, 0.4] })),
    // A backlog that was drained before the first scrape.
    at('50m', { ...YOUNG, ...bins(name, { 0: [9000, 0.5], 1: [1000, 0.5] }, appears) }),
  ],
  quiet: [
    at('50m', { ...OLD, ...bins(name, { 0: [9000, 0.5], 1: [1000, 0.5] }, appears) }),
    at('90m', bins(name, { 0: [55, 0.5], 1: [45, 0.5] })),
    // 300 rows an hour say nothing.
    at('90m', bins(name, { 0: [5, 0.1], 1: [0, 0.9] })),
  ],
});

const until = (metric: string, fires: number, quiet: readonly number[]): AlertCases => ({
  fires: [at('5m', { [metric]: `${fires}x10` })],
  quiet: quiet.map((value) => at('5m', { [metric]: `${value}x10` })),
});

const LAG = 'sluice_kafka_lag_seconds{pipeline="loans",topic="in",partition="0"}';
const rowsOf = (outcome: string, version = 1) =>
  `sluice_rows_total{${P},model="credit:${version}",outcome="${outcome}"}`;
const left = (outcome: string) =>
  `sluice_rows_total{job="node",pipeline="nightly",model="credit:1",outcome="${outcome}"}`;
const runRows = (outcome: string) => `sluice_run_rows{pipeline="nightly",outcome="${outcome}"}`;
const interpreted = (outcome: string) => `sluice_rows_interpreted_total{${P},model="credit",outcome="${outcome}"}`;
const waits = (le: string) => `sluice_request_queue_seconds_bucket{${P},le="${le}"}`;
const RESTARTS = `sluice_kafka_restarts_total{${P},pipeline="loans"}`;
const PAUSED = `sluice_kafka_paused{${P},pipeline="loans"}`;
const CERTIFICATE = `sluice_certificate_expiry_timestamp_seconds{${P},use="server"}`;
const CUT = `sluice_http_cut_answers_total{${P}}`;
const DISK = `sluice_disk_free_bytes{${P},use="spill"}`;
const EVENT_LOOP = `nodejs_eventloop_lag_p99_seconds{${P}}`;
const BUILD = { [`sluice_build_info{${P},version="1",node="v24"}`]: '1x30' };
/** Two runs at one node exporter. */
const LEFT_TWICE = {
  'sluice_build_info{job="node",instance="b:1",pipeline="a",version="1"}': '1x30',
  'sluice_build_info{job="node",instance="b:1",pipeline="b",version="1"}': '1x30',
};
const DAY = 86_400;

export const RULE_CASES: Readonly<Record<string, AlertCases>> = {
  SluiceLagGrowing: {
    fires: [at('25m', { [LAG]: '0+60x30' }), at('25m', { [LAG]: '2000x30' }), at('25m', { [LAG]: '0+30x30' })],
    quiet: [at('12m', { [LAG]: '1200-60x20' }), at('25m', { [LAG]: '0+10x30' }), at('25m', { [LAG]: '0x30' })],
  },
  SluicePipelinePaused: state(PAUSED),
  SluicePipelineModelUnavailable: state(`sluice_pipeline_model_unavailable{${P},pipeline="loans"}`),
  SluiceOffsetsLost: rare(`sluice_kafka_offsets_lost_total{${P},pipeline="loans"}`, 0),
  SluiceConsumerRestarts: {
    fires: [at('34m', { ...UP, [RESTARTS]: '0x20 0+4x30' }), at('34m', { ...UP, [RESTARTS]: '_x20 4x30' })],
    quiet: [at('34m', { ...UP, [RESTARTS]: '0x20 1x30' }), at('26m', { ...UP, [RESTARTS]: '0x20 0+4x30' })],
  },
  SluiceDeadLetters: {
    ...rare(`sluice_dead_letters_total{${P},pipeline="loans",code="row_crashed_worker"}`, 0),
    quiet: [at('30m', { ...UP, [`sluice_dead_letters_total{${P},pipeline="loans",code="bad_number"}`]: '0+50x40' })],
  },
  SluiceNightlyRunMissing: until('sluice_run_last_success_timestamp_seconds{pipeline="nightly"}', -27 * 3600, [
    -24 * 3600,
  ]),
  SluiceRunFailed: until('sluice_run_last_exit_code{pipeline="nightly"}', 1, [0, 3]),
  SluiceRunRejectsAboveNormal: {
    fires: [
      at('5m', { [runRows('scored')]: '50x10', [runRows('rejected')]: '50x10' }),
      at('2520m', { [runRows('scored')]: '990x1500 900x1100', [runRows('rejected')]: '10x1500 100x1100' }),
    ],
    quiet: [
      at('5m', { [runRows('scored')]: '80x10', [runRows('rejected')]: '20x10' }),
      at('2520m', { [runRows('scored')]: '900x2600', [runRows('rejected')]: '100x2600' }),
    ],
  },
  SluiceRunScoreDrift: until('sluice_run_score_psi{pipeline="nightly",model="credit:1"}', 0.3, [0.2]),
  SluiceRunColumnDrift: until(
    'sluice_run_column_psi_max{pipeline="nightly",model="credit:1",column="income"}',
    0.3,
    [0.2],
  ),
  SluiceRunColumnsDrifted: until('sluice_run_columns_drifted{pipeline="nightly",model="credit:1"}', 3, [2]),
  SluiceDeadlineAtRisk: until('sluice_run_deadline_slack_seconds{pipeline="nightly"}', -60, [60]),
  SluiceModelStale: state(`sluice_model_stale{${P},reference="credit@champion"}`),
  SluiceModelNotLoadable: notLoadable(),
  SluiceRejectsAboveNormal: {
    fires: [
      at('1530m', { [rowsOf('scored')]: '0+900x1600', [rowsOf('rejected')]: '0+10x1470 14700+100x130' }),
      at('20m', { [rowsOf('scored')]: '0+50x30', [rowsOf('rejected')]: '0+50x30' }),
      // A backlog that was drained before the first scrape …
      at('28m', { ...YOUNG, [rowsOf('scored')]: appears(12_000), [rowsOf('rejected')]: appears(8000) }),
      // … by a process that ended soon after it.
      at('28m', {
        [`up{${P}}`]: '_x20 1x2 stale',
        [`process_start_time_seconds{${P}}`]: '_x20 1190x2 stale',
        [rowsOf('scored')]: '_x20 12000x2 stale',
        [rowsOf('rejected')]: '_x20 8000x2 stale',
      }),
      // The version that came in the morning rejects more than the one before.
      at('1530m', {
        [rowsOf('scored')]: '0+900x1470 1323000x130',
        [rowsOf('rejected')]: '0+10x1470 14700x130',
        [rowsOf('scored', 2)]: '_x1470 0+900x130',
        [rowsOf('rejected', 2)]: '_x1470 0+100x130',
      }),
    ],
    quiet: [
      // Counted before anybody looked: when, is not known.
      at('28m', { ...OLD, [rowsOf('scored')]: appears(12_000), [rowsOf('rejected')]: appears(8000) }),
      at('28m', { ...YOUNG, [rowsOf('scored')]: appears(19_900), [rowsOf('rejected')]: appears(100) }),
      at('1530m', { [rowsOf('scored')]: '0+900x1600', [rowsOf('rejected')]: '0+50x1600' }),
      at('1530m', { [rowsOf('scored')]: '0+900x1600', [rowsOf('rejected')]: '0x1470 0+9x130' }),
      at('20m', { [rowsOf('scored')]: '0+50x30' }),
      // Two nights, of which the second has ten rows and a hundred rejects more.
      at('1530m', { [left('scored')]: '1000000x1440 1000010x160', [left('rejected')]: '1000x1440 1100x160' }),
    ],
  },
  SluiceScoreDrift: drift('score'),
  SluiceColumnDrift: drift('column'),
  SluiceUnseenCategories: {
    fires: [
      at('18m', bins('column', { 0: [90, 1], unseen: [10, 0] })),
      at('90m', bins('column', { 0: [90, 1], unseen: [10, 0] }), ['SluiceColumnDrift']),
    ],
    quiet: [at('90m', bins('column', { 0: [99, 1], unseen: [1, 0] }))],
  },
  SluiceMissingValues: {
    fires: [at('18m', bins('column', { 0: [70, 0.95], missing: [30, 0.05] }))],
    quiet: [at('90m', bins('column', { 0: [70, 0.7], missing: [30, 0.3] }))],
  },
  SluiceInexactInterpretations: {
    fires: [at('20m', { [interpreted('explained')]: '0+95x30', [interpreted('inexact')]: '0+5x30' })],
    quiet: [
      // A nightly run left its totals.
      at('50m', {
        ...UP,
        [`sluice_rows_interpreted_total{${P},pipeline="nightly",model="credit",outcome="inexact"}`]: '_x20 500x30',
        [`sluice_rows_interpreted_total{${P},pipeline="nightly",model="credit",outcome="explained"}`]: '_x20 500x30',
      }),
      at('20m', { [interpreted('explained')]: '0+995x30', [interpreted('inexact')]: '0+5x30' }),
    ],
  },
  SluiceErrorBudgetBurnFast: {
    fires: [
      at('10m', { [api(200)]: '0+95x60', [api(500)]: '0+5x60' }),
      // The first errors of a service that was scraped before.
      at('82m', { [`up{${P}}`]: '1x120', [api(200)]: '0+1x120', [api(500)]: '_x78 500x40' }),
    ],
    quiet: [
      at('10m', { [api(200)]: '0+2000x60', [api(500)]: '0+1x60' }),
      at('60m', { [api(200)]: '0+95x90', [api(503, '/readyz')]: '0+50x90' }),
      at('60m', { [api(200)]: '0+95x90', [api(400)]: '0+50x90' }),
      // It is over: the long window alone wakes nobody.
      at('90m', { [api(200)]: '0+100x120', [api(500)]: '0+1x30 30x90' }),
    ],
  },
  SluiceErrorBudgetBurnSlow: {
    fires: [at('40m', { [api(200)]: '0+99x90', [api(500)]: '0+1x90' })],
    quiet: [at('40m', { [api(200)]: '0+398x90', [api(500)]: '0+2x90' })],
  },
  SluiceAnswersCut: {
    fires: [at('30m', { ...UP, [CUT]: '0x20 0+1x20', [api(200)]: '0+10x60' })],
    quiet: [
      at('30m', { ...UP, [CUT]: '0x20 0+1x20', [api(200)]: '0+1000x60' }),
      at('30m', { ...UP, [CUT]: '0x20 1x20', [api(200)]: '0+1x60' }),
    ],
  },
  SluiceRequestsWait: {
    fires: [at('20m', { [waits('5')]: '0+80x30', [waits('10')]: '0+100x30', [waits('+Inf')]: '0+100x30' })],
    quiet: [at('20m', { [waits('5')]: '0+99x30', [waits('10')]: '0+100x30', [waits('+Inf')]: '0+100x30' })],
  },
  SluiceDown: {
    fires: [at('10m', { [`up{${P}}`]: '1 0x20' })],
    quiet: [at('10m', { [`up{${P}}`]: '0 0 1x20' }), at('10m', { 'up{job="node",instance="b:1"}': '0x20' })],
  },
  SluiceNotReady: {
    fires: [
      at('10m', { [`sluice_ready{${P}}`]: '0x20' }),
      at('10m', { [`sluice_ready{${P}}`]: '0x20', [PAUSED]: '0x20' }),
    ],
    quiet: [at('10m', { [`sluice_ready{${P}}`]: '0 0 1x20' })],
  },
  SluiceWorkersDie: rare(`sluice_worker_deaths_total{${P},model="credit:1"}`, 2),
  SluiceProcessFault: rare(`sluice_process_faults_total{${P},kind="unhandled_rejection"}`, 0),
  SluiceBackgroundWorkFails: rare(`sluice_background_failures_total{${P},task="sweeping jobs"}`, 5),
  SluiceEventLoopBlocked: {
    fires: [
      at('15m', { ...BUILD, [EVENT_LOOP]: '2x30' }),
      at('15m', { ...BUILD, ...LEFT_TWICE, [EVENT_LOOP]: '2x30' }),
    ],
    quiet: [at('15m', { [EVENT_LOOP]: '2x30' }), at('15m', { ...BUILD, [EVENT_LOOP]: '0.02x30' })],
  },
  SluiceDiskLow: {
    fires: [at('10m', { [DISK]: '500000000x20' }), at('30m', { [DISK]: '8000000000-50000000x40' })],
    quiet: [at('10m', { [DISK]: '50000000000x20' }), at('30m', { [DISK]: '80000000000-500000000x40' })],
  },
  SluiceAuditFailed: {
    fires: [at('5m', { [`sluice_audit_failed{${P}}`]: '0 1x20' })],
    quiet: [at('5m', { [`sluice_audit_failed{${P}}`]: '0x20' })],
  },
  SluiceIdentityProviderUnreachable: {
    fires: [
      at('30m', { [KEY_READS('ok')]: '0+1x5 5x40', [KEY_READS('failed')]: '_x8 1+5x40' }),
      at('30m', { [KEY_READS('failed')]: '1+5x40' }),
    ],
    quiet: [
      at('30m', { [KEY_READS('ok')]: '0+1x60' }),
      // It failed for a moment, and was read again.
      at('30m', { [KEY_READS('ok')]: '0+1x60', [KEY_READS('failed')]: '0x20 0+1x40' }),
      // Nobody sent a token: its keys were not read, and did not fail.
      at('30m', { [KEY_READS('ok')]: '5x60', [KEY_READS('failed')]: '2x60' }),
    ],
  },
  SluiceJobTableUnreachable: {
    fires: [at('5m', { [`sluice_job_table_up{${P}}`]: '1 0x20' })],
    quiet: [at('5m', { [`sluice_job_table_up{${P}}`]: '1 0 1x20' })],
  },
  SluiceJobCrashed: rare(`sluice_jobs_crashed_total{${P}}`, 0),
  SluiceCertificateExpiring: until(CERTIFICATE, 7 * DAY, [30 * DAY]),
  SluiceCertificateExpiresSoon: {
    fires: [at('5m', { [CERTIFICATE]: `${DAY}x10` }, ['SluiceCertificateExpiring'])],
    quiet: [at('5m', { [CERTIFICATE]: `${30 * DAY}x10` })],
  },
  SluiceKeyExpiring: until(`sluice_key_expiry_timestamp_seconds{${P},key="batch"}`, 7 * DAY, [30 * DAY, -5 * DAY]),
  SluiceLoginsFail: rare(`sluice_logins_failed_total{${P},key="unknown",reason="unknown"}`, 20),
  SluiceRegistryOutage: {
    fires: [at('30m', { [`sluice_registry_lookups_total{${P},outcome="stale"}`]: '0x5 0+1x40' })],
    quiet: [at('30m', { [`sluice_registry_lookups_total{${P},outcome="stale"}`]: '5x40' })],
  },
};
