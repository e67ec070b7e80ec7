// Sends all error responses as problem documents, in a way that the client can read them.
import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { startTimer, stopTimer } from '../../../core/clock.ts';
import { asSluiceError, type ErrorCode, SluiceError } from '../../../core/errors.ts';
import { AnswerDigest } from './content-digest.ts';
import { problemOf, systemFault } from './problem.ts';

/** Maximum number of bytes of a rejected body to read and discard, so that the client can read the response. */
const LINGER_BYTES = 64 * 1024 * 1024;
const LINGER_MS = 10_000;

/** The code of a problem. `cut`: the connection was ended, because no response could be sent. */
export interface ProblemSent {
  code: ErrorCode;
  cut: boolean;
}

/** Sends a problem document, and records its code for the log line of the request. */
export function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): ProblemSent {
  const fault = inOurWords(systemFault(error));
  const { code } = asSluiceError(fault, 'internal_error');
  request.story.fault = fault;
  if (reply.raw.headersSent || reply.raw.destroyed) {
    reply.hijack();
    const cut = reply.raw.headersSent && !reply.raw.writableFinished;
    reply.raw.destroy();
    return { code, cut };
  }
  const { status, headers, body } = problemOf(fault, request.id);
  if (speaksOpenInference(request)) body.error = body.detail;
  if (isWhole(request.raw)) reply.code(status).headers(headers).send(body);
  else sendEarly(request, reply, status, { ...(reply.getHeaders() as Record<string, string>), ...headers }, body);
  return { code, cut: false };
}

/** Clients of the Open Inference Protocol expect the member `error` in error responses, even for unknown routes. */
const speaksOpenInference = ({ url, routeOptions }: FastifyRequest): boolean =>
  routeOptions.config?.openInference === true || url.startsWith('/v2/');

/** Whether no more bytes of the body will arrive. */
const isWhole = (raw: IncomingMessage): boolean => raw.complete || raw.destroyed;

/**
 * Responds while the body is still arriving. The client gets the complete response immediately, but the response ends
 * only when the body has ended. If the server closed the connection while the client sends, the connection would be
 * reset and the response lost.
 */
function sendEarly(
  request: FastifyRequest,
  reply: FastifyReply,
  status: number,
  headers: Record<string, string>,
  body: object,
): void {
  const text = JSON.stringify(body);
  reply.hijack();
  reply.raw.on('error', () => {});
  const digest = AnswerDigest.wantedBy(request.headers);
  digest?.update(Buffer.from(text));
  reply.raw.writeHead(status, {
    ...headers,
    'content-length': Buffer.byteLength(text),
    ...(digest ? { 'content-digest': digest.value() } : {}),
  });
  reply.raw.write(text);
  if (isWhole(request.raw)) reply.raw.end();
  else linger(request, () => reply.raw.end());
}

/** Headers of every response. */
export function commonHeaders(request: FastifyRequest): Record<string, string> {
  return {
    'x-request-id': request.id,
    'strict-transport-security': 'max-age=31536000',
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  };
}

/**
 * Answers requests that the router rejects because their path is malformed or has overlong parts. Fastify runs no hooks
 * for such requests.
 */
export function refuseAddress(error: unknown, request: FastifyRequest, reply: FastifyReply): ProblemSent {
  const e = addressFault(error);
  request.story.fault = e;
  const { status, headers, body } = problemOf(e, request.id);
  if (speaksOpenInference(request)) body.error = body.detail;
  sendEarly(request, reply, status, { ...commonHeaders(request), ...headers }, body);
  return { code: asSluiceError(e, 'internal_error').code, cut: false };
}

function addressFault(error: unknown): unknown {
  if (error instanceof SluiceError) return error;
  return (error as { code?: string }).code === 'FST_ERR_MAX_PARAM_LENGTH'
    ? new SluiceError('not_found', 'this operation does not exist')
    : new SluiceError('bad_request', 'the address is malformed');
}

/** Converts errors of Fastify to catalogue errors. */
function inOurWords(error: unknown): unknown {
  if (error instanceof SluiceError) return error;
  const e = error as {
    validation?: Invalid[];
    statusCode?: number;
    code?: string;
  };
  if (e.validation) {
    return new SluiceError('bad_request', [...new Set(e.validation.map(wordsOf))].join('; '));
  }
  if (e.statusCode !== undefined && e.statusCode >= 400 && e.statusCode < 500) {
    return new SluiceError('bad_request', 'the request is malformed', { cause: error });
  }
  return error;
}

interface Invalid {
  keyword: string;
  instancePath: string;
  message?: string;
  params?: Record<string, unknown>;
}

/** Names only parameters that the schema defines, because clients choose the names of other parameters. */
function wordsOf({ keyword, instancePath, message, params }: Invalid): string {
  if (keyword === 'additionalProperties') return 'a query parameter does not belong to this operation';
  if (keyword === 'required') return `the query parameter ${params?.missingProperty} is missing`;
  return `${instancePath.slice(1) || 'the query'}: ${message}`;
}

/** After a rejection, reads and discards the body for a limited time. Calls `onEnd` when the body has ended. */
function linger({ raw }: FastifyRequest, onEnd: () => void): void {
  const { socket } = raw;
  const limit = socket.bytesRead + LINGER_BYTES;
  const timer = startTimer(() => socket.destroy(), LINGER_MS);
  const ended = () => {
    stopTimer(timer);
    onEnd();
  };
  raw.on('data', () => {
    if (socket.bytesRead > limit) socket.destroy();
  });
  for (const name of ['end', 'close', 'error']) raw.once(name, ended);
  // Nothing reads the file of a rejected form, so the form's pipe would block.
  raw.unpipe();
  raw.resume();
}
