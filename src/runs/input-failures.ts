// Handles failed inputs of a run: decides whether to try the next input, and creates the error of the run.
import { type ErrorCode, SluiceError, toldError } from '../core/errors.ts';
import { faultOf } from '../core/log.ts';

/** Errors that concern the files of one input; the next input may succeed. */
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

/**
 * A failed input, without the error object: V8 retains every object that the error's stack refers to, such as the pages
 * of a table.
 */
export interface InputFailure {
  input: string;
  code: ErrorCode;
  text: string;
  /** The text for the log: one line, without values of applications. */
  logged: string;
}

export const inputFailure = (input: string, error: SluiceError): InputFailure => ({
  input,
  code: error.code,
  text: toldError(error),
  logged: faultOf(error),
});

/**
 * The error of a run with failed inputs: lists the failed inputs and the number of inputs that were not tried.
 * `withheldBy`: the earlier output because of which the other outputs were not published. `published`: whether this run
 * published any output.
 */
export function failureOf(
  failures: readonly InputFailure[],
  {
    inputs,
    tried,
    withheldBy,
    published,
  }: { inputs: number; tried: number; withheldBy: string | null; published: boolean },
): SluiceError {
  const untried = inputs > tried ? `, ${inputs - tried} not tried` : '';
  const lines = failures.map(({ input, text }) => `  ${input}: ${text.replaceAll('\n', '\n  ')}`);
  // The run fails with gate_stopped only if every failed input did.
  const { code } = failures.findLast((failure) => failure.code !== 'gate_stopped') ?? failures.at(-1)!;
  const others =
    withheldBy === null
      ? published
        ? 'the other outputs were published'
        : 'nothing was published'
      : `nothing was published, because the earlier output ${withheldBy} needs the current rejects file; put {name} in the path of the rejects file`;
  const headline = `${failures.length} of ${inputs} inputs failed${untried}; ${others}. Failed:`;
  const logged = failures.map((failure) => `${failure.input}: ${failure.logged}`);
  return new SluiceError(code, `${headline}\n${lines.join('\n')}`, { logMessage: `${headline} ${logged.join('; ')}` });
}
