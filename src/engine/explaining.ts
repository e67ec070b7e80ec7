// What a worker needs for interpretations, loaded on first use: plain predictions must not pay for it.
import { SluiceError } from '../core/errors.ts';
import type { Evaluator } from '../inference/evaluate/evaluator.ts';
import { createExplainer } from '../inference/explain/choose-explainer.ts';
import { NotExplainable } from '../inference/explain/explainer.ts';
import { Interpretations } from '../inference/explain/interpretation.ts';
import { type ModelPackage, readModelBytes } from '../model/package/model-package.ts';
import { readBackground } from './background.ts';

/** @throws SluiceError interpretation_unavailable | model_hash_mismatch */
export async function openInterpretations(model: ModelPackage, evaluator: Evaluator): Promise<Interpretations> {
  const { manifest } = model;
  const { background, covers } = await readBackground(model);
  try {
    const bytes = await readModelBytes(model);
    const chosen = await createExplainer({ bytes, manifest, evaluator, background, covers });
    return new Interpretations(chosen, manifest, evaluator, background);
  } catch (cause) {
    if (!(cause instanceof NotExplainable)) throw cause;
    throw new SluiceError('interpretation_unavailable', `${model.ref}: ${cause.message}`, { cause });
  }
}
