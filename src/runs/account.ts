// The account of a run counts the rows read, scored, rejected and interpreted. Summaries, metrics and progress use the
// counts of the account.
import { epochMs } from '../core/clock.ts';
import type { ErrorCode } from '../core/errors.ts';
import { Flow, WAITED_FOR } from '../core/flow.ts';
import { DriftMonitor } from '../drift/drift-monitor.ts';
import type { Account, RunCounts, Tally } from '../engine/counts.ts';
import type { Metrics } from '../monitor/metrics.ts';
import { addTo, newCounts } from './accumulator.ts';

/**
 * The account of a run. Work is counted in units: an input file, a request, or a micro-batch of a topic. A unit is
 *
 * - open: its counts are part of `progress`, and of the metrics once it is `live`;
 * - settled: its output is final (a published file, a sent answer, a committed transaction), and its counts are part of
 * `totals`;
 * - dropped: its output is discarded and its counts are removed. Metrics keep the counts that a live unit has already
 * reported.
 */
export class RunAccount {
  readonly #metrics: Metrics | null;
  readonly #totals = newCounts();
  readonly #open = new Set<UnitAccount>();
  readonly #pipeline: string;
  readonly #flows = new Map<string, PipelineFlow>();
  /** Distribution of the measured rows over the bins of each model's baseline. */
  readonly drift = new DriftMonitor();
  /** All units share one object, so that a service need not create callbacks for every request. */
  readonly #events: UnitEvents = {
    measure: (tally, model) => this.#measure(tally, model),
    answered: ({ pipeline }) => {
      this.#flowOf(pipeline).answered = epochMs();
    },
    close: (unit, settled) => {
      this.#open.delete(unit);
      if (settled) addTo(this.#totals, unit.counts);
    },
  };

  /** `metrics`: null if metrics are disabled. `pipeline`: name of the pipeline for units that do not name one. */
  constructor(metrics: Metrics | null = null, pipeline = '') {
    this.#metrics = metrics;
    this.#pipeline = pipeline;
    metrics?.onScrape(() => {
      for (const [name, flow] of this.#flows) flow.fill(metrics, name);
    });
    metrics?.measureDrift(this.drift);
  }

  /**
   * The flow of a pipeline: its waits for source, workers and sink, and its bytes in flight. Default: the pipeline of
   * this account.
   */
  flow(pipeline = this.#pipeline): Flow {
    return this.#flowOf(pipeline).flow;
  }

  #flowOf(pipeline: string): PipelineFlow {
    let known = this.#flows.get(pipeline);
    if (!known) {
      known = new PipelineFlow();
      this.#flows.set(pipeline, known);
    }
    return known;
  }

  /** Counts of settled units. */
  get totals(): Readonly<RunCounts> {
    return this.#totals;
  }

  /** Totals plus the counts of open units. */
  get progress(): Readonly<RunCounts> {
    if (this.#open.size === 0) return this.#totals;
    const counts = newCounts();
    for (const part of [this.#totals, ...[...this.#open].map((unit) => unit.counts)]) addTo(counts, part);
    return counts;
  }

  /**
   * `live`: report results to the metrics immediately (default: when the unit is settled). `sent`: the client reads
   * written bytes immediately, so rows count as answered before the unit is settled (default: same as `live`).
   */
  unit({ live = false, sent, pipeline = this.#pipeline, hear }: Partial<Omit<UnitOptions, 'flow'>> = {}): UnitAccount {
    const options = { live, sent: sent ?? live, pipeline, flow: this.flow(pipeline), ...(hear ? { hear } : {}) };
    const unit = new UnitAccount(options, this.#events);
    this.#open.add(unit);
    return unit;
  }

  #measure(tally: Tally, model: string): void {
    if (tally.drift) this.drift.add(model, tally.drift);
    const metrics = this.#metrics;
    if (!metrics) return;
    metrics.rows.inc({ model, outcome: 'scored' }, tally.scored);
    if (tally.rejected > 0) metrics.rows.inc({ model, outcome: 'rejected' }, tally.rejected);
    for (const code in tally.rejectedByCode) {
      metrics.rejected.inc({ model, code }, tally.rejectedByCode[code as ErrorCode]!);
    }
    for (const { column, code, rows } of tally.rejectedByColumn ?? []) {
      if (rows > 0) metrics.columnRejected.inc({ model, column, code }, rows);
    }
    if (tally.workMs > 0) metrics.scoring.observe({ model }, tally.workMs / 1000);
    if (tally.interpreted > 0) metrics.interpreted.inc({ model, outcome: 'explained' }, tally.interpreted);
    if (tally.evaluations !== undefined) metrics.evaluations.inc({ model }, tally.evaluations);
    if (tally.inexact > 0) metrics.interpreted.inc({ model, outcome: 'inexact' }, tally.inexact);
  }
}

/** The flow of one pipeline, and how much of it was already added to the metrics. */
class PipelineFlow {
  readonly flow = new Flow();
  /** When the last row was answered, ms since 1970; 0 if no row was answered. */
  answered = 0;
  readonly #told = { source: 0, workers: 0, sink: 0 };

  fill(metrics: Metrics, pipeline: string): void {
    const { waits } = this.flow;
    for (const what of WAITED_FOR) {
      metrics.waited.inc({ pipeline, for: what }, (waits[what] - this.#told[what]) / 1000);
      this.#told[what] = waits[what];
    }
    const { bytes, budget } = this.flow.held;
    metrics.inFlight.set({ pipeline }, bytes);
    metrics.inFlightBudget.set({ pipeline }, budget);
    if (this.answered > 0) metrics.lastAnswer.set({ pipeline }, this.answered / 1000);
  }
}

interface UnitEvents {
  measure(tally: Tally, model: string): void;
  /** Called when rows of the unit were delivered. */
  answered(unit: UnitAccount): void;
  close(unit: UnitAccount, settled: boolean): void;
}

interface UnitOptions {
  live: boolean;
  sent: boolean;
  pipeline: string;
  flow: Flow;
  /** Called with every block result when it is counted, whether the unit is later settled or dropped. */
  hear?: (tally: Tally) => void;
}

/** One unit of a run. The first call of `settle` or `drop` ends the unit; later calls have no effect. */
export class UnitAccount implements Account {
  readonly counts = newCounts();
  readonly pipeline: string;
  readonly flow: Flow;
  readonly #events: UnitEvents;
  readonly #sent: boolean;
  readonly #hear: UnitOptions['hear'];
  #live: boolean;
  #ended = false;
  /** Block results whose counts the metrics do not contain yet. */
  #held: [Tally, string][] = [];

  constructor({ live, sent, pipeline, flow, hear }: UnitOptions, events: UnitEvents) {
    this.#hear = hear;
    this.#live = live;
    this.#sent = sent;
    this.pipeline = pipeline;
    this.flow = flow;
    this.#events = events;
  }

  add(tally: Tally, model: string): void {
    addTo(this.counts, tally);
    this.#hear?.(tally);
    if (this.#live) this.#events.measure(tally, model);
    else this.#held.push([tallyOnly(tally), model]);
  }

  written(): void {
    if (this.#sent) this.#events.answered(this);
  }

  /**
   * Counts `n` scored rows as rejected, because their answers are too large for the sink. Call this method before the
   * unit is live.
   */
  reject(n: number, code: ErrorCode): void {
    for (const [tally] of this.#held) {
      const moved = Math.min(n, tally.scored);
      n -= moved;
      this.counts.scored -= moved;
      this.counts.rejected += moved;
      this.counts.rejectedByCode[code] = (this.counts.rejectedByCode[code] ?? 0) + moved;
      tally.scored -= moved;
      tally.rejected += moved;
      tally.rejectedByCode = { ...tally.rejectedByCode, [code]: (tally.rejectedByCode[code] ?? 0) + moved };
    }
  }

  /** Counts `n` rows that are neither scored nor rejected. Metrics of models do not contain them. */
  skip(n: number): void {
    if (n > 0) addTo(this.counts, { ...newCounts(), rows: n, skipped: n });
  }

  /**
   * Removes `n` rows that were rejected because of `column`. These rows are retried later, and the unit of the retry
   * counts them. Call this method before the unit is live.
   */
  postpone(n: number, code: ErrorCode, column: string | null = null): void {
    if (column !== null) this.#postponeOf(column, n, code);
    for (const [tally] of this.#held) {
      const moved = Math.min(n, tally.rejectedByCode[code] ?? 0);
      n -= moved;
      for (const counts of [this.counts, tally]) {
        counts.rows -= moved;
        counts.rejected -= moved;
        const left = (counts.rejectedByCode[code] ?? 0) - moved;
        const { [code]: _, ...others } = counts.rejectedByCode;
        counts.rejectedByCode = left > 0 ? { ...others, [code]: left } : others;
      }
    }
  }

  #postponeOf(column: string, n: number, code: ErrorCode): void {
    for (const [tally] of this.#held) {
      tally.rejectedByColumn =
        tally.rejectedByColumn?.map((rejects) => {
          if (rejects.column !== column || rejects.code !== code) return rejects;
          const moved = Math.min(n, rejects.rows);
          n -= moved;
          return { ...rejects, rows: rejects.rows - moved };
        }) ?? [];
    }
  }

  /** From now on, reports block results to the metrics immediately. */
  live(): void {
    if (this.#live || this.#ended) return;
    this.#live = true;
    for (const [tally, model] of this.#held.splice(0)) this.#events.measure(tally, model);
  }

  settle(): void {
    if (this.#ended) return;
    this.live();
    this.#ended = true;
    if (this.counts.rows > 0) this.#events.answered(this);
    this.#events.close(this, true);
  }

  drop(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#held = [];
    this.#events.close(this, false);
  }
}

/** A copy of the counts of a block result. Without a reference to the block result, its bytes can be freed. */
function tallyOnly(tally: Tally): Tally {
  const { workMs, drift, rejectedByColumn } = tally;
  const copy = { ...newCounts(), workMs, drift, ...(rejectedByColumn ? { rejectedByColumn } : {}) };
  addTo(copy, tally);
  return copy;
}
