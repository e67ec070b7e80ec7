// Temporary keys, which are renewed in the background before they expire, and immediately if a server reports them as expired.
import { epochMs } from '../../core/clock.ts';

export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string | undefined;
}

/** Keys and their expiry. Keys without an expiry are requested only once. */
export interface Lent extends S3Credentials {
  expiration?: Date | undefined;
}

/**
 * Returns the keys with which the next request is signed. `renew`: a server rejected the last keys as expired.
 * @throws SluiceError
 */
export type CredentialSource = (renew?: 'renew') => Promise<S3Credentials>;

/**
 * Time before their expiry at which keys are renewed, ms. If the lifetime of keys is less than three times this, they
 * are renewed in the last third of their lifetime.
 */
const AHEAD_MS = 5 * 60_000;
/** Delay after a failed renewal while the old keys are valid, ms. */
const AGAIN_MS = 10_000;
/**
 * Minimum remaining lifetime of keys, ms. Keys that expire earlier are not used, because the request may arrive too
 * late.
 */
const MARGIN_MS = 1_000;

/**
 * Caches keys and renews them. States: none → fresh → ageing (a renewal runs in the background, and is repeated later
 * if it fails) → expired (all calls wait for the renewal, and reject if it fails).
 */
export function renewed(lend: () => Promise<Lent>, now: () => number = epochMs): CredentialSource {
  let known: Lent | null = null;
  let endsAt = 0;
  let renewAt = 0;
  let pending: Promise<Lent> | null = null;

  const renewal = (): Promise<Lent> => {
    pending ??= lend()
      .then((lent) => {
        const life = (lent.expiration?.getTime() ?? Infinity) - now();
        known = lent;
        endsAt = now() + life;
        renewAt = endsAt - Math.min(AHEAD_MS, life / 3);
        return lent;
      })
      .finally(() => {
        pending = null;
      });
    return pending;
  };

  return async (renew) => {
    if (known && renew === undefined) {
      if (now() < renewAt) return known;
      if (now() < endsAt - MARGIN_MS) {
        renewal().catch(() => {
          renewAt = now() + AGAIN_MS;
        });
        return known;
      }
    }
    return renewal();
  };
}
