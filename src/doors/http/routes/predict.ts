// The predict operations: a body is scored while it arrives and answered while it is scored.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { TSchema } from 'typebox';
import { SCORING } from '../../../config/options/scoring.ts';
import type { ServerConfig } from '../../../config/server-config.ts';
import { monotonicMs } from '../../../core/clock.ts';
import { asSluiceError, SluiceError } from '../../../core/errors.ts';
import { passthroughNames } from '../../../core/input-declaration.ts';
import type { Log } from '../../../core/log.ts';
import type { Tracer } from '../../../core/tracing.ts';
import { VERSION } from '../../../core/version.ts';
import type { Tally } from '../../../engine/counts.ts';
import type { HostedModel, ModelHost } from '../../../engine/model-host.ts';
import type { InputFormat, StreamLimits } from '../../../engine/score-chunks.ts';
import { refuseOtherColumns } from '../../../io/decode/column-types.ts';
import { DELIMITERS, type DelimiterName } from '../../../io/decode/header.ts';
import type { OutputFormat } from '../../../io/format/formatter.ts';
import type { ByteSink } from '../../../io/sink/byte-sink.ts';
import type { Chunks } from '../../../io/source/byte-source.ts';
import type { Manifest } from '../../../model/package/manifest.ts';
import type { Metrics } from '../../../monitor/metrics.ts';
import type { RunAccount } from '../../../runs/account.ts';
import { refuseNothingScored } from '../../../runs/plugins/require-scored-rows.ts';
import { runOnce, type Scoring } from '../../../runs/run-once.ts';
import type { Admission, Admitted } from '../wire/admission.ts';
import { Answer, type AnswerOptions, HOLD_ROWS } from '../wire/answer.ts';
import { agreedCoding, varyWith } from '../wire/content-coding.ts';
import { AnswerDigest } from '../wire/content-digest.ts';
import { systemFault } from '../wire/problem.ts';
import { type BodyOptions, openBody, type RequestBody } from '../wire/request-body.ts';
import { tellModel } from '../wire/request-log.ts';
import { mustBeWhole, takesTrailers } from '../wire/way.ts';

export type BodyFormat = 'json' | 'csv' | 'ndjson';
/** What only a request is answered in, not a job. */
export type AnswerFormat = BodyFormat | 'arrow';

export const CONTENT_TYPES: Record<AnswerFormat, string> = {
  json: 'application/json; charset=utf-8',
  csv: 'text/csv; charset=utf-8; header=present',
  ndjson: 'application/x-ndjson; charset=utf-8',
  arrow: 'application/vnd.apache.arrow.stream',
};

/** Content types that contradict no suffix, or just their own. */
const ACCEPTED: Record<AnswerFormat, RegExp> = {
  json: /^(application|text)\/([\w.-]+\+)?json$/,
  csv: /^(text\/(csv|tab-separated-values|plain)|application\/(csv|vnd\.ms-excel))$/,
  ndjson: /^application\/(x-)?(ndjson|jsonl|jsonlines)$|^text\/plain$/,
  arrow: /^application\/vnd\.apache\.arrow\.(stream|file)$/,
};
/** ASCII is UTF-8, too. */
const UTF8 = /^charset\s*=\s*"?(utf-?8|us-ascii)"?$/;
const NEUTRAL = /^(multipart\/form-data|application\/octet-stream)$/;

/** An enumeration with the type that clients generated from the document want. */
const words = (schema: TSchema) => ({ type: 'string', ...schema });

export const PREDICT_QUERY = {
  type: 'object',
  required: ['modelId'],
  additionalProperties: false,
  properties: {
    modelId: { ...SCORING.model(), maxLength: 200, examples: ['credit-default'] },
    delimiter: words(SCORING.delimiter({ otherwise: 'tab' })),
    passthrough: { ...SCORING.passthrough_text(), maxLength: 4000 },
    on_invalid: words(SCORING.on_invalid({ otherwise: 'report' })),
    interpret_below: SCORING.interpret_below(),
    top_effects: SCORING.top_effects(),
    interactions: SCORING.interactions(),
    max_evaluations: SCORING.max_evaluations(),
  },
} as const;

export interface PredictQuery {
  modelId: string;
  delimiter?: DelimiterName;
  passthrough?: string;
  on_invalid?: 'report' | 'fail';
  top_effects?: number;
  interpret_below?: number;
  interactions?: number;
  max_evaluations?: number;
  /** Set by the operation, never by the caller. */
  interpretation?: boolean;
}

export interface PredictServices {
  config: ServerConfig;
  host: ModelHost;
  admission: Admission;
  metrics: Metrics;
  /** Of all requests and jobs of this service. */
  account: RunAccount;
  log: Log;
  tracer: Tracer | null;
}

const NO_CHUNKS: Chunks = (async function* () {})();
/** A record batch of Arrow is held whole. */
const MOST_BATCH_BYTES = 64 * 1024 * 1024;
/** Blocks of an upload are cut off when the client pauses, so that predictions come back while it is still sending. */
const IDLE_MS = 20;

/** How a request asks for its rows to be read and written; the same for answers and jobs. */
export interface Asked {
  input: InputFormat;
  output: { format: OutputFormat; delimiter: string };
  scoring: Scoring;
}

/** null: predictions only. */
export function interpretationAsked(query: PredictQuery): Scoring['interpretation'] {
  if (!query.interpretation) return null;
  return {
    effects: true,
    reasons: true,
    top: query.top_effects ?? null,
    below: query.interpret_below ?? null,
    maxEvaluations: query.max_evaluations ?? null,
    ...(query.interactions === undefined ? {} : { interactions: query.interactions }),
  };
}

export function askedOf(format: BodyFormat, query: PredictQuery, { limits }: ServerConfig): Asked {
  const delimiter = DELIMITERS[query.delimiter ?? 'tab'];
  return {
    input: format === 'csv' ? { format: 'delimited', delimiter } : { format },
    output: { format, delimiter },
    scoring: {
      passthrough: passthroughNames(query.passthrough),
      interpretation: interpretationAsked(query),
      limits: streamLimits(limits),
      failOnInvalid: query.on_invalid === 'fail',
    },
  };
}

/** Limits of one body. */
export const streamLimits = (limits: ServerConfig['limits']): StreamLimits => ({
  maxRecordBytes: limits.row_bytes,
  maxRows: limits.rows,
  maxColumns: limits.columns,
  maxDepth: limits.nesting_depth,
});

/** What the configuration allows a body to be. */
export function bodyOptions({ config, metrics }: PredictServices, { story }: FastifyRequest): BodyOptions {
  return {
    maxBytes: config.limits.body_bytes,
    maxExpandedBytes: config.limits.expanded_bytes,
    idleMs: config.timeouts.body_idle_ms,
    minBytesPerSecond: config.timeouts.body_min_bytes_per_second,
    onBytes: (n) => {
      metrics.bytesIn.inc(n);
      story.bytesIn += n;
    },
  };
}

/** @throws SluiceError invalid_content when the Content-Type contradicts the suffix of the path */
export function checkContentType(request: FastifyRequest, format: AnswerFormat): void {
  const header = request.headers['content-type'];
  if (header === undefined) return;
  const [type = '', ...parameters] = header.split(';').map((part) => part.trim().toLowerCase());
  if (!NEUTRAL.test(type) && !ACCEPTED[format].test(type)) {
    throw new SluiceError('invalid_content', `Content-Type contradicts .${format}`);
  }
  const charset = parameters.find((p) => /^charset\s*=/.test(p));
  if (charset === undefined || UTF8.test(charset)) return;
  throw new SluiceError('invalid_content', 'the charset of Content-Type must be utf-8');
}

/** Whoever sends the outcome along is told, not scored. @throws SluiceError outcome_present */
export function refuseOutcome({ rejectedByCode, details }: Tally): void {
  if (!rejectedByCode.outcome_present) return;
  throw new SluiceError('outcome_present', 'an application carries the outcome column', {
    details: details.filter((d) => d.code === 'outcome_present').slice(0, 1),
  });
}

/**
 * An empty NDJSON body gives an empty answer, which nobody can tell from a failure on the way: whoever means it says so with
 * `Content-Length: 0`.
 * @throws SluiceError empty_input
 */
export function refuseNothingSent(
  { rows }: { rows: number },
  format: AnswerFormat,
  headers: FastifyRequest['headers'],
): void {
  if (rows > 0 || format !== 'ndjson' || headers['content-length'] === '0') return;
  throw new SluiceError('empty_input', 'the body holds no application; an empty one has Content-Length: 0');
}

/** A request whose turn it is. */
export interface Turn {
  body: RequestBody;
  place: Admitted;
  /** Aborted when the client is gone. */
  signal: AbortSignal;
}

/** Counts a request in until `use` ends; the signal is aborted when the client is gone. @throws SluiceError what `use` throws as well */
export async function admitted<T>(
  { admission }: PredictServices,
  request: FastifyRequest,
  reply: FastifyReply,
  use: (place: Admitted, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const gone = new AbortController();
  const onClose = () => {
    if (!reply.raw.writableFinished) gone.abort(new SluiceError('client_gone', 'the client closed the connection'));
  };
  const place = admission.enter(request.identity!.name);
  reply.raw.on('close', onClose);
  try {
    return await use(place, gone.signal);
  } finally {
    reply.raw.off('close', onClose);
    place.leave();
  }
}

/** Opens the body of a request and waits until it is its turn. @throws SluiceError what `use` throws as well */
export const inTurn = <T>(
  services: PredictServices,
  request: FastifyRequest,
  reply: FastifyReply,
  options: BodyOptions,
  use: (turn: Turn) => Promise<T>,
): Promise<T> =>
  admitted(services, request, reply, async (place, signal) => {
    const body = await openBody(request, { ...options, whileIdle: place.idle });
    const waitingSince = monotonicMs();
    await place.begin(signal);
    services.metrics.queueWait.observe((monotonicMs() - waitingSince) / 1000);
    return use({ body, place, signal });
  });

/**
 * Answers one predict request on the raw socket. Errors before the head are thrown; after it the connection is cut.
 * @throws SluiceError
 */
export async function predict(
  services: PredictServices,
  request: FastifyRequest,
  reply: FastifyReply,
  format: AnswerFormat,
): Promise<void> {
  const { host, metrics } = services;
  await inTurn(services, request, reply, bodyOptions(services, request), async (turn) => {
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

async function answerBody(services: PredictServices, asking: Asking): Promise<void> {
  const { request, reply, format, body, place } = asking;
  const { model, pool } = asking.hosted;
  const held = new Answer(reply.raw, answerOptions(services, asking));
  // What lines of JSON say, without their text.
  const asked = askedOf(format === 'arrow' ? 'ndjson' : format, request.query as PredictQuery, services.config);
  const { input, scoring } = asked;
  const output = format === 'arrow' ? { ...asked.output, format: 'columns' as const } : asked.output;
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
      // What came in one turn of the event loop is answered together: waking the clients one by one costs twice as much.
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
        refuseNothingSent(counts, format, request.headers);
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
  const { arrowChunks } = await import('../../../runs/table-chunks.ts');
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
  const { arrowSink } = await import('../../../io/sink/arrow-sink.ts');
  return arrowSink(answer, { manifest, passthrough, interpretation, eachWrite: true }, false);
}

/** How the answer of a request is held and sent. */
function answerOptions({ config, metrics }: PredictServices, { request, reply, ...asking }: Asking): AnswerOptions {
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
