// Waiting with an end.
import { startTimer, stopTimer } from './clock.ts';

/** Whether `work` ended within `ms`; what it rejects with passes through. */
export async function within(work: Promise<unknown>, ms: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = startTimer(() => resolve(false), ms);
  try {
    return await Promise.race([work.then(() => true), promise]);
  } finally {
    stopTimer(timer);
  }
}
