// Which evaluator serves a model on this machine, found out once a process and model.
import { type ModelPackage, readModelBytes } from '../model/model-file.ts';
import type { EnginePolicy, Known, Verdict } from './choose.ts';
import type { NativePlan } from './native/evaluator.ts';
import { Probe } from './probe.ts';

const known = new Map<string, Promise<Verdict>>();
const MAX_KNOWN = 100;
const NOTHING: Known = { verdict: null, plan: null };

export interface Judgement {
  /**
   * As soon as there is something to open: the compiled model without a verdict, or what `known` says, whatever is there
   * first.
   */
  readonly draft: Promise<Known>;
  /**
   * The verdict, and the model compiled for it where it is native and was not known before. No verdict: the policy leaves
   * nothing to find out.
   * @throws SluiceError model_invalid | model_hash_mismatch
   */
  readonly known: Promise<Known>;
}

/** Both promises may be left alone: nobody has to catch what they throw. */
export function judge(model: ModelPackage, policy: EnginePolicy): Judgement {
  const draft = Promise.withResolvers<Known>();
  const found = find(model, policy, (plan) => draft.resolve({ verdict: null, plan }));
  found.then(draft.resolve, draft.reject);
  draft.promise.catch(() => {});
  return { draft: draft.promise, known: found };
}

async function find(model: ModelPackage, policy: EnginePolicy, onPlan: (plan: NativePlan) => void): Promise<Known> {
  if (policy === 'onnxruntime') return NOTHING;
  const { manifest } = model;
  const key = JSON.stringify([manifest.onnx, manifest.inputs, manifest.columns, policy]);
  const before = known.get(key);
  if (before) return { verdict: await before, plan: null };
  let plan: NativePlan | null = null;
  const verdict = readModelBytes(model).then((bytes) =>
    Probe.verdict(bytes, manifest, policy, (compiled) => {
      plan = shared(compiled);
      onPlan(plan);
    }),
  );
  if (known.size >= MAX_KNOWN) known.clear();
  known.set(key, verdict);
  verdict.catch(() => known.delete(key));
  const { engine } = await verdict;
  return { verdict: await verdict, plan: engine === 'native' ? plan : null };
}

/** The tables in memory that threads share instead of having a copy each. */
function shared(plan: NativePlan): NativePlan {
  if (plan.head.kind !== 'trees') return plan;
  const { image } = plan.head;
  const memory = new Uint8Array(new SharedArrayBuffer(image.memory.length));
  memory.set(image.memory);
  return { ...plan, head: { ...plan.head, image: { ...image, memory } } };
}
