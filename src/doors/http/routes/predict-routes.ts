// The predict operations: a body is scored while it arrives and answered while it is scored, or becomes a job.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import type { Scope } from '../../../config/scopes.ts';
import type { ServerConfig } from '../../../config/server-config.ts';
import { asSluiceError, SluiceError } from '../../../core/errors.ts';
import { VERSION } from '../../../core/version.ts';
import type { HostedModel } from '../../../engine/model-host.ts';
import { assertExplainable } from '../../../engine/score-chunks.ts';
import { refuseOtherColumns } from '../../../formats/delimited/column-types.ts';
import type { ByteSink } from '../../../io/sink/byte-sink.ts';
import type { Chunks } from '../../../io/source/byte-source.ts';
import type { Manifest } from '../../../model/package/manifest.ts';
import { refuseNothingScored } from '../../../runs/plugins/require-scored-rows.ts';
import { runOnce } from '../../../runs/run-once.ts';
import type { Scoring } from '../../../runs/spec.ts';
import { assertMayUse, assertScope } from '../access/permissions.ts';
import { FILE_PART, JOB_CREATED, REFUSALS, requestHeaders, schemaRef } from '../openapi/route-parts.ts';
import { Answer, type AnswerOptions, HOLD_ROWS } from '../wire/answer.ts';
import { AnswerDigest } from '../wire/content-digest.ts';
import { systemFault } from '../wire/problem.ts';
import type { RequestBody } from '../wire/request-body.ts';
import { tellModel } from '../wire/request-log.ts';
import { agreedCoding, varyWith } from '../wire/response-coding.ts';
import {
  type AnswerFormat,
  type BodyFormat,
  bodyOptions,
  CONTENT_TYPES,
  checkContentType,
  type JobIntake,
  PREDICT_QUERY,
  type PredictQuery,
  refuseEmptyBody,
  refuseOutcome,
  requestedInterpretation,
  runSettings,
  type ServiceContext,
  type Turn,
  takeTurn,
  wantsJob,
  wantsUpload,
} from '../wire/scoring-request.ts';
import { mustBeWhole, takesTrailers } from '../wire/streaming-support.ts';

const PREFIX = '/api/v1/scoring/predict';
const FORMATS: AnswerFormat[] = ['json', 'csv', 'ndjson', 'arrow'];

const NO_CHUNKS: Chunks = (async function* () {})();
/** A record batch of Arrow is held whole. */
const MOST_BATCH_BYTES = 64 * 1024 * 1024;
/** Blocks of an upload are cut off when the client pauses, so that predictions come back while it is still sending. */
const IDLE_MS = 20;

const APPLICATION = {
  type: 'object',
  description: 'an application: every column of the model, null for a missing value',
};
const HEADERS = requestHeaders({
  Prefer: 'respond-async requests a job',
  'Idempotency-Key': 'with respond-async: a repeated request with the same key and body returns the same job',
  'Tus-Resumable': '1.0.0 starts a resumable upload: 201 with its Location; see docs/uploads.md',
  'Upload-Length': 'with Tus-Resumable: bytes of the complete upload',
  'Upload-Metadata': 'with Tus-Resumable: returned by HEAD',
  'Content-Digest': 'sha-256=:base64: of the body as sent; verified (RFC 9530)',
  'Accept-Encoding': 'zstd or gzip: the response is compressed if the service is configured to',
  'Want-Content-Digest': 'sha-256=1 requests the digest of the response',
});

function describePredict(format: AnswerFormat, scope: Scope) {
  const text = { type: 'string', ...(format === 'arrow' ? { format: 'binary' } : {}) };
  const body = format === 'json' ? { oneOf: [{ type: 'array', items: APPLICATION }, APPLICATION] } : text;
  const predictions = format === 'json' ? schemaRef('Predictions') : text;
  const [mediaType] = CONTENT_TYPES[format].split(';') as [string];
  return {
    summary: `Predictions ${scope === 'interpret' ? 'with their interpretation ' : ''}for ${format.toUpperCase()} applications`,
    tags: ['scoring'],
    querystring: PREDICT_QUERY,
    headers: HEADERS,
    body: { content: { [mediaType]: { schema: body }, ...FILE_PART } },
    response: {
      200: {
        description: 'A prediction or an error for each application, in order',
        content: { [mediaType]: { schema: predictions } },
      },
      ...(format === 'arrow' ? {} : { 201: JOB_CREATED }),
      ...REFUSALS,
    },
  };
}

/** Operations without an interpretation reject `interactions` with a message that names the right path. */
function withoutInteractions({ schema, url }: { schema: FastifySchema; url: string }) {
  const { interactions: _, ...properties } = PREDICT_QUERY.properties;
  return { url, schema: { ...schema, querystring: { ...PREDICT_QUERY, properties } } };
}

interface PredictRoutes {
  services: ServiceContext;
  jobs: JobIntake;
  /** Whether new work is taken. */
  ready: () => boolean;
}

/** Gives the URLs that also take resumable uploads. */
export function addPredictRoutes(app: FastifyInstance, { services, jobs, ready }: PredictRoutes): string[] {
  const { config, host } = services;
  const uploadUrls: string[] = [];
  for (const [prefix, scope] of predictPaths(config)) {
    for (const format of FORMATS) {
      const url = `${prefix}.${format}`;
      const schema = { ...describePredict(format, scope), ...operationId(prefix, format) };
      const shown = scope === 'interpret' ? {} : { swaggerTransform: withoutInteractions };
      app.post<{ Querystring: PredictQuery }>(
        url,
        { schema, config: { scope, tus: true, ...shown } },
        async (request, reply) => {
          assertMayUse(request, request.query.modelId);
          if (!ready()) throw new SluiceError('stopping', 'the server takes no new work');
          const inParts = wantsUpload(request);
          if (!inParts) checkContentType(request, format);
          // A server may ignore a preference (RFC 7240).
          const asJob = format !== 'arrow' && (inParts || wantsJob(request));
          if (inParts && !asJob)
            throw new SluiceError('bad_request', 'an upload in parts becomes a job, which takes text');
          if (asJob) assertScope(request, 'jobs');
          if (scope === 'interpret') {
            request.query.interpretation = true;
            assertExplainable(await host.meant(request.query.modelId), requestedInterpretation(request.query));
          } else if (request.query.interactions !== undefined) {
            throw new SluiceError('bad_request', 'interactions: are of an interpretation, predict/interpretation.json');
          }
          const spec = { format: format as BodyFormat, query: request.query, pipeline: null };
          if (inParts) return jobs.createUpload(request, reply, spec);
          if (asJob) {
            const job = await jobs.createJob(request, spec);
            reply.header('preference-applied', 'respond-async');
            return reply.code(201).header('location', job.url).send(job.description);
          }
          await predict(services, request, reply, format);
        },
      );
      // A job stores text.
      if (format !== 'arrow') uploadUrls.push(url);
    }
  }
  return uploadUrls;
}

/** The name of an operation in generated clients; path aliases have none. */
function operationId(prefix: string, format: AnswerFormat): { operationId?: string } {
  const names: Record<string, string> = { [PREFIX]: 'predict', [`${PREFIX}/interpretation`]: 'predictInterpretation' };
  const name = names[prefix];
  return name === undefined ? {} : { operationId: `${name}${format[0]!.toUpperCase()}${format.slice(1)}` };
}

/** Path prefixes of the predict operations and the scope each needs. */
function predictPaths(config: ServerConfig): [string, Scope][] {
  return [
    [PREFIX, 'predict'],
    [`${PREFIX}/interpretation`, 'interpret'],
    ...config.interpretation_aliases.map((alias): [string, Scope] => [alias, 'interpret']),
  ];
}

/**
 * Answers one predict request on the raw socket. Errors before the head are thrown; after it the connection is cut.
 * @throws SluiceError
 */
async function predict(
  services: ServiceContext,
  request: FastifyRequest,
  reply: FastifyReply,
  format: AnswerFormat,
): Promise<void> {
  const { host, metrics } = services;
  await takeTurn(services, request, reply, bodyOptions(services, request), async (turn) => {
    const hosted = await host.use((request.query as PredictQuery).modelId);
    tellModel(request, hosted.model);
    metrics.uploads.inc();
    try {
      await answerBody(services, { request, reply, format, hosted, ...turn });
    } finally {
      metrics.uploads.dec();
      hosted.release();
    }
  });
}

interface Asking extends Turn {
  request: FastifyRequest;
  reply: FastifyReply;
  format: AnswerFormat;
  hosted: HostedModel;
}

async function answerBody(services: ServiceContext, asking: Asking): Promise<void> {
  const { request, reply, format, body, place } = asking;
  const { model, pool } = asking.hosted;
  const held = new Answer(reply.raw, answerOptions(services, asking));
  // What lines of JSON say, without their text.
  const settings = runSettings(format === 'arrow' ? 'ndjson' : format, request.query as PredictQuery, services.config);
  const { input, scoring } = settings;
  const output = format === 'arrow' ? { ...settings.output, format: 'columns' as const } : settings.output;
  const whole = format === 'arrow' ? null : body.takeWhole();
  const unit = services.account.unit({ live: true });
  /** Rows whose answer is held or sent: the one that fills the hold is not what ends it. */
  let rows = 0;
  const answer: ByteSink = {
    revocable: true,
    get bytesWritten() {
      return request.story.bytesOut;
    },
    write: async (bytes) => {
      await held.write(bytes);
      if (rows >= HOLD_ROWS && !held.started) await held.release();
    },
    async commit() {
      reply.hijack();
      // Requests of one turn of the event loop are answered together: waking clients one by one costs twice as much.
      if (whole) await nextTurn();
      place.finish();
      await held.end();
    },
    abort: async () => held.discard(),
  };
  try {
    const chunks: Chunks = whole
      ? NO_CHUNKS
      : format === 'arrow'
        ? await arrowBody(body, services.config)
        : body.chunks();
    if (chunks.columns) refuseOtherColumns(chunks.columns, model.manifest, scoring.passthrough);
    const sink = format === 'arrow' ? await arrowAnswer(answer, model.manifest, scoring) : answer;
    await runOnce({
      model,
      pool,
      source: { input, idleMs: IDLE_MS, chunks, ...(whole ? { whole } : {}) },
      scoring,
      account: unit,
      blockBytes: blockBytes(request),
      signal: asking.signal,
      onPart: (part) => {
        refuseOutcome(part);
        rows = unit.counts.rows;
      },
      sink: { output, write: (b) => sink.write(b), commit: () => sink.commit(), abort: () => sink.abort() },
      beforeCommit: (counts) => {
        if (held.started) return;
        refuseNothingScored(counts);
        refuseEmptyBody(counts, format, request.headers);
      },
    });
  } catch (error) {
    if (!held.started) throw error;
    request.story.fault = systemFault(error);
    services.metrics.httpErrors.inc({ code: asSluiceError(request.story.fault, 'internal_error').code });
    services.metrics.cutAnswers.inc();
    reply.hijack();
    held.destroy();
  } finally {
    const { rows, scored, rejected } = unit.counts;
    Object.assign(request.story, { rows, scored, rejected });
  }
}

async function arrowBody(body: RequestBody, { limits }: ServerConfig): Promise<Chunks> {
  const { arrowChunks } = await import('../../../formats/arrow/arrow-format.ts');
  return arrowChunks(body.chunks(), {
    batchBytes: MOST_BATCH_BYTES,
    limits: {
      rows: limits.rows,
      columns: limits.columns,
      recordBytes: limits.row_bytes,
      expandedBytes: limits.expanded_bytes,
    },
  });
}

/** A record batch for each part: who sends while it reads waits for no later row. @throws SluiceError bad_request */
async function arrowAnswer(answer: ByteSink, manifest: Manifest, scoring: Scoring): Promise<ByteSink> {
  const { passthrough, interpretation } = scoring;
  if (passthrough === '*') throw new SluiceError('bad_request', 'passthrough: Arrow needs the names of its columns');
  const { arrowSink } = await import('../../../formats/arrow/arrow-sink.ts');
  return arrowSink(answer, { manifest, passthrough, interpretation, eachWrite: true }, false);
}

/** How the answer of a request is held and sent. */
function answerOptions({ config, metrics }: ServiceContext, { request, reply, ...asking }: Asking): AnswerOptions {
  const { level } = config.compression;
  return {
    headers: {
      ...(reply.getHeaders() as Record<string, string>),
      ...(level > 0 ? { vary: varyWith(reply.getHeader('vary')) } : {}),
      'content-type': CONTENT_TYPES[asking.format],
      'sluice-model': asking.hosted.model.ref,
      'sluice-package-sha256': asking.hosted.model.sha256,
      'sluice-version': VERSION,
    },
    spillBytes: config.spill.max_bytes,
    spillFolder: config.spill.folder,
    idleMs: config.timeouts.answer_idle_ms,
    bodyEnded: asking.body.ended,
    whole: mustBeWhole(request.raw, config),
    digest: AnswerDigest.wantedBy(request.headers),
    encoding: agreedCoding(request.headers['accept-encoding'], level),
    trailers: takesTrailers(request.raw),
    whileIdle: asking.place.idle,
    onSpill: (n) => metrics.spilled.inc(n),
    onWritten: (n) => {
      metrics.bytesOut.inc(n);
      request.story.bytesOut += n;
    },
  };
}

/** Small bodies get small slabs: a single application must not pay for the room of a portfolio. */
function blockBytes(request: FastifyRequest): number {
  const length = Number(request.headers['content-length'] ?? Number.NaN);
  return length < 128 * 1024 ? Math.max(1024, length + 16) : 256 * 1024;
}
