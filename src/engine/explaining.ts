// Opens the explainer with the background sample and covers of a model. A worker opens the explainer for its first
// interpretation, so that plain predictions start faster.
import { SluiceError } from '../core/errors.ts';
import { readTable } from '../formats/delimited/csv-parse-decoder.ts';
import { type EncodedRows, encodeRows } from '../inference/encode/encode-rows.ts';
import type { Evaluator } from '../inference/evaluate/evaluator.ts';
import { createExplainer } from '../inference/explain/choose-explainer.ts';
import { NotExplainable } from '../inference/explain/explainer.ts';
import { Interpretations } from '../inference/explain/interpretation.ts';
import type { Covers } from '../inference/explain/trees.ts';
import { type ModelPackage, readModelBytes, readPackageFile } from '../model/package/model-package.ts';

/**
 * Maximum number of background rows. More rows would cost memory and start-up time without making the effects more
 * accurate.
 */
const MAX_ROWS = 10_000;

/**
 * Whether the error means that the file was changed; this error is passed on. A missing or unusable file only makes
 * interpretation unavailable.
 */
const isOther = (cause: unknown): boolean => cause instanceof SluiceError && cause.code !== 'model_invalid';

/** @throws SluiceError interpretation_unavailable | model_hash_mismatch */
export async function readBackground(model: ModelPackage): Promise<{ background: EncodedRows; covers: Covers | null }> {
  const { manifest } = model;
  const unavailable = (why: string, cause?: unknown): SluiceError =>
    new SluiceError('interpretation_unavailable', `${model.ref}: ${why}`, { cause });
  const { background, covers, method } = manifest.explain ?? {};
  if (background === undefined) throw unavailable('the package has no background sample');
  let encoded: EncodedRows;
  try {
    const { header, rows } = readTable(await readPackageFile(model, background));
    const fields = manifest.columns.map((c) => header.indexOf(c.name));
    const lacking = manifest.columns.filter((_, i) => fields[i]! < 0).map((c) => c.name);
    if (lacking.length > 0) throw new Error(`${background} lacks ${lacking.join(', ')}`);
    const all = encodeRows(manifest, rows.slice(0, MAX_ROWS), fields);
    const valid = rows.slice(0, MAX_ROWS).filter((_, r) => !all.rejected.has(r));
    if (valid.length === 0) throw new Error(`${background} has no row that the model accepts`);
    encoded = encodeRows(manifest, valid, fields);
  } catch (cause) {
    if (isOther(cause)) throw cause;
    throw unavailable(cause instanceof Error ? cause.message : String(cause), cause);
  }
  if (covers === undefined || (method !== undefined && method !== 'tree_path_dependent')) {
    return { background: encoded, covers: null };
  }
  try {
    return { background: encoded, covers: JSON.parse((await readPackageFile(model, covers)).toString()) as Covers };
  } catch (cause) {
    if (isOther(cause)) throw cause;
    throw unavailable(`${covers} cannot be read`, cause);
  }
}

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
