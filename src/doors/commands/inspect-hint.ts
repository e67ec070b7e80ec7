// Points from errors about the form of an input to `sluice inspect`. Only the command line prints this hint.
import { type ErrorCode, SluiceError } from '../../core/errors.ts';
import { isPattern } from '../../core/file-names.ts';
import { shellWord } from '../../core/shell-word.ts';
import type { RunSpec } from '../../runs/spec.ts';

const FORM_ERRORS = new Set<ErrorCode>([
  'header_mismatch',
  'wrong_delimiter',
  'invalid_encoding',
  'invalid_utf8',
  'foreign_content',
  'nothing_scored',
]);

const hints = new WeakMap<SluiceError, string>();

interface InspectedRun {
  spec: RunSpec;
  registry: string | undefined;
}

/** Runs `work`. If the form of the input ends it, `reportError` also prints the command that inspects the input. */
export async function hintingAtInspection<T>(run: InspectedRun, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SluiceError) rememberInspection(error, run);
    throw error;
  }
}

function rememberInspection(error: SluiceError, { spec: { source, model }, registry }: InspectedRun): void {
  if (!FORM_ERRORS.has(error.code) || source.type !== 'file') return;
  // The error of several inputs names each of them.
  const file = isPattern(source.path) ? 'FILE' : shellWord(source.path);
  const from = registry === undefined ? '' : ` --registry ${shellWord(registry)}`;
  hints.set(error, `  run: sluice inspect ${file} --model ${shellWord(model)}${from}\n`);
}

/** The line about `sluice inspect`, or an empty text. */
export const inspectionHint = (error: SluiceError): string => hints.get(error) ?? '';
