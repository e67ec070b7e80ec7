// The value of Retry-After: seconds until a rejected client may try again.
import { SluiceError } from '../../../core/errors.ts';

/** By the limit that a key reached: the rate limit recovers within a second, running requests take longer. */
const LIMIT_SECONDS = {
  requests_per_second_per_key: 1,
  concurrent_requests_per_key: 2,
  concurrent_model_uploads_per_key: 2,
};
/** Status 503: overloaded, starting or stopping, or a dependency is unavailable. */
const UNAVAILABLE_SECONDS = 2;
/** Status 423: within this time a silent client loses the lock. */
const LOCKED_SECONDS = 1;

/** Adds to an error when the limit of the key will have recovered. */
export const withRetryAfter = (e: SluiceError, limit: keyof typeof LIMIT_SECONDS): SluiceError =>
  new SluiceError(e.code, e.message, { extra: { ...e.extra, retryAfter: LIMIT_SECONDS[limit] } });

/** Seconds after which a retry can succeed; null: a retry does not help. */
export function retryAfterSeconds(e: SluiceError): number | null {
  if (typeof e.extra.retryAfter === 'number') return e.extra.retryAfter;
  if (e.entry.status === 423) return LOCKED_SECONDS;
  return e.entry.status === 503 ? UNAVAILABLE_SECONDS : null;
}
