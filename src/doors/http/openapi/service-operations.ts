// Operations on the service itself: its health, its metrics, its description.
import { type Json, jsonContent, REFUSALS } from './operation-parts.ts';

const ANY_OBJECT = jsonContent({ type: 'object' });

/** An operation without a key. */
const openOperation = (summary: string, content: Json, responses: Json = {}): Json => ({
  summary,
  tags: ['operations'],
  security: [],
  responses: { 200: content, ...responses },
});

const withObject = (summary: string, responses?: Json): Json =>
  openOperation(summary, { description: summary, content: ANY_OBJECT }, responses);

const withMetrics = (summary: string): Json => ({
  get: {
    summary,
    tags: ['operations'],
    responses: {
      200: { description: 'Text exposition format', content: { 'text/plain': { schema: { type: 'string' } } } },
      401: REFUSALS[401],
      403: REFUSALS[403],
    },
  },
});

export function serviceOperations(): Json {
  return {
    '/livez': { get: withObject('The process runs') },
    '/readyz': {
      get: withObject('New work is taken', { 503: { description: 'Starting or stopping', content: ANY_OBJECT } }),
    },
    '/metrics': withMetrics('Prometheus metrics'),
    '/metrics/columns': withMetrics('Prometheus metrics by column'),
    '/openapi.json': { get: withObject('This document') },
    '/docs': {
      get: openOperation('This document for people', {
        description: 'HTML',
        content: { 'text/html': { schema: { type: 'string' } } },
      }),
    },
  };
}
