// Reads model.yaml and checks it against its schema. A long file is read in a separate thread, so that a service stays
// responsive.
import { Worker } from 'node:worker_threads';
import { fits } from '../../config/schema.ts';
import type { Validated, YamlProblem } from '../../config/yaml-problem.ts';
import { keptYamlValue, readYamlValue } from '../../config/yaml-value.ts';
import { entryFile } from '../../core/entry-file.ts';
import { SluiceError } from '../../core/errors.ts';
import { type ColumnSpec, type Manifest, ManifestSchema } from './manifest.ts';

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
  return isManifest(value) && convertedTexts(value).length === 0 ? { ok: true, value } : readOnThread({ file, text });
}

/**
 * Reads model.yaml in this thread. The validator takes 30 MB and 100 ms, so it is imported only to explain an invalid
 * file.
 */
export async function readModelYamlHere({ file, text }: ModelYamlText): Promise<Validated<Manifest>> {
  const read = await readYamlValue(file, text);
  if (!read.ok) return read;
  if (isManifest(read.value)) {
    const problems = await alteredTexts(file, text, read.value);
    return problems.length > 0 ? { ok: false, problems } : { ok: true, value: read.value };
  }
  const { parseYaml } = await import('../../config/yaml-document.ts');
  return parseYaml(file, text, ManifestSchema);
}

/** A value that reaches the model as text, although YAML has read it as a number or a truth value. */
interface ConvertedText {
  path: string[];
  value: number | boolean;
}

function convertedTexts({ columns, inputs }: Manifest): ConvertedText[] {
  const ofTexts = new Set(inputs.flatMap((i) => (i.type === 'string' ? (i.columns ?? [i.column]) : [])));
  const values = (spec: ColumnSpec, index: string): [string[], string | number | boolean | undefined][] => [
    [['columns', index, 'missing', 'value'], spec.missing?.value],
    [['columns', index, 'unseen_value'], spec.unseen_value],
    [['columns', index, 'true_as'], spec.true_as],
    [['columns', index, 'false_as'], spec.false_as],
  ];
  return columns
    .flatMap((spec, index) => (ofTexts.has(spec.name) ? values(spec, String(index)) : []))
    .flatMap(([path, value]) => (value === undefined || typeof value === 'string' ? [] : [{ path, value }]));
}

/**
 * Rejects texts for the model that YAML would alter: `true_as: True` would become `true`, and `value: 1.50` would become
 * `1.5`. The model would treat them as other categories than the ones of its training.
 */
async function alteredTexts(file: string, text: string, manifest: Manifest): Promise<YamlProblem[]> {
  const converted = convertedTexts(manifest);
  if (converted.length === 0) return [];
  const { readYaml } = await import('../../config/yaml.ts');
  const read = readYaml(file, text, { asText: true });
  if (!read.ok) return read.problems;
  return converted.flatMap(({ path, value }) => {
    const written = path.reduce((at: unknown, key) => (at as Record<string, unknown>)[key], read.value);
    if (written === String(value)) return [];
    const [, index, ...keys] = path;
    const name = ['columns', manifest.columns[Number(index)]!.name, ...keys].join('.');
    return [
      read.atPath(path, `${name} is text for the model, and YAML reads ${written} as ${value}: put it in quotes`),
    ];
  });
}

async function readOnThread(workerData: ModelYamlText): Promise<Validated<Manifest>> {
  const { promise, resolve, reject } = Promise.withResolvers<Validated<Manifest>>();
  const failed = (cause: unknown) =>
    reject(new SluiceError('model_invalid', `${workerData.file} takes too much memory to read`, { cause }));
  const worker = new Worker(entryFile('model/package/model-yaml-entry'), {
    workerData,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  });
  worker.once('message', resolve).once('error', failed).once('exit', failed);
  return promise.finally(() => worker.terminate());
}
