// What pairs of columns make together in one application, beside what each makes alone.
import { SluiceError } from '../core/errors.ts';
import { encodeRows } from '../inference/encode/encode-rows.ts';
import { pairCount, pairIndex } from '../inference/explain/leaf-pairs.ts';
import { judge } from '../inference/sandbox/verdict.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { openInterpretations } from './explaining.ts';
import { Scorer } from './scorer.ts';

/** Two columns, in the order of the model, and the Shapley interaction index of both, in the space of the effects. */
export interface Interaction {
  columns: [string, string];
  effect: number;
}

export interface AskedInteractions {
  model: ModelPackage;
  /** Of every column of the model, in their order, as in CSV. */
  values: readonly string[];
  /** The class whose effects are meant, of several. */
  label?: unknown;
  signal?: AbortSignal | undefined;
}

/**
 * All pairs that make something, the strongest first; equal ones in the order of the columns.
 * @throws SluiceError interpretation_unavailable: the model or its method has none that are exact | model_*
 */
export async function interactionsOf({ model, values, label, signal }: AskedInteractions): Promise<Interaction[]> {
  const { manifest } = model;
  const unavailable = (why: string) => new SluiceError('interpretation_unavailable', `${model.ref}: ${why}`);
  const known = await judge(model, 'auto', 'verdict', signal).known;
  // Only what is compiled may run here: anything else has a process of its own.
  if (known.plan === null)
    throw unavailable('interactions are those of trees, and the model is none that was compiled');
  const { evaluator } = await Scorer.open(model, 1, 'auto', known);
  const interpretations = await openInterpretations(model, evaluator);
  const explainer = interpretations.within({ effects: true, reasons: false, top: null, below: null });
  if (!explainer.interactions) throw unavailable(`the method ${explainer.method} has no interactions`);
  const names = manifest.columns.map(({ name }) => name);
  const order = names.map((_, i) => i);
  const { inputs, rejected } = encodeRows(manifest, [values], order);
  if (rejected.size > 0) throw unavailable('the application is none that is scored');
  const pairs = explainer.interactions(inputs, [0]);
  const output = explainer.outputs === 1 ? 0 : (manifest.classes ?? []).findIndex((c) => String(c) === String(label));
  const from = output * pairCount(names.length);
  const found = order.flatMap((i) =>
    order.slice(i + 1).map((j): Interaction => {
      return { columns: [names[i]!, names[j]!], effect: pairs[from + pairIndex(i, j, names.length)]! };
    }),
  );
  return found.filter(({ effect }) => effect !== 0).sort((a, b) => Math.abs(b.effect) - Math.abs(a.effect));
}
