// Answers a predict request: scores the body while it arrives, and sends predictions while further rows are scored.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { asSluiceError, SluiceError } from '../../../core/errors.ts';
import { VERSION } from '../../../core/version.ts';
import type { HostedModel } from '../../../engine/model-host.ts';
import type { ByteSink } from '../../../io/sink/byte-sink.ts';
import type { Chunks } from '../../../io/source/byte-source.ts';
import type { Manifest } from '../../../model/package/manifest.ts';
import { refuseNothingScored } from '../../../runs/plugins/require-scored-rows.ts';
import { runOnce } from '../../../runs/run-once.ts';
import type { Scoring } from '../../../runs/spec.ts';
import { Answer, type AnswerOptions, HOLD_ROWS } from '../wire/answer.ts';
import { AnswerDigest } from '../wire/content-digest.ts';
import { systemFault } from '../wire/problem.ts';
import { agreedCoding, varyWith } from '../wire/response-coding.ts';
import {
  type AnswerFormat,
  CONTENT_TYPES,
  type PredictQuery,
  refuseEmptyBody,
  refuseOutcome,
  runSettings,
  type ServiceContext,
  type Turn,
} from '../wire/scoring-request.ts';
import { mustBeWhole, takesTrailers } from '../wire/streaming-support.ts';
import { arrowBody, openTableBody } from '../wire/table-body.ts';

const NO_CHUNKS: Chunks = (async function* () {})();
/**
 * If the client sends nothing for this many ms, an incomplete block is scored. The client thus gets predictions while
 * it is still sending.
 */
const IDLE_MS = 20;

interface Asking extends Turn {
  request: FastifyRequest;
  reply: FastifyReply;
  format: AnswerFormat;
  /** Whether the body is a Parquet or Arrow file. Default: the body has the format of the response. */
  fromTable?: boolean;
  hosted: HostedModel;
}

/** Errors before the response head are thrown; later errors end the connection. @throws SluiceError */
export async function answerBody(services: ServiceContext, asking: Asking): Promise<void> {
  const { request, reply, format, body, place, fromTable = false } = asking;
  const { model, pool } = asking.hosted;
  const held = new Answer(reply.raw, answerOptions(services, asking));
  // The settings for Arrow are those for ndjson.
  const settings = runSettings(format === 'arrow' ? 'ndjson' : format, request.query as PredictQuery, services.config);
  const { input, scoring } = settings;
  const output = format === 'arrow' ? { ...settings.output, format: 'columns' as const } : settings.output;
  const whole = format === 'arrow' || fromTable ? null : body.takeWhole();
  const unit = services.account.unit({ live: true });
  /** Number of rows held or sent, without the rows of the current write. */
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
      // Waiting for the next turn of the event loop sends the responses of one turn together. Waking clients one by one
      // would cost twice as much.
      if (whole) await nextTurn();
      place.finish();
      await held.end();
    },
    abort: async () => held.discard(),
  };
  let table: Awaited<ReturnType<typeof openTableBody>> | null = null;
  try {
    if (fromTable) table = await openTableBody(body, { config: services.config, onSpill: (n) => services.metrics.spilled.inc(n) }); // biome-ignore format: one line
    const chunks: Chunks = table
      ? table.chunks
      : whole
        ? NO_CHUNKS
        : format === 'arrow'
          ? await arrowBody(body.chunks(), services.config)
          : body.chunks();
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
    await table?.close();
    const { rows, scored, rejected } = unit.counts;
    Object.assign(request.story, { rows, scored, rejected });
  }
}

/**
 * Writes one record batch per block result. A client that sends and reads at the same time thus need not wait for later
 * rows.
 * @throws SluiceError bad_request
 */
async function arrowAnswer(answer: ByteSink, manifest: Manifest, scoring: Scoring): Promise<ByteSink> {
  const { passthrough, interpretation } = scoring;
  if (passthrough === '*') throw new SluiceError('bad_request', 'passthrough: list the column names for Arrow');
  const { arrowSink } = await import('../../../formats/arrow/arrow-sink.ts');
  return arrowSink(answer, { manifest, passthrough, interpretation, eachWrite: true }, false);
}

/** Options for holding back and sending the response to a request. */
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

/**
 * Block size of a request in bytes. A small body gets small blocks, so that a single application does not reserve the
 * memory for a whole portfolio.
 */
function blockBytes(request: FastifyRequest): number {
  const length = Number(request.headers['content-length'] ?? Number.NaN);
  return length < 128 * 1024 ? Math.max(1024, length + 16) : 256 * 1024;
}
