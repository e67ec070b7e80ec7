// A worker thread: loads one model version and scores what it is sent, one job after the other.
import { parentPort } from 'node:worker_threads';
import { asSluiceError } from '../core/errors.ts';
import type { FromWorker, OpenModel, ScoreJob, ToWorker } from './protocol.ts';
import { Scorer } from './scorer.ts';

/** Runs the worker's side of the protocol on this thread; `intercept` sees every job before it is scored. */
export async function serveJobs(intercept?: (job: ScoreJob) => void | Promise<void>): Promise<void> {
  const port = parentPort!;
  const post = (message: FromWorker, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer);
  let scorer: Scorer | null = null;
  const open = async ({ model, batchRows, policy, known }: OpenModel): Promise<void> => {
    try {
      scorer = await Scorer.open(model, batchRows, policy, known);
      post({ type: 'ready', evaluator: scorer.evaluator.name });
    } catch (error) {
      const e = asSluiceError(error, 'model_invalid');
      post({ type: 'failed', code: e.code, message: e.message });
      port.close();
    }
  };
  let tail = Promise.resolve();
  const handle = async (message: ToWorker): Promise<void> => {
    if (message.type === 'open') await open(message);
    else if (!scorer) return;
    else if (message.type === 'forget') scorer.forget(message.kind);
    else {
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
}
