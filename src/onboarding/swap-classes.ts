// The same scores as probabilities of other classes than they are registered as.
import type { Manifest } from '../model/package/manifest.ts';
import type { Draft } from './draft.ts';
import type { Predictions } from './fit-loss.ts';
import type { Swap } from './swap.ts';

interface ClassSwap {
  readonly swap: Swap;
  readonly of: (given: Predictions) => Predictions;
}

/** Classes of which every two are exchanged. */
const PAIRED_CLASSES = 12;

export function classSwaps(draft: Draft, manifest: Manifest): ClassSwap[] {
  const { task, classes = [] } = manifest;
  if (task === 'binary') return [otherClass(draft, manifest)];
  if (task !== 'multiclass') return [];
  const k = classes.length;
  const places = classes.map((_, i) => i);
  const orders: [string, number[]][] = [
    ['in reversed order', [...places].reverse()],
    ['rotated by one', places.map((i) => (i + 1) % k)],
    ['rotated back by one', places.map((i) => (i + k - 1) % k)],
  ];
  if (k <= PAIRED_CLASSES)
    for (const a of places)
      for (const b of places.slice(a + 1))
        orders.push([
          `with ${classes[a]} and ${classes[b]} exchanged`,
          places.map((i) => (i === a ? b : i === b ? a : i)),
        ]);
  return orders.map(([words, order]) => ({ swap: classOrder(classes, words), of: (given) => reordered(given, order) }));
}

function otherClass({ options }: Draft, { classes, positive_class, outcome }: Manifest): ClassSwap {
  const other = classes!.find((c) => c !== positive_class);
  return {
    swap: {
      subject: 'positive class',
      words: `the scores as probabilities of ${outcome} = ${other}`,
      given: `${positive_class}`,
      mend: `name the outcome the model was trained on (--outcome) or another output of the graph (--scores); if training turned ${outcome} round, write it into the table as it was in training`,
      declared: options.positiveClass !== undefined,
      apply: (m) => ({ ...m, positive_class: other! }),
    },
    of: ({ values, width }) => ({ values: values.map((p) => 1 - p), width }),
  };
}

const classOrder = (classes: readonly (string | number | boolean)[], words: string): Swap => ({
  subject: 'order of the classes',
  words: `the classes ${words}`,
  given: classes.join(', '),
  mend: 'export the model with its classes, or write the outcome of the table with the labels that were trained on',
  declared: false,
  apply: (m) => m,
});

function reordered({ values, width }: Predictions, order: readonly number[]): Predictions {
  return {
    values: Float64Array.from(values, (_, i) => values[i - (i % width) + order[i % width]!]!),
    width,
  };
}
