// Drift counts of a process by model: of the last hour, of the last day, and since the start.
import { epochMs } from '../core/clock.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { type DriftCounts, DriftSum } from './drift-counts.ts';
import { DriftPlan } from './drift-plan.ts';
import { type DriftDigest, type DriftReport, driftDigest, driftReport } from './drift-report.ts';

// A window is a ring of slots of equal duration. A new slot replaces the oldest slot.

interface Slot {
  /** Number of the time interval: time in ms since 1970, divided by the duration of a slot. */
  stretch: number;
  sum: DriftSum;
}

/**
 * A window. The current, incomplete slot is one of its slots, so the window covers between `slots - 1` and `slots` slot
 * durations.
 */
class DriftWindow {
  readonly #plan: DriftPlan;
  readonly #slotMs: number;
  readonly #sketched: boolean;
  readonly #slots: (Slot | null)[];

  constructor(plan: DriftPlan, { slots, slotMs, sketched }: { slots: number; slotMs: number; sketched: boolean }) {
    this.#plan = plan;
    this.#slotMs = slotMs;
    this.#sketched = sketched;
    this.#slots = new Array<Slot | null>(slots).fill(null);
  }

  /** `now`: milliseconds since 1970. */
  add(sum: DriftSum, now: number): void {
    const stretch = Math.floor(now / this.#slotMs);
    const at = stretch % this.#slots.length;
    let slot = this.#slots[at]!;
    if (slot?.stretch !== stretch) {
      slot = { stretch, sum: new DriftSum(this.#plan, { sketched: this.#sketched }) };
      this.#slots[at] = slot;
    }
    slot.sum.merge(sum);
  }

  sum(now: number): DriftSum {
    const sum = new DriftSum(this.#plan, { sketched: this.#sketched });
    const oldest = Math.floor(now / this.#slotMs) - this.#slots.length;
    for (const slot of this.#slots) if (slot && slot.stretch > oldest) sum.merge(slot.sum);
    return sum;
  }
}

const MINUTE = 60_000;
/** Duration of a slot of the last hour, ms. Quantiles are measured for the last hour and since the start. */
const SLOT_MS = 5 * MINUTE;
const LAST_HOUR = { slots: 12, slotMs: SLOT_MS, sketched: true };
const LAST_DAY = { slots: 24, slotMs: 60 * MINUTE, sketched: false };
/** Time without scored rows after which a model is removed, ms. */
const FORGOTTEN_AFTER = 25 * 60 * MINUTE;

export const DRIFT_WINDOWS = ['hour', 'day', 'start'] as const;
export type DriftSpan = (typeof DRIFT_WINDOWS)[number];

/** The counts of a block result, with the manifest of the model that scored it. */
export interface MeasuredPart extends DriftCounts {
  manifest?: Manifest;
}

/**
 * The counts of a model. A block result is added only to the counts of the current period. At the end of the period,
 * these counts are added to the windows.
 */
class MeasuredModel {
  readonly plan: DriftPlan;
  readonly #hour: DriftWindow;
  readonly #day: DriftWindow;
  readonly #before: DriftSum;
  #present: DriftSum;
  #since = 0;

  constructor(plan: DriftPlan) {
    this.plan = plan;
    this.#hour = new DriftWindow(plan, LAST_HOUR);
    this.#day = new DriftWindow(plan, LAST_DAY);
    this.#before = new DriftSum(plan);
    this.#present = new DriftSum(plan);
  }

  /** The counts of all rows so far, without quantiles. */
  get cells(): number[] {
    return Array.from(this.#before.cells, (n, i) => n + this.#present.cells[i]!);
  }

  /** Whether the last scored row is so old that no window contains it. */
  forgotten(now: number): boolean {
    return now - this.#since > FORGOTTEN_AFTER;
  }

  add(part: DriftCounts, now: number): void {
    if (Math.floor(now / SLOT_MS) !== Math.floor(this.#since / SLOT_MS)) this.#close();
    this.#since = now;
    this.#present.add(part);
  }

  #close(): void {
    if (this.#present.rows === 0) return;
    this.#hour.add(this.#present, this.#since);
    this.#day.add(this.#present, this.#since);
    this.#before.merge(this.#present);
    this.#present = new DriftSum(this.plan);
  }

  sum(span: DriftSpan, now: number): DriftSum {
    // The current period can end early, because later counts are added to the same slots.
    this.#close();
    if (span === 'start') return this.#before;
    return (span === 'hour' ? this.#hour : this.#day).sum(now);
  }
}

export class DriftMonitor {
  readonly #now: () => number;
  readonly #models = new Map<string, MeasuredModel>();
  readonly #plans = new WeakMap<Manifest, DriftPlan | null>();

  /** `now`: milliseconds since 1970. */
  constructor(now: () => number = epochMs) {
    this.#now = now;
  }

  /** `model`: reference `id:version`. */
  add(model: string, part: MeasuredPart): void {
    this.#measured(model, part)?.add(part, this.#now());
  }

  #measured(model: string, { manifest, cells }: MeasuredPart): MeasuredModel | null {
    const known = this.#models.get(model);
    const plan = manifest ? this.#planOf(manifest) : known?.plan;
    if (!plan || plan.cells !== cells.length) return null;
    if (known?.plan === plan) return known;
    // The manifest is another object: the package was loaded again, or another package has the same name.
    if (known && plan.sameAs(known.plan)) {
      this.#plans.set(manifest!, known.plan);
      return known;
    }
    const measured = new MeasuredModel(plan);
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

  /** The models with scored rows, with their plans and their counts since the start. */
  models(): { model: string; plan: DriftPlan; cells: number[] }[] {
    const now = this.#now();
    for (const [model, measured] of this.#models) if (measured.forgotten(now)) this.#models.delete(model);
    return [...this.#models].map(([model, { plan, cells }]) => ({ model, plan, cells }));
  }

  /** The counts of a model; null: the model has scored no row or has no baseline. */
  sum(model: string, span: DriftSpan): { plan: DriftPlan; sum: DriftSum } | null {
    const measured = this.#models.get(model);
    return measured ? { plan: measured.plan, sum: measured.sum(span, this.#now()) } : null;
  }

  /** The report about the counts that `sum` returns. */
  report(model: string, span: DriftSpan): DriftReport | null {
    const found = this.sum(model, span);
    return found && driftReport(found.plan, found.sum);
  }
}

/** Reports by the reference of their model, `id:version`. */
export type DriftReports = Readonly<Record<string, DriftReport>>;

/** The reports of all models that scored rows since the start. */
export const driftReports = (monitor: DriftMonitor): DriftReports =>
  Object.fromEntries(monitor.models().map(({ model }) => [model, monitor.report(model, 'start')!]));

export const digestsOf = (reports: DriftReports): Record<string, DriftDigest> =>
  Object.fromEntries(Object.entries(reports).map(([model, report]) => [model, driftDigest(report)]));

/** The report for a model without scored rows; null: the model has no baseline. */
export function emptyReport(manifest: Manifest): DriftReport | null {
  const plan = DriftPlan.of(manifest);
  return plan && driftReport(plan, new DriftSum(plan));
}
