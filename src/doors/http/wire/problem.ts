// Error responses: problem documents (RFC 9457) with a code from the error catalogue. Error responses never contain
// input values.
import { asSluiceError, type ErrorCode, SluiceError } from '../../../core/errors.ts';
import { isFull } from '../../../core/file-system.ts';
import { KEY_CHALLENGE, LoginRefused } from '../access/permissions.ts';
import { retryAfterSeconds } from './retry-after.ts';

interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  requestId: string;
  errors?: readonly object[];
  [extra: string]: unknown;
}

interface ProblemAnswer {
  status: number;
  headers: Record<string, string>;
  body: Problem;
}

/** Converts errors of the operating system to catalogue errors. Other errors are returned unchanged. */
export function systemFault(error: unknown): unknown {
  if (isFull(error)) return new SluiceError('output_full', 'a disk of the server is full', { cause: error });
  switch ((error as NodeJS.ErrnoException | null)?.code) {
    case 'EMFILE':
    case 'ENFILE':
      return new SluiceError('overloaded', 'the server has reached its limit of open files', { cause: error });
  }
  return error;
}

/**
 * The response for an error. Messages of internal errors appear only in the log, because other components may have
 * written them.
 */
export function problemOf(error: unknown, requestId: string): ProblemAnswer {
  const e = withoutNames(asSluiceError(error, 'internal_error'));
  const { status, summary, action, fault } = e.entry;
  // Fastify would add the charset, but a response that is sent before the end of the body bypasses Fastify.
  const headers: Record<string, string> = { 'content-type': 'application/problem+json; charset=utf-8' };
  const challenge = e instanceof LoginRefused ? e.challenge : null;
  if (challenge !== null) headers['www-authenticate'] = challenge;
  else if (status === 401) headers['www-authenticate'] = KEY_CHALLENGE;
  const wait = retryAfterSeconds(e);
  if (wait !== null) headers['retry-after'] = String(wait);
  return {
    status,
    headers,
    body: {
      type: `urn:sluice:error:${e.code}`,
      title: summary,
      status,
      detail: fault === 'bug' ? action : `${e.message}. ${action}`,
      code: e.code,
      requestId,
      ...e.extra,
      ...(e.details.length > 0 ? { errors: e.details } : {}),
    },
  };
}

/** Codes whose messages name the requested object, each with a message that does not. */
const MESSAGES: Partial<Record<ErrorCode, string>> = {
  model_not_found: 'this model, version or alias does not exist',
};

/**
 * Replaces messages that contain names from the request: neither clients nor the log get paths, names or values of a
 * request. For header rows and records, `formats/decode/` does the same.
 */
export function withoutNames(error: SluiceError): SluiceError {
  const message = MESSAGES[error.code];
  return message === undefined ? error : new SluiceError(error.code, message, { cause: error });
}
