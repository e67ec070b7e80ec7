// The Open Inference Protocol (V2) over HTTP, for clients of KServe, Seldon, Triton and MLServer.
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import { VERSION } from '../../../core/version.ts';
import type { HostedModel } from '../../../engine/model-host.ts';
import { tableChunks } from '../../../formats/columns/table-chunks.ts';
import { type Remedy, refuseMistyped } from '../../../formats/delimited/column-types.ts';
import type { PredictionJson } from '../../../formats/write/prediction-fields.ts';
import { versionOf } from '../../../model/package/load-package.ts';
import { refuseNothingScored } from '../../../runs/plugins/require-scored-rows.ts';
import { runOnce } from '../../../runs/run-once.ts';
import { assertMayUse } from '../access/permissions.ts';
import {
  jsonContent,
  jsonResponse,
  problemResponse,
  REFUSALS,
  requestHeaders,
  UNREADY,
} from '../openapi/route-parts.ts';
import { BINARY_TENSORS, JSON_LENGTH_HEADER } from '../wire/binary-tensors.ts';
import { AnswerDigest } from '../wire/content-digest.ts';
import { HeldBodies } from '../wire/held-bodies.ts';
import { tellModel } from '../wire/request-log.ts';
import { bodyOptions, refuseOutcome, type ServiceContext, streamLimits, takeTurn } from '../wire/scoring-request.ts';
import { type TensorColumn, TensorTable } from '../wire/tensor-table.ts';
import { asWanted, OutputTensors, readInferRequest, refuseUnknownInputs, tensorMetadata } from '../wire/tensors.ts';

/**
 * Maximum size of a request in bytes, because a request is parsed as a whole. The predict operations suit larger
 * tables, because they stream.
 */
const MOST_INFER_BYTES = 16 * 1024 * 1024;
/**
 * Limits for the bodies of all these requests together, because parsing needs a multiple of their size. Bodies larger
 * than `small` are parsed and scored one at a time.
 */
const HELD = {
  bytes: 4 * MOST_INFER_BYTES,
  bytesPerKey: 2 * MOST_INFER_BYTES,
  small: 1024 * 1024,
};
/** Bytes per value in a block. */
const CELL_BYTES = 8;
const LEAST_BLOCK_BYTES = 4 * 1024;
const MOST_BLOCK_BYTES = 256 * 1024;

interface ModelPath {
  Params: { name: string; version?: string };
}

interface OpenInferenceRoutes {
  services: ServiceContext;
  /** Whether the service accepts new work and can answer it. */
  ready: () => boolean;
}

const describe = (summary: string, responses: object = {}): FastifySchema => ({
  summary,
  tags: ['open inference protocol'],
  response: { 200: jsonResponse(summary), ...responses },
});

const KEY_REFUSALS = { 401: REFUSALS[401], 403: REFUSALS[403], 404: REFUSALS[404] };

const TENSOR = {
  type: 'object',
  required: ['name', 'shape', 'datatype'],
  properties: {
    name: { type: 'string' },
    shape: { type: 'array', items: { type: 'integer' }, description: '[rows] or [rows, 1] for an input' },
    datatype: { type: 'string', description: 'BOOL, INT8 to UINT64, FP16, FP32, FP64 or BYTES' },
    data: { type: 'array', items: {}, description: 'null for a missing value; absent for a binary tensor' },
    parameters: {
      type: 'object',
      properties: {
        binary_data_size: {
          type: 'integer',
          minimum: 0,
          description: 'size of the binary tensor after the JSON, bytes',
        },
      },
    },
  },
};

const INFER_REQUEST = {
  type: 'object',
  required: ['inputs'],
  properties: {
    id: { type: 'string' },
    inputs: { type: 'array', minItems: 1, items: TENSOR, description: 'one tensor for each column' },
    outputs: {
      type: 'array',
      items: {
        type: 'object',
        required: ['name'],
        properties: {
          name: { type: 'string' },
          parameters: { type: 'object', properties: { binary_data: { type: 'boolean' } } },
        },
      },
    },
    parameters: { type: 'object', properties: { binary_data_output: { type: 'boolean' } } },
  },
};

const INFER_RESPONSE = {
  type: 'object',
  required: ['model_name', 'model_version', 'outputs'],
  properties: {
    model_name: { type: 'string' },
    model_version: { type: 'string' },
    id: { type: 'string' },
    parameters: { type: 'object' },
    outputs: { type: 'array', items: TENSOR },
  },
};

const JSON_LENGTH = 'Inference-Header-Content-Length';
/** Media type of JSON followed by binary tensors. */
const BINARY = {
  'application/octet-stream': {
    schema: {
      type: 'string',
      format: 'binary',
      description: `JSON of ${JSON_LENGTH} bytes, followed by binary tensors`,
    },
  },
};

const INFER = {
  ...describe('Predictions for a table of tensors'),
  headers: requestHeaders({
    [JSON_LENGTH]: 'size of the JSON before the binary tensors, bytes',
  }),
  body: { content: { ...jsonContent(INFER_REQUEST), ...BINARY } },
  response: {
    200: {
      description: 'Predictions for a table of tensors',
      headers: { [JSON_LENGTH]: { type: 'integer', description: 'for binary tensors' } },
      content: { ...jsonContent(INFER_RESPONSE), ...BINARY },
    },
    400: problemResponse('The tensors do not form a table of the columns, or an application is invalid'),
    ...KEY_REFUSALS,
    503: REFUSALS[503],
  },
};

/** The model reference: `credit`, `credit@champion`, or `credit:3` if the path contains a version. */
const referenceOf = ({ name, version }: ModelPath['Params']): string =>
  version === undefined ? name : `${name}:${version}`;

export function addOpenInference(app: FastifyInstance, { services, ready }: OpenInferenceRoutes): void {
  const { host } = services;
  const bodies = new HeldBodies(HELD);
  const open = { health: true, openInference: true };
  app.get('/v2', { config: open, schema: describe('The service') }, async () => ({
    name: 'sluice',
    version: VERSION,
    extensions: [BINARY_TENSORS],
  }));
  app.get('/v2/health/live', { config: open, schema: describe('The process is alive') }, async () => ({ live: true }));
  const health = describe('The service accepts new work', UNREADY);
  app.get('/v2/health/ready', { config: open, schema: health }, async (_request, reply) => {
    if (!ready()) reply.code(503);
    return { ready: ready() };
  });
  for (const model of ['/v2/models/:name', '/v2/models/:name/versions/:version']) {
    const config = { scope: 'predict', openInference: true } as const;
    const metadata = describe('Inputs and outputs of a model', KEY_REFUSALS);
    app.get<ModelPath>(model, { config, schema: metadata }, async (request) => {
      const { ref, manifest } = await meant(request);
      const entry = (await host.registry.list()).find(({ id }) => id === manifest.id);
      const versions = entry?.versions ?? [versionOf(manifest)];
      return {
        name: request.params.name,
        versions,
        platform: 'onnx',
        ...tensorMetadata(manifest),
        parameters: { ref },
      };
    });
    const readiness = describe('Readiness of a model', { ...KEY_REFUSALS, ...UNREADY });
    app.get<ModelPath>(`${model}/ready`, { config, schema: readiness }, async (request, reply) => {
      await meant(request);
      if (!ready()) reply.code(503);
      return { name: request.params.name, ready: ready() };
    });
    app.post<ModelPath>(`${model}/infer`, { config, schema: INFER }, async (request, reply) => {
      const reference = referenceOf(request.params);
      assertMayUse(request, reference);
      if (!ready()) throw new SluiceError('stopping', 'the server accepts no new work');
      const { answer, behind } = await infer({ services, bodies }, request, reply, reference);
      return sendTensors(request, reply, { model_name: request.params.name, ...answer }, behind);
    });
  }

  async function meant(request: FastifyRequest<ModelPath>) {
    const reference = referenceOf(request.params);
    assertMayUse(request, reference);
    const model = await host.meant(reference);
    tellModel(request, model);
    return model;
  }
}

/** Scores a request, which waits for its turn like every predict request. @throws SluiceError */
async function infer(
  { services, bodies }: { services: ServiceContext; bodies: HeldBodies },
  request: FastifyRequest,
  reply: FastifyReply,
  reference: string,
) {
  const options = bodyOptions(services, request);
  const maxBytes = Math.min(options.maxBytes, MOST_INFER_BYTES);
  const maxExpandedBytes = Math.min(options.maxExpandedBytes, MOST_INFER_BYTES);
  const limited = { ...options, maxBytes, maxExpandedBytes };
  return takeTurn(services, request, reply, limited, async ({ body, place, signal }) => {
    const hosted = await services.host.use(reference);
    const held = bodies.hold(request.identity!.name);
    try {
      const { model } = hosted;
      tellModel(request, model);
      const chunks: Buffer[] = [];
      for await (const chunk of body.chunks()) {
        held.add(chunk.length);
        chunks.push(Buffer.from(chunk));
      }
      await held.turn(signal);
      const jsonLength = request.headers[JSON_LENGTH_HEADER];
      const { rows, columns } = services.config.limits;
      const asked = readInferRequest(Buffer.concat(chunks), { rows, columns, jsonLength });
      refuseUnknownInputs(asked.columns, model.manifest);
      const answers = new OutputTensors(model.manifest, asked.wanted);
      refuseMistyped(asked.columns, model.manifest, null, asBytes);
      await score(services, request, { hosted, columns: asked.columns, answers, signal });
      place.finish();
      const { outputs, behind } = asWanted(answers.tensors, asked.wanted);
      const answer = {
        model_version: versionOf(model.manifest),
        ...(asked.id === null ? {} : { id: asked.id }),
        parameters: { package_sha256: model.sha256 },
        outputs,
      };
      return { answer, behind };
    } finally {
      held.release();
      hosted.release();
    }
  });
}

/** Sends JSON, followed by the bytes of binary tensors if there are any. */
function sendTensors(request: FastifyRequest, reply: FastifyReply, answer: object, behind: Buffer | null) {
  if (!behind) return answer;
  const json = Buffer.from(JSON.stringify(answer));
  const body = Buffer.concat([json, behind]);
  const digest = AnswerDigest.wantedBy(request.headers);
  digest?.update(body);
  if (digest) reply.header('content-digest', digest.value());
  reply.header(JSON_LENGTH_HEADER, String(json.length)).type('application/octet-stream');
  return reply.send(body);
}

const asBytes: Remedy = (_, wanted) =>
  wanted === 'number' || wanted === 'boolean' ? `send numbers, or text as BYTES` : 'send its text as BYTES';

interface Scoring {
  hosted: HostedModel;
  columns: readonly TensorColumn[];
  answers: OutputTensors;
  signal: AbortSignal;
}

/**
 * Scores the rows into `answers`. An invalid row rejects the whole request, because the protocol cannot report errors
 * of single rows.
 */
async function score(services: ServiceContext, request: FastifyRequest, asked: Scoring): Promise<void> {
  const { hosted, columns, answers, signal } = asked;
  const { model, pool } = hosted;
  const { limits } = services.config;
  const unit = services.account.unit({ live: true });
  const rows = columns[0]!.data.length;
  try {
    const table = new TensorTable(columns, limits.row_bytes);
    await runOnce({
      model,
      pool,
      source: {
        input: { format: 'ndjson', table: true },
        chunks: await tableChunks(table, { near: true }),
      },
      scoring: { passthrough: [], interpretation: null, limits: streamLimits(limits), failOnInvalid: true },
      account: unit,
      blockBytes: Math.min(Math.max(rows * columns.length * CELL_BYTES, LEAST_BLOCK_BYTES), MOST_BLOCK_BYTES),
      signal,
      onPart: refuseOutcome,
      sink: {
        output: { format: 'ndjson', delimiter: '\t' },
        // A block result always ends with a line end, so it contains only whole lines.
        write: async (bytes) => {
          const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
          for (const line of text.split('\n')) if (line !== '') answers.add(JSON.parse(line) as PredictionJson);
        },
        commit: async () => {},
        abort: async () => {},
      },
      beforeCommit: refuseNothingScored,
    });
  } finally {
    const { rows, scored, rejected } = unit.counts;
    Object.assign(request.story, { rows, scored, rejected });
  }
}
