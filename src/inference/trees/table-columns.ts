// What the tables of QuickScorer are looked up by: slots, and compounds of several slots with few states each. A credit
// application has many such (yes or no, one of five), and one look-up for all of them costs as much as one for each.
import { WasmFunction } from '../../wasm/function.ts';
import type { Slot, SlotPlan, Truth } from './slots.ts';

/** States a compound has at most: its table has a row for each, so that more would drive tables out of the first cache. */
const MAX_COMPOUND = 128;

export interface TableColumn {
  states: number;
  /** The last state is that of NaN. */
  missing: boolean;
  /** Place of the state in a row of states. */
  place: number;
}

/** State of a compound: the sum of its members' states, each times its factor. */
interface Compound {
  place: number;
  members: readonly { slot: number; factor: number }[];
}

export interface TableColumns {
  columns: readonly TableColumn[];
  compounds: readonly Compound[];
  /** Column of a feature in use. */
  columnOf(feature: number): number;
  /** The states of its column in which a test is true; `slot` is the column. */
  truth(branch: Parameters<SlotPlan['truth']>[0]): Truth;
}

/** Compounds are placed behind the slots in a row of states. */
export function tableColumns(plan: SlotPlan): TableColumns {
  const columns: TableColumn[] = [];
  const compounds: Compound[] = [];
  const columnOfSlot = new Array<number>(plan.slots.length).fill(-1);
  const factorOfSlot = new Array<number>(plan.slots.length).fill(0);
  for (const group of groupsOf(plan.slots)) {
    const place = group.length === 1 ? group[0]! : plan.slots.length + compounds.length;
    let factor = 1;
    const members = group.map((slot) => {
      columnOfSlot[slot] = columns.length;
      factorOfSlot[slot] = factor;
      factor *= plan.slots[slot]!.states;
      return { slot, factor: factorOfSlot[slot]! };
    });
    const alone = group.length === 1;
    columns.push({ states: factor, missing: alone && plan.slots[group[0]!]!.kind === 'number', place });
    if (!alone) compounds.push({ place, members });
  }
  const spread = new Map<Truth, Truth>();
  return {
    columns,
    compounds,
    columnOf: (feature) => columnOfSlot[plan.slotOf(feature)]!,
    truth(branch) {
      const own = plan.truth(branch);
      let truth = spread.get(own);
      if (truth) return truth;
      const at = columnOfSlot[own.slot]!;
      const column = columns[at]!;
      truth =
        column.place < plan.slots.length
          ? { ...own, slot: at }
          : { slot: at, ranges: spreadOut(own, plan.slots[own.slot]!, factorOfSlot[own.slot]!, column.states), missing: false }; // biome-ignore format: a case a line
      spread.set(own, truth);
      return truth;
    },
  };
}

/** First fit, the largest first; what fits nowhere stays alone. */
function groupsOf(slots: readonly Slot[]): number[][] {
  const bins: { slots: number[]; states: number }[] = [];
  const order = slots.map((_, i) => i).sort((a, b) => slots[b]!.states - slots[a]!.states || a - b);
  for (const s of order) {
    const { states } = slots[s]!;
    const bin = bins.find((b) => b.states * states <= MAX_COMPOUND);
    if (bin) {
      bin.slots.push(s);
      bin.states *= states;
    } else bins.push({ slots: [s], states });
  }
  return bins.map((b) => b.slots);
}

/** The states of a compound of `states` states in which the test of a member is true. */
function spreadOut(own: Truth, slot: Slot, factor: number, states: number): [number, number][] {
  const spans = own.ranges.map(([from, to]): [number, number] => [from, to]);
  if (slot.kind === 'number' && own.missing) spans.push([slot.states - 1, slot.states]);
  const ranges: [number, number][] = [];
  for (let base = 0; base < states; base += factor * slot.states) {
    for (const [from, to] of spans) {
      if (from === to) continue;
      const [start, end] = [base + from * factor, base + to * factor];
      if (ranges.at(-1)?.[1] === start) ranges.at(-1)![1] = end;
      else ranges.push([start, end]);
    }
  }
  return ranges;
}

/** combine(rows, states, rowBytes): writes the states of the compounds of every row. */
export function combineKernel(compounds: readonly Compound[]): WasmFunction {
  const f = new WasmFunction('combine', { rows: 'i32', states: 'i32', rowBytes: 'i32' });
  const { rows, states, rowBytes } = f.params;
  f.repeat(
    () => {
      for (const { place, members } of compounds) {
        f.get(states);
        for (const [i, { slot, factor }] of members.entries()) {
          f.get(states).memory('i32.load16_u', slot * 2);
          if (factor !== 1) f.i32(factor).op('i32.mul');
          if (i > 0) f.op('i32.add');
        }
        f.memory('i32.store16', place * 2);
      }
      f.get(states, rowBytes).op('i32.add').set(states).bump(rows, -1);
    },
    () => f.get(rows),
  );
  return f.end();
}
