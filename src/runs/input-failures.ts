// Failed inputs of a run: whether the next input is tried, and the error at the end.
import { type ErrorCode, SluiceError, toldError } from '../core/errors.ts';

/** Failures specific to one input's files; they say nothing about the next input. */
const OF_ITS_FILES = new Set<ErrorCode>([
  'input_not_found',
  'input_unreadable',
  'input_changed',
  'output_unwritable',
  'output_exists_as_folder',
]);

/** Whether the next input may go well where one ended like this; anything else ends the run. */
export const canContinueAfter = ({ code, entry }: SluiceError): boolean =>
  entry.fault === 'input' || OF_ITS_FILES.has(code);

/** Without the error itself: V8 keeps every object that is on its stack, with the pages of a table and all they hold. */
export interface InputFailure {
  input: string;
  code: ErrorCode;
  text: string;
}

export const inputFailure = (input: string, error: SluiceError): InputFailure => ({
  input,
  code: error.code,
  text: toldError(error),
});

/** Every input that failed, by name, and what became of the others. */
export function failureOf(
  failures: readonly InputFailure[],
  { inputs, tried }: { inputs: number; tried: number },
): SluiceError {
  const untried = inputs > tried ? `, ${inputs - tried} not tried after that` : '';
  const lines = failures.map(({ input, text }) => `  ${input}: ${text.replaceAll('\n', '\n  ')}`);
  // Stopped by the gate is only who was stopped by nothing else.
  const { code } = failures.findLast((failure) => failure.code !== 'gate_stopped') ?? failures.at(-1)!;
  return new SluiceError(
    code,
    `${failures.length} of ${inputs} inputs failed${untried}; the other outputs were published:\n${lines.join('\n')}`,
  );
}
