// The value of the Retry-After header: seconds until a rejected client may try again.
import { SluiceError } from '../../../core/errors.ts';

/**
 * Seconds by the limit that a key has reached. The rate limit recovers within a second; running requests take longer to
 * end.
 */
const LIMIT_SECONDS = {
  requests_per_second_per_key: 1,
  concurrent_requests_per_key: 2,
  concurrent_model_uploads_per_key: 2,
};
/** For status 503: the service is overloaded, starting or stopping, or a dependency is unavailable. */
const UNAVAILABLE_SECONDS = 2;
/** For status 423: a silent client loses the lock within this time. */
const LOCKED_SECONDS = 1;

/** Adds to an error the time after which the limit of the key will have recovered. */
export const withRetryAfter = (e: SluiceError, limit: keyof typeof LIMIT_SECONDS): SluiceError =>
  new SluiceError(e.code, e.message, { extra: { ...e.extra, retryAfter: LIMIT_SECONDS[limit] } });

/** Seconds after which a retry can succeed; null if a retry does not help. */
export function retryAfterSeconds(e: SluiceError): number | null {
  if (typeof e.extra.retryAfter === 'number') return e.extra.retryAfter;
  if (e.entry.status === 423) return LOCKED_SECONDS;
  return e.entry.status === 503 ? UNAVAILABLE_SECONDS : null;
}
