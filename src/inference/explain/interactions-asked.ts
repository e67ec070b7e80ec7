// Which methods tell what pairs of columns make together, known before anything is computed: doors refuse the others.
import { SluiceError } from '../../core/errors.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import type { Method } from './explainer.ts';

/** `Explainer.interactions` of no other method is there; of this one not for averages of several models. */
const hasInteractions = (method: Method): boolean => method === 'tree_interventional';

/** Pairs of columns that an answer of a model of `columns` columns has room for, at most. */
export const pairsTold = (interactions: number | undefined, columns: number): number =>
  Math.min(interactions ?? 0, (columns * (columns - 1)) / 2);

export function noInteractions({ id, version }: { id: string; version: string | number }, method: Method): SluiceError {
  const why =
    method === 'linear'
      ? 'has no interactions: a linear model adds up what each column makes alone, and averages of several know no pairs'
      : hasInteractions(method)
        ? 'has no interactions for averages of several models'
        : 'has no interactions: they are exact, and of tree_interventional only';
  return new SluiceError('interpretation_unavailable', `${id}:${version}: the method ${method} ${why}`);
}

/** Why a package tells none of the pairs that are asked for; null: it does, or does not say before it is opened. */
export function pairsRefused(manifest: Manifest, interactions: number | undefined): SluiceError | null {
  const method = manifest.explain?.method;
  return !interactions || method === undefined || hasInteractions(method) ? null : noInteractions(manifest, method);
}
