// A loaded package and its model file. Apart from load-package.ts, so that workers do not load the YAML and schema libraries,
// which cost 30 MB per thread.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import type { Manifest } from './manifest.ts';

export interface ModelPackage {
  /** Absolute path of the folder of this version. */
  folder: string;
  manifest: Manifest;
  /** `id:version`, the one spelling used in summaries, metrics and answers. */
  ref: string;
}

/**
 * Reads the ONNX bytes of a package and checks them against the hash it names.
 * @throws SluiceError model_hash_mismatch | model_invalid
 */
export async function readModelBytes(model: ModelPackage): Promise<Uint8Array<ArrayBuffer>> {
  const { file, sha256 } = model.manifest.onnx;
  if (path.isAbsolute(file) || path.normalize(file).startsWith('..')) {
    throw new SluiceError('model_invalid', `${model.ref}: onnx.file must lie inside the package`);
  }
  let bytes: Buffer<ArrayBuffer>;
  try {
    bytes = await readFile(path.join(model.folder, file));
  } catch (cause) {
    throw new SluiceError('model_invalid', `${model.ref}: ${file} cannot be read`, { cause });
  }
  const actual = createHash('sha256').update(bytes).digest('hex');
  if (actual !== sha256) {
    throw new SluiceError(
      'model_hash_mismatch',
      `${model.ref}: ${file} has sha256 ${actual}, model.yaml says ${sha256}`,
    );
  }
  return bytes;
}

/** The outputs of the graph that carry the scores: one, or one per class. */
export function scoreOutputs({ onnx }: Pick<Manifest, 'onnx'>): string[] {
  if (Array.isArray(onnx.probabilities)) return onnx.probabilities;
  return [onnx.probabilities ?? onnx.value ?? ''];
}
