// HTTP routes of models: list, drift, upload of packages, alias moves.
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ServerConfig } from '../../../config/server-config.ts';
import { SluiceError, tooMany } from '../../../core/errors.ts';
import { named } from '../../../core/log.ts';
import { type DriftSpan, emptyReport } from '../../../drift/drift-monitor.ts';
import { versionOf } from '../../../model/package/load-package.ts';
import { MOST_TEXT_BYTES } from '../../../model/package/package-hash.ts';
import { parseReference } from '../../../model/registry/registry.ts';
import { describeModel, withEntry } from '../../../onboarding/describe.ts';
import { tryFolder, tryPackage } from '../../../onboarding/trial.ts';
import { permits } from '../access/identity.ts';
import { assertMayUse } from '../access/permissions.ts';
import { jsonContent, jsonResponse, problemResponse, REFUSALS, schemaRef } from '../openapi/route-parts.ts';
import { type COMPONENTS, DRIFT_WINDOW } from '../openapi/schemas.ts';
import type { Admitted } from '../wire/admission.ts';
import { systemFault } from '../wire/problem.ts';
import { formFiles, openBody } from '../wire/request-body.ts';
import { tellModel } from '../wire/request-log.ts';
import { sendJson } from '../wire/response-coding.ts';
import { bodyOptions, type ServiceContext } from '../wire/scoring-request.ts';
import { Trials } from './package-trials.ts';

const MAX_FILES = 20;
const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
const SMALL_BODY = 16 * 1024;
const MANIFEST = 'model.yaml';

interface AliasPath {
  Params: { ref: string; alias: string };
}

/** Describes an operation on models. */
const describe = (summary: string, schema: keyof typeof COMPONENTS, more: object = {}) => ({
  summary,
  tags: ['models'],
  response: { 200: jsonResponse(summary, schemaRef(schema)), 401: REFUSALS[401], 403: REFUSALS[403], ...more },
});

const MODEL_REFUSALS = { 400: REFUSALS[400], 404: REFUSALS[404] };

const LIST = describe('Models that this key may use', 'Models');
const SHOW = describe('One model: columns, versions, aliases, a sample application', 'Model', MODEL_REFUSALS);
const DRIFT_REPORT = {
  ...describe('Distribution of scores and columns compared with the training data', 'Drift', MODEL_REFUSALS),
  querystring: { type: 'object', additionalProperties: false, properties: { window: DRIFT_WINDOW } },
};

const READ_ONLY = problemResponse('The registry is read-only or unavailable');
const REASON = { type: 'string', description: 'Recorded in the history with the name of the API key' } as const;

const REGISTER = {
  summary: 'Registers a version from the files of a package, including model.yaml and model.onnx (scope models:write)',
  tags: ['models'],
  querystring: {
    type: 'object',
    additionalProperties: false,
    properties: {
      modelId: {
        type: 'string',
        description: 'Id of the model of the package; required for a key that is restricted to some models',
      },
    },
  },
  body: {
    content: {
      'multipart/form-data': {
        schema: { type: 'object', additionalProperties: { type: 'string', format: 'binary' } },
      },
    },
  },
  response: {
    201: jsonResponse('Registered; the self-test passed', schemaRef('Model')),
    400: REFUSALS[400],
    401: REFUSALS[401],
    403: REFUSALS[403],
    409: problemResponse('The version exists; versions never change'),
    503: READ_ONLY,
  },
};
const ALIAS_REFUSALS = { ...MODEL_REFUSALS, 503: READ_ONLY };
const HISTORY = describe('Aliases of a model and the history of their moves', 'Aliases', MODEL_REFUSALS);
const MOVE_ALIAS = {
  ...describe('Points an alias to a version (scope models:write)', 'AliasMove', ALIAS_REFUSALS),
  body: {
    content: jsonContent({
      type: 'object',
      required: ['version'],
      properties: { version: { type: ['string', 'integer'] }, reason: REASON },
    }),
  },
};
const REMOVE_ALIAS = {
  ...describe('Removes an alias (scope models:write)', 'AliasMove', ALIAS_REFUSALS),
  querystring: { type: 'object', additionalProperties: false, properties: { reason: REASON } },
};

export function addModelRoutes(app: FastifyInstance, services: ServiceContext): void {
  addModelReads(app, services);
  addModelWrites(app, services);
}

function addModelReads(app: FastifyInstance, { config, host, account }: ServiceContext): void {
  const { level } = config.compression;
  app.get('/api/v1/models', { config: { scope: 'models:read' }, schema: LIST }, async (request, reply) => {
    const models = (await host.registry.list()).filter((m) => permits(request.identity!, 'models:read', m.id));
    return sendJson(request, reply, level, { models });
  });
  app.get<{ Params: { ref: string } }>(
    '/api/v1/models/:ref',
    { config: { scope: 'models:read' }, schema: SHOW },
    async (request, reply) => {
      assertMayUse(request, request.params.ref);
      const model = await host.registry.resolve(request.params.ref);
      tellModel(request, model);
      const entry = (await host.registry.list()).find((m) => m.id === parseReference(request.params.ref).id);
      return sendJson(request, reply, level, describeModel(model, entry));
    },
  );
  app.get<{ Params: { ref: string }; Querystring: { window: DriftSpan } }>(
    '/api/v1/models/:ref/drift',
    { config: { scope: 'models:read' }, schema: DRIFT_REPORT },
    async (request) => {
      const { ref } = request.params;
      assertMayUse(request, ref);
      const found = await host.meant(ref);
      tellModel(request, found);
      const { ref: model, manifest } = found;
      const { window } = request.query;
      const report = account.drift.report(model, window) ?? emptyReport(manifest);
      return {
        modelId: manifest.id,
        modelVersion: String(manifest.version),
        window,
        baseline: report !== null,
        ...report,
      };
    },
  );
}

function addModelWrites(app: FastifyInstance, services: ServiceContext): void {
  const { config } = services;
  const { registry } = services.host;
  const trials = new Trials(services);
  app.post<{ Querystring: { modelId?: string } }>(
    '/api/v1/models',
    { config: { scope: 'models:write' }, schema: REGISTER },
    async (request, reply) => {
      const { modelId } = request.query;
      // The permission is checked before the body is read, although only the package states the model.
      if (modelId !== undefined) assertMayUse(request, modelId);
      else assertMayUseAll(request);
      const { description, entry } = await trials.admit(request, reply, async (place, signal, inTurn) => {
        const folder = await mkdtemp(path.join(config.spill.folder ?? tmpdir(), 'sluice-upload-'));
        try {
          await receive(request, folder, services, place);
          const tried = await inTurn(() => tryFolder(folder, modelId ?? null, signal));
          const { id } = tried.model.manifest;
          assertMayUse(request, id);
          tellModel(request, tried.model);
          const own = versionOf(tried.model.manifest);
          const version = await registry.add(id, own, folder, request.identity!.name);
          const found = (await registry.list()).find((m) => m.id === id);
          reply.code(201).header('location', `/api/v1/models/${id}:${version}`);
          // A registry that assigns version numbers has written its own number into model.yaml.
          if (version === own) return { description: tried.description, entry: found };
          const registered = await registry.resolve(`${id}:${version}`);
          return { description: describeModel(registered, undefined), entry: found };
        } catch (error) {
          throw withoutFolder(error, folder);
        } finally {
          await rm(folder, { recursive: true, force: true });
        }
      });
      return withEntry(description, entry);
    },
  );
  app.get<AliasPath>(
    '/api/v1/models/:ref/aliases',
    { config: { scope: 'models:read' }, schema: HISTORY },
    async (request) => {
      const id = request.params.ref;
      assertMayUse(request, id);
      const history = await registry.history(id);
      const entry = (await registry.list()).find((m) => m.id === id);
      return { aliases: entry?.aliases ?? {}, history };
    },
  );
  app.put<AliasPath>(
    '/api/v1/models/:ref/aliases/:alias',
    { config: { scope: 'models:write' }, schema: MOVE_ALIAS },
    async (request, reply): Promise<unknown> => {
      const { ref: id, alias } = request.params;
      assertMayUse(request, id);
      const { version, reason } = await trials.admit(request, reply, async (_place, signal, inTurn) => {
        const move = await readMove(request, config);
        const model = await registry.resolve(`${id}:${move.version}`);
        tellModel(request, model);
        await inTurn(() => tryPackage(model, signal));
        return move;
      });
      const moved = await registry.moveAlias(id, alias, version, mover(request, reason));
      request.story.alias = named(alias);
      return moved;
    },
  );
  app.delete<AliasPath & { Querystring: { reason?: string } }>(
    '/api/v1/models/:ref/aliases/:alias',
    { config: { scope: 'models:write' }, schema: REMOVE_ALIAS },
    async (request): Promise<unknown> => {
      const { ref: id, alias } = request.params;
      assertMayUse(request, id);
      const moved = await registry.moveAlias(id, alias, null, mover(request, request.query.reason));
      Object.assign(request.story, { model: named(id), alias: named(alias) });
      return moved;
    },
  );
}

/** The author of an alias move, and the reason if one is given. */
const mover = ({ identity }: FastifyRequest, reason: string | undefined) => ({
  who: identity!.name,
  ...(reason === undefined ? {} : { why: reason }),
});

/** Rejects a key that may register only some models. @throws SluiceError bad_request */
function assertMayUseAll({ identity }: FastifyRequest): void {
  if (identity!.grants.some(({ scopes, models }) => scopes.includes('models:write') && models === undefined)) return;
  throw new SluiceError(
    'bad_request',
    'modelId is missing: a key restricted to some models must name the model that it registers',
  );
}

/** Stores the files of a form in the folder under the names that the form gives them. */
async function receive(
  request: FastifyRequest,
  folder: string,
  services: ServiceContext,
  { idle }: Admitted,
): Promise<void> {
  if (!request.isMultipart()) {
    throw new SluiceError('invalid_content', 'send the files of the package as multipart/form-data');
  }
  const { model_bytes: most } = services.config.limits;
  const names = new Set<string>();
  let total = 0;
  for await (const { name, chunks } of formFiles(
    request,
    { ...bodyOptions(services, request), whileIdle: idle },
    MAX_FILES,
  )) {
    if (!FILE_NAME.test(name) || names.has(name)) {
      throw new SluiceError('invalid_content', 'a file of the package has an invalid or duplicate name');
    }
    names.add(name);
    const mostOfFile = name === MANIFEST ? MOST_TEXT_BYTES : most;
    let bytes = 0;
    const handle = await open(path.join(folder, name), 'wx').catch(refuseFault);
    try {
      for await (const chunk of chunks()) {
        bytes += chunk.length;
        total += chunk.length;
        if (bytes > mostOfFile)
          throw tooMany(name === MANIFEST ? 'model_yaml_bytes' : 'model_bytes', mostOfFile, 'bytes');
        if (total > most) throw tooMany('model_bytes', most, 'bytes');
        await handle.appendFile(chunk).catch(refuseFault);
      }
    } finally {
      await handle.close();
    }
  }
  if (!names.has(MANIFEST)) throw new SluiceError('invalid_content', 'the package has no model.yaml');
}

function refuseFault(cause: unknown): never {
  throw systemFault(cause);
}

/** Removes the local folder from messages, so that file names in messages are relative to the package. */
function withoutFolder(error: unknown, folder: string): unknown {
  if (!(error instanceof SluiceError)) return error;
  const { details, extra } = error;
  return new SluiceError(error.code, error.message.replaceAll(`${folder}${path.sep}`, ''), {
    details,
    extra,
    cause: error,
  });
}

async function readMove(request: FastifyRequest, config: ServerConfig): Promise<{ version: string; reason?: string }> {
  const body = await openBody(request, {
    maxBytes: SMALL_BODY,
    maxExpandedBytes: SMALL_BODY,
    idleMs: config.timeouts.body_idle_ms,
    minBytesPerSecond: config.timeouts.body_min_bytes_per_second,
  });
  const chunks: Uint8Array[] = [];
  for await (const chunk of body.chunks()) chunks.push(chunk);
  const form = 'the body must be {"version": "…"}, or {"version": "…", "reason": "…"}';
  let value: { version?: unknown; reason?: unknown } | null;
  try {
    value = JSON.parse(Buffer.concat(chunks).toString()) as typeof value;
  } catch (cause) {
    throw new SluiceError('bad_request', form, { cause });
  }
  const { version, reason } = value ?? {};
  if (
    (typeof version !== 'string' && typeof version !== 'number') ||
    !['string', 'undefined'].includes(typeof reason)
  ) {
    throw new SluiceError('bad_request', form);
  }
  return { version: String(version), ...(reason === undefined ? {} : { reason: reason as string }) };
}
