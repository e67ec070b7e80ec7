// Zoo models with their explainer, in this process: registered, encoded and evaluated as a worker does it.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type EncodedRows, encodeRows } from '../../src/inference/encode/encode-rows.ts';
import type { Evaluator } from '../../src/inference/evaluate/evaluator.ts';
import { openOnnxRuntime } from '../../src/inference/evaluate/onnxruntime.ts';
import { type ChosenExplainer, createExplainer } from '../../src/inference/explain/choose-explainer.ts';
import type { Covers } from '../../src/inference/explain/trees.ts';
import { servable } from '../../src/inference/onnx/servable.ts';
import { readChecked } from '../../src/inference/trees/ensemble.ts';
import type { Manifest } from '../../src/model/package/manifest.ts';
import { proposePackage } from '../../src/onboarding/register.ts';
import { type Row, readRows, registerOptions, ZOO, type ZooModel } from './zoo.ts';

export interface Explained extends ChosenExplainer {
  manifest: Manifest;
  evaluator: Evaluator;
  encode(rows: readonly Row[]): EncodedRows;
}

/** Registers a model of the zoo and makes its explainer, with the background of the zoo unless other rows are given. */
export async function explainZoo(
  m: ZooModel,
  method?: NonNullable<Manifest['explain']>['method'],
  rows: readonly Row[] = readRows('data/background.csv'),
): Promise<Explained> {
  const { manifest, files } = await proposePackage(await registerOptions(m));
  const bytes = files.get('model.onnx') as Uint8Array;
  if (method) manifest.explain = { ...manifest.explain, method };
  const evaluator = await openOnnxRuntime(servable(readChecked(bytes)), manifest);
  const encode = (rows: readonly Row[]) =>
    encodeRows(
      manifest,
      rows.map((r) => manifest.columns.map((c) => r[c.name]!)),
      manifest.columns.map((_, i) => i),
    );
  const background = encode(rows);
  const covers =
    method === 'tree_path_dependent'
      ? (JSON.parse(readFileSync(path.join(ZOO, 'models', m.name, 'covers.json'), 'utf8')) as Covers)
      : null;
  const chosen = await createExplainer({ bytes, manifest, evaluator, background, covers });
  return { ...chosen, manifest, evaluator, encode };
}
