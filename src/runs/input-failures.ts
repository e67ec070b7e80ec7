// Handles failed inputs of a run: decides whether to try the next input, and builds the error of the run.
import { type ErrorCode, SluiceError, toldError } from '../core/errors.ts';
import { faultOf } from '../core/log.ts';

/** Errors of one input's files that do not predict the result of the next input. */
const OF_ITS_FILES = new Set<ErrorCode>([
  'input_not_found',
  'input_unreadable',
  'input_changed',
  'output_unwritable',
  'output_exists_as_folder',
]);

/** Whether the next input should be tried after this error. Any other error ends the run. */
export const canContinueAfter = ({ code, entry }: SluiceError): boolean =>
  entry.fault === 'input' || OF_ITS_FILES.has(code);

/** A failed input without its error object: V8 would keep every object on the error's stack, including the pages of a table. */
export interface InputFailure {
  input: string;
  code: ErrorCode;
  text: string;
  /** The same without values of applications, on one line. */
  logged: string;
}

export const inputFailure = (input: string, error: SluiceError): InputFailure => ({
  input,
  code: error.code,
  text: toldError(error),
  logged: faultOf(error),
});

/** The error of a run with failed inputs: lists each of them and how many inputs were not tried. */
export function failureOf(
  failures: readonly InputFailure[],
  { inputs, tried }: { inputs: number; tried: number },
): SluiceError {
  const untried = inputs > tried ? `, ${inputs - tried} not tried after that` : '';
  const lines = failures.map(({ input, text }) => `  ${input}: ${text.replaceAll('\n', '\n  ')}`);
  // The run's code is gate_stopped only if no input failed with another error.
  const { code } = failures.findLast((failure) => failure.code !== 'gate_stopped') ?? failures.at(-1)!;
  const headline = `${failures.length} of ${inputs} inputs failed${untried}; the other outputs were published. Failed:`;
  const logged = failures.map((failure) => `${failure.input}: ${failure.logged}`);
  return new SluiceError(code, `${headline}\n${lines.join('\n')}`, { logMessage: `${headline} ${logged.join('; ')}` });
}
