// Reads a model file of any supported format: ONNX, or the format of a training library.
import { SluiceError } from '../../core/errors.ts';
import { type OnnxModel, readOnnx } from '../onnx/graph.ts';
import { readChecked } from '../trees/ensemble.ts';
import { type BoosterModel, boosterModel } from './booster.ts';
import { readCatBoost } from './catboost.ts';
import { readLightgbm } from './lightgbm.ts';
import { parseUbjson } from './ubjson.ts';
import { readXgboost } from './xgboost.ts';

/** Maximum size of a JSON file in bytes; V8 does not support longer strings. */
const MOST_JSON = 500_000_000;

const refuseJson = (what: string): SluiceError =>
  new SluiceError('model_invalid', `the JSON file is not a model: ${what} (docs/exporting.md)`);

/** File formats of training libraries. */
type BoosterFormat = 'lightgbm' | 'json' | 'ubjson';

/** The format of a training library's file, derived from its first bytes; null for any other file. */
export function boosterFormat(bytes: Uint8Array): BoosterFormat | null {
  const start = Buffer.from(bytes.subarray(0, 64)).toString('latin1');
  if (/^tree\r?\n/.test(start)) return 'lightgbm';
  if (start.startsWith('{') && /^\{\s*"/.test(start)) return 'json';
  // In UBJSON, the length of each key is preceded by its type.
  return /^\{[iULlI]/.test(start) ? 'ubjson' : null;
}

/**
 * Reads a model file. The tree ensembles of an ONNX file are not checked here; each ensemble is checked when it is
 * read.
 * @throws SluiceError model_invalid: the file is damaged, or contains a model that cannot be evaluated exactly; states
 * the reason
 */
export const readFileGraph = (bytes: Uint8Array): OnnxModel => readBooster(bytes) ?? readOnnx(bytes);

/** Reads a model file and checks all its trees before an evaluator gets the model. @throws SluiceError model_invalid */
export const readModel = (bytes: Uint8Array): OnnxModel => readBooster(bytes) ?? readChecked(bytes);

/** Returns null if the file is not that of a training library. @throws SluiceError model_invalid */
function readBooster(bytes: Uint8Array): BoosterModel | null {
  const format = boosterFormat(bytes);
  if (format === null) return null;
  if (format === 'lightgbm') return boosterModel(bytes, readLightgbm(bytes));
  if (format === 'ubjson') return boosterModel(bytes, readXgboost(parseUbjson(bytes)));
  if (bytes.length > MOST_JSON) throw refuseJson(`it has ${bytes.length} bytes; save XGBoost models as .ubj`);
  let json: unknown;
  try {
    json = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8'));
  } catch (cause) {
    throw refuseJson(`it cannot be parsed (${(cause as Error).message})`);
  }
  const value = json as Record<string, unknown>;
  if (value.learner !== undefined) return boosterModel(bytes, readXgboost(value));
  if (value.oblivious_trees !== undefined || value.trees !== undefined) return boosterModel(bytes, readCatBoost(value));
  throw refuseJson('it is neither a model of XGBoost (key learner) nor of CatBoost (key oblivious_trees)');
}
