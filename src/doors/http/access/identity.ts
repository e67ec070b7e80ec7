// The identity of a caller, and the permissions of that identity.
import type { Scope } from '../../../config/scopes.ts';

/** Scopes, and the models to which the scopes apply. */
export interface Grant {
  scopes: readonly Scope[];
  /** Ids of models. If absent, the scopes apply to all models. */
  models?: readonly string[];
}

export interface Identity {
  kind: 'key' | 'oidc' | 'certificate';
  /**
   * Unique name of the caller: the name of the key, `oidc:ISSUER:SUBJECT`, or `certificate:NAME`. Jobs and quotas
   * belong to this name.
   */
  name: string;
  /** Name for logs and metrics: `oidc:ISSUER` for tokens, because the subject of a token must not appear there. */
  label: string;
  grants: readonly Grant[];
}

/** Name prefixes of the other kinds of identity. The name of a key must not start with such a prefix. */
export const RESERVED_PREFIXES = ['oidc:', 'certificate:'] as const;

/** Whether a single grant includes the scope and, if given, the model. Several grants are not combined. */
export const permits = ({ grants }: Identity, scope: Scope, model?: string): boolean =>
  grants.some(
    ({ scopes, models }) =>
      scopes.includes(scope) && (model === undefined || models === undefined || models.includes(model)),
  );

/** The label of an identity with this name, without the subject of a token. */
export const labelOf = (name: string): string =>
  name.startsWith('oidc:') ? name.split(':').slice(0, 2).join(':') : name;
