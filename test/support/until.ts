// Waits for a condition, as long as only something that hangs needs.
import { setTimeout as sleep } from 'node:timers/promises';
import { PATIENCE_MS } from './patience.ts';

type Truthy<T> = Exclude<T, null | undefined | false>;

/**
 * Resolves to the first truthy value of `condition`, which is called every `interval` milliseconds. Fails with `what` if
 * there is none.
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  what = 'the condition',
  interval = 20,
): Promise<Truthy<T>> {
  for (const end = performance.now() + PATIENCE_MS; performance.now() < end; await sleep(interval)) {
    const value = await condition();
    if (value) return value as Truthy<T>;
  }
  throw new Error(`not within ${PATIENCE_MS} ms: ${what}`);
}

/** Resolves when `assertions` no longer throws. Rejects with its last error. */
export async function eventually<T>(assertions: () => T | Promise<T>, interval = 20): Promise<T> {
  for (const end = performance.now() + PATIENCE_MS; ; await sleep(interval)) {
    try {
      return await assertions();
    } catch (error) {
      if (performance.now() > end) throw error;
    }
  }
}
