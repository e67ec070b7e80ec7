// The OpenAPI document as a service with the default settings serves it.
import type { OpenApiDocument } from '../../src/doors/http/openapi/openapi.ts';
import { startService } from './service.ts';

/** Call it within a test. */
export async function openApiDocument(): Promise<OpenApiDocument> {
  const service = await startService();
  return (await service.call('GET', '/openapi.json', { token: null })).json;
}
