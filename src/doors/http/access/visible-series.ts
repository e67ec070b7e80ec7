// The series of metrics that a key restricted to some models may see.
import { parseReference } from '../../../model/registry/registry.ts';
import type { SeriesFilter } from '../../../monitor/metric-families.ts';
import { type Identity, permits } from './identity.ts';

/** Answered without a key by /readyz and /livez. */
const PUBLIC = ['sluice_ready', 'sluice_build_info'];

/**
 * null: all of them. A restricted key sees the series of its models: series without a model describe the keys, the load and the jobs of
 * everybody.
 */
export function visibleSeries(identity: Identity): SeriesFilter | null {
  const all = identity.grants.some(({ scopes, models }) => models === undefined && scopes.includes('metrics'));
  if (all) return null;
  return (family, { model, reference }) =>
    PUBLIC.includes(family) || mayRead(identity, String(model ?? reference ?? ''));
}

function mayRead(identity: Identity, reference: string): boolean {
  try {
    return permits(identity, 'metrics', parseReference(reference).id);
  } catch {
    // No reference: a series without a model, or of a name that is none.
    return false;
  }
}
