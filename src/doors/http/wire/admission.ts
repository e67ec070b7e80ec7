// Admission control: a limit of concurrent requests, a bounded queue, and a share for each key.
import { SluiceError } from '../../../core/errors.ts';
import { tooMany } from '../../../engine/score-chunks.ts';
import { withRetryAfter } from './retry-after.ts';

export interface AdmissionLimits {
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

export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #keys = new Map<string, KeyState>();
  readonly #queue: { start: () => void; fail: (error: unknown) => void }[] = [];
  #running = 0;

  constructor(limits: AdmissionLimits) {
    this.#limits = limits;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  /**
   * Resolves with a function to call when the request is done (idempotent).
   * @throws SluiceError overloaded | limit_exceeded (with retryAfter) | client_gone
   */
  async enter(key: string, signal: AbortSignal): Promise<() => void> {
    const state = this.#take(key);
    let left = false;
    const leaveKey = () => {
      state.inside--;
    };
    try {
      await this.#turn(signal);
    } catch (error) {
      leaveKey();
      throw error;
    }
    return () => {
      if (left) return;
      left = true;
      leaveKey();
      const next = this.#queue.shift();
      if (next) next.start();
      else this.#running--;
    };
  }

  #take(key: string): KeyState {
    const limits = this.#limits;
    const now = performance.now();
    let state = this.#keys.get(key);
    if (!state) {
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

  #turn(signal: AbortSignal): Promise<void> | void {
    if (this.#running < this.#limits.concurrent_requests) {
      this.#running++;
      return;
    }
    if (this.#queue.length >= this.#limits.queued_requests) {
      throw new SluiceError('overloaded', `${this.#queue.length} requests wait already`);
    }
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.#queue.splice(this.#queue.indexOf(waiting), 1);
        reject(signal.reason);
      };
      const waiting = {
        start: () => {
          signal.removeEventListener('abort', onAbort);
          resolve();
        },
        fail: reject,
      };
      signal.addEventListener('abort', onAbort, { once: true });
      this.#queue.push(waiting);
    });
  }
}
