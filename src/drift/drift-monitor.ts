// What a process has scored, by model: over the last hour, the last day, and since it started.
import type { Manifest } from '../model/package/manifest.ts';
import { type DriftCounts, DriftSum } from './drift-counts.ts';
import { DriftPlan } from './drift-plan.ts';
import { type DriftReport, driftReport } from './drift-report.ts';
import { DriftWindow } from './drift-window.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** Quantiles are measured over the last hour and the whole run. */
const LAST_HOUR = { slots: 12, slotMs: 5 * MINUTE, sketched: true };
const LAST_DAY = { slots: 24, slotMs: HOUR, sketched: false };
/** A model of which nothing was scored for so long is forgotten. */
const FORGOTTEN_AFTER = 25 * HOUR;

export const DRIFT_WINDOWS = ['hour', 'day', 'start'] as const;
export type DriftSpan = (typeof DRIFT_WINDOWS)[number];

/** Counts of a part, with the manifest of the model that scored it. */
export interface MeasuredPart extends DriftCounts {
  manifest?: Manifest;
}

interface MeasuredModel {
  readonly plan: DriftPlan;
  readonly hour: DriftWindow;
  readonly day: DriftWindow;
  readonly total: DriftSum;
  lastAdd: number;
}

export class DriftMonitor {
  readonly #now: () => number;
  readonly #models = new Map<string, MeasuredModel>();
  readonly #plans = new WeakMap<Manifest, DriftPlan | null>();

  /** `now`: milliseconds since 1970. */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** `model`: reference `id:version`. */
  add(model: string, part: MeasuredPart): void {
    const measured = this.#measured(model, part);
    if (!measured) return;
    const now = this.#now();
    measured.lastAdd = now;
    measured.hour.add(part, now);
    measured.day.add(part, now);
    measured.total.add(part);
  }

  #measured(model: string, { manifest, cells }: MeasuredPart): MeasuredModel | null {
    const known = this.#models.get(model);
    const plan = manifest ? this.#planOf(manifest) : known?.plan;
    if (!plan || plan.cells !== cells.length) return null;
    if (known?.plan === plan) return known;
    // Loaded again as it was, or another package under its name.
    if (known && plan.sameAs(known.plan)) {
      this.#plans.set(manifest!, known.plan);
      return known;
    }
    const measured: MeasuredModel = {
      plan,
      hour: new DriftWindow(plan, LAST_HOUR),
      day: new DriftWindow(plan, LAST_DAY),
      total: new DriftSum(plan),
      lastAdd: this.#now(),
    };
    this.#models.set(model, measured);
    return measured;
  }

  #planOf(manifest: Manifest): DriftPlan | null {
    let plan = this.#plans.get(manifest);
    if (plan === undefined) {
      plan = DriftPlan.of(manifest);
      this.#plans.set(manifest, plan);
    }
    return plan;
  }

  /** Models of which something was scored, with what is measured of them and counted since the start. */
  models(): { model: string; plan: DriftPlan; total: DriftSum }[] {
    for (const [model, { lastAdd }] of this.#models) {
      if (this.#now() - lastAdd > FORGOTTEN_AFTER) this.#models.delete(model);
    }
    return [...this.#models].map(([model, { plan, total }]) => ({ model, plan, total }));
  }

  /** null: nothing was scored by the model, or it has no baseline. */
  report(model: string, span: DriftSpan): DriftReport | null {
    const measured = this.#models.get(model);
    if (!measured) return null;
    const { plan, total } = measured;
    return driftReport(plan, span === 'start' ? total : measured[span].sum(this.#now()));
  }
}

/** What is said of a model of which nothing was scored; null: it has no baseline. */
export function emptyReport(manifest: Manifest): DriftReport | null {
  const plan = DriftPlan.of(manifest);
  return plan && driftReport(plan, new DriftSum(plan));
}
