// What a run finds in its inputs, one by one, and what its gate says of each before it is published.
import type { ErrorCode } from '../core/errors.ts';
import { DriftSum } from '../drift/drift-counts.ts';
import { DriftPlan } from '../drift/drift-plan.ts';
import { type DriftReport, driftReport } from '../drift/drift-report.ts';
import type { RunCounts, Tally } from '../engine/counts.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { type GateVerdict, judgeGate, refuseGate, refuseStopped } from './gate.ts';
import type { RunSpec } from './spec.ts';

/** An input all of which was scored, whether it was published or stopped. */
export interface InputFinding {
  input: string;
  counts: Readonly<RunCounts>;
  /** null: the run has no gate. */
  gate: GateVerdict | null;
}

type Rejects = Map<string, Partial<Record<ErrorCode, number>>>;

/** Inputs whose rejected rows are kept for a report. */
const KEPT_DETAILS = 20;

/** One for a run: `open`, then for each input `hear` and `judge`. */
export class RunFindings {
  readonly inputs: InputFinding[] = [];
  readonly #wanted: boolean;
  #limits: RunSpec['gate'];
  #model: ModelPackage | null = null;
  #plan: DriftPlan | null = null;
  /** Of the inputs that were judged. */
  #all: DriftSum | null = null;
  /** Of the input at hand. */
  #sum: DriftSum | null = null;
  #rejects: Rejects = new Map();

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
    this.#all = this.#plan && new DriftSum(this.#plan);
  }

  get model(): ModelPackage | null {
    return this.#model;
  }

  /** An input begins, or begins again; what it gives is told of every part. Nothing: nobody wants to know. */
  hear(): { hear?: (tally: Tally) => void } {
    if (!this.#limits && !this.#wanted) return {};
    const sum = this.#plan && new DriftSum(this.#plan);
    const rejects: Rejects = new Map();
    this.#sum = sum;
    this.#rejects = rejects;
    return {
      hear: ({ drift, rejectedByColumn }) => {
        if (drift) sum?.add(drift);
        for (const { column, code, rows } of rejectedByColumn ?? []) {
          const known = rejects.get(column) ?? {};
          rejects.set(column, { ...known, [code]: (known[code] ?? 0) + rows });
        }
      },
    };
  }

  /** All of an input is scored. @throws SluiceError gate_stopped */
  judge(input: string, counts: Readonly<RunCounts>): void {
    if (!this.#limits && !this.#wanted) return;
    const report = this.#plan && this.#sum && driftReport(this.#plan, this.#sum);
    const gate = this.#limits ? judgeGate(this.#limits, counts, report, this.#rejects) : null;
    const details = this.inputs.length < KEPT_DETAILS ? counts.details : [];
    this.inputs.push({ input, counts: { ...counts, rejectedByCode: { ...counts.rejectedByCode }, details }, gate });
    if (this.#sum) this.#all?.merge(this.#sum);
    if (gate) refuseStopped(input, gate);
  }

  /** Of all inputs together; null: nothing is measured. */
  report(): DriftReport | null {
    return this.#plan && this.#all && driftReport(this.#plan, this.#all);
  }
}
