// Temporary keys: renewed before they expire while calls use the old ones, and at once if a server reports them expired.
import { epochMs } from '../../core/clock.ts';

export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string | undefined;
}

/** Keys and their expiry; without one they are requested once. */
export interface Lent extends S3Credentials {
  expiration?: Date | undefined;
}

/** The keys to sign the next call with. `renew`: those given last were refused as expired. @throws SluiceError */
export type CredentialSource = (renew?: 'renew') => Promise<S3Credentials>;

/** Renewed this long before they end, or in the last third of a life that is shorter than three times that. */
const AHEAD_MS = 5 * 60_000;
/** After a renewal that failed, while the old keys still hold. */
const AGAIN_MS = 10_000;
/** Keys that end within this may not arrive in time. */
const MARGIN_MS = 1_000;

/**
 * States: none → fresh → ageing (one renewal in the background; a failure is retried later) → expired (all calls wait
 * for the renewal, and get its failure).
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
