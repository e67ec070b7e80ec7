// Finds number columns whose values are all beyond every threshold of a tree model.
// A possible cause is another unit, such as days instead of yyyymmdd, or thousands.
import { type InputShape, inputOf } from '../inference/evaluate/native/feature-source.ts';
import { planNative } from '../inference/evaluate/native/native-plan.ts';
import { evaluateFeature } from '../inference/onnx/traced-model.ts';
import { type NumberSlot, numberState } from '../inference/trees/slots.ts';
import { Unsupported } from '../inference/trees/unsupported.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { Draft } from './draft.ts';

/** Minimum number of thresholds, and (`FEWEST_NUMBERS`) of numbers in the table, for a conclusion. */
const FEWEST_THRESHOLDS = 3;
const FEWEST_NUMBERS = 100;
/** Minimum number of different numbers in a column, because a constant is always on one side of every threshold. */
const FEWEST_DISTINCT = 3;

/**
 * Columns whose numbers are all below or all above every threshold of the model, one text per column. Training creates
 * thresholds only between numbers in the training data, so the model was trained on other numbers.
 */
export function columnsBeyondThresholds(draft: Draft, manifest: Manifest): string[] {
  const { columns, table } = draft;
  return slotsOf(draft, manifest).flatMap(({ slot, name }) => {
    const column = columns.find((c) => c.spec.name === name);
    if (column?.spec.kind !== 'number' || slot.cuts.length < FEWEST_THRESHOLDS) return [];
    const field = table.header.indexOf(name);
    const absent = new Set(column.spec.missing?.values);
    const numbers = table.sample.flatMap(({ fields }) => (absent.has(fields[field]!) ? [] : [Number(fields[field])]));
    if (numbers.length < FEWEST_NUMBERS || new Set(numbers).size < FEWEST_DISTINCT) return [];
    const states = new Set(numbers.map((x) => numberState(slot, evaluateFeature(slot.feature, x) as number)));
    const [only] = states;
    if (states.size > 1 || (only !== 0 && only !== slot.cuts.length)) return [];
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    const side = only === 0 ? 'below' : 'above';
    return [
      `column ${name}: all numbers of the table (${low} to ${high}) are ${side} each of the ${slot.cuts.length} thresholds of the model. The model was trained on numbers in another range: check the unit (days or dates, thousands, milliseconds) and the order of columns`,
    ];
  });
}

/** The slots of the trees that read a number, with the names of their columns. */
function slotsOf({ model }: Draft, manifest: Manifest): { slot: NumberSlot; name: string }[] {
  const output = manifest.onnx.probabilities ?? manifest.onnx.value!;
  if (typeof output !== 'string') return [];
  const shapes = manifest.inputs.map(
    (i): InputShape => ({ name: i.name, type: i.type, width: i.columns?.length ?? 1 }),
  );
  try {
    const { head } = planNative(model, output, shapes);
    if (head.kind !== 'trees') return [];
    return head.slots.flatMap((slot) => {
      if (slot.kind !== 'number') return [];
      const input = manifest.inputs[inputOf(shapes, slot.source)]!;
      const name = (input.columns ?? [input.column!])[slot.source.column]!;
      // A feature that is computed from an indicator or a bin is skipped, because it has only a few values.
      return slot.feature.steps.some((s) =>
        ['isnan', 'not', 'equals', 'less', 'greater', 'argmax', 'map', 'binarize'].includes(s.op),
      )
        ? []
        : [{ slot, name }];
    });
  } catch (e) {
    if (e instanceof Unsupported) return [];
    throw e;
  }
}
