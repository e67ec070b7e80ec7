// Runs ONNX Runtime in a separate thread, which loads a model while this thread compiles it.
import { Worker } from 'node:worker_threads';
import { entryFile } from '../../core/entry-file.ts';
import { type ErrorCode, SluiceError } from '../../core/errors.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import type { EncodedInput } from '../encode/encoder.ts';
import type { OnnxModel } from '../onnx/graph.ts';
import { type Servable, servable } from '../onnx/servable.ts';
import type { Evaluator, Scores } from './evaluator.ts';

/** A micro-batch to score. The thread handles one job at a time. */
export interface ReferenceJob {
  inputs: readonly EncodedInput[];
  rows: number;
}

export type ReferenceAnswer =
  | { type: 'open' }
  | { type: 'scored'; scores: Scores }
  | { type: 'failed'; code: ErrorCode; message: string };

export interface ReferenceInit {
  model: Servable;
  manifest: Manifest;
}

/**
 * Opens ONNX Runtime in a thread. Call `score` again only after the previous call has resolved. @throws SluiceError
 * model_invalid
 */
export async function openReference(model: OnnxModel, manifest: Manifest): Promise<Evaluator> {
  const init: ReferenceInit = { model: servable(model), manifest };
  const worker = new Worker(entryFile('inference/evaluate/reference-entry'), { workerData: init, execArgv: [] });
  const answered = async (): Promise<ReferenceAnswer> => {
    const { promise, resolve, reject } = Promise.withResolvers<ReferenceAnswer>();
    worker.once('message', resolve).once('error', reject);
    const answer = await promise.finally(() => worker.off('message', resolve).off('error', reject));
    if (answer.type === 'failed') throw new SluiceError(answer.code, answer.message);
    return answer;
  };
  await answered();
  return {
    name: 'onnxruntime',
    async score(inputs, rows): Promise<Scores> {
      worker.postMessage({ inputs, rows } satisfies ReferenceJob);
      const answer = await answered();
      if (answer.type !== 'scored') throw new Error('the reference process sent an unexpected response');
      return answer.scores;
    },
    // A thread that runs ONNX Runtime must not be terminated from outside. The thread ends with this process, which
    // exists only for the comparison.
    close: async () => worker.unref(),
  };
}
