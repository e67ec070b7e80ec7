// Stores whose leases and expiries a test controls.
import { onTestFinished } from 'vitest';

/** A store, and how time passes for it. */
export interface Timed<S> {
  store: S;
  pass: (ms: number) => Promise<void>;
}

/** Opens a store until the end of the test. */
export function openTimed<S extends { close(): unknown }>(open: () => Timed<S>): Timed<S> {
  const opened = open();
  onTestFinished(async () => {
    await opened.store.close();
  });
  return opened;
}
