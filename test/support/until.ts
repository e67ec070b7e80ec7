// Waits for a condition, as long as only something that hangs needs. Vitest's own functions give up after one second.
import { vi } from 'vitest';
import { PATIENCE_MS } from './patience.ts';

/** Resolves to the first truthy value of `condition`, which is called every `interval` milliseconds. */
export const until = <T>(condition: () => T | Promise<T>, interval = 50) =>
  vi.waitUntil(condition, { timeout: PATIENCE_MS, interval });

/** Resolves when `assertions` no longer throws. Rejects with its last error. */
export const eventually = <T>(assertions: () => T | Promise<T>, interval = 50) =>
  vi.waitFor(assertions, { timeout: PATIENCE_MS, interval });
