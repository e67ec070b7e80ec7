// The only place where a run counts the rows it read, scored, rejected and interpreted. Summaries, metrics and progress are views of it.
import type { ErrorCode } from '../core/errors.ts';
import type { Account, RunCounts, Tally } from '../engine/counts.ts';
import { MAX_DETAILS } from '../engine/protocol.ts';
import type { Metrics } from '../monitor/metrics.ts';

export const newCounts = (): RunCounts => ({
  rows: 0,
  scored: 0,
  rejected: 0,
  rejectedByCode: {},
  interpreted: 0,
  inexact: 0,
  details: [],
});

function addTo(counts: RunCounts, more: Readonly<RunCounts>): void {
  counts.rows += more.rows;
  counts.scored += more.scored;
  counts.rejected += more.rejected;
  for (const [code, n] of Object.entries(more.rejectedByCode) as [ErrorCode, number][]) {
    counts.rejectedByCode[code] = (counts.rejectedByCode[code] ?? 0) + n;
  }
  counts.interpreted += more.interpreted;
  counts.inexact += more.inexact;
  const room = MAX_DETAILS - counts.details.length;
  if (room > 0) counts.details.push(...more.details.slice(0, room));
}

/**
 * The account of a run. Work is counted in units: an input file, a request, a micro-batch of a topic. A unit is
 *
 * - open: its counts are part of `progress`, and of the metrics once it is `live`;
 * - settled: its output is final (a committed file, a sent answer, a committed transaction): part of `totals`;
 * - dropped: its output is discarded, and it is not counted. Metrics keep what a live unit has already reported.
 */
export class RunAccount {
  readonly #metrics: Metrics | null;
  readonly #totals = newCounts();
  readonly #open = new Set<UnitAccount>();
  /** Made once for all units: a service has one a request. */
  readonly #events: UnitEvents = {
    measure: (tally, model) => this.#measure(tally, model),
    close: (unit, settled) => {
      this.#open.delete(unit);
      if (settled) addTo(this.#totals, unit.counts);
    },
  };

  /** `metrics`: null where none are served. */
  constructor(metrics: Metrics | null = null) {
    this.#metrics = metrics;
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

  /** `live`: parts are reported to the metrics at once; default: when the unit is settled. */
  unit({ live = false } = {}): UnitAccount {
    const unit = new UnitAccount(live, this.#events);
    this.#open.add(unit);
    return unit;
  }

  #measure(tally: Tally, model: string): void {
    const metrics = this.#metrics;
    if (!metrics) return;
    metrics.rows.inc({ model, outcome: 'scored' }, tally.scored);
    if (tally.rejected > 0) metrics.rows.inc({ model, outcome: 'rejected' }, tally.rejected);
    for (const code in tally.rejectedByCode) {
      metrics.rejected.inc({ model, code }, tally.rejectedByCode[code as ErrorCode]!);
    }
    if (tally.workMs > 0) metrics.scoring.observe({ model }, tally.workMs / 1000);
    if (tally.interpreted > 0) metrics.interpreted.inc({ model, outcome: 'explained' }, tally.interpreted);
    if (tally.inexact > 0) metrics.interpreted.inc({ model, outcome: 'inexact' }, tally.inexact);
  }
}

interface UnitEvents {
  measure(tally: Tally, model: string): void;
  close(unit: UnitAccount, settled: boolean): void;
}

/** One unit of a run. `settle` or `drop` ends it; whichever comes first counts. */
export class UnitAccount implements Account {
  readonly counts = newCounts();
  readonly #events: UnitEvents;
  #live: boolean;
  #ended = false;
  /** Parts not yet reported to the metrics. */
  #held: [Tally, string][] = [];

  constructor(live: boolean, events: UnitEvents) {
    this.#live = live;
    this.#events = events;
  }

  add(tally: Tally, model: string): void {
    addTo(this.counts, tally);
    if (this.#live) this.#events.measure(tally, model);
    else this.#held.push([tallyOnly(tally), model]);
  }

  /** Turns `n` scored rows into rejected ones, because their answers are too large for the sink. Before the unit is live. */
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

  /** Takes `n` rejected rows out: they are tried again, and count when that is settled. Before the unit is live. */
  postpone(n: number, code: ErrorCode): void {
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

  /** Reports parts to the metrics at once from now on. */
  live(): void {
    if (this.#live || this.#ended) return;
    this.#live = true;
    for (const [tally, model] of this.#held.splice(0)) this.#events.measure(tally, model);
  }

  settle(): void {
    if (this.#ended) return;
    this.live();
    this.#ended = true;
    this.#events.close(this, true);
  }

  drop(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#held = [];
    this.#events.close(this, false);
  }
}

/** A copy without what a part has beside its numbers: its bytes must not be kept alive. */
function tallyOnly(tally: Tally): Tally {
  const copy = { ...newCounts(), workMs: tally.workMs };
  addTo(copy, tally);
  return copy;
}
