// Turns for expensive work. Each key runs one task at a time, the total number of running tasks is bounded, and keys
// take turns.

interface Waiter {
  start(): void;
}

export class KeyTurns {
  readonly #most: number;
  /** Waiting tasks, by key. The first key is next. */
  readonly #queues = new Map<string, Waiter[]>();
  /** Keys with a running task. */
  readonly #busy = new Set<string>();

  /** `most`: maximum number of tasks that run at the same time, over all keys. */
  constructor(most: number) {
    this.#most = most;
  }

  /**
   * Resolves when it is the key's turn. Call the returned function once, when the work is done.
   * @throws the reason of `signal` while waiting
   */
  async take(key: string, signal: AbortSignal): Promise<() => void> {
    await this.#turn(key, signal);
    return () => {
      this.#busy.delete(key);
      this.#putLast(key);
      this.#startNext();
    };
  }

  /** Waits for the key's turn, then runs `work`. @throws the reason of `signal` while waiting, or an error of `work` */
  async run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const endTurn = await this.take(key, signal);
    try {
      return await work();
    } finally {
      endTurn();
    }
  }

  #putLast(key: string): void {
    const queue = this.#queues.get(key);
    if (!queue) return;
    this.#queues.delete(key);
    this.#queues.set(key, queue);
  }

  async #turn(key: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const came = Promise.withResolvers<void>();
    const waiter: Waiter = { start: came.resolve };
    const queue = this.#queues.get(key) ?? [];
    queue.push(waiter);
    this.#queues.set(key, queue);
    const onAbort = () => {
      const at = queue.indexOf(waiter);
      if (at < 0) return;
      queue.splice(at, 1);
      if (queue.length === 0) this.#queues.delete(key);
      came.reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    this.#startNext();
    try {
      await came.promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  #startNext(): void {
    for (const [key, queue] of this.#queues) {
      if (this.#busy.size >= this.#most) return;
      if (this.#busy.has(key)) continue;
      this.#busy.add(key);
      const next = queue.shift()!;
      if (queue.length === 0) this.#queues.delete(key);
      next.start();
    }
  }
}
