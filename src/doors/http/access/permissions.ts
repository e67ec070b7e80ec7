// What a request's key permits.
import type { FastifyRequest } from 'fastify';
import type { Scope } from '../../../config/scopes.ts';
import { SluiceError } from '../../../core/errors.ts';
import { parseReference } from '../../../model/registry/registry.ts';
import { type ApiKey, type KeyRing, mayUse } from './api-keys.ts';

/** A request that is refused because of its key. `key`: the name of the known key, null without one. */
export class LoginRefused extends SluiceError {
  readonly key: string | null;
  readonly reason: 'none' | 'unknown' | 'expired' | 'scope' | 'model';

  constructor(reason: LoginRefused['reason'], key: string | null, message: string) {
    super(reason === 'scope' || reason === 'model' ? 'forbidden' : 'unauthorized', message);
    this.key = key;
    this.reason = reason;
  }
}

/** The key of a request. Whoever has none learns nothing of why. @throws LoginRefused */
export function login(keys: KeyRing, authorization: string | undefined): ApiKey {
  const found = keys.look(authorization);
  if ('key' in found) return found.key;
  throw new LoginRefused(found.refused, found.name, 'no valid API key');
}

/** @throws LoginRefused */
export function assertScope(request: FastifyRequest, scope: Scope): void {
  const { name, scopes } = request.apiKey!;
  if (!scopes.includes(scope)) throw new LoginRefused('scope', name, `the key lacks the scope ${scope}`);
}

/** A key that may not see a model learns nothing about whether it is there. @throws LoginRefused */
export function assertMayUse(request: FastifyRequest, reference: string): void {
  const key = request.apiKey!;
  if (!mayUse(key, parseReference(reference).id)) {
    throw new LoginRefused('model', key.name, 'the key may not use this model');
  }
}
