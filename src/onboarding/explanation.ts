// Chooses the explanation method of a draft, by trying to build an explainer, and the background rows for effects.
import path from 'node:path';
import { SluiceError } from '../core/errors.ts';
import { encodeRows } from '../inference/encode/encode-rows.ts';
import { DEFAULT_PAIRS } from '../inference/explain/budget.ts';
import { createExplainer } from '../inference/explain/choose-explainer.ts';
import { type Explainer, NotExplainable } from '../inference/explain/explainer.ts';
import type { Covers } from '../inference/explain/trees.ts';
import { probeEvaluator } from '../inference/sandbox/sample-scorer.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { Draft } from './draft.ts';
import { pickRows } from './package-files.ts';
import { plural, type Report, refusal } from './report-card.ts';

// Background rows are a sample of the training table, or rows that the user supplies.

const BACKGROUND_ROWS = 100;

interface BackgroundRows {
  readonly rows: readonly (readonly string[])[];
  /** For each column of the manifest, its field index in a row. */
  readonly fields: readonly number[];
  /** Description of the source of the rows. */
  readonly of: string;
}

/**
 * Chooses the background rows. `valid`: rows of the training table that the encoding accepts.
 * @throws SluiceError registration_refused if the file of the user lacks a column, or the encoding rejects all its rows
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
  if (taken.length === 0) throw refusal(`the encoding rejects every row of --background ${name}`);
  if (rejected.size > 0)
    draft.findings.warn(`${plural(rejected.size, 'row')} of --background ${name} would be rejected and are left out`);
  return { rows: pickRows(taken, backgroundRows), fields, of: name };
}

/** The names of the files with the background sample and with the covers, as in the manifest. */
export const BACKGROUND_FILE = 'background.csv';
export const COVERS_FILE = 'covers.json';

interface ChosenExplanation {
  readonly explain: NonNullable<Manifest['explain']>;
  readonly interpretation: NonNullable<Report['interpretation']>;
}

/** Chooses the method. @throws SluiceError registration_refused | usage */
export async function chooseExplanation(
  draft: Draft,
  manifest: Manifest,
  background: BackgroundRows,
): Promise<ChosenExplanation> {
  const { options, bytes, probe, findings } = draft;
  const explain: NonNullable<Manifest['explain']> = { background: BACKGROUND_FILE };
  let covers: Covers | null = null;
  if (options.covers) {
    covers = readCovers(options.covers);
    explain.covers = COVERS_FILE;
    explain.method = 'tree_path_dependent';
  }
  const encoded = encodeRows(manifest, background.rows, background.fields);
  const { explainer, reasons } = await createExplainer({
    bytes,
    manifest: { ...manifest, explain },
    evaluator: probeEvaluator(probe, manifest),
    background: encoded,
    covers,
  }).catch((cause) => {
    throw cause instanceof NotExplainable ? refusal(`interpretation: ${cause.message}`) : cause;
  });
  const { method, space } = explainer;
  findings.info(summary(explainer, reasons, `${encoded.rows} rows of ${background.of}`));
  if (manifest.task === 'binary') {
    findings.assumed(
      'reason codes are the names of the columns; set codes and texts with --policy (reasons: {column: {code, text}}, or none)',
    );
  }
  return {
    explain: { ...explain, method, space, ...(method === 'sampling' ? { pairs: DEFAULT_PAIRS } : {}) },
    interpretation: { method, space, reasons },
  };
}

function summary({ method, space }: Explainer, reasons: readonly string[], rows: string): string {
  return method === 'sampling'
    ? `Effects are estimated by sampling, with standard errors: ${reasons.join('; ')}.`
    : `Effects of the columns are exact (${method}), in ${space}, against ${rows}.`;
}

function readCovers(text: string): Covers {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new SluiceError('usage', `--covers: ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
  const lists = typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.values(value) : [];
  if (lists.length === 0 || !lists.every((l) => Array.isArray(l) && l.every((n) => typeof n === 'number')))
    throw new SluiceError('usage', '--covers takes {"<tree id>": [training rows at node 0, 1, …]}');
  return value as Covers;
}
