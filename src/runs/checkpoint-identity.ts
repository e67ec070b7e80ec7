// What a run is, so that one which was interrupted is gone on with only by the same run: input, package, options and versions.
import path from 'node:path';
import { isColumnar } from '../core/file-format.ts';
import { VERSION } from '../core/version.ts';
import { blockBytesOf } from '../engine/score-chunks.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { Endpoint } from './endpoints.ts';
import type { FileRunSpec } from './spec.ts';
import { storedSize } from './stored.ts';

/** Plain data, by what is told of a difference: "the input", "the package", the name of an option, "the version of Sluice". */
export type RunIdentity = Record<string, unknown>;

/** Keys of a spec that never change a byte of the output. */
const WITHOUT_EFFECT = new Set(['path', 'workers', 'batch_rows', 'batch_wait_ms']);

export interface IdentifiedRun {
  spec: FileRunSpec;
  model: ModelPackage;
  input: Endpoint;
  output: Endpoint;
  /** Path of the list of rejected rows; null: there is none. */
  list: string | null;
}

/** @throws SluiceError model_invalid; Error of the file system */
export async function identityOf({ spec, model, input, output, list }: IdentifiedRun): Promise<RunIdentity> {
  const { source, sink, dead_letter, score, on_invalid, allow_empty, list_only_if_any, tuning } = spec;
  const beside = list === null ? null : path.relative(path.dirname(path.resolve(output.name)), path.resolve(list));
  return {
    'the name of the input': input.name,
    // What a query answers tells its content.
    ...(input.query ? {} : { 'the size of the input': await storedSize(input.name) }),
    'the model': model.ref,
    'the content of its package': model.sha256,
    ...flat('source', { ...source, ...input, name: undefined }),
    ...flat('sink', { ...sink, ...output, name: undefined }),
    ...flat('dead_letter', { ...dead_letter, beside, list_only_if_any }),
    ...flat('score', score),
    on_invalid,
    allow_empty: allow_empty ?? false,
    'the bytes of a block': tuning?.blockBytes ?? blockBytesOf(isColumnar(input.format)),
    // They were cut, and told from others, as lines of text once.
    ...(isColumnar(input.format) ? { 'what tells a table from others': 'its cells' } : {}),
    'whether a manifest is left': spec.manifest !== false,
    'the version of Sluice': VERSION,
    // Compressors and the text of numbers are of the runtime.
    'the version of Node': process.version,
  };
}

/** The settings in a part of a spec by their whole names. */
function flat(prefix: string, part: object): RunIdentity {
  const found: RunIdentity = {};
  for (const [key, value] of Object.entries(part)) {
    // Further inside keys may be names of columns.
    if (value === undefined || (!prefix.includes('.') && WITHOUT_EFFECT.has(key))) continue;
    const name = `${prefix}.${key}`;
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) Object.assign(found, flat(name, value));
    else found[name] = value;
  }
  return found;
}

/** What is not the same in two runs, by name. */
export function differencesOf(before: RunIdentity, now: RunIdentity): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...names].filter((name) => JSON.stringify(before[name]) !== JSON.stringify(now[name]));
}
