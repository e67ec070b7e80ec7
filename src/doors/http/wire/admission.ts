// Admission control: limits concurrent requests, gives callers fair turns in a bounded queue, and enforces the quota of
// each caller.
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
  /** Token bucket: number of requests that may start now. */
  tokens: number;
  refilled: number;
}

/** A request waiting for a slot. */
interface Waiter {
  start(): void;
}

/**
 * The admission of one request. States: inside (counted, without a slot) → waiting → at work (holds a slot) ⇄ idle
 * (waits for the client, so another request may take the slot) → left.
 */
export interface Admitted {
  /** Waits for a slot. @throws SluiceError overloaded, or the reason of `signal` */
  begin(signal: AbortSignal): Promise<void>;
  /**
   * Runs `wait`, which waits for the client. If another request took the slot in the meantime, waits for a slot again.
   */
  idle(wait: () => Promise<void>): Promise<void>;
  /** Releases the slot, because the remaining time depends only on the client. Idempotent. */
  finish(): void;
  /** Ends the admission. Idempotent. */
  leave(): void;
}

/** With more keys than this, unused keys are removed. The subjects of tokens can be numerous. */
const MOST_KEYS = 10_000;

export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #keys = new Map<string, KeyState>();
  /** Waiting requests, by key. The first key is next. */
  readonly #queues = new Map<string, Waiter[]>();
  /**
   * Requests that hold a slot while they wait for their client, each with a function that takes the slot away. The
   * longest wait comes first.
   */
  readonly #idle = new Map<object, () => void>();
  #running = 0;
  #waiting = 0;
  #inside = 0;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  /** Number of unfinished requests. */
  get inside(): number {
    return this.#inside;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Admits a request of a key. @throws SluiceError limit_exceeded (with retryAfter) */
  enter(key: string): Admitted {
    const state = this.#take(key);
    this.#inside++;
    let left = false;
    let slot = false;
    let signal: AbortSignal | undefined;
    /**
     * The pending wait for a slot. The wait is shared: both body and response may resume, and one slot suffices for
     * both.
     */
    let next: Promise<void> | null = null;
    const giveUp = () => {
      if (!slot) return;
      slot = false;
      this.#release();
    };
    const turn = async (again: boolean) => {
      await this.#turn(key, signal!, again);
      slot = true;
      // If the request left in the meantime, it must return the slot.
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

  /** Removes keys that had no request for a second, because their buckets are full again. */
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

  /**
   * Waits for a slot. `again`: the request was at work before, so it is never rejected, and it precedes the other
   * requests of its key.
   */
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

  /** Passes a slot to the next key, which moves to the end of the rotation. */
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
