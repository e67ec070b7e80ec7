// The one way errors are answered: as a problem document, and so that the client gets to see it.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import { problemOf } from './problem.ts';

/** Bytes of a refused body that are read and discarded, so that the client gets to see the answer. */
const LINGER_BYTES = 64 * 1024 * 1024;
const LINGER_MS = 10_000;

export function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  if (reply.raw.headersSent || reply.raw.destroyed) {
    reply.hijack();
    reply.raw.destroy();
    return;
  }
  const { status, headers, body } = problemOf(inOurWords(error), request.id);
  linger(request, reply);
  reply.code(status).headers(headers).send(body);
}

/** Errors of fastify itself as errors of the catalogue. */
function inOurWords(error: unknown): unknown {
  if (error instanceof SluiceError) return error;
  const e = error as {
    validation?: { instancePath: string; message?: string; params?: object }[];
    statusCode?: number;
    code?: string;
  };
  if (e.validation) {
    const words = e.validation.map((v) => {
      const name = v.instancePath.slice(1) || Object.values(v.params ?? {})[0];
      return `${typeof name === 'string' ? name : 'query'}: ${v.message}`;
    });
    return new SluiceError('bad_request', words.join('; '));
  }
  if (e.statusCode !== undefined && e.statusCode >= 400 && e.statusCode < 500) {
    return new SluiceError('bad_request', 'the request is malformed', { cause: error });
  }
  return error;
}

/**
 * Reads on for a while after a refusal: a connection closed while the client still sends would destroy the answer.
 */
function linger(request: FastifyRequest, reply: FastifyReply): void {
  const { raw } = request;
  if (raw.complete || raw.destroyed) return;
  const { socket } = raw;
  const limit = socket.bytesRead + LINGER_BYTES;
  raw.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  const onData = () => {
    if (socket.bytesRead > limit) socket.destroy();
  };
  raw.on('data', onData);
  raw.on('close', () => clearTimeout(timer));
  raw.on('end', () => clearTimeout(timer));
  raw.on('error', () => {});
  reply.raw.on('error', () => {});
}
