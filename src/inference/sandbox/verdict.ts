// Which evaluator serves a model on this machine, decided once per process and model.
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { EnginePolicy, Known, Verdict } from '../evaluate/choose-evaluator.ts';
import type { NativePlan } from '../evaluate/native/native-plan.ts';
import { Probe } from './probe.ts';
import type { ProbeAim } from './probe-protocol.ts';

/** A verdict, and the compiled model as long as someone holds it. */
interface Finding {
  verdict: Verdict;
  plan: WeakRef<NativePlan> | null;
}

const found = new Map<string, Promise<Finding>>();
const MAX_FOUND = 100;
const NOTHING: Known = { verdict: null, plan: null };

export interface Judgement {
  /**
   * Whichever comes first: the compiled model without a verdict, or `known`.
   */
  readonly draft: Promise<Known>;
  /**
   * The verdict, and the compiled model where it is native. No verdict: the policy leaves nothing to decide.
   * @throws SluiceError model_invalid | model_hash_mismatch
   */
  readonly known: Promise<Known>;
}

/**
 * Either promise may be ignored: neither rejects unhandled. `priority`: the one the caller waits for. `signal` ends a
 * comparison under way, also for others who wait for it.
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
  const key = JSON.stringify([manifest.onnx, manifest.inputs, manifest.columns, policy]);
  const before = await found.get(key);
  if (before) {
    const plan = before.plan?.deref() ?? null;
    if (plan !== null || before.verdict.engine === 'onnxruntime') return { verdict: before.verdict, plan };
  }
  let plan: NativePlan | null = null;
  const finding = Probe.verdict(
    model,
    policy,
    (compiled) => {
      plan = shared(compiled);
      onPlan(plan);
    },
    priority,
    signal,
  ).then((verdict) => {
    if (verdict.engine !== 'native') plan = null;
    return { verdict, plan: plan && new WeakRef(plan) };
  });
  if (found.size >= MAX_FOUND) found.clear();
  found.set(key, finding);
  finding.catch(() => found.delete(key));
  return { verdict: (await finding).verdict, plan };
}

/** Moves the tables to memory that threads share, instead of a copy each. */
function shared(plan: NativePlan): NativePlan {
  if (plan.head.kind !== 'trees') return plan;
  const { image } = plan.head;
  const memory = new Uint8Array(new SharedArrayBuffer(image.memory.length));
  memory.set(image.memory);
  return { ...plan, head: { ...plan.head, image: { ...image, memory } } };
}
