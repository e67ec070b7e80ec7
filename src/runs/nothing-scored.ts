// An input of which not one row could be scored has failed: it must not take the place of a good output of yesterday.
import { SluiceError } from '../core/errors.ts';
import type { RunCounts } from '../engine/counts.ts';

/** An input without rows is in order. @throws SluiceError nothing_scored, with the reasons by code and the first rows */
export function refuseNothingScored({ rows, scored, rejectedByCode, details }: Readonly<RunCounts>): void {
  if (rows === 0 || scored > 0) return;
  const codes = Object.entries(rejectedByCode).map(([code, n]) => `${code} ${n}`);
  throw new SluiceError('nothing_scored', `no application could be scored: ${codes.join(', ')}`, { details });
}
