// The exit codes of all commands, and the exit code for each error.
import type { SluiceError } from '../../core/errors.ts';

export const EXIT = {
  done: 0,
  /**
   * The command failed and published nothing new. With several inputs, this applies only to the inputs that the message
   * names.
   */
  failed: 1,
  /** The command line, a pipeline or a configuration is invalid. Nothing was started. */
  usage: 2,
  /**
   * The run succeeded, but rows were rejected; the message names the rejects file. With SLUICE_EXIT_REJECTED=0, the
   * code is 0, for Kubernetes Jobs.
   */
  rejected: process.env.SLUICE_EXIT_REJECTED === '0' ? 0 : 3,
  /** The command found something that a person must decide, such as an open question in `inspect`. */
  undecided: 3,
  /** The gate stopped an input, which is not published. */
  gate: 4,
} as const;

export function exitCodeOf(error: SluiceError): number {
  if (error.code === 'gate_stopped') return EXIT.gate;
  return error.code === 'usage' || error.code === 'folder_unusable' ? EXIT.usage : EXIT.failed;
}
