// Refers the user from errors about an input's format to `sluice inspect`. Only the command line prints this hint.
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

/**
 * Runs `work`. If the format of the input is the reason for an error, `reportError` also prints the command that
 * inspects the input.
 */
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
  // The error of a pattern names its inputs, so the hint uses a placeholder.
  const file = isPattern(source.path) ? 'FILE' : shellWord(source.path);
  const from = registry === undefined ? '' : ` --registry ${shellWord(registry)}`;
  hints.set(error, `  run: sluice inspect ${file} --model ${shellWord(model)}${from}\n`);
}

/** The line that suggests `sluice inspect`; an empty text for errors without a hint. */
export const inspectionHint = (error: SluiceError): string => hints.get(error) ?? '';
