// Which evaluator serves a model on this machine, found out once a process and model.
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { EnginePolicy, Known, Verdict } from '../evaluate/choose-evaluator.ts';
import type { NativePlan } from '../evaluate/native/native-evaluator.ts';
import { Probe } from './probe.ts';
import type { ProbeAim } from './probe-protocol.ts';

/** What was found out, and the compiled model as long as somebody has it. */
interface Finding {
  verdict: Verdict;
  plan: WeakRef<NativePlan> | null;
}

const found = new Map<string, Promise<Finding>>();
const MAX_FOUND = 100;
const NOTHING: Known = { verdict: null, plan: null };

export interface Judgement {
  /**
   * As soon as there is something to open: the compiled model without a verdict, or what `known` says, whatever is there
   * first.
   */
  readonly draft: Promise<Known>;
  /**
   * The verdict, and the compiled model where it is native. No verdict: the policy leaves nothing to find out.
   * @throws SluiceError model_invalid | model_hash_mismatch
   */
  readonly known: Promise<Known>;
}

/** Both promises may be left alone: nobody has to catch what they throw. `sooner`: the one that is waited for. */
export function judge(model: ModelPackage, policy: EnginePolicy, sooner: ProbeAim = 'verdict'): Judgement {
  const draft = Promise.withResolvers<Known>();
  const known = find(model, policy, sooner, (plan) => draft.resolve({ verdict: null, plan }));
  known.then(draft.resolve, draft.reject);
  draft.promise.catch(() => {});
  return { draft: draft.promise, known };
}

async function find(
  model: ModelPackage,
  policy: EnginePolicy,
  sooner: ProbeAim,
  onPlan: (plan: NativePlan) => void,
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
    sooner,
  ).then((verdict) => {
    if (verdict.engine !== 'native') plan = null;
    return { verdict, plan: plan && new WeakRef(plan) };
  });
  if (found.size >= MAX_FOUND) found.clear();
  found.set(key, finding);
  finding.catch(() => found.delete(key));
  return { verdict: (await finding).verdict, plan };
}

/** The tables in memory that threads share instead of having a copy each. */
function shared(plan: NativePlan): NativePlan {
  if (plan.head.kind !== 'trees') return plan;
  const { image } = plan.head;
  const memory = new Uint8Array(new SharedArrayBuffer(image.memory.length));
  memory.set(image.memory);
  return { ...plan, head: { ...plan.head, image: { ...image, memory } } };
}
