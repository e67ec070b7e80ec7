// Whether a request's key may use a model.
import type { FastifyRequest } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import { parseReference } from '../../../model/registry/registry.ts';
import { mayUse } from './api-keys.ts';

/** A key that may not see a model learns nothing about whether it is there. @throws SluiceError forbidden */
export function assertMayUse(request: FastifyRequest, reference: string): void {
  const id = parseReference(reference).id;
  if (!mayUse(request.apiKey!, id)) throw new SluiceError('forbidden', 'the key may not use this model');
}
