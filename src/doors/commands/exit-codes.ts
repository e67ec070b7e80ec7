// The exit codes of all commands, and the exit code for each error.
import type { SluiceError } from '../../core/errors.ts';

export const EXIT = {
  done: 0,
  /** The command failed, and nothing new is published. With several inputs, this applies to the inputs named in the message. */
  failed: 1,
  /** The command line, a pipeline or a configuration is invalid; nothing was started. */
  usage: 2,
  /** The run succeeded, but rows were rejected; the message names the rejects file. 0 with SLUICE_EXIT_REJECTED=0, for Kubernetes Jobs. */
  rejected: process.env.SLUICE_EXIT_REJECTED === '0' ? 0 : 3,
  /** The command found something that a person must decide, such as an open question of `inspect`. */
  undecided: 3,
  /** Stopped by the gate; nothing is published. */
  gate: 4,
} as const;

export function exitCodeOf(error: SluiceError): number {
  if (error.code === 'gate_stopped') return EXIT.gate;
  return error.code === 'usage' || error.code === 'folder_unusable' ? EXIT.usage : EXIT.failed;
}
