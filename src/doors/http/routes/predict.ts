// The predict operations: a body is scored while it arrives and answered while it is scored.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ServerConfig } from '../../../config/server-config.ts';
import { SluiceError } from '../../../core/errors.ts';
import type { Tally } from '../../../engine/counts.ts';
import type { HostedModel, ModelHost } from '../../../engine/model-host.ts';
import type { InputFormat, StreamLimits } from '../../../engine/score-chunks.ts';
import { DELIMITERS, type DelimiterName } from '../../../io/decode/header.ts';
import type { OutputFormat } from '../../../io/format/formatter.ts';
import type { Metrics } from '../../../monitor/metrics.ts';
import type { RunAccount } from '../../../runs/account.ts';
import { refuseNothingScored } from '../../../runs/nothing-scored.ts';
import { runOnce, type Scoring } from '../../../runs/run-once.ts';
import type { Admission } from '../wire/admission.ts';
import { Answer, HOLD_ROWS } from '../wire/answer.ts';
import { type BodyOptions, openBody } from '../wire/request-body.ts';

export type BodyFormat = 'json' | 'csv' | 'ndjson';

export const CONTENT_TYPES: Record<BodyFormat, string> = {
  json: 'application/json; charset=utf-8',
  csv: 'text/csv; charset=utf-8; header=present',
  ndjson: 'application/x-ndjson; charset=utf-8',
};

/** Content types that contradict no suffix, or just their own. */
const ACCEPTED: Record<BodyFormat, RegExp> = {
  json: /^(application|text)\/([\w.-]+\+)?json$/,
  csv: /^(text\/(csv|tab-separated-values|plain)|application\/(csv|vnd\.ms-excel))$/,
  ndjson: /^application\/(x-)?(ndjson|jsonl|jsonlines)$|^text\/plain$/,
};
const NEUTRAL = /^(multipart\/form-data|application\/octet-stream)$/;

export interface PredictQuery {
  modelId: string;
  delimiter?: DelimiterName;
  passthrough?: string;
  on_invalid?: 'report' | 'fail';
  top_effects?: number;
  interpret_below?: number;
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
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const NO_CHUNKS: AsyncIterable<Uint8Array> = (async function* () {})();
/** Blocks of an upload are cut off when the client pauses, so that predictions come back while it is still sending. */
const IDLE_MS = 20;

/** How a request asks for its rows to be read and written; the same for answers and jobs. */
export interface Asked {
  input: InputFormat;
  output: { format: OutputFormat; delimiter: string };
  scoring: Scoring;
}

export function askedOf(format: BodyFormat, query: PredictQuery, { limits }: ServerConfig): Asked {
  const delimiter = DELIMITERS[query.delimiter ?? 'tab'];
  return {
    input: format === 'csv' ? { format: 'delimited', delimiter } : { format },
    output: { format, delimiter },
    scoring: {
      passthrough: query.passthrough === '*' ? '*' : (query.passthrough?.split(',').filter((n) => n !== '') ?? []),
      interpretation: query.interpretation
        ? { effects: true, reasons: true, top: query.top_effects ?? null, below: query.interpret_below ?? null }
        : null,
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
export function bodyOptions({ config, metrics }: PredictServices): BodyOptions {
  return {
    maxBytes: config.limits.body_bytes,
    maxExpandedBytes: config.limits.expanded_bytes,
    idleMs: config.timeouts.body_idle_ms,
    minBytesPerSecond: config.timeouts.body_min_bytes_per_second,
    onBytes: (n) => metrics.bytesIn.inc(n),
  };
}

/** @throws SluiceError invalid_content when the Content-Type contradicts the suffix of the path */
export function checkContentType(request: FastifyRequest, format: BodyFormat): void {
  const header = request.headers['content-type'];
  if (header === undefined) return;
  const type = header.split(';')[0]!.trim().toLowerCase();
  if (NEUTRAL.test(type) || ACCEPTED[format].test(type)) return;
  throw new SluiceError(
    'invalid_content',
    `Content-Type ${/^[\w.+/-]{1,80}$/.test(type) ? type : ''} contradicts .${format}`,
  );
}

/** Whoever sends the outcome along is told, not scored. @throws SluiceError outcome_present */
export function refuseOutcome({ rejectedByCode, details }: Tally): void {
  if (!rejectedByCode.outcome_present) return;
  throw new SluiceError('outcome_present', 'an application carries the outcome column', {
    details: details.filter((d) => d.code === 'outcome_present').slice(0, 1),
  });
}

/**
 * Answers one predict request on the raw socket. Errors before the head are thrown; after it the connection is cut.
 * @throws SluiceError
 */
export async function predict(
  services: PredictServices,
  request: FastifyRequest,
  reply: FastifyReply,
  format: BodyFormat,
  keyName: string,
): Promise<void> {
  const { config, host, admission, metrics } = services;
  const query = request.query as PredictQuery;
  const gone = new AbortController();
  const onClose = () => {
    if (!reply.raw.writableFinished) gone.abort(new SluiceError('client_gone', 'the client closed the connection'));
  };
  reply.raw.on('close', onClose);
  const waitingSince = performance.now();
  const leave = await admission.enter(keyName, gone.signal);
  metrics.queueWait.observe((performance.now() - waitingSince) / 1000);
  metrics.uploads.inc();
  let hosted: HostedModel | null = null;
  let answer: Answer | null = null;
  try {
    hosted = await host.use(query.modelId);
    const { model, pool } = hosted;
    const body = await openBody(request, bodyOptions(services));
    const held = new Answer(reply.raw, {
      headers: {
        ...(reply.getHeaders() as Record<string, string>),
        'content-type': CONTENT_TYPES[format],
        'sluice-model': model.ref,
      },
      spillBytes: config.spill.max_bytes,
      spillFolder: config.spill.folder,
      idleMs: config.timeouts.answer_idle_ms,
      bodyEnded: body.ended,
      onSpill: (n) => metrics.spilled.inc(n),
      onWritten: (n) => metrics.bytesOut.inc(n),
    });
    answer = held;
    const { input, output, scoring } = askedOf(format, query, config);
    const whole = body.takeWhole();
    const unit = services.account.unit({ live: true });
    /** Rows whose answer is held or sent: the one that fills the hold is not what ends it. */
    let rows = 0;
    await runOnce({
      model,
      pool,
      source: { input, idleMs: IDLE_MS, ...(whole ? { chunks: NO_CHUNKS, whole } : { chunks: body.chunks() }) },
      scoring,
      account: unit,
      blockBytes: blockBytes(request),
      signal: gone.signal,
      onPart: (part) => {
        refuseOutcome(part);
        rows = unit.counts.rows;
      },
      sink: {
        output,
        write: async (bytes) => {
          await held.write(bytes);
          if (rows >= HOLD_ROWS && !held.started) await held.release();
        },
        async commit() {
          reply.hijack();
          // What came in one turn of the event loop is answered together: waking the clients one by one costs twice as much.
          if (whole) await nextTurn();
          await held.end();
        },
        abort: async () => {},
      },
      beforeCommit: (counts) => {
        if (!held.started) refuseNothingScored(counts);
      },
    });
  } catch (error) {
    if (!answer?.started) throw error;
    reply.hijack();
    answer.destroy();
    request.log.warn({ code: (error as { code?: string }).code }, 'answer cut');
  } finally {
    reply.raw.off('close', onClose);
    metrics.uploads.dec();
    hosted?.release();
    leave();
  }
}

/** Small bodies get small slabs: a single application must not pay for the room of a portfolio. */
function blockBytes(request: FastifyRequest): number {
  const length = Number(request.headers['content-length'] ?? Number.NaN);
  return length < 128 * 1024 ? Math.max(1024, length + 16) : 256 * 1024;
}
