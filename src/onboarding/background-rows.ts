// The applications that effects are measured against: a sample of the training table, or rows that were given, such as approved
// applications near the cut-off.
import path from 'node:path';
import { encodeRows } from '../inference/encode/encode-rows.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { Draft } from './draft.ts';
import { plural, refusal } from './findings.ts';
import { pickRows } from './package-files.ts';

const BACKGROUND_ROWS = 100;

export interface BackgroundRows {
  readonly rows: readonly (readonly string[])[];
  /** Per column of the manifest: its field in a row. */
  readonly fields: readonly number[];
  /** Whose rows they are, in words. */
  readonly of: string;
}

/**
 * `valid`: rows of the training table that the encoding takes.
 * @throws SluiceError registration_refused: the file lacks a column, or the encoding takes none of its rows
 */
export function backgroundOf(draft: Draft, manifest: Manifest, valid: readonly (readonly string[])[]): BackgroundRows {
  const { background, backgroundRows = BACKGROUND_ROWS } = draft.options;
  if (!background) return { rows: pickRows(valid, backgroundRows), fields: draft.fields, of: 'the training table' };
  const name = path.basename(background.file);
  const lacking = manifest.columns.filter((c) => !background.header.includes(c.name)).map((c) => c.name);
  if (lacking.length > 0) throw refusal(`--background ${name} lacks ${lacking.join(', ')}`);
  const fields = manifest.columns.map((c) => background.header.indexOf(c.name));
  const { rejected } = encodeRows(manifest, background.rows, fields);
  const taken = background.rows.filter((_, r) => !rejected.has(r));
  if (taken.length === 0) throw refusal(`the encoding takes no row of --background ${name}`);
  if (rejected.size > 0)
    draft.findings.warn(`${plural(rejected.size, 'row')} of --background ${name} would be rejected and are left out`);
  return { rows: pickRows(taken, backgroundRows), fields, of: name };
}
