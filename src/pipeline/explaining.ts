// What a worker needs to explain, loaded when somebody asks: predictions alone must not pay for it.
import { SluiceError } from '../core/errors.ts';
import { createExplainer } from '../explain/create.ts';
import { NotExplainable } from '../explain/explainer.ts';
import { Interpretations } from '../explain/interpretation.ts';
import { type ModelPackage, readModelBytes } from '../model/model-file.ts';
import type { Evaluator } from '../score/evaluator.ts';
import { readBackground } from './background.ts';

/** @throws SluiceError interpretation_unavailable */
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
