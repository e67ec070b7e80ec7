// A process that tries packages as a server does before it serves them. With a planted fault it does what must not happen, so
// that a test can show that it would notice.
import { SluiceError } from '../../src/core/errors.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { tryPackage } from '../../src/onboarding/trial.ts';

export type PlantedFault = 'crash' | 'hang' | 'accept' | 'throw' | 'answer-twice' | 'crash-later';

export interface TrialRequest {
  id: number;
  folder: string;
}

/** `code`: of a refusal; null: an error that is none. */
export type TrialAnswer = { id: number } & (
  | { type: 'accepted' }
  | { type: 'failed'; code: string | null; message: string }
);

async function tried({ id, folder }: TrialRequest, fault: PlantedFault | undefined): Promise<TrialAnswer> {
  if (fault === 'crash') process.abort();
  if (fault === 'accept') return { id, type: 'accepted' };
  while (fault === 'hang');
  try {
    if (fault === 'throw') throw new TypeError('a planted fault');
    await tryPackage(await loadPackage(folder));
    return { id, type: 'accepted' };
  } catch (error) {
    return { id, type: 'failed', code: error instanceof SluiceError ? error.code : null, message: String(error) };
  }
}

const fault = process.argv[2] as PlantedFault | undefined;
process.on('message', async (request: TrialRequest) => {
  const answer = await tried(request, fault);
  process.send!(answer);
  if (fault === 'answer-twice') process.send!(answer);
  if (fault === 'crash-later') setImmediate(() => process.abort());
});
process.on('disconnect', () => process.exit(0));
