// The seconds of Retry-After: when a client that was refused may try again.
import { SluiceError } from '../../../core/errors.ts';

/** By the limit of a key that was reached: the rate has room again after a second, a request that runs takes longer. */
const LIMIT_SECONDS = {
  requests_per_second_per_key: 1,
  concurrent_requests_per_key: 2,
  concurrent_model_uploads_per_key: 2,
};
/** Status 503: overloaded, starting or stopping, or a dependency is unavailable. */
const UNAVAILABLE_SECONDS = 2;
/** Status 423: a silent holder has lost the lock by then. */
const LOCKED_SECONDS = 1;

/** The same error, saying when the limit of a key has room again. */
export const withRetryAfter = (e: SluiceError, limit: keyof typeof LIMIT_SECONDS): SluiceError =>
  new SluiceError(e.code, e.message, { extra: { ...e.extra, retryAfter: LIMIT_SECONDS[limit] } });

/** Seconds after which trying again helps, or null. */
export function retryAfterSeconds(e: SluiceError): number | null {
  if (typeof e.extra.retryAfter === 'number') return e.extra.retryAfter;
  if (e.entry.status === 423) return LOCKED_SECONDS;
  return e.entry.status === 503 ? UNAVAILABLE_SECONDS : null;
}
