// Opens what a registration starts from: the ONNX file, checked before ONNX Runtime sees it, the training table and a probe.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { SluiceError } from '../core/errors.ts';
import { readOnnx } from '../inference/onnx/graph.ts';
import { refusals } from '../inference/onnx/refusals.ts';
import { Probe } from '../inference/sandbox/probe.ts';
import type { RegisterOptions, Sources } from './draft.ts';
import { Findings, refusal } from './findings.ts';
import { readTrainingTable } from './training-table.ts';

/** First bytes of files that are often mistaken for ONNX. */
const NOT_ONNX: readonly (readonly [string, string])[] = [
  ['version https://git-lfs', 'a Git LFS pointer (git lfs pull fetches the file itself)'],
  ['PK', 'a zip archive (PyTorch, Keras or skops?)'],
  ['\x80\x03', 'a Python pickle'],
  ['\x80\x04', 'a Python pickle'],
  ['\x80\x05', 'a Python pickle'],
  ['<', 'a web page or XML (PMML?)'],
  ['{', 'JSON (a model of XGBoost or CatBoost?)'],
  ['tree\n', 'a text model of LightGBM'],
  ['\x89HDF', 'an HDF5 file (Keras?)'],
  ['\x1f\x8b', 'compressed'],
];

/**
 * The caller closes the probe.
 * @throws SluiceError input_not_found | model_invalid | registration_refused | training_data_invalid
 */
export async function openSources(options: RegisterOptions): Promise<Sources> {
  const bytes = await readFile(options.onnxFile).catch((cause) => {
    throw new SluiceError('input_not_found', `${options.onnxFile} cannot be opened`, { cause });
  });
  const other = NOT_ONNX.find(([magic]) => bytes.subarray(0, 64).toString('latin1').startsWith(magic));
  if (other) throw new SluiceError('model_invalid', `${options.onnxFile} is ${other[1]}, not an ONNX file`);
  const model = readOnnx(bytes);
  const reasons = refusals(model);
  if (reasons.length > 0) throw refusal(reasons.join('\n'));
  const codes = new Map(Object.entries(options.encoding?.codes ?? {}));
  const coded = (column: string) => Object.keys(codes.get(column) ?? {}).length;
  const table = await readTrainingTable(options.trainingFile, options.delimiter, coded);
  return {
    options,
    bytes,
    sha256: createHash('sha256').update(bytes).digest('hex'),
    model,
    table,
    probe: await Probe.open(bytes),
    findings: new Findings(),
  };
}
