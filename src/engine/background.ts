// The background sample and the covers of a package, read in the worker that explains with them.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../core/errors.ts';
import { type EncodedRows, encodeRows } from '../inference/encode/encode-rows.ts';
import type { Covers } from '../inference/explain/trees.ts';
import { readTable } from '../io/decode/table.ts';
import type { ModelPackage } from '../model/package/model-package.ts';

/** More background rows cost time without making the effects more accurate. */
const MAX_ROWS = 1000;

/** @throws SluiceError interpretation_unavailable */
export async function readBackground(model: ModelPackage): Promise<{ background: EncodedRows; covers: Covers | null }> {
  const { manifest } = model;
  const unavailable = (why: string, cause?: unknown): SluiceError =>
    new SluiceError('interpretation_unavailable', `${model.ref}: ${why}`, { cause });
  const file = (name: string): string => {
    const full = path.resolve(model.folder, name);
    if (!full.startsWith(model.folder + path.sep)) throw unavailable(`${name} must lie inside the package`);
    return full;
  };
  const { background, covers, method } = manifest.explain ?? {};
  if (background === undefined) throw unavailable('it has no background sample');
  let encoded: EncodedRows;
  try {
    const { header, rows } = readTable(await readFile(file(background)));
    const fields = manifest.columns.map((c) => header.indexOf(c.name));
    const lacking = manifest.columns.filter((_, i) => fields[i]! < 0).map((c) => c.name);
    if (lacking.length > 0) throw new Error(`${background} lacks ${lacking.join(', ')}`);
    const all = encodeRows(manifest, rows.slice(0, MAX_ROWS), fields);
    const valid = rows.slice(0, MAX_ROWS).filter((_, r) => !all.rejected.has(r));
    if (valid.length === 0) throw new Error(`${background} has no row the model takes`);
    encoded = encodeRows(manifest, valid, fields);
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw unavailable(cause instanceof Error ? cause.message : String(cause), cause);
  }
  if (covers === undefined || (method !== undefined && method !== 'tree_path_dependent')) {
    return { background: encoded, covers: null };
  }
  try {
    return { background: encoded, covers: JSON.parse(await readFile(file(covers), 'utf8')) as Covers };
  } catch (cause) {
    throw unavailable(`${covers} cannot be read`, cause);
  }
}
