// The interface of explanation methods: takes encoded applications, returns one effect per column and output. Also
// defines which methods support interactions.
import { SluiceError } from '../../core/errors.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import type { EncodedInput } from '../encode/encoder.ts';

export type Method = 'tree_interventional' | 'tree_path_dependent' | 'linear' | 'exact' | 'sampling';

/** The space in which effects add up. */
export type Space = 'log_odds' | 'probability' | 'value';

/**
 * Effects of the package's columns on `outputs` outputs. Binary models (positive class), regression and score have one
 * output; models with several classes have one per class.
 */
export interface Effects {
  /** Row-major: rows × outputs × columns. */
  readonly values: Float64Array;
  /** Sum of base and effects, computed from the model itself: rows × outputs. */
  readonly margins: Float64Array;
  /** Largest standard error among each row's effects; null if the method is exact. */
  readonly errors: Float64Array | null;
  /** Number of rows that the model scored for the effects. */
  readonly evaluations: number;
}

/**
 * Called repeatedly while effects are computed, at least once per batch of evaluations. Receives the progress since the
 * last call: rows (possibly a fraction) and evaluations. The function may wait; an error thrown by it ends the
 * computation.
 */
export type OnExplained = (rows: number, evaluations: number) => void | Promise<void>;

export interface Explainer {
  readonly method: Method;
  readonly space: Space;
  readonly outputs: number;
  /** Maximum number of rows that the model scores for one explanation; 0 if the method does not evaluate the model. */
  readonly questions: number;
  /**
   * Set if a row can take milliseconds although the model is not evaluated. Such work belongs in a worker, not in the
   * thread that serves requests.
   */
  readonly lengthy?: true;
  /** The base value of each output. */
  readonly base: Float64Array;
  /**
   * Computes the effects for `rows`, which are positions in the inputs. The next call overwrites the result.
   * @throws SluiceError model_failed
   */
  explain(inputs: readonly EncodedInput[], rows: readonly number[], onExplained?: OnExplained): Promise<Effects>;
  /**
   * The margins of the first `rows` rows, with the same bits as in `explain`. Only methods that can compute margins
   * more cheaply than effects have this function. The next call overwrites the result.
   */
  margins?(inputs: readonly EncodedInput[], rows: number): Float64Array;
  /**
   * Shapley interaction indices of all pairs of columns, in the space of the effects: rows × outputs × pairs, in the
   * order of `pairIndex`. Only methods that compute the indices exactly have this function. A SHAP interaction value is
   * half of an index.
   */
  interactions?(inputs: readonly EncodedInput[], rows: readonly number[]): Float64Array;
}

/** The reason why a method cannot be used for a model; the next method is then tried. */
export class NotExplainable extends Error {}

// Codes for rows without interpretation. The codes are defined here because formatters need them, and plain predictions
// must not load the explanation methods.
/** The row was not selected for interpretation. */
export const NOT_ASKED = -1;
/** Base and effects of the row do not add up to the model's output. */
export const INEXACT = -2;
/** Interpreting the row failed: it crashed its worker, exceeded its time limit, or threw. */
export const FAILED = -3;

// Checks of requested interactions, which entry points call before anything is computed.

/** Whether a method supports interactions. Only tree_interventional does, except for averages of several models. */
const hasInteractions = (method: Method): boolean => method === 'tree_interventional';

/** Number of pairs in the answer of a model with `columns` columns. */
export const pairsTold = (interactions: number | undefined, columns: number): number =>
  Math.min(interactions ?? 0, (columns * (columns - 1)) / 2);

export function noInteractions({ id, version }: { id: string; version: string | number }, method: Method): SluiceError {
  const why =
    method === 'linear'
      ? 'has no interactions: linear models and averages of them have none'
      : hasInteractions(method)
        ? 'does not support interactions for averages of several models'
        : 'does not support interactions: only tree_interventional does';
  return new SluiceError('interpretation_unavailable', `${id}:${version}: the method ${method} ${why}`);
}

/**
 * The error if a package cannot provide the requested pairs. Null if the package can provide them, or if that is
 * unknown until the package is opened.
 */
export function pairsRefused(manifest: Manifest, interactions: number | undefined): SluiceError | null {
  const method = manifest.explain?.method;
  return !interactions || method === undefined || hasInteractions(method) ? null : noInteractions(manifest, method);
}
