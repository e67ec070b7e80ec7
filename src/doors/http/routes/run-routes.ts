// HTTP routes of recorded runs: the newest runs with models that the caller may read, and a single run with the state
// of its outputs.
import type { FastifyInstance } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import { named } from '../../../core/log.ts';
import { type FoundRun, RunRecords } from '../../../runs/run-records.ts';
import { permits } from '../access/identity.ts';
import { LoginRefused } from '../access/permissions.ts';
import { jsonResponse, problemResponse, REFUSALS, schemaRef } from '../openapi/route-parts.ts';
import { OutputChecks } from './output-checks.ts';

const MOST_LISTED = 200;

const RUNS = {
  type: 'object',
  required: ['recorded', 'runs'],
  properties: {
    recorded: { type: 'boolean', description: 'false: `run_records` is not configured' },
    runs: { type: 'array', items: schemaRef('Run') },
  },
};
const LIST = {
  summary: 'Recorded runs of the models of this key, newest first',
  tags: ['runs'],
  querystring: {
    type: 'object',
    additionalProperties: false,
    properties: {
      limit: { type: 'integer', minimum: 1, maximum: MOST_LISTED, default: 50, description: 'at most this many runs' },
    },
  },
  response: { 200: jsonResponse('Runs', RUNS), 400: REFUSALS[400], 401: REFUSALS[401], 403: REFUSALS[403] },
};
const SHOW = {
  summary: 'One run; compares its outputs with their manifests',
  tags: ['runs'],
  response: {
    200: jsonResponse('The run', schemaRef('Run')),
    401: REFUSALS[401],
    403: REFUSALS[403],
    404: problemResponse('This key has no such run'),
  },
};

/** `folder`: the configured folder of run records; absent if none is configured. */
export function addRunRoutes(app: FastifyInstance, folder: string | undefined): void {
  const config = { scope: 'models:read' as const };
  const records = folder === undefined ? null : new RunRecords(folder);
  const checks = new OutputChecks();
  app.get<{ Querystring: { limit: number } }>('/api/v1/runs', { config, schema: LIST }, async (request) => {
    const shows = ({ model }: FoundRun) => permits(request.identity!, 'models:read', model.id);
    const runs = (await records?.list(request.query.limit, shows)) ?? [];
    return {
      recorded: records !== null,
      runs: runs.map((run) => describeRun(run, (output) => checks.last(output))),
    };
  });
  app.get<{ Params: { id: string } }>('/api/v1/runs/:id', { config, schema: SHOW }, async (request) => {
    const run = (await records?.find(request.params.id)) ?? null;
    const message = 'this key has no such run';
    if (!run) throw new SluiceError('not_found', message);
    const identity = request.identity!;
    if (!permits(identity, 'models:read', run.model.id)) {
      throw new LoginRefused('model', identity.label, message, { code: 'not_found', asked: run.model.id });
    }
    request.story.model = named(run.model.id);
    const found = await checks.check(run.outputs);
    return describeRun(run, (output) => found[run.outputs.indexOf(output)]!);
  });
}

function describeRun(
  { outputs, ...run }: FoundRun,
  checkOf: (output: FoundRun['outputs'][number]) => ReturnType<OutputChecks['last']>,
) {
  return { ...run, outputs: outputs.map((output) => ({ path: output.path, manifest: checkOf(output) })) };
}
