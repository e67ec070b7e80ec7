// Tries a package before it is served, in a process with limits.
// So loading and scoring the package can neither delay nor crash this process.
import type { ChildProcess } from 'node:child_process';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { startTimer } from '../core/clock.ts';
import { entryFile } from '../core/entry-file.ts';
import { type ErrorCode, SluiceError } from '../core/errors.ts';
import { limitsFor, startLimited, type Watch, watchUsage } from '../inference/sandbox/limited-process.ts';
import { asMessage, type ModelPackage } from '../model/package/model-package.ts';
import { namesOf } from '../model/package/package-hash.ts';
import type { ModelDescription } from './describe.ts';

const MB = 2 ** 20;
/**
 * CPU seconds for starting Node.js, reading 1 MiB of YAML and scoring the rows of a self-test. `CPU_SECONDS_A_MB`:
 * additional seconds per MiB of the package.
 */
const CPU_SECONDS = 60;
const CPU_SECONDS_A_MB = 8;
/** Memory for the text files of a package, in addition to the memory for the model, bytes. */
const TEXT_MEMORY = 1024 * MB;
const HEAP_MB = 2048;
const PREPARED_FOR_BYTES = 64 * MB;

export type TrialRequest =
  | { type: 'package'; model: ModelPackage }
  /** `id`: the required model ID; null: any ID. */
  | { type: 'folder'; folder: string; id: string | null };

/** A package that passed the trial. It does not contain the categories that are stored in separate files. */
export interface Tried {
  model: ModelPackage;
  description: ModelDescription;
}

export type TrialAnswer =
  | { type: 'ready' }
  | { type: 'passed'; tried: Tried | null }
  | { type: 'failed'; code: ErrorCode; message: string };

/**
 * Loads a package and scores its self-test or an example application.
 * @throws SluiceError model_invalid | model_hash_mismatch | self_test_failed | cancelled
 */
export async function tryPackage(model: ModelPackage, signal?: AbortSignal): Promise<void> {
  const bytes = model.files.reduce((sum, file) => sum + file.bytes, 0);
  await runTrial({ type: 'package', model: asMessage(model) }, bytes, signal);
}

/**
 * Tries a package in an untrusted folder.
 * @param id the required model ID; null: any ID
 * @throws SluiceError model_invalid | model_hash_mismatch | self_test_failed | bad_request (the package has another ID)
 * | cancelled
 */
export async function tryFolder(folder: string, id: string | null, signal?: AbortSignal): Promise<Tried> {
  const sizes = await Promise.all((await namesOf(folder)).map(async (n) => (await stat(path.join(folder, n))).size));
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  return (await runTrial({ type: 'folder', folder, id }, bytes, signal))!;
}

async function runTrial(request: TrialRequest, bytes: number, signal?: AbortSignal): Promise<Tried | null> {
  const limits = {
    cpuSeconds: CPU_SECONDS + (CPU_SECONDS_A_MB * bytes) / MB,
    memoryBytes: limitsFor(Math.max(bytes, PREPARED_FOR_BYTES)).memoryBytes + TEXT_MEMORY,
  };
  const child = startLimited(entryFile('onboarding/trial-entry'), { ...limits, heapMb: HEAP_MB });
  try {
    return await answerOf(child, request, limits, signal);
  } finally {
    child.kill('SIGKILL');
  }
}

function answerOf(
  child: ChildProcess,
  request: TrialRequest,
  limits: { cpuSeconds: number; memoryBytes: number },
  signal: AbortSignal | undefined,
): Promise<Tried | null> {
  const { promise, resolve, reject } = Promise.withResolvers<Tried | null>();
  const refuse = (reason: string) => reject(new SluiceError('model_invalid', reason));
  child.on('message', (answer: TrialAnswer) => {
    if (answer.type === 'ready') child.send(request, (error) => error && startTimer(() => child.kill('SIGKILL'), 100));
    else if (answer.type === 'passed') resolve(answer.tried);
    else reject(new SluiceError(answer.code, answer.message));
  });
  child.on('exit', (code, by) =>
    refuse(
      `validating the package crashed its process (${by ?? `exit ${code}`}): the cause is its model or one of its files`,
    ),
  );
  child.on('error', (error) => refuse(`the validation process failed to start: ${error.message}`));
  const onAbort = () =>
    reject(new SluiceError('cancelled', 'the validation of the package did not finish', { cause: signal?.reason }));
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted) onAbort();
  const watch: Watch | null = child.pid === undefined ? null : watchUsage(child, limits, refuse);
  return promise.finally(() => {
    watch?.stop();
    signal?.removeEventListener('abort', onAbort);
  });
}
