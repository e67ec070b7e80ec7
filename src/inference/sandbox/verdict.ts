// Decides which evaluator serves a model on this machine, once per process and model.
import { columnsKey, type ModelPackage, modelHash } from '../../model/package/model-package.ts';
import type { EnginePolicy, Known, Verdict } from '../evaluate/choose-evaluator.ts';
import type { NativePlan } from '../evaluate/native/native-plan.ts';
import { type KeptVerdict, VerdictPlace } from './kept-verdicts.ts';
import { Probe, type ProbeAim } from './probe.ts';

/** A verdict, with the compiled model as long as other code references it. */
interface Finding {
  verdict: Verdict;
  plan: WeakRef<NativePlan> | null;
}

const found = new Map<string, Promise<Finding>>();
const MAX_FOUND = 100;
const NOTHING: Known = { verdict: null, plan: null };

export interface Judgement {
  /** The compiled model without a verdict, or `known`, whichever is available first. */
  readonly draft: Promise<Known>;
  /**
   * The verdict, and the compiled model if the evaluator is native. The verdict is null if the policy leaves nothing to
   * decide.
   * @throws SluiceError model_invalid | model_hash_mismatch
   */
  readonly known: Promise<Known>;
}

/**
 * Starts deciding a verdict. The caller may ignore either promise; neither causes an unhandled rejection. `priority`:
 * the result that the caller waits for. Aborting `signal` ends a running comparison, also for other callers that wait
 * for the same comparison.
 */
export function judge(
  model: ModelPackage,
  policy: EnginePolicy,
  priority: ProbeAim = 'verdict',
  signal?: AbortSignal,
): Judgement {
  const draft = Promise.withResolvers<Known>();
  const known = find(model, policy, priority, (plan) => draft.resolve({ verdict: null, plan }), signal);
  known.then(draft.resolve, draft.reject);
  draft.promise.catch(() => {});
  return { draft: draft.promise, known };
}

async function find(
  model: ModelPackage,
  policy: EnginePolicy,
  priority: ProbeAim,
  onPlan: (plan: NativePlan) => void,
  signal: AbortSignal | undefined,
): Promise<Known> {
  if (policy === 'onnxruntime') return NOTHING;
  const { manifest } = model;
  // Rejects a model file that was changed but is listed with the hash of a model that was judged before.
  modelHash(model);
  const key = JSON.stringify([manifest.onnx, manifest.inputs, columnsKey(model), policy]);
  const before = await found.get(key);
  if (before) {
    const plan = before.plan?.deref() ?? null;
    if (plan !== null || before.verdict.engine === 'onnxruntime') return { verdict: before.verdict, plan };
  }
  let plan: NativePlan | null = null;
  const share = (compiled: NativePlan): NativePlan => {
    plan = shared(compiled);
    return plan;
  };
  const finding = judged(model, policy, (compiled) => onPlan(share(compiled)), priority, signal).then((kept) => {
    if (kept.plan === null) plan = null;
    else if (plan === null) share(kept.plan);
    return { verdict: kept.verdict, plan: plan && new WeakRef(plan) };
  });
  if (found.size >= MAX_FOUND) found.clear();
  found.set(key, finding);
  finding.catch(() => found.delete(key));
  return { verdict: (await finding).verdict, plan };
}

/** The result that an earlier process cached; otherwise, the result of a comparison now. */
async function judged(
  model: ModelPackage,
  policy: EnginePolicy,
  onPlan: (plan: NativePlan) => void,
  priority: ProbeAim,
  signal: AbortSignal | undefined,
): Promise<KeptVerdict> {
  const place = VerdictPlace.of(model, policy);
  const kept = await place?.read();
  if (kept) return kept;
  let compiled: NativePlan | null = null;
  const hear = (plan: NativePlan): void => {
    compiled = plan;
    onPlan(plan);
  };
  const verdict = await Probe.verdict(model, policy, hear, priority, signal);
  const found = { verdict, plan: verdict.engine === 'native' ? compiled : null };
  await place?.write(found);
  return found;
}

/** Moves the tables to memory that all threads share, so that a thread needs no copy. */
function shared(plan: NativePlan): NativePlan {
  const { head } = plan;
  if (head.kind === 'composition') return { ...plan, head: { ...head, parts: head.parts.map(inSharedMemory) } };
  return { ...plan, head: inSharedMemory(head) };
}

function inSharedMemory<P extends NativePlan['head']>(head: P): P {
  if (head.kind !== 'trees') return head;
  const { image } = head;
  const memory = new Uint8Array(new SharedArrayBuffer(image.memory.length));
  memory.set(image.memory);
  return { ...head, image: { ...image, memory } };
}
