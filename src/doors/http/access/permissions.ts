// Checks the permissions of a request's identity, and describes rejections.
import type { FastifyRequest } from 'fastify';
import type { Scope } from '../../../config/scopes.ts';
import { type ErrorCode, SluiceError } from '../../../core/errors.ts';
import { parseReference } from '../../../model/registry/registry.ts';
import { type Identity, permits } from './identity.ts';
import type { TokenFault } from './token-issuers.ts';

/** The challenge for a request without a key (RFC 9110). */
export const KEY_CHALLENGE = 'API-Key realm="sluice"';
export const TOKEN_CHALLENGE = 'Bearer realm="sluice"';

/** Reason for rejecting a request. */
export type LoginFault = 'none' | 'unknown' | 'expired' | 'certificate' | 'scope' | 'model' | 'owner' | TokenFault;

/** The rejection of a request because of its caller. `label`: label of the identity, null if it is unknown. */
export class LoginRefused extends SluiceError {
  readonly label: string | null;
  readonly reason: LoginFault;
  /** Whether the address exceeded its limit; such failures are not logged individually, because a flood would fill the log. */
  readonly limited: boolean;
  /** Whether this failure reached the limit. */
  readonly first: boolean;
  /** Value of WWW-Authenticate; null: the challenge for keys. */
  readonly challenge: string | null;
  /** The requested model; null: the path contains it. */
  readonly asked: string | null;
  /** Id of the requested job, if it exists. */
  readonly job: string | null;

  constructor(
    reason: LoginFault,
    label: string | null,
    message: string,
    more: {
      code?: ErrorCode;
      extra?: Record<string, unknown>;
      challenge?: string;
      limited?: boolean;
      first?: boolean;
      asked?: string;
      job?: string;
    } = {},
  ) {
    const { code = reason === 'scope' || reason === 'model' ? 'forbidden' : 'unauthorized', extra = {} } = more;
    super(code, message, { extra });
    this.label = label;
    this.reason = reason;
    this.limited = more.limited ?? false;
    this.first = more.first ?? false;
    this.challenge = more.challenge ?? null;
    this.asked = more.asked ?? null;
    this.job = more.job ?? null;
  }
}

/** @throws LoginRefused */
export function assertScope(request: FastifyRequest, scope: Scope): void {
  const identity = request.identity!;
  if (permits(identity, scope)) return;
  const challenge = tokenChallenge(identity, scope);
  throw new LoginRefused('scope', identity.label, `the key lacks the scope ${scope}`, challenge);
}

/** The challenge for a client with a token (RFC 6750). */
const tokenChallenge = ({ kind }: Identity, scope: Scope): { challenge?: string } =>
  kind === 'oidc' ? { challenge: `${TOKEN_CHALLENGE}, error="insufficient_scope", scope="${scope}"` } : {};

/** Checks access to a model without revealing whether a forbidden model exists. @throws LoginRefused */
export function assertMayUse(request: FastifyRequest, reference: string): void {
  const identity = request.identity!;
  if (permits(identity, request.routeOptions.config.scope!, parseReference(reference).id)) return;
  throw new LoginRefused('model', identity.label, 'the key may not use this model', { asked: reference });
}
