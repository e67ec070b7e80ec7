// The OpenAPI document as a service serves it.
import type { OpenApiDocument } from '../../src/doors/http/openapi/document-types.ts';
import { startService } from './service.ts';

/** Call it within a test. */
export async function openApiDocument(settings: string[] = []): Promise<OpenApiDocument> {
  const service = await startService(settings);
  return (await service.call('GET', '/openapi.json', { token: null })).json;
}
