// What a request's identity permits, and how a request is refused because of it.
import type { FastifyRequest } from 'fastify';
import type { Scope } from '../../../config/scopes.ts';
import { type ErrorCode, SluiceError } from '../../../core/errors.ts';
import { parseReference } from '../../../model/registry/registry.ts';
import { type Identity, permits } from './identity.ts';
import type { TokenFault } from './token-issuers.ts';

/** What a request without a key is asked for (RFC 9110). */
export const KEY_CHALLENGE = 'API-Key realm="sluice"';
export const TOKEN_CHALLENGE = 'Bearer realm="sluice"';

/** Why a request is refused. */
export type LoginFault = 'none' | 'unknown' | 'expired' | 'certificate' | 'scope' | 'model' | 'owner' | TokenFault;

/** A request that is refused because of who it is of. `label`: of a known identity, null without one. */
export class LoginRefused extends SluiceError {
  readonly label: string | null;
  readonly reason: LoginFault;
  /** The address has failed too often: told apart, so that a flood of them leaves no flood of lines. */
  readonly limited: boolean;
  /** The first that is told apart so: the address has just come to the limit. */
  readonly first: boolean;
  /** Of WWW-Authenticate, where it is not the one for keys. */
  readonly challenge: string | null;
  /** The model that was asked for, as the request names it; null: its address says. */
  readonly asked: string | null;
  /** Id of the job that was asked for, where it exists. */
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

/** What RFC 6750 has a client with a token told. */
const tokenChallenge = ({ kind }: Identity, scope: Scope): { challenge?: string } =>
  kind === 'oidc' ? { challenge: `${TOKEN_CHALLENGE}, error="insufficient_scope", scope="${scope}"` } : {};

/** Who may not see a model learns nothing about whether it is there. @throws LoginRefused */
export function assertMayUse(request: FastifyRequest, reference: string): void {
  const identity = request.identity!;
  if (permits(identity, request.routeOptions.config.scope!, parseReference(reference).id)) return;
  throw new LoginRefused('model', identity.label, 'the key may not use this model', { asked: reference });
}
