// Limits failed logins per address: each address has a token bucket, and memory is bounded.
import { isIPv4, isIPv6 } from 'node:net';
import { monotonicMs } from '../../../core/clock.ts';

const MINUTE_MS = 60_000;
/** Number of addresses that have a bucket of their own. All other addresses share one bucket. */
const MOST_ADDRESSES = 4096;

interface Bucket {
  /** Number of further failures that are allowed. */
  left: number;
  /** Monotonic time in ms at which `left` was computed. */
  at: number;
  /** Whether the bucket was empty at the last check. */
  limited: boolean;
}

/** Result of counting a failure. */
interface Failure {
  /** Seconds until another failure is allowed; null if this failure was within the limit. */
  retryAfter: number | null;
  /** Whether this is the first failure beyond the limit. */
  first: boolean;
}

export class FailedLogins {
  readonly #perMinute: number;
  readonly #buckets = new Map<string, Bucket>();
  readonly #shared: Bucket;

  /** `perMinute`: allowed failures per address and minute, which is also the capacity of a bucket. */
  constructor(perMinute: number, now = monotonicMs()) {
    this.#perMinute = perMinute;
    this.#shared = { left: perMinute, at: now, limited: false };
  }

  /** Counts a failed login from an address. */
  failed(address: string, now = monotonicMs()): Failure {
    const bucket = this.#bucketOf(neighbourhoodOf(address), now);
    this.#refill(bucket, now);
    if (bucket.left >= 1) {
      bucket.left--;
      bucket.limited = false;
      return { retryAfter: null, first: false };
    }
    const first = !bucket.limited;
    bucket.limited = true;
    const wait = ((1 - bucket.left) * MINUTE_MS) / this.#perMinute;
    return { retryAfter: Math.max(1, Math.ceil(wait / 1000)), first };
  }

  /** Number of addresses in memory. */
  get size(): number {
    return this.#buckets.size;
  }

  #refill(bucket: Bucket, now: number): void {
    bucket.left = Math.min(this.#perMinute, bucket.left + ((now - bucket.at) / MINUTE_MS) * this.#perMinute);
    bucket.at = now;
  }

  #bucketOf(name: string, now: number): Bucket {
    const known = this.#buckets.get(name);
    if (known) return known;
    if (this.#buckets.size >= MOST_ADDRESSES) this.#forget(now);
    if (this.#buckets.size >= MOST_ADDRESSES) return this.#shared;
    const bucket = { left: this.#perMinute, at: now, limited: false };
    this.#buckets.set(name, bucket);
    return bucket;
  }

  /**
   * Removes buckets that had no failure for a minute, because they are full again. Buckets are ordered by their first
   * failure.
   */
  #forget(now: number): void {
    for (const [name, { at }] of this.#buckets) if (now - at >= MINUTE_MS) this.#buckets.delete(name);
  }
}

/**
 * The address that identifies a client. For IPv6, this is the 64-bit network, because a client can freely choose
 * addresses within its network.
 */
export function neighbourhoodOf(address: string): string {
  if (isIPv4(address) || !isIPv6(address)) return address;
  const groups = expanded(address.split('%')[0]!);
  return `${groups.slice(0, 4).join(':')}::/64`;
}

/** The eight groups of an IPv6 address, without leading zeros. */
function expanded(address: string): string[] {
  // A trailing IPv4 part represents the last two groups. Only the first four groups are used, so two zeros can replace
  // the IPv4 part.
  const plain = address.replace(/[.\d]{7,15}$/, '0:0');
  const [head = '', tail] = plain.split('::');
  const front = head === '' ? [] : head.split(':');
  const back = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? [] : Array<string>(8 - front.length - back.length).fill('0');
  return [...front, ...zeros, ...back].map((group) => Number.parseInt(group, 16).toString(16));
}
