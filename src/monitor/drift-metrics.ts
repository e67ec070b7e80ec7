// Drift metrics: figures of the last hour by model, and counts by column and bin. From the counts, PSI over several
// replicas can be computed.
import type { Counter, Gauge } from 'prom-client';
import type { DriftMonitor } from '../drift/drift-monitor.ts';
import type { MeasuredColumn } from '../drift/drift-plan.ts';
import { driftFigures, type Shares, trainedShares } from '../drift/drift-report.ts';
import { METRICS_PROCESSES, type MetricFamilies } from './metric-registration.ts';

type Figure = 'scorePsi' | 'psiMax' | 'drifted' | 'unseenMax' | 'missingShiftMax';

/** The drift metrics of a process. Labels contain column names and bin numbers, never values. */
export class DriftMetrics {
  readonly #figures: Readonly<Record<Figure, Gauge<'model'>>>;
  readonly #rows: Gauge<'model'>;
  readonly #runScorePsi: Gauge<'pipeline' | 'model'>;
  readonly #runPsiMax: Gauge<'pipeline' | 'model' | 'column'>;
  readonly #runDrifted: Gauge<'pipeline' | 'model'>;
  readonly #columnRows: Counter<'model' | 'column' | 'bin'>;
  readonly #scoreRows: Counter<'model' | 'bin'>;
  readonly #columnShares: Gauge<'model' | 'column' | 'bin'>;
  readonly #scoreShares: Gauge<'model' | 'bin'>;

  constructor(families: MetricFamilies) {
    const figure = (name: string, help: string): Gauge<'model'> =>
      families.gauge(METRICS_PROCESSES, name, `${help}; absent below 1,000 rows`, ['model']);
    this.#figures = {
      scorePsi: figure('sluice_score_psi', 'PSI of the score within the last hour compared with the training data'),
      psiMax: figure('sluice_column_psi_max', 'largest PSI of a column within the last hour'),
      drifted: figure('sluice_columns_drifted', 'columns with a PSI of 0.25 or more within the last hour'),
      unseenMax: figure('sluice_column_unseen_ratio_max', 'largest share of unseen values of a column'),
      missingShiftMax: figure(
        'sluice_column_missing_shift_max',
        'largest increase in the share of missing values of a column compared with the training data',
      ),
    };
    const window = 'rows scored within the last hour, from which drift is measured';
    this.#rows = families.gauge(METRICS_PROCESSES, 'sluice_drift_window_rows', window, ['model']);
    const ofRun = (name: string, help: string) =>
      [['metrics_file'] as const, name, `${help}; absent below 1,000 rows`, ['pipeline', 'model'] as const] as const;
    this.#runScorePsi = families.gauge(
      ...ofRun('sluice_run_score_psi', 'PSI of the score of the last run compared with the training data'),
    );
    this.#runDrifted = families.gauge(
      ...ofRun('sluice_run_columns_drifted', 'columns with a PSI of 0.25 or more in the last run'),
    );
    this.#runPsiMax = families.gauge(
      ['metrics_file'],
      'sluice_run_column_psi_max',
      'largest PSI of a column in the last run, with the name of the column; absent below 1,000 rows',
      ['pipeline', 'model', 'column'],
    );
    const [ofColumn, ofScore] = [['model', 'column', 'bin'] as const, ['model', 'bin'] as const];
    const bin = 'bin of the baseline, missing or unseen';
    this.#columnRows = families.counter(
      METRICS_PROCESSES,
      'sluice_column_bin_rows_total',
      `rows scored, by ${bin}`,
      ofColumn,
      true,
    );
    this.#scoreRows = families.counter(
      METRICS_PROCESSES,
      'sluice_score_bin_rows_total',
      'rows scored, by the bin of their score',
      ofScore,
      true,
    );
    this.#columnShares = families.gauge(
      METRICS_PROCESSES,
      'sluice_column_baseline_ratio',
      `share of the training data, by ${bin}`,
      ofColumn,
      true,
    );
    this.#scoreShares = families.gauge(
      METRICS_PROCESSES,
      'sluice_score_baseline_ratio',
      'share of the training data, by the bin of its score',
      ofScore,
      true,
    );
  }

  /** Updates the figures of all models. */
  fill(monitor: DriftMonitor): void {
    for (const gauge of [...Object.values(this.#figures), this.#rows]) gauge.reset();
    for (const { model } of monitor.models()) {
      const report = monitor.report(model, 'hour')!;
      this.#rows.set({ model }, report.rows);
      const figures = driftFigures(report);
      for (const [name, gauge] of Object.entries(this.#figures)) {
        const value = figures?.[name as Figure] ?? null;
        if (value !== null) gauge.set({ model }, value);
      }
    }
  }

  /** Sets the figures of a whole run, however long it took; figures of the last hour would not describe the run. */
  fillRun(monitor: DriftMonitor, pipeline: string): void {
    for (const gauge of [this.#runScorePsi, this.#runPsiMax, this.#runDrifted]) gauge.reset();
    for (const { model } of monitor.models()) {
      const figures = driftFigures(monitor.report(model, 'start')!);
      if (!figures) continue;
      const { scorePsi, psiMax, psiMaxColumn: column, drifted } = figures;
      if (scorePsi !== null) this.#runScorePsi.set({ pipeline, model }, scorePsi);
      if (column === null) continue;
      this.#runPsiMax.set({ pipeline, model, column }, psiMax);
      this.#runDrifted.set({ pipeline, model }, drifted);
    }
  }

  /** Updates the metrics by column. */
  fillColumns(monitor: DriftMonitor): void {
    for (const metric of [this.#columnRows, this.#scoreRows, this.#columnShares, this.#scoreShares]) metric.reset();
    for (const { model, plan, cells } of monitor.models()) {
      for (const measured of plan.columns) {
        const { name, at } = measured;
        for (const [i, { bin, share }] of binsOf(measured).entries()) {
          const rows = cells[at + i]!;
          if (name === null) {
            this.#scoreRows.inc({ model, bin }, rows);
            this.#scoreShares.set({ model, bin }, share);
          } else {
            this.#columnRows.inc({ model, column: name, bin }, rows);
            this.#columnShares.set({ model, column: name, bin }, share);
          }
        }
      }
    }
  }
}

/** The bins of a column in the order of their counts. */
function binsOf(measured: MeasuredColumn): { bin: string; share: number }[] {
  const { bins, missing, unseen }: Shares = trainedShares(measured);
  return [
    ...bins.map((share, i) => ({ bin: String(i), share })),
    { bin: 'missing', share: missing },
    { bin: 'unseen', share: unseen },
  ];
}
