// Which evaluator serves a model on this machine, found out once a process and model.
import { type ModelPackage, readModelBytes } from '../model/model-file.ts';
import type { EnginePolicy, Judgement, Verdict } from './choose.ts';
import type { NativePlan } from './native/evaluator.ts';
import { Probe } from './probe.ts';

const known = new Map<string, Promise<Verdict>>();
const MAX_KNOWN = 100;

/**
 * null: the policy leaves nothing to find out. The compiled model is there for who asks first; later ones compile it.
 * @throws SluiceError model_invalid | model_hash_mismatch
 */
export async function judge(model: ModelPackage, policy: EnginePolicy): Promise<Judgement | null> {
  if (policy === 'onnxruntime') return null;
  const { manifest } = model;
  const key = JSON.stringify([manifest.onnx, manifest.inputs, manifest.columns, policy]);
  const before = known.get(key);
  if (before) return { verdict: await before, plan: null };
  const judged = readModelBytes(model).then((bytes) => Probe.verdict(bytes, manifest, policy));
  const verdict = judged.then((j) => j.verdict);
  if (known.size >= MAX_KNOWN) known.clear();
  known.set(key, verdict);
  verdict.catch(() => known.delete(key));
  const { plan } = await judged;
  return { verdict: await verdict, plan: plan && shared(plan) };
}

/** The tables in memory that threads share instead of having a copy each. */
function shared(plan: NativePlan): NativePlan {
  if (plan.head.kind !== 'trees') return plan;
  const { image } = plan.head;
  const memory = new Uint8Array(new SharedArrayBuffer(image.memory.length));
  memory.set(image.memory);
  return { ...plan, head: { ...plan.head, image: { ...image, memory } } };
}
