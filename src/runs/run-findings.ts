// What a run finds in its inputs, one by one, and what its gate says of each before it is published.
import { DriftPlan } from '../drift/drift-plan.ts';
import { type DriftReport, driftReport } from '../drift/drift-report.ts';
import type { RunCounts, Tally } from '../engine/counts.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { TallyAccumulator } from './accumulator.ts';
import { type GateVerdict, judgeGate, refuseGate, refuseStopped } from './gate.ts';
import type { RunSpec } from './spec.ts';

/** An input all of which was scored, whether it was published or stopped. */
export interface InputFinding {
  input: string;
  counts: Readonly<RunCounts>;
  /** null: the run has no gate. */
  gate: GateVerdict | null;
}

/** Inputs whose rejected rows are kept for a report. */
const KEPT_DETAILS = 20;

/** One for a run: `open`, then for each input `hear` and `judge`. */
export class RunFindings {
  readonly inputs: InputFinding[] = [];
  readonly #wanted: boolean;
  #limits: RunSpec['gate'];
  #model: ModelPackage | null = null;
  #plan: DriftPlan | null = null;
  /** All judged inputs. */
  readonly #all = new TallyAccumulator();
  /** The current input. */
  #current = new TallyAccumulator();

  /** `wanted`: also where there is no gate. */
  constructor(wanted = false) {
    this.#wanted = wanted;
  }

  /** @throws SluiceError usage: the package has not what the gate needs */
  open({ gate }: Pick<RunSpec, 'gate'>, model: ModelPackage): void {
    if (gate) refuseGate(gate, model.manifest);
    this.#limits = gate;
    this.#model = model;
    if (!gate && !this.#wanted) return;
    this.#plan = DriftPlan.of(model.manifest);
  }

  get model(): ModelPackage | null {
    return this.#model;
  }

  /** An input begins, or begins again; what it gives is told of every part. Nothing: nobody wants to know. */
  hear(): { hear?: (tally: Tally) => void } {
    if (!this.#limits && !this.#wanted) return {};
    const current = new TallyAccumulator();
    this.#current = current;
    return { hear: (tally) => current.add(tally) };
  }

  /** All of an input is scored. @throws SluiceError gate_stopped */
  judge(input: string, counts: Readonly<RunCounts>): void {
    if (!this.#limits && !this.#wanted) return;
    const report = this.#plan && driftReport(this.#plan, this.#current.driftOf(this.#plan));
    const gate = this.#limits ? judgeGate(this.#limits, counts, report, this.#current.rejectedByColumn) : null;
    const details = this.inputs.length < KEPT_DETAILS ? counts.details : [];
    this.inputs.push({ input, counts: { ...counts, rejectedByCode: { ...counts.rejectedByCode }, details }, gate });
    this.#all.restore(this.#current.save());
    if (gate) refuseStopped(input, gate);
  }

  /** Of all inputs together; null: nothing is measured. */
  report(): DriftReport | null {
    return this.#plan && driftReport(this.#plan, this.#all.driftOf(this.#plan));
  }
}
