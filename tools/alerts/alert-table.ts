// The one table of alerts, and which of them say why others fire.
import { MODEL_ALERTS } from './model-alerts.ts';
import type { Alert } from './rule.ts';
import { RUN_ALERTS } from './run-alerts.ts';
import { SERVICE_ALERTS } from './service-alerts.ts';
import { TOPIC_ALERTS } from './topic-alerts.ts';

/** Group of rules → its alerts. */
export const ALERT_GROUPS: Readonly<Record<string, readonly Alert[]>> = {
  'sluice-topics': TOPIC_ALERTS,
  'sluice-runs': RUN_ALERTS,
  'sluice-models': MODEL_ALERTS,
  'sluice-service': SERVICE_ALERTS,
};

export const ALERTS: readonly Alert[] = Object.values(ALERT_GROUPS).flat();

export interface Inhibition {
  /** While this alert fires … */
  cause: string;
  /** … these are not told … */
  effects: readonly string[];
  /** … where these labels are the same. */
  equal: readonly string[];
}

const PROCESS = ['namespace', 'job', 'instance'] as const;

export const INHIBITIONS: readonly Inhibition[] = [
  { cause: 'SluiceErrorBudgetBurnFast', effects: ['SluiceErrorBudgetBurnSlow'], equal: ['namespace'] },
  { cause: 'SluiceCertificateExpiresSoon', effects: ['SluiceCertificateExpiring'], equal: ['namespace', 'use'] },
  {
    cause: 'SluicePipelineModelUnavailable',
    effects: ['SluicePipelinePaused', 'SluiceModelNotLoadable', 'SluiceNotReady'],
    equal: PROCESS,
  },
  { cause: 'SluicePipelinePaused', effects: ['SluiceNotReady'], equal: PROCESS },
  { cause: 'SluiceAuditFailed', effects: ['SluiceNotReady'], equal: PROCESS },
  {
    cause: 'SluicePipelineModelUnavailable',
    effects: ['SluiceLagGrowing'],
    equal: ['namespace', 'pipeline'],
  },
  { cause: 'SluicePipelinePaused', effects: ['SluiceLagGrowing'], equal: ['namespace', 'pipeline'] },
  {
    cause: 'SluiceNotReady',
    effects: ['SluiceLagGrowing', 'SluiceConsumerRestarts'],
    equal: ['namespace', 'pipeline'],
  },
  { cause: 'SluiceModelStale', effects: ['SluiceModelNotLoadable'], equal: [...PROCESS, 'model'] },
  {
    cause: 'SluiceUnseenCategories',
    effects: ['SluiceColumnDrift'],
    equal: ['namespace', 'model', 'column'],
  },
  {
    cause: 'SluiceRunColumnsDrifted',
    effects: ['SluiceRunColumnDrift'],
    equal: ['namespace', 'pipeline', 'model'],
  },
  { cause: 'SluiceMissingValues', effects: ['SluiceColumnDrift'], equal: ['namespace', 'model', 'column'] },
];
