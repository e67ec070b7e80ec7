// Which evaluator serves a model on this machine, found out once a process and model.
import { type ModelPackage, readModelBytes } from '../model/model-file.ts';
import type { EnginePolicy, Verdict } from './choose.ts';
import { Probe } from './probe.ts';

const known = new Map<string, Promise<Verdict>>();
const MAX_KNOWN = 100;

/** null: the policy leaves nothing to find out. @throws SluiceError model_invalid | model_hash_mismatch */
export async function verdictFor(model: ModelPackage, policy: EnginePolicy): Promise<Verdict | null> {
  if (policy === 'onnxruntime') return null;
  const { manifest } = model;
  const key = JSON.stringify([manifest.onnx, manifest.inputs, manifest.columns, policy]);
  let verdict = known.get(key);
  if (!verdict) {
    verdict = readModelBytes(model).then((bytes) => Probe.verdict(bytes, manifest, policy));
    if (known.size >= MAX_KNOWN) known.clear();
    known.set(key, verdict);
    verdict.catch(() => known.delete(key));
  }
  return verdict;
}
