// Waits for work that is not worth waiting for once a signal is aborted.

/** What `work` gives, or null as soon as `signal` is aborted; the work then continues, and its error is dropped. Leaves no listener behind. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | null> {
  work.catch(() => {});
  if (signal.aborted) return null;
  const { promise, resolve } = Promise.withResolvers<null>();
  const onAbort = () => resolve(null);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
