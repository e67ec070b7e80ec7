// A worker thread: loads one model version and scores what it is sent, one job after the other.
import { parentPort, workerData } from 'node:worker_threads';
import { asSluiceError } from '../core/errors.ts';
import type { FromWorker, ScoreJob, ToWorker, WorkerInit } from './protocol.ts';
import { Scorer } from './scorer.ts';

/** Runs the worker's side of the protocol on this thread; `intercept` sees every job before it is scored. */
export async function serveJobs(intercept?: (job: ScoreJob) => void | Promise<void>): Promise<void> {
  const port = parentPort!;
  const { model, batchRows, policy, verdict } = workerData as WorkerInit;
  const post = (message: FromWorker, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer);
  let scorer: Scorer;
  try {
    scorer = await Scorer.open(model, batchRows, policy, verdict);
  } catch (error) {
    const e = asSluiceError(error, 'model_invalid');
    post({ type: 'failed', code: e.code, message: e.message });
    port.close();
    return;
  }
  let tail = Promise.resolve();
  const handle = async (message: ToWorker): Promise<void> => {
    if (message.type === 'forget') scorer.forget(message.stream);
    else if (message.type === 'stop') {
      await scorer.evaluator.close();
      port.close();
    } else {
      await intercept?.(message);
      try {
        const part = await scorer.score(message);
        post({ type: 'scored', job: message.job, part }, [part.output]);
      } catch (error) {
        const e = asSluiceError(error, 'model_failed');
        post({ type: 'job_failed', job: message.job, code: e.code, message: e.message });
      }
    }
  };
  port.on('message', (message: ToWorker) => {
    tail = tail.then(() => handle(message));
  });
  post({ type: 'ready', evaluator: scorer.evaluator.name });
}
