// Scores an application with types from the OpenAPI document of the service.
//
//   npm install && npm run types && npm run check
//   SLUICE_URL=https://localhost:8443 SLUICE_API_KEY=… NODE_EXTRA_CA_CERTS=dev.crt npm start -- credit-default
import type { components, paths } from './api.d.ts';

type Problem = components['schemas']['Problem'];
type Model = paths['/api/v1/models/{ref}']['get']['responses'][200]['content']['application/json'];
type Explain = paths['/api/v1/scoring/predict/interpretation.json']['post'];
type Query = Explain['parameters']['query'];
type Applications = NonNullable<Explain['requestBody']>['content']['application/json'];
type Explained = Explain['responses'][200]['content']['application/json'];

const { SLUICE_URL, SLUICE_API_KEY } = process.env;
if (!SLUICE_URL || !SLUICE_API_KEY) throw new Error('set SLUICE_URL and SLUICE_API_KEY');

/** The answer of the service. @throws Error with the code and the request id of its problem document */
async function call<T>(path: string, body?: unknown): Promise<T> {
  const answer = await fetch(new URL(path, SLUICE_URL), {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `API-Key ${SLUICE_API_KEY}`, 'content-type': 'application/json' },
    body: body === undefined ? null : JSON.stringify(body),
  });
  if (answer.ok) return (await answer.json()) as T;
  const { code, detail, requestId } = (await answer.json()) as Problem;
  throw new Error(`${detail} [${code}, request ${requestId}]`);
}

const modelId = process.argv[2] ?? 'credit-default';
const model = await call<Model>(`/api/v1/models/${encodeURIComponent(modelId)}`);
const query = { modelId, top_effects: 4 } satisfies Query;
const parameters = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
const applications: Applications = [model.sample as Record<string, never>];
const explained = await call<Explained>(`/api/v1/scoring/predict/interpretation.json?${parameters}`, applications);
for (const { row, probability, decision, interpretation, error } of explained.predictions) {
  if (error) console.log(`row ${row}: ${error.code} in ${error.column ?? 'the row'}`);
  else console.log(`row ${row}: ${probability}, ${decision}`);
  for (const { column, effect } of interpretation?.effects ?? []) console.log(`  ${column} ${effect.toFixed(4)}`);
}
