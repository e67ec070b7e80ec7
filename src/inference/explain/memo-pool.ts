// Memory for the lookup tables of explanations. All explainers of a process share one pool, which is counted across
// threads in shared memory. Results never depend on the pool: what does not fit is computed again.
import { availableParallelism, totalmem } from 'node:os';
import { getEnvironmentData, setEnvironmentData, threadId } from 'node:worker_threads';
import { startInterval, stopTimer, type Timer } from '../../core/clock.ts';

const KEY = 'sluice memory for lookup tables';
const KIB = 1024;
const MIB = 1024 * KIB;
/** Unit of all counters, in bytes. */
const STEP = 64 * KIB;
/**
 * Default size of the pool per core in bytes. The total is at most a quarter of the memory of the machine or container.
 */
export const BYTES_PER_CORE = 192 * MIB;
const LEAST_BYTES = 32 * MIB;
/** While less than this share of the pool is in use, a budget may exceed its fair share. */
const FREE_FOR_ALL = 0.75;
/** Once this share of the pool is in use, budgets that have more than TOO_MUCH times their fair share are cleared. */
const NEARLY_FULL = 0.9;
const TOO_MUCH = 1.25;
/** Interval in ms at which budgets are checked for clearing. */
const CHECK_MS = 1000;

// Positions in the shared array. Each thread has three fields: its owner (thread ID + 1, or 0 if free), its steps, and
// the number of its budgets that have asked for memory.
const LIMIT = 0;
const USED = 1;
const BUDGETS = 2;
const THREADS = 3;
const OWNER = 0;
const OWN_USED = 1;
const OWN_BUDGETS = 2;
const FIELDS = 3;
const MOST_THREADS = 4096;

let shared: Int32Array | null = null;

/** The shared array of this process. Call this function before starting a thread that shares the pool. */
export function memoPool(): Int32Array {
  if (shared) return shared;
  let buffer = getEnvironmentData(KEY) as SharedArrayBuffer | undefined;
  if (buffer === undefined) {
    buffer = new SharedArrayBuffer(4 * (THREADS + FIELDS * MOST_THREADS));
    new Int32Array(buffer)[LIMIT] = stepsOf(defaultBytes());
    setEnvironmentData(KEY, buffer);
  }
  shared = new Int32Array(buffer);
  return shared;
}

const stepsOf = (bytes: number): number => Math.min(2 ** 31 - 1, Math.floor(bytes / STEP));

function defaultBytes(): number {
  // Without a limit, `constrainedMemory` is 0 or larger than any machine.
  const memory = Math.min(process.constrainedMemory() || Infinity, totalmem());
  return Math.max(LEAST_BYTES, Math.min(BYTES_PER_CORE * availableParallelism(), memory / 4));
}

/** Limits the pool of this process. If more is in use, budgets are cleared within a second. */
export function limitMemoPool(bytes: number): void {
  Atomics.store(memoPool(), LIMIT, stepsOf(bytes));
}

/** Bytes in use and limit in bytes, over all threads. */
export function memoPoolUse(): { used: number; limit: number } {
  const pool = memoPool();
  return { used: Atomics.load(pool, USED) * STEP, limit: Atomics.load(pool, LIMIT) * STEP };
}

/** Returns the memory of a thread that has ended. */
export function releaseMemoThread(thread: number): void {
  const pool = memoPool();
  for (let at = THREADS; at < pool.length; at += FIELDS) {
    if (Atomics.load(pool, at + OWNER) !== thread + 1) continue;
    Atomics.sub(pool, USED, Atomics.exchange(pool, at + OWN_USED, 0));
    Atomics.sub(pool, BUDGETS, Atomics.exchange(pool, at + OWN_BUDGETS, 0));
    Atomics.store(pool, at + OWNER, 0);
    return;
  }
}

/** Position of this thread's fields. Null until it is determined; -1 if no position was free. */
let own: number | null = null;

function ownPlace(pool: Int32Array): number {
  if (own !== null) return own;
  for (own = THREADS; own < pool.length; own += FIELDS)
    if (Atomics.compareExchange(pool, own + OWNER, 0, threadId + 1) === 0) return own;
  own = -1;
  return own;
}

/** Adds to the counters of the process and of this thread. */
function count(pool: Int32Array, steps: number, budgets: number): void {
  const place = ownPlace(pool);
  Atomics.add(pool, place + OWN_USED, steps);
  Atomics.add(pool, USED, steps);
  if (budgets === 0) return;
  Atomics.add(pool, place + OWN_BUDGETS, budgets);
  Atomics.add(pool, BUDGETS, budgets);
}

/** Number of steps to which every budget is entitled. */
const fairShare = (pool: Int32Array): number =>
  Math.floor(Atomics.load(pool, LIMIT) / Math.max(1, Atomics.load(pool, BUDGETS)));

interface Account {
  steps: number;
  /** Whether the budget has asked for memory and thus counts in the fair share. */
  isCounted: boolean;
}

/** Budgets of this thread that have asked for memory. */
const asking = new Set<WeakRef<MemoBudget>>();
let timer: Timer | null = null;
const collected = new FinalizationRegistry<Account>((account) => giveBack(account));

function giveBack(account: Account): void {
  if (account.isCounted) count(memoPool(), -account.steps, -1);
  account.steps = 0;
  account.isCounted = false;
}

/** If the pool is nearly full, clears the budgets of this thread that have too much. */
export function clearLargeBudgets(): void {
  const pool = memoPool();
  for (const reference of asking) {
    const budget = reference.deref();
    const isFull = Atomics.load(pool, USED) > Atomics.load(pool, LIMIT) * NEARLY_FULL;
    if (!budget?.isCounted) asking.delete(reference);
    else if (isFull && budget.steps > fairShare(pool) * TOO_MUCH) budget.clear();
  }
  if (asking.size > 0 || !timer) return;
  stopTimer(timer);
  timer = null;
}

/** A memory budget that several lookup tables share. */
export class MemoBudget {
  readonly #most: number;
  readonly #clear: () => void;
  readonly #account: Account = { steps: 0, isCounted: false };
  readonly #reference = new WeakRef(this);
  /** Unused bytes of the steps taken from the pool. */
  #spare = 0;
  #used = 0;

  /**
   * `most`: maximum bytes, even if the pool has more. `clear` empties all tables; it is called between two calls of the
   * explainer.
   */
  constructor(most: number, clear: () => void) {
    this.#most = most;
    this.#clear = clear;
    collected.register(this, this.#account);
  }

  /** Memory taken from the pool, in steps. */
  get steps(): number {
    return this.#account.steps;
  }

  get isCounted(): boolean {
    return this.#account.isCounted;
  }

  /** Takes memory for a table. Returns false if not enough is available. */
  take(bytes: number): boolean {
    if (this.#used + bytes > this.#most) return false;
    if (bytes > this.#spare && !this.#takeSteps(Math.ceil((bytes - this.#spare) / STEP))) return false;
    this.#spare -= bytes;
    this.#used += bytes;
    return true;
  }

  #takeSteps(steps: number): boolean {
    const pool = memoPool();
    if (ownPlace(pool) < 0) return false;
    this.#ask(pool);
    const { steps: before } = this.#account;
    const limit = Atomics.load(pool, LIMIT);
    // Another thread may take the same memory at the same time. The pool then exceeds its limit by one table.
    const used = Atomics.load(pool, USED) + steps;
    if (used > limit || (used > limit * FREE_FOR_ALL && before + steps > fairShare(pool))) return false;
    count(pool, steps, 0);
    this.#account.steps += steps;
    this.#spare += steps * STEP;
    return true;
  }

  /** Counts this budget in the fair share of all budgets, even if no memory is left. */
  #ask(pool: Int32Array): void {
    if (this.#account.isCounted) return;
    this.#account.isCounted = true;
    count(pool, 0, 1);
    asking.add(this.#reference);
    timer ??= startInterval(clearLargeBudgets, CHECK_MS);
    timer.unref();
  }

  /** Empties the tables and returns their memory to the pool. */
  clear(): void {
    this.#clear();
    giveBack(this.#account);
    this.#spare = 0;
    this.#used = 0;
  }
}
