// Admission control: a limit of requests at work, a bounded queue with fair turns between keys, and a share for each key.
import { monotonicMs } from '../../../core/clock.ts';
import { SluiceError, tooMany } from '../../../core/errors.ts';
import { withRetryAfter } from './retry-after.ts';

interface AdmissionLimits {
  concurrent_requests: number;
  queued_requests: number;
  concurrent_requests_per_key: number;
  requests_per_second_per_key: number;
}

interface KeyState {
  inside: number;
  /** Token bucket: requests that may start now. */
  tokens: number;
  refilled: number;
}

/** A request that waits for a slot. */
interface Waiter {
  start(): void;
}

/**
 * The admission of one request. States: inside (counted, no slot) → waiting → at work (holds a slot) ⇄ idle (waits for its
 * client; the slot is anybody's who wants it) → left.
 */
export interface Admitted {
  /** Waits for a turn. @throws SluiceError overloaded, or the reason of `signal` */
  begin(signal: AbortSignal): Promise<void>;
  /** Waits for the client, then for a turn again if the slot was wanted meanwhile. */
  idle(wait: () => Promise<void>): Promise<void>;
  /** Releases the slot: the rest takes only the client's time. Idempotent. */
  finish(): void;
  /** The request has ended. Idempotent. */
  leave(): void;
}

/** Keys that are remembered without looking whether they are still used: subjects of tokens may be many. */
const MOST_KEYS = 10_000;

export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #keys = new Map<string, KeyState>();
  /** Waiters by key; the next key is first. */
  readonly #queues = new Map<string, Waiter[]>();
  /** Those that hold a slot and wait for their client → what takes the slot from them; the longest first. */
  readonly #idle = new Map<object, () => void>();
  #running = 0;
  #waiting = 0;
  #inside = 0;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  /** Requests that are not over. */
  get inside(): number {
    return this.#inside;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Counts a request of a key in. @throws SluiceError limit_exceeded (with retryAfter) */
  enter(key: string): Admitted {
    const state = this.#take(key);
    this.#inside++;
    let left = false;
    let slot = false;
    let signal: AbortSignal | undefined;
    /** The turn after a wait: body and answer may wait at the same time, and one slot is enough for both. */
    let next: Promise<void> | null = null;
    const giveUp = () => {
      if (!slot) return;
      slot = false;
      this.#release();
    };
    const turn = async (again: boolean) => {
      await this.#turn(key, signal!, again);
      slot = true;
      // A request that left meanwhile takes no slot.
      if (left) giveUp();
    };
    const place: Admitted = {
      begin: (aborted) => {
        signal = aborted;
        return turn(false);
      },
      idle: async (wait) => {
        if (!slot) return wait();
        if (this.#waiting > 0) giveUp();
        else this.#idle.set(place, giveUp);
        try {
          await wait();
        } finally {
          this.#idle.delete(place);
        }
        if (slot || left) return;
        next ??= turn(true).finally(() => {
          next = null;
        });
        await next;
      },
      finish: giveUp,
      leave: () => {
        if (left) return;
        left = true;
        this.#inside--;
        state.inside--;
        this.#idle.delete(place);
        giveUp();
      },
    };
    return place;
  }

  /** After a second without requests, a key has a full bucket and is removed. */
  #forget(now: number): void {
    for (const [key, { inside, refilled }] of this.#keys) {
      if (inside === 0 && now - refilled > 1000) this.#keys.delete(key);
    }
  }

  #take(key: string): KeyState {
    const limits = this.#limits;
    const now = monotonicMs();
    let state = this.#keys.get(key);
    if (!state) {
      if (this.#keys.size >= MOST_KEYS) this.#forget(now);
      state = { inside: 0, tokens: limits.requests_per_second_per_key, refilled: now };
      this.#keys.set(key, state);
    }
    const rate = limits.requests_per_second_per_key;
    state.tokens = Math.min(rate, state.tokens + ((now - state.refilled) / 1000) * rate);
    state.refilled = now;
    if (state.tokens < 1) {
      const limit = 'requests_per_second_per_key';
      throw withRetryAfter(tooMany(limit, rate, 'requests a second'), limit);
    }
    if (state.inside >= limits.concurrent_requests_per_key) {
      const limit = 'concurrent_requests_per_key';
      throw withRetryAfter(tooMany(limit, limits[limit], 'requests at once'), limit);
    }
    state.tokens--;
    state.inside++;
    return state;
  }

  /** `again`: the request was at work before, so it is never refused, and comes first for its key. */
  async #turn(key: string, signal: AbortSignal, again: boolean): Promise<void> {
    signal.throwIfAborted();
    if (this.#running < this.#limits.concurrent_requests) {
      this.#running++;
      return;
    }
    if (!again && this.#idle.size === 0 && this.#waiting >= this.#limits.queued_requests) {
      throw new SluiceError('overloaded', `${this.#waiting} requests are already waiting`);
    }
    const came = Promise.withResolvers<void>();
    const waiter: Waiter = { start: came.resolve };
    const queue = this.#queues.get(key) ?? [];
    if (again) queue.unshift(waiter);
    else queue.push(waiter);
    this.#queues.set(key, queue);
    this.#waiting++;
    const onAbort = () => {
      const at = queue.indexOf(waiter);
      if (at < 0) return;
      queue.splice(at, 1);
      this.#waiting--;
      if (queue.length === 0) this.#queues.delete(key);
      came.reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    const [longestIdle] = this.#idle;
    if (longestIdle) {
      this.#idle.delete(longestIdle[0]);
      longestIdle[1]();
    }
    try {
      await came.promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** Passes a slot to the next key, which then becomes the last. */
  #release(): void {
    const [first] = this.#queues;
    if (!first) {
      this.#running--;
      return;
    }
    const [key, queue] = first;
    const next = queue.shift()!;
    this.#waiting--;
    this.#queues.delete(key);
    if (queue.length > 0) this.#queues.set(key, queue);
    next.start();
  }
}
