// The worker's side of the protocol, in a thread or a process. A worker loads one model version and scores jobs one at
// a time. Between micro-batches, it checks for cancellation and reports progress.
import { flushCompileCache } from 'node:module';
import { setImmediate as turn } from 'node:timers/promises';
import { parentPort } from 'node:worker_threads';
import { monotonicMs } from '../core/clock.ts';
import { asSluiceError, SluiceError } from '../core/errors.ts';
import type { Explained } from '../core/explained-work.ts';
import { faultOf } from '../core/log.ts';
import { endWithParent } from '../core/processes.ts';
import { BYTES_PER_CORE, limitMemoPool, memoPoolUse } from '../inference/explain/memo-pool.ts';
import { fromMessage } from '../model/package/model-package.ts';
import {
  CancelledJobs,
  type FromWorker,
  type OpenModel,
  type PackedAnswer,
  type PackedJob,
  PROGRESS_MS,
  type ScoreJob,
  type ToWorker,
  unpacked,
} from './protocol.ts';
import { Scorer } from './scorer.ts';

interface Port {
  post(message: FromWorker): void;
  listen(hear: (message: ToWorker) => void): void;
  close(): void;
}

function threadPort(): Port {
  const port = parentPort!;
  return {
    post: (message) => port.postMessage(message, message.type === 'scored' ? [message.part.output] : []),
    listen: (hear) => {
      port.on('message', hear);
    },
    close: () => port.close(),
  };
}

/** Port of a process. The channel copies a result, so its buffer can be reused for the next result. */
function processPort(): Port {
  let recycled: ArrayBuffer | null = null;
  endWithParent();
  // A process cannot share the tables of effects that its parent holds.
  limitMemoPool(Math.min(BYTES_PER_CORE, memoPoolUse().limit));
  return {
    post: (message) => {
      let answer: PackedAnswer;
      if (message.type === 'scored') {
        const { output, length } = message.part;
        answer = { ...message, part: { ...message.part, output: new Uint8Array(output, 0, length) } };
        recycled = output;
      } else answer = message;
      process.send!(answer);
    },
    listen: (hear) => {
      process.on('message', (message: Exclude<ToWorker, ScoreJob> | PackedJob) => {
        if (message.type !== 'score') return hear(message);
        hear(unpacked(message, recycled));
        recycled = null;
      });
    },
    close: () => process.disconnect(),
  };
}

/** Serves jobs until the worker is terminated. `intercept` is called with every job before the job is scored. */
export async function serveJobs(intercept?: (job: ScoreJob) => void | Promise<void>): Promise<void> {
  const port = parentPort ? threadPort() : processPort();
  let cancelled = new CancelledJobs();
  let scorer: Scorer | null = null;
  const open = async (message: OpenModel): Promise<void> => {
    const { batchRows, policy, known } = message;
    if (message.cancelled) cancelled = new CancelledJobs(message.cancelled);
    try {
      scorer = await Scorer.open(await fromMessage(message.model), batchRows, policy, known);
      await scorer.tryOut();
      port.post({ type: 'ready', evaluator: scorer.evaluator.name });
      // The process is killed when it is no longer needed, so its compile cache must be flushed now.
      if (!parentPort) flushCompileCache();
    } catch (error) {
      const e = asSluiceError(error, 'model_invalid');
      port.post({ type: 'failed', code: e.code, message: e.message });
      if (parentPort) port.close();
    }
  };
  /** Returns the function that runs between two micro-batches. The function @throws SluiceError cancelled */
  const stepsOf = (job: number) => {
    let told = monotonicMs();
    return (explained: Explained) => {
      if (cancelled.has(job)) throw new SluiceError('cancelled', 'the job was cancelled');
      const now = monotonicMs();
      if (now - told < PROGRESS_MS) return;
      told = now;
      port.post({ type: 'progress', job, explained: { ...explained } });
    };
  };
  const score = async (job: ScoreJob, to: Scorer): Promise<void> => {
    await intercept?.(job);
    try {
      const step = stepsOf(job.job);
      // A process receives messages only between two turns of its event loop, so each step waits for a turn.
      const part = await to.score(job, parentPort ? step : (explained) => turn().then(() => step(explained)));
      port.post({ type: 'scored', job: job.job, part });
    } catch (error) {
      const e = error instanceof SluiceError ? error : new SluiceError('internal_error', faultOf(error));
      port.post({ type: 'job_failed', job: job.job, code: e.code, message: e.message });
    }
  };
  let tail = Promise.resolve();
  const handle = async (message: ToWorker): Promise<void> => {
    if (message.type === 'open') await open(message);
    else if (!scorer) return;
    else if (message.type === 'forget') scorer.forget(message.kind);
    else if (message.type === 'score') await score(message, scorer);
  };
  port.listen((message) => {
    if (message.type === 'cancel') cancelled.add(message.job);
    else tail = tail.then(() => handle(message));
  });
}
