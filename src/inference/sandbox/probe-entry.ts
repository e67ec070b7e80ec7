// Entry point of a probe's process. The process protects its parent from damaged models.
import { asSluiceError, SluiceError } from '../../core/errors.ts';
import { endWithParent } from '../../core/processes.ts';
import { fromMessage, readModelBytes } from '../../model/package/model-package.ts';
import { type BoosterModel, boosterOf } from '../boosters/booster.ts';
import { readModel } from '../boosters/read-model.ts';
import { judgeModel } from '../evaluate/choose-evaluator.ts';
import { openNative } from '../evaluate/native/native-evaluator.ts';
import { planNative } from '../evaluate/native/native-plan.ts';
import { openReference } from '../evaluate/reference.ts';
import type { EvaluatorSession } from '../evaluate/session.ts';
import { servable } from '../onnx/servable.ts';
import type { ProbeAnswer, ProbeRequest } from './probe.ts';

/** Minimum size in bytes of a model for which loading it in a second thread is faster. */
const LARGE = 4 * 1024 * 1024;

let session: EvaluatorSession | null = null;
/** The training library's file that is open; null for an ONNX file. */
let booster: BoosterModel | null = null;
/** Sends an answer. Resolves when the answer is sent; until then, this thread must not block. */
const answer = (message: ProbeAnswer): Promise<void> =>
  new Promise((resolve) => process.send!(message, undefined, undefined, () => resolve()));

async function handle(request: ProbeRequest): Promise<ProbeAnswer> {
  if (request.type === 'open') {
    const before = process.memoryUsage.rss();
    const began = performance.now();
    const { openSession } = await import('../evaluate/session.ts');
    const model = readModel(request.bytes);
    booster = boosterOf(model) ? (model as BoosterModel) : null;
    session = await openSession(servable(model));
    return {
      type: 'opened',
      inputs: session.inputs,
      outputs: session.outputs,
      loadMs: performance.now() - began,
      memoryBytes: Math.max(0, process.memoryUsage.rss() - before),
    };
  }
  if (request.type === 'verdict') {
    const { policy, priority } = request;
    const model = await fromMessage(request.model);
    const { manifest } = model;
    const bytes = await readModelBytes(model);
    const reference = bytes.length > LARGE && priority === 'verdict' ? openReference : null;
    const verdict = await judgeModel(bytes, manifest, policy, {
      openAlongside: reference,
      onPlan: (plan) => answer({ type: 'compiled', plan }),
    });
    return { type: 'judged', verdict };
  }
  if (!session) throw new SluiceError('model_invalid', 'no model is open');
  if (request.type === 'run') {
    const results = [];
    for (const [from, to] of request.ranges) results.push(await session.run(request.inputs, from, to, request.outputs));
    return { type: 'ran', results };
  }
  const { inputs, rows, outputs, ms } = request;
  const single = session.inputs.some((i) => i.single);
  const native = booster && openNative(planNative(booster, outputs[0]!, inputs));
  let done = 0;
  const began = performance.now();
  do {
    if (native) native.scoreNow(inputs, rows);
    else if (single) for (let r = 0; r < rows; r++) await session.run(inputs, r, r + 1, outputs);
    else await session.run(inputs, 0, rows, outputs);
    done += rows;
  } while (performance.now() - began < ms);
  return {
    type: 'benched',
    rowsPerSecond: (done * 1000) / (performance.now() - began),
    memoryBytes: process.memoryUsage.rss(),
  };
}

process.on('message', (request: ProbeRequest) => {
  handle(request).then(answer, (error: unknown) => {
    const e = asSluiceError(error, 'model_invalid');
    return answer({ type: 'failed', code: e.code, message: e.message });
  });
});
endWithParent();
await answer({ type: 'ready' });
// All requests need ONNX Runtime, and the parent is often still preparing the first request. An error here is ignored,
// because it recurs when ONNX Runtime is used.
await import('../evaluate/session.ts').then((session) => session.warmUp()).catch(() => {});
