// Reads model.yaml and checks it against its schema. A long file is read in a separate thread, so that a service stays
// responsive.
import { Worker } from 'node:worker_threads';
import { fits } from '../../config/schema.ts';
import type { Validated } from '../../config/yaml-problem.ts';
import { keptYamlValue, readYamlValue } from '../../config/yaml-value.ts';
import { SluiceError } from '../../core/errors.ts';
import { type Manifest, ManifestSchema } from './manifest.ts';

/**
 * Maximum length in characters of a text that is read without a thread. Reading such a text takes about as long as
 * starting a thread.
 */
const SHORT = 64 * 1024;
/** Heap of the thread in MB. 1 MiB of YAML that consists only of errors needs less. */
const HEAP_MB = 2048;

/** The data with which the thread is started. */
export interface ModelYamlText {
  file: string;
  text: string;
}

const isManifest = (value: unknown): value is Manifest => fits(ManifestSchema, value);

/** `file`: the name of the file in messages. @throws SluiceError model_invalid: reading takes too much memory */
export async function readModelYaml(file: string, text: string): Promise<Validated<Manifest>> {
  if (text.length <= SHORT) return readModelYamlHere({ file, text });
  const value = await keptYamlValue(text);
  return isManifest(value) ? { ok: true, value } : readOnThread({ file, text });
}

/**
 * Reads model.yaml in this thread. The validator takes 30 MB and 100 ms, so it is imported only to explain an invalid
 * file.
 */
export async function readModelYamlHere({ file, text }: ModelYamlText): Promise<Validated<Manifest>> {
  const read = await readYamlValue(file, text);
  if (!read.ok) return read;
  if (isManifest(read.value)) return { ok: true, value: read.value };
  const { parseYaml } = await import('../../config/yaml-document.ts');
  return parseYaml(file, text, ManifestSchema);
}

async function readOnThread(workerData: ModelYamlText): Promise<Validated<Manifest>> {
  const own = import.meta.url.endsWith('.ts') ? './model-yaml-entry.ts' : './model-yaml-entry.js';
  const { promise, resolve, reject } = Promise.withResolvers<Validated<Manifest>>();
  const failed = (cause: unknown) =>
    reject(new SluiceError('model_invalid', `${workerData.file} takes too much memory to read`, { cause }));
  const worker = new Worker(new URL(own, import.meta.url), {
    workerData,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  });
  worker.once('message', resolve).once('error', failed).once('exit', failed);
  return promise.finally(() => worker.terminate());
}
