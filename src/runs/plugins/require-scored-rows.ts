// Fails an input in which no row was scored, so that its output does not replace an earlier good output.
import { SluiceError } from '../../core/errors.ts';
import type { RunCounts } from '../../engine/counts.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import type { RunPlugin } from '../plugin.ts';

/**
 * An input without rows is valid.
 * @throws SluiceError nothing_scored, with counts by error code and the first rejected rows
 */
export function refuseNothingScored({ rows, scored, rejectedByCode, details }: Readonly<RunCounts>): void {
  if (rows === 0 || scored > 0) return;
  const codes = Object.entries(rejectedByCode).map(([code, n]) => `${code} ${n}`);
  throw new SluiceError('nothing_scored', `no application could be scored: ${codes.join(', ')}`, { details });
}

/**
 * The same check for output to a terminal. A column that the model does not have is named by the input, so its name is
 * omitted.
 */
function refuseNothingScoredOf(manifest: Manifest): (counts: Readonly<RunCounts>) => void {
  const known = new Set(manifest.columns.map(({ name }) => name));
  return (counts) => {
    const details = counts.details.map(({ column, ...rest }) =>
      column !== undefined && known.has(column) ? { ...rest, column } : rest,
    );
    refuseNothingScored({ ...counts, details });
  };
}

export const requireScoredRowsPlugin: RunPlugin = {
  plan: ({ spec, model }) =>
    spec.allow_empty ? null : () => ({ beforeCommit: refuseNothingScoredOf(model.manifest) }),
};
