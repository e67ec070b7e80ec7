// Entry point of the thread that `openReference` starts.
import { parentPort, workerData } from 'node:worker_threads';
import { asSluiceError } from '../../core/errors.ts';
import { openOnnxRuntime } from './onnxruntime.ts';
import type { ReferenceAnswer, ReferenceInit, ReferenceJob } from './reference.ts';

const port = parentPort!;
const post = (answer: ReferenceAnswer): void => port.postMessage(answer);
const fail = (error: unknown): void => {
  const { code, message } = asSluiceError(error, 'model_invalid');
  post({ type: 'failed', code, message });
};

const { model, manifest } = workerData as ReferenceInit;
try {
  const evaluator = await openOnnxRuntime(model, manifest);
  port.on('message', ({ inputs, rows }: ReferenceJob) => {
    evaluator.score(inputs, rows).then((scores) => post({ type: 'scored', scores }), fail);
  });
  post({ type: 'open' });
} catch (error) {
  fail(error);
}
