// The entry point of the process in which a package is tried.
import { asSluiceError, SluiceError } from '../core/errors.ts';
import { endWithParent } from '../core/processes.ts';
import { readModel } from '../inference/boosters/read-model.ts';
import { openSession } from '../inference/evaluate/session.ts';
import { servable } from '../inference/onnx/servable.ts';
import { loadPackage } from '../model/package/load-package.ts';
import { asMessage, fromMessage } from '../model/package/model-package.ts';
import { describeModel } from './describe.ts';
import type { TrialAnswer, TrialRequest } from './trial.ts';
import { type OpenProbe, passSelfTest } from './verify.ts';

/**
 * Runs the model in this process. This is safe, because the process has the limits of a probe and ends after the trial.
 */
const openHere: OpenProbe = async (bytes) => {
  const session = await openSession(servable(readModel(bytes)));
  const { inputs, outputs } = session;
  return {
    opened: { inputs, outputs, loadMs: 0, memoryBytes: 0 },
    run: async (rows, ranges, wanted) => {
      const results = [];
      for (const [from, to] of ranges) results.push(await session.run(rows, from, to, wanted));
      return results;
    },
    close: () => {},
  };
};

async function handle(request: TrialRequest): Promise<TrialAnswer> {
  if (request.type === 'package') {
    await passSelfTest(await fromMessage(request.model), openHere);
    return { type: 'passed', tried: null };
  }
  const model = await loadPackage(request.folder);
  const { id } = model.manifest;
  if (request.id !== null && id !== request.id)
    throw new SluiceError('bad_request', `modelId: the package does not contain the model ${request.id}`);
  await passSelfTest(model, openHere);
  return { type: 'passed', tried: { model: asMessage(model), description: describeModel(model, undefined) } };
}

process.on('message', (request: TrialRequest) => {
  handle(request).then(
    (answer) => process.send!(answer),
    (error: unknown) => {
      const { code, message } = asSluiceError(error, 'model_invalid');
      process.send!({ type: 'failed', code, message } satisfies TrialAnswer);
    },
  );
});
endWithParent();
process.send!({ type: 'ready' } satisfies TrialAnswer);
