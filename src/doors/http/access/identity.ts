// The identity of a request and its permissions.
import type { Scope } from '../../../config/scopes.ts';

/** Scopes, and the models to which they apply. */
export interface Grant {
  scopes: readonly Scope[];
  /** Ids of models; absent: all models. */
  models?: readonly string[];
}

export interface Identity {
  kind: 'key' | 'oidc' | 'certificate';
  /**
   * Unique name of the caller: name of the key, `oidc:ISSUER:SUBJECT`, or `certificate:NAME`. Jobs and quotas are
   * assigned by this name.
   */
  name: string;
  /** Name for logs and metrics, which must not contain the subject of a token: `oidc:ISSUER`. */
  label: string;
  grants: readonly Grant[];
}

/** Prefixes of other kinds of identity; names of keys must not start with them. */
export const RESERVED_PREFIXES = ['oidc:', 'certificate:'] as const;

/** Whether a single grant includes the scope and, if given, the model. Grants are not combined. */
export const permits = ({ grants }: Identity, scope: Scope, model?: string): boolean =>
  grants.some(
    ({ scopes, models }) =>
      scopes.includes(scope) && (model === undefined || models === undefined || models.includes(model)),
  );

/** The label for the name of an identity; omits the subject of a token. */
export const labelOf = (name: string): string =>
  name.startsWith('oidc:') ? name.split(':').slice(0, 2).join(':') : name;
