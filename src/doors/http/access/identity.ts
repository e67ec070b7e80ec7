// The identity of a request and its permissions.
import type { Scope } from '../../../config/scopes.ts';

/** Scopes that come together with the models they are for. */
export interface Grant {
  scopes: readonly Scope[];
  /** Ids of models; absent: all. */
  models?: readonly string[];
}

export interface Identity {
  kind: 'key' | 'oidc' | 'certificate';
  /** One name for one caller, whatever the kind: that of a key, `oidc:ISSUER:SUBJECT`, `certificate:NAME`. Jobs and quotas go by it. */
  name: string;
  /** The same for the log and for metrics, where no subject of a token belongs: `oidc:ISSUER`. */
  label: string;
  grants: readonly Grant[];
}

/** What other kinds of identity begin with, which no key may. */
export const RESERVED_PREFIXES = ['oidc:', 'certificate:'] as const;

/** Whether one grant has the scope, and the model if one is requested: grants do not combine. */
export const permits = ({ grants }: Identity, scope: Scope, model?: string): boolean =>
  grants.some(
    ({ scopes, models }) =>
      scopes.includes(scope) && (model === undefined || models === undefined || models.includes(model)),
  );

/** The label of an identity: without the subject of a token. */
export const labelOf = (name: string): string =>
  name.startsWith('oidc:') ? name.split(':').slice(0, 2).join(':') : name;
