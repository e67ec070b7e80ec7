// Error answers: RFC 9457 problem documents with a code of the catalogue; they never contain values of the input.
import { asSluiceError } from '../../../core/errors.ts';
import { retryAfterSeconds } from './retry-after.ts';

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  requestId: string;
  errors?: readonly object[];
  [extra: string]: unknown;
}

export interface ProblemAnswer {
  status: number;
  headers: Record<string, string>;
  body: Problem;
}

/** The answer to an error. An unknown error is a bug, whose message is not disclosed. */
export function problemOf(error: unknown, requestId: string): ProblemAnswer {
  const e = asSluiceError(error, 'worker_failed');
  const known = e === error;
  const { status, summary, action } = e.entry;
  const headers: Record<string, string> = { 'content-type': 'application/problem+json' };
  if (status === 401) headers['www-authenticate'] = 'API-Key realm="sluice"';
  const wait = retryAfterSeconds(e);
  if (wait !== null) headers['retry-after'] = String(wait);
  return {
    status,
    headers,
    body: {
      type: `urn:sluice:error:${e.code}`,
      title: summary,
      status,
      detail: known ? `${e.message}. ${action}` : action,
      code: e.code,
      requestId,
      ...e.extra,
      ...(e.details.length > 0 ? { errors: e.details } : {}),
    },
  };
}
