// The Open Inference Protocol (V2) over HTTP: what clients of KServe, Seldon, Triton and MLServer speak.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import { VERSION } from '../../../core/version.ts';
import type { HostedModel } from '../../../engine/model-host.ts';
import { type Remedy, refuseMistyped } from '../../../io/decode/column-types.ts';
import type { PredictionJson } from '../../../io/format/prediction-fields.ts';
import { versionOf } from '../../../model/package/load-package.ts';
import { refuseNothingScored } from '../../../runs/nothing-scored.ts';
import { runOnce } from '../../../runs/run-once.ts';
import { assertMayUse } from '../access/permissions.ts';
import { BINARY_TENSORS, JSON_LENGTH_HEADER } from '../wire/binary-tensors.ts';
import { AnswerDigest } from '../wire/content-digest.ts';
import { tellModel } from '../wire/request-log.ts';
import { asWanted, outputTensors, readInferRequest, tensorMetadata } from '../wire/tensors.ts';
import { bodyOptions, inTurn, type PredictServices, refuseOutcome, streamLimits } from './predict.ts';

/** A request is parsed as a whole: larger tables are for the predict operations, which stream. */
export const MOST_INFER_BYTES = 16 * 1024 * 1024;

interface ModelPath {
  Params: { name: string; version?: string };
}

export interface OpenInferenceRoutes {
  services: PredictServices;
  /** Whether new work is taken, and can be answered. */
  ready: () => boolean;
}

/** `credit`, `credit@champion`, or with the version of the path `credit:3`. */
const referenceOf = ({ name, version }: ModelPath['Params']): string =>
  version === undefined ? name : `${name}:${version}`;

export function addOpenInference(app: FastifyInstance, { services, ready }: OpenInferenceRoutes): void {
  const { host } = services;
  const open = { health: true, openInference: true };
  app.get('/v2', { config: open }, async () => ({ name: 'sluice', version: VERSION, extensions: [BINARY_TENSORS] }));
  app.get('/v2/health/live', { config: open }, async () => ({ live: true }));
  app.get('/v2/health/ready', { config: open }, async (_request, reply) => {
    if (!ready()) reply.code(503);
    return { ready: ready() };
  });
  for (const model of ['/v2/models/:name', '/v2/models/:name/versions/:version']) {
    const config = { scope: 'predict', openInference: true } as const;
    app.get<ModelPath>(model, { config }, async (request) => {
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
    app.get<ModelPath>(`${model}/ready`, { config }, async (request, reply) => {
      await meant(request);
      if (!ready()) reply.code(503);
      return { name: request.params.name, ready: ready() };
    });
    app.post<ModelPath>(`${model}/infer`, { config }, async (request, reply) => {
      const reference = referenceOf(request.params);
      assertMayUse(request, reference);
      if (!ready()) throw new SluiceError('stopping', 'the server takes no new work');
      const { answer, behind } = await infer(services, request, reply, reference);
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

/** Waits for its turn, as every predict request does. @throws SluiceError */
async function infer(services: PredictServices, request: FastifyRequest, reply: FastifyReply, reference: string) {
  const options = bodyOptions(services, request);
  const maxBytes = Math.min(options.maxBytes, MOST_INFER_BYTES);
  const maxExpandedBytes = Math.min(options.maxExpandedBytes, MOST_INFER_BYTES);
  const limited = { ...options, maxBytes, maxExpandedBytes };
  return inTurn(services, request, reply, limited, async ({ body, place, signal }) => {
    const chunks: Buffer[] = [];
    for await (const chunk of body.chunks()) chunks.push(Buffer.from(chunk));
    const asked = readInferRequest(Buffer.concat(chunks), request.headers[JSON_LENGTH_HEADER]);
    const hosted = await services.host.use(reference);
    try {
      const { model } = hosted;
      tellModel(request, model);
      // Refused before anything is scored.
      outputTensors(model.manifest, asked.wanted, []);
      refuseMistyped(asked.columns, model.manifest, null, asBytes);
      const predictions = await scored(services, request, { hosted, lines: asked.lines, signal });
      place.finish();
      const { outputs, behind } = asWanted(outputTensors(model.manifest, asked.wanted, predictions), asked.wanted);
      const answer = {
        model_version: versionOf(model.manifest),
        ...(asked.id === null ? {} : { id: asked.id }),
        parameters: { package_sha256: model.sha256 },
        outputs,
      };
      return { answer, behind };
    } finally {
      hosted.release();
    }
  });
}

/** JSON, and the bytes of tensors behind it if there are any. */
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

/** A prediction for each line; the protocol has no place for a row without one, so an invalid row refuses the request. */
async function scored(
  services: PredictServices,
  request: FastifyRequest,
  { hosted: { model, pool }, lines, signal }: { hosted: HostedModel; lines: Buffer; signal: AbortSignal },
): Promise<PredictionJson[]> {
  const out: Buffer[] = [];
  const unit = services.account.unit({ live: true });
  try {
    await runOnce({
      model,
      pool,
      source: { input: { format: 'ndjson' }, chunks: (async function* () {})(), whole: lines },
      scoring: {
        passthrough: [],
        interpretation: null,
        limits: streamLimits(services.config.limits),
        failOnInvalid: true,
      },
      account: unit,
      blockBytes: Math.min(lines.length + 16, 256 * 1024),
      signal,
      onPart: refuseOutcome,
      sink: {
        output: { format: 'ndjson', delimiter: '\t' },
        write: async (bytes) => {
          out.push(Buffer.from(bytes));
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
  const text = Buffer.concat(out).toString();
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as PredictionJson]));
}
