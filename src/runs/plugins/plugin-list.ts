// The features of a run with their options, in the order in which their hooks run. Flags, pipeline keys, checks and
// help are derived from this list.
import { amount } from '../../config/options/describe-option.ts';
import { feature, type OptionsOf, type RunPlugin } from '../plugin.ts';

/** Compares the number of rows read with the control totals of the sender. */
const controlTotalsPlugin: RunPlugin = {
  plan: () => () => ({ beforeCommit: ({ rows }, { source }) => source.checkTotals?.(rows) }),
};

export const FEATURES = [
  // Can skip the step; later plugins are then not opened for it.
  feature({}, async () => (await import('./already-scored.ts')).alreadyScoredPlugin),
  // Finds the interrupted run, which the plugins below resume.
  feature(
    {
      checkpoint_every: {
        schema: amount(
          'seconds between two checkpoints, from which an interrupted run can resume (if input and output are files); 0: no checkpoints',
          [0, 86_400],
          { default: 5 },
        ),
        value: 'seconds',
        notForShards: 'an interrupted shard is scored again from its beginning',
      },
    },
    async () => (await import('./checkpoints.ts')).checkpointsPlugin,
  ),
  feature({}, async () => (await import('./output-manifest.ts')).manifestPlugin),
  feature({}, async () => (await import('./shard-part.ts')).shardPartPlugin),
  // These plugins can prevent publication. The plugin whose error is simplest comes first.
  feature({}, async () => controlTotalsPlugin),
  feature({}, async () => (await import('./require-scored-rows.ts')).requireScoredRowsPlugin),
  feature({}, async () => (await import('./input-gate.ts')).gatePlugin),
] as const;

/** The options of all features. */
export const RUN_OPTIONS = Object.assign({}, ...FEATURES.map(({ options }) => options)) as OptionsOf<typeof FEATURES>;
