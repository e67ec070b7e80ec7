// The exit codes of every command, and which one an error ends with.
import type { SluiceError } from '../../core/errors.ts';

export const EXIT = {
  done: 0,
  /** Something went wrong, and nothing new is visible under a final name; of several inputs: nothing of those that are named. */
  failed: 1,
  /** The command line, a pipeline or a configuration is invalid: nothing was started. */
  usage: 2,
  /** Done, but rows were rejected; the rejects file is named. 0 with SLUICE_EXIT_REJECTED=0, for Kubernetes Jobs. */
  rejected: process.env.SLUICE_EXIT_REJECTED === '0' ? 0 : 3,
  /** Stopped by the gate, and nothing is published. */
  gate: 4,
} as const;

export function exitCodeOf(error: SluiceError): number {
  if (error.code === 'gate_stopped') return EXIT.gate;
  return error.code === 'usage' || error.code === 'folder_unusable' ? EXIT.usage : EXIT.failed;
}
