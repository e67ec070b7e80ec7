// The page /docs: examples and a command for each operation, which a real service answers, and hostile texts as text.
import { expect, test } from 'vitest';
import { docsPage } from '../../../src/doors/http/openapi/docs-page.ts';
import { exampleBody, exampleOf } from '../../../src/doors/http/openapi/example-body.ts';
import type { OpenApiDocument } from '../../../src/doors/http/openapi/openapi.ts';
import { sharedService } from '../../support/shared-service.ts';

const HOSTILE = '"><script>alert(1)</script>';

test('each operation has a link, a command and examples; the page loads nothing', async () => {
  const { call } = await sharedService();
  const { status, text, headers } = await call('GET', '/docs', { token: null });
  expect(status).toBe(200);
  expect(headers['content-security-policy']).not.toMatch(/unsafe|https?:/);
  const document = (await call('GET', '/openapi.json', { token: null })).json as OpenApiDocument;
  const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
  const sections = text.split('<section ').slice(1);
  expect(sections).toHaveLength(operations.length);
  for (const part of sections) {
    const id = /^id="([^"]+)"/.exec(part)![1]!;
    expect(text).toContain(`<a href="#${id}">`);
    expect(part).toMatch(/<pre>curl [^<]*\$SLUICE_URL/);
  }
  expect(new Set(sections.map((part) => /^id="([^"]+)"/.exec(part)![1])).size).toBe(sections.length);
  expect(text).not.toMatch(/<script|<img|\ssrc=|\sstyle=|href="(?![#/])|undefined|NaN/);
});

test('a real service scores the example bodies', async () => {
  const { call } = await sharedService();
  const document = (await call('GET', '/openapi.json', { token: null })).json as OpenApiDocument;
  for (const [format, type, query] of [
    ['json', 'application/json', ''],
    ['ndjson', 'application/x-ndjson', ''],
    ['csv', 'text/csv', '&delimiter=comma'],
  ] as const) {
    const path = `/api/v1/scoring/predict.${format}`;
    const content = document.paths[path]!.post!.requestBody!.content[type];
    const body = exampleBody(type, content, document.components.schemas)!;
    const answer = await call('POST', `${path}?modelId=credit-default${query}`, { body, headers: { 'content-type': type } }); // biome-ignore format: one line
    expect([format, answer.status]).toEqual([format, 200]);
    expect(answer.text).toMatch(/0\.\d+/);
    expect(answer.text).not.toMatch(/"error"|bad_number|missing_value/);
  }
});

test('texts of the document are text on the page', () => {
  const content = { 'application/json': { schema: { type: 'object', properties: { [HOSTILE]: { type: 'string', example: HOSTILE } } } } }; // biome-ignore format: one line
  const page = docsPage({
    info: { title: HOSTILE, version: HOSTILE, description: HOSTILE },
    components: { schemas: {} },
    paths: {
      [`/${HOSTILE}/{id}`]: {
        post: {
          summary: HOSTILE,
          tags: [HOSTILE],
          parameters: [
            { name: HOSTILE, in: 'query', required: true, description: HOSTILE, schema: { enum: [HOSTILE] } },
          ],
          requestBody: { content },
          responses: { 200: { description: HOSTILE, content } },
        },
      },
    },
  });
  expect(page).not.toContain('<script');
  expect(page.match(/<section id="[\w.-]+">/g)).toHaveLength(1);
});

test('examples follow the schema', () => {
  const schemas = { Tree: { type: 'object', properties: { child: { $ref: '#/components/schemas/Tree' }, n: { type: 'integer', minimum: 3 } } } }; // biome-ignore format: one line
  expect(exampleOf({ type: ['null', 'string'], format: 'date-time' }, {}, 'x')).toBe('2026-11-26T02:00:00Z');
  expect(exampleOf({ type: 'array', items: { enum: ['b', 'a'] } }, {}, 'x')).toEqual(['b']);
  expect(exampleOf({ oneOf: [{ type: 'boolean' }, { type: 'string' }] }, {}, 'x')).toBe(true);
  expect(exampleOf({ allOf: [{ type: 'object', properties: { a: { const: 1 } } }, { type: 'object', properties: { b: { default: 2 } } }] }, {}, 'x')).toEqual({ a: 1, b: 2 }); // biome-ignore format: one line
  expect(JSON.stringify(exampleOf({ $ref: '#/components/schemas/Tree' }, schemas, 'x'))).toContain('"n":3');
  expect(exampleBody('application/octet-stream', {}, {})).toBe(null);
});
