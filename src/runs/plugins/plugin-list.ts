// The features of a run, in the order in which their hooks run. A new feature is a plugin and a line here.
import type { RunPlugin } from '../plugin.ts';
import { alreadyScoredPlugin } from './already-scored.ts';
import { checkpointsPlugin } from './checkpoints.ts';
import { gatePlugin } from './input-gate.ts';
import { manifestPlugin } from './output-manifest.ts';
import { requireScoredRowsPlugin } from './require-scored-rows.ts';
import { shardPartPlugin } from './shard-part.ts';

/** Compares the rows read with the totals that the sender of the input states. */
const controlTotalsPlugin: RunPlugin = {
  plan: () => () => ({ beforeCommit: ({ rows }, { source }) => source.checkTotals?.(rows) }),
};

export const PLUGINS: readonly RunPlugin[] = [
  // May skip the step: nothing else is opened then.
  alreadyScoredPlugin,
  // Finds the interrupted run that the plugins below continue.
  checkpointsPlugin,
  manifestPlugin,
  shardPartPlugin,
  // These may prevent publication, the plainest reason first.
  controlTotalsPlugin,
  requireScoredRowsPlugin,
  gatePlugin,
];
