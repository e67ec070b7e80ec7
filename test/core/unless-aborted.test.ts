// Work that is not worth waiting for once a signal is aborted; a signal of a whole process collects no listeners.
import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { unlessAborted } from '../../src/core/async.ts';

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

test('what the work gives, or its error', async () => {
  const { signal } = new AbortController();
  expect(await unlessAborted(Promise.resolve(7), signal)).toBe(7);
  await expect(unlessAborted(Promise.reject(new Error('broken')), signal)).rejects.toThrow('broken');
  expect(listeners(signal)).toBe(0);
});

test('null as soon as the signal is aborted, whatever becomes of the work', async () => {
  const controller = new AbortController();
  const { promise, reject } = Promise.withResolvers<number>();
  const result = unlessAborted(promise, controller.signal);
  expect(listeners(controller.signal)).toBe(1);
  controller.abort();
  expect(await result).toBe(null);
  expect(listeners(controller.signal)).toBe(0);
  // An error that nothing waits for would end the process.
  reject(new Error('too late'));
  expect(await unlessAborted(Promise.reject(new Error('later still')), controller.signal)).toBe(null);
});
