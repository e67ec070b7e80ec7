// Checks the permissions of a caller's identity, and describes rejections.
import type { FastifyRequest } from 'fastify';
import type { Scope } from '../../../config/scopes.ts';
import { type ErrorCode, SluiceError } from '../../../core/errors.ts';
import { parseReference } from '../../../model/registry/registry.ts';
import { type Identity, permits } from './identity.ts';
import type { TokenFault } from './token-issuers.ts';

/** The WWW-Authenticate challenge for a request without a key (RFC 9110). */
export const KEY_CHALLENGE = 'API-Key realm="sluice"';
export const TOKEN_CHALLENGE = 'Bearer realm="sluice"';

/** Reason for rejecting a request. */
export type LoginFault = 'none' | 'unknown' | 'expired' | 'certificate' | 'scope' | 'model' | 'owner' | TokenFault;

/**
 * The error for a request that is rejected because of its caller. `label`: label of the caller's identity; null if
 * unknown.
 */
export class LoginRefused extends SluiceError {
  readonly label: string | null;
  readonly reason: LoginFault;
  /**
   * Whether the address has exceeded its limit of failures. Such failures are not logged one by one, because a flood
   * would fill the log.
   */
  readonly limited: boolean;
  /** Whether this failure is the first beyond the limit. */
  readonly first: boolean;
  /** Value of the WWW-Authenticate header; null for the challenge for keys. */
  readonly challenge: string | null;
  /** The requested model; null if the path of the request contains it. */
  readonly asked: string | null;
  /** Id of the requested job; null if the job does not exist. */
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

/** The WWW-Authenticate challenge for a client with a token (RFC 6750). */
const tokenChallenge = ({ kind }: Identity, scope: Scope): { challenge?: string } =>
  kind === 'oidc' ? { challenge: `${TOKEN_CHALLENGE}, error="insufficient_scope", scope="${scope}"` } : {};

/** Checks access to a model. The error does not reveal whether a forbidden model exists. @throws LoginRefused */
export function assertMayUse(request: FastifyRequest, reference: string): void {
  const identity = request.identity!;
  if (permits(identity, request.routeOptions.config.scope!, parseReference(reference).id)) return;
  throw new LoginRefused('model', identity.label, 'the key may not use this model', { asked: reference });
}
