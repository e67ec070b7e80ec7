// The interface of explanation methods: encoded applications in, one effect per column and output out; and which methods support interactions.
import { SluiceError } from '../../core/errors.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import type { EncodedInput } from '../encode/encoder.ts';

export type Method = 'tree_interventional' | 'tree_path_dependent' | 'linear' | 'exact' | 'sampling';

/** Where effects add up. */
export type Space = 'log_odds' | 'probability' | 'value';

/**
 * Effects of the columns of the package on `outputs` outputs: one for binary (the positive class), regression and score,
 * one a class for several classes.
 */
export interface Effects {
  /** Row-major: rows × outputs × columns. */
  readonly values: Float64Array;
  /** rows × outputs: what the effects and the base add up to, computed from the model itself. */
  readonly margins: Float64Array;
  /** Largest standard error of a row's effects; null: the method is exact. */
  readonly errors: Float64Array | null;
  /** Rows the model was asked to score for them. */
  readonly evaluations: number;
}

/**
 * Called repeatedly while effects are computed, at the latest after each batch of evaluations, with the progress since
 * then in rows (including parts) and evaluations. May wait, and ends the work by throwing.
 */
export type OnExplained = (rows: number, evaluations: number) => void | Promise<void>;

export interface Explainer {
  readonly method: Method;
  readonly space: Space;
  readonly outputs: number;
  /** The most rows the model is asked to score for one explanation; 0: it is not asked. */
  readonly questions: number;
  /** One row may take milliseconds although the model is not asked: work for a worker, not for the thread that has the requests. */
  readonly lengthy?: true;
  /** One an output. */
  readonly base: Float64Array;
  /**
   * Effects of the rows named by `rows` (positions in the inputs). What it returns is overwritten by the next call.
   * @throws SluiceError model_failed
   */
  explain(inputs: readonly EncodedInput[], rows: readonly number[], onExplained?: OnExplained): Promise<Effects>;
  /** The margins alone of the first `rows` rows, bit by bit those of `explain`, where they cost less. Overwritten by the next call. */
  margins?(inputs: readonly EncodedInput[], rows: number): Float64Array;
  /**
   * Shapley interaction indices of every pair of columns, where a method knows them exactly: rows × outputs × pairs, in the
   * order of `pairIndex`, in the space of the effects. A SHAP interaction value is half of one.
   */
  interactions?(inputs: readonly EncodedInput[], rows: readonly number[]): Float64Array;
}

/** Why a method cannot be used for a model; the next one is tried. */
export class NotExplainable extends Error {}

// Here and not with BatchInterpretation, because formatters need them: predictions alone must not load the methods.
/** The row was not selected for interpretation. */
export const NOT_ASKED = -1;
/** Base and effects of the row do not add up to what the model answers. */
export const INEXACT = -2;
/** Interpreting the row failed: it ended its worker, exceeded its time limit, or threw. */
export const FAILED = -3;

// Entry points reject interactions that a method does not support before anything is computed.

/** `Explainer.interactions` of no other method is there; of this one not for averages of several models. */
const hasInteractions = (method: Method): boolean => method === 'tree_interventional';

/** Pairs of columns that an answer of a model of `columns` columns has room for, at most. */
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

/** Why a package does not provide the requested pairs; null: it does, or that is unknown before it is opened. */
export function pairsRefused(manifest: Manifest, interactions: number | undefined): SluiceError | null {
  const method = manifest.explain?.method;
  return !interactions || method === undefined || hasInteractions(method) ? null : noInteractions(manifest, method);
}
