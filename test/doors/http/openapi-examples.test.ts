// The examples of the OpenAPI document: each body has one that matches its schema, and a real service answers the requests as they state.
import { expect, test } from 'vitest';
import type { OpenApiDocument, Operation } from '../../../src/doors/http/openapi/document-types.ts';
import { openApiDocument } from '../../support/openapi-document.ts';
import { type JsonSchema, schemaFaults } from '../../support/schema-faults.ts';
import { sharedService } from '../../support/shared-service.ts';

type Content = { schema: JsonSchema & { format?: string }; example?: unknown };

/** Binary bodies have no example. */
const BINARY =
  /^(?:multipart\/form-data|application\/(?:octet-stream|offset\+octet-stream|vnd\.apache\.(?:arrow\.stream|parquet)))$/;

const operationsOf = ({ paths }: OpenApiDocument): [string, Operation][] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, Operation] => [`${method} ${path}`, operation]),
  );

/** The bodies of a request and of its successful responses. */
const contentsOf = ({ requestBody, responses }: Operation): [string, Content][] =>
  [requestBody, ...Object.entries(responses).flatMap(([status, one]) => (status.startsWith('2') ? [one] : []))].flatMap(
    (one) => Object.entries((one?.content ?? {}) as Record<string, Content>),
  );

test('each body has an example that matches its schema', async () => {
  const document = await openApiDocument(['interpretation_aliases=["/api/v1/explain"]']);
  const named = document.components.schemas as Record<string, JsonSchema & { example?: unknown }>;
  const faults: string[] = [];
  let examples = 0;
  for (const [name, operation] of operationsOf(document)) {
    for (const [type, { schema, example }] of contentsOf(operation)) {
      if (BINARY.test(type)) continue;
      examples++;
      if (example === undefined) faults.push(`${name} has no example of ${type}`);
      else if (type === 'application/json' && schema.type !== 'string') {
        faults.push(...schemaFaults(schema, example, { at: name, named }));
      } else if (schema.type !== 'string') faults.push(`${name} of ${type} is no text`);
    }
    for (const { name: parameter, required, ...rest } of operation.parameters ?? []) {
      if (required !== 'example' in rest) faults.push(`${name}: ${parameter}`);
    }
  }
  expect(faults).toEqual([]);
  expect(examples).toBeGreaterThan(50);
  expect(schemaFaults(named.Problem!, named.Problem!.example, { named })).toEqual([]);
  const explained = document.paths['/api/v1/explain.json']!.post!;
  expect(JSON.stringify(explained.responses)).toContain('tree_interventional');
});

test('a real service answers the example requests with the example responses', async () => {
  const { call } = await sharedService();
  const document = await openApiDocument();
  const compared: string[] = [];
  for (const [name, operation] of operationsOf(document)) {
    const [method, path] = name.split(' ') as [string, string];
    if (method !== 'post' || !/\/predict|\{name\}\/infer/.test(path)) continue;
    for (const [type, { example }] of Object.entries(operation.requestBody!.content as Record<string, Content>)) {
      if (example === undefined) continue;
      const body = typeof example === 'string' ? example : JSON.stringify(example);
      const query = path.startsWith('/v2') ? '' : '?modelId=credit-default';
      // An example of an interpretation lists two effects.
      const top = path.includes('interpretation') ? '&top_effects=2' : '';
      const url = `${path.replace('{name}', 'credit-default')}${query}${top}`;
      const answer = await call('POST', url, { body, headers: { 'content-type': type } });
      expect([name, type, answer.status]).toEqual([name, type, 200]);
      const expected = (operation.responses['200']!.content as Record<string, Content>)[type]!.example;
      expect(type === 'application/json' ? answer.json : answer.text).toEqual(expected);
      compared.push(name);
    }
  }
  expect(compared).toHaveLength(7);
});
