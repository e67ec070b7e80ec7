// Chooses the evaluator of a model: the native evaluator only if it agrees with ONNX Runtime on the comparison rows.
import { createHash } from 'node:crypto';
import { SluiceError } from '../../core/errors.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { readModel } from '../boosters/read-model.ts';
import type { OnnxModel } from '../onnx/graph.ts';
import { servable } from '../onnx/servable.ts';
import { Unsupported } from '../trees/unsupported.ts';
import type { Evaluator, Scores } from './evaluator.ts';
import { ComparisonRows } from './native/comparison-rows.ts';
import type { InputShape } from './native/feature-source.ts';
import { type NativeEvaluator, openNative } from './native/native-evaluator.ts';
import { type NativePlan, planNative } from './native/native-plan.ts';

export type EnginePolicy = 'auto' | 'onnxruntime' | 'native';

/**
 * The result of comparing both evaluators for one model file and input mapping. A verdict is plain data: it is computed
 * once and passed to all workers. A verdict is valid only on the same machine with the same version of ONNX Runtime.
 */
export interface Verdict {
  /** SHA-256 of the model file, the input mapping, the output and the version of the comparison rules. */
  readonly key: string;
  readonly engine: 'onnxruntime' | 'native';
  /** Number of compared rows. */
  readonly rows: number;
  readonly sameBits: boolean;
  /** Largest difference between two scores; relative for scores above 1. */
  readonly maxDifference: number;
  /** Why ONNX Runtime is used, or why bits may differ; otherwise null. */
  readonly reason: string | null;
}

/** Results that one process computed for other processes. */
export interface Known {
  /** Null if it is not decided, or not needed. */
  readonly verdict: Verdict | null;
  /** The model compiled for native evaluation; null if the native evaluator does not support it. */
  readonly plan: NativePlan | null;
}

export interface Choice extends Known {
  readonly verdict: Verdict;
  readonly evaluator: Evaluator;
}

/** A verdict, with the evaluator that was opened to reach it. */
interface Judged extends Known {
  readonly verdict: Verdict;
  readonly evaluator: Evaluator | null;
}

/** Opens ONNX Runtime for a model that was already parsed and checked. */
type OpenReference = (model: OnnxModel, manifest: Manifest) => Promise<Evaluator>;

/**
 * Number of rows to compare, and the CPU time in ms after which a comparison stops early. Large forests are slow in
 * ONNX Runtime.
 */
const ROWS = 10_240;
const BATCH = 512;
const MIN_ROWS = 1_024;
const BUDGET_MS = 600;
/** Maximum accepted difference of scores. Adding in a different order can cause such differences. */
export const TOLERANCE = 1e-6;
/** Must be incremented when the evaluators or the comparison change, to invalidate the verdicts of older releases. */
const RULES = 3;

/** Imported on demand, because a worker that evaluates natively must not pay for ONNX Runtime. */
async function openOnnxRuntime(model: OnnxModel, manifest: Manifest): Promise<Evaluator> {
  return (await import('./onnxruntime.ts')).openOnnxRuntime(servable(model), manifest);
}

interface ChooseOptions {
  /**
   * An earlier verdict. If its key matches, nothing is compared; for a native verdict, ONNX Runtime is not even loaded.
   */
  verdict?: Verdict | null;
  /** Opens ONNX Runtime while this thread compiles the model. */
  openAlongside?: OpenReference | null;
  /** Receives the compiled model. The comparison starts after the promise resolves. */
  onPlan?: (plan: NativePlan) => Promise<void>;
}

/**
 * Opens the evaluator for a model. With the policy `native`, a model that the native evaluator does not support is an
 * error.
 * @throws SluiceError model_invalid
 */
export async function chooseEvaluator(
  bytes: Uint8Array,
  manifest: Manifest,
  policy: EnginePolicy = 'auto',
  options: ChooseOptions = {},
): Promise<Choice> {
  const model = readModel(bytes);
  const { evaluator, ...judged } = await decide(model, bytes, manifest, policy, options);
  return { ...judged, evaluator: evaluator ?? (await openOnnxRuntime(model, manifest)) };
}

/**
 * Decides the verdict without keeping an evaluator. If only ONNX Runtime can serve the model, ONNX Runtime is not
 * opened: the process that serves the model finds out whether that works.
 * @throws SluiceError model_invalid
 */
export async function judgeModel(
  bytes: Uint8Array,
  manifest: Manifest,
  policy: EnginePolicy,
  options: ChooseOptions,
): Promise<Verdict> {
  const { verdict, evaluator } = await decide(readModel(bytes), bytes, manifest, policy, options);
  await evaluator?.close();
  return verdict;
}

/** Decides the verdict. The evaluator is null if only ONNX Runtime can serve the model. */
async function decide(
  model: OnnxModel,
  bytes: Uint8Array,
  manifest: Manifest,
  policy: EnginePolicy,
  { verdict = null, openAlongside = null, onPlan }: ChooseOptions,
): Promise<Judged> {
  const shapes = manifest.inputs.map(
    (i): InputShape => ({ name: i.name, type: i.type, width: i.columns?.length ?? 1 }),
  );
  const output = manifest.onnx.probabilities ?? manifest.onnx.value!;
  // The comparison rows also depend on which inputs can be NaN, so this is part of the key.
  const missing = manifest.columns.map((c) => [c.name, c.missing?.as ?? null]);
  const key = createHash('sha256')
    .update(bytes)
    .update(JSON.stringify([RULES, policy === 'onnxruntime', shapes, manifest.inputs, output, missing]))
    .digest('hex');
  let alongside: Promise<Evaluator> | null = null;
  const open = (): Promise<Evaluator> => alongside ?? openOnnxRuntime(model, manifest);
  const fallback = (reason: string, found: Partial<Verdict> = {}): Verdict => {
    if (model.format === 'booster')
      throw new SluiceError(
        'model_invalid',
        policy === 'onnxruntime'
          ? 'the model is the file of a training library, which ONNX Runtime cannot evaluate: use the evaluator auto'
          : `the model cannot be served: ${reason} (docs/exporting.md)`,
      );
    if (policy === 'native')
      throw new SluiceError('model_invalid', `the native evaluator cannot serve the model: ${reason}`);
    return { key, engine: 'onnxruntime', rows: 0, sameBits: false, maxDifference: 0, ...found, reason };
  };
  if (policy === 'onnxruntime') {
    const verdict = fallback('required by the configuration');
    return { evaluator: null, verdict, plan: null };
  }
  const known = verdict?.key === key ? verdict : null;
  if (known?.engine === 'onnxruntime') {
    fallback(known.reason ?? 'required by a comparison');
    return { evaluator: null, verdict: known, plan: null };
  }
  if (openAlongside && !known) {
    alongside = openAlongside(model, manifest);
    // Prevents an unhandled rejection: only callers that await `alongside` need its error.
    alongside.catch(() => {});
  }
  let native: NativeEvaluator;
  let plan: NativePlan;
  try {
    if (typeof output !== 'string') throw new Unsupported('the scores are in several outputs');
    plan = planNative(model, output, shapes);
    native = openNative(plan);
  } catch (e) {
    if (e instanceof SluiceError) throw e;
    // A bug of Sluice is also a reason for the fallback, because ONNX Runtime can still serve the model.
    const why = fallback(e instanceof Unsupported ? e.message : `the native evaluator failed: ${(e as Error).message}`);
    return { evaluator: null, verdict: why, plan: null };
  }
  if (known) return { evaluator: native, verdict: known, plan };
  await onPlan?.(plan);

  const other = await open();
  let keep = false;
  try {
    const found = await compare(native, other, manifest);
    const { agree, ...said } = found;
    if (!agree) {
      const verdict = fallback(said.reason ?? 'scores differ', said);
      keep = true;
      return { evaluator: other, verdict, plan: null };
    }
    return { evaluator: native, verdict: { key, engine: 'native', ...said }, plan };
  } finally {
    if (!keep) await other.close();
  }
}

interface Comparison {
  agree: boolean;
  rows: number;
  sameBits: boolean;
  maxDifference: number;
  reason: string | null;
}

const cpuMsSince = (began: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(began);
  return (user + system) / 1000;
};

/** Scores the same rows with both evaluators. Stops at the first batch whose scores differ too much. */
export async function compare(
  native: Pick<NativeEvaluator, 'slots' | 'scoreNow'>,
  reference: Evaluator,
  manifest: Manifest,
): Promise<Comparison> {
  const batches = new ComparisonRows(manifest, native.slots, BATCH);
  const began = process.cpuUsage();
  let rows = 0;
  let differing = 0;
  let maxDifference = 0;
  while (rows < ROWS && (rows < MIN_ROWS || cpuMsSince(began) < BUDGET_MS)) {
    const inputs = batches.next();
    let expected: Scores;
    let own: Scores;
    try {
      const asked = reference.score(inputs, BATCH);
      own = native.scoreNow(inputs, BATCH);
      expected = await asked;
    } catch (e) {
      if (!(e instanceof SluiceError)) throw e;
      return { agree: false, rows, sameBits: false, maxDifference, reason: `a probe fails: ${e.message}` };
    }
    const found = difference(own, expected);
    rows += BATCH;
    if (found === null)
      return { agree: false, rows, sameBits: false, maxDifference, reason: 'the scores have another form' };
    differing += found.differing;
    maxDifference = Math.max(maxDifference, found.max);
    if (!(maxDifference <= TOLERANCE)) {
      return { agree: false, rows, sameBits: false, maxDifference, reason: `scores differ by ${maxDifference}` };
    }
  }
  const reason =
    differing === 0 ? null : `${differing} scores of ${rows} rows differ by up to ${maxDifference.toExponential(1)}`;
  return { agree: true, rows, sameBits: differing === 0, maxDifference, reason };
}

/**
 * Number of differing scores and largest difference; null if the number or the type of the scores differs. NaN equals
 * NaN.
 */
function difference(a: Scores, b: Scores): { differing: number; max: number } | null {
  if (a.width !== b.width || a.values.length !== b.values.length || a.values.constructor !== b.values.constructor)
    return null;
  let differing = 0;
  let max = 0;
  for (let i = 0; i < a.values.length; i++) {
    const [x, y] = [a.values[i]!, b.values[i]!];
    if (x === y || (Number.isNaN(x) && Number.isNaN(y))) continue;
    differing++;
    const d = Math.abs(x - y) / Math.max(1, Math.abs(y));
    max = Number.isNaN(d) ? Infinity : Math.max(max, d);
  }
  return { differing, max };
}
