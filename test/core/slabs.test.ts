// The pool of blocks in flight: no two slabs share a byte, and a request beyond the budget waits.
import { expect, test } from 'vitest';
import { type Slab, SlabPool } from '../../src/core/slabs.ts';

for (const together of [true, false]) {
  test(together ? 'slabs of one memory' : 'slabs of their own', async () => {
    const pool = new SlabPool(3, 100, together);
    expect(pool.memory !== null).toBe(together);
    // A pool of slabs takes its pages and one more, not the addresses of many.
    if (together) expect(pool.memory!.buffer.byteLength).toBeLessThanOrEqual(4 * 65_536);
    const slabs = await Promise.all([1, 2, 3].map(() => pool.acquire()));
    expect([pool.inFlight, pool.held]).toEqual([3, { bytes: 300, budget: 300 }]);
    for (const [i, { buffer, at, bytes }] of slabs.entries()) {
      new Uint8Array(buffer, at, bytes).fill(i + 1);
      if (together) expect([at % 64, at >= pool.scratch]).toEqual([0, true]);
    }
    for (const [i, { buffer, at, bytes }] of slabs.entries()) {
      expect(new Set(new Uint8Array(buffer, at, bytes))).toEqual(new Set([i + 1]));
    }
    expect(slabs.every((slab) => pool.holds(slab))).toBe(true);
    // The same memory again, in any order.
    for (const slab of slabs) pool.release(slab);
    expect([pool.inFlight, pool.held.bytes]).toEqual([0, 0]);
    const again = await Promise.all([1, 2, 3].map(() => pool.acquire()));
    expect(new Set(again)).toEqual(new Set(slabs));
  });

  test(`${together ? 'slabs of one memory' : 'slabs of their own'}: a larger one counts, and is not kept`, async () => {
    const pool = new SlabPool(2, 100, together);
    const slab = await pool.acquire();
    const larger = pool.larger(slab, 250);
    expect([larger.bytes, larger.buffer.byteLength, pool.holds(larger)]).toEqual([250, 250, false]);
    expect([pool.inFlight, pool.held.bytes]).toEqual([1, 250]);
    // It stands in for the slab, which is free again.
    expect(await pool.acquire()).toBe(slab);
    pool.release(larger);
    expect([pool.inFlight, pool.held.bytes]).toEqual([1, 100]);
    pool.release(slab);
    const next = await pool.acquire();
    expect([next.bytes, pool.inFlight]).toEqual([100, 1]);
  });
}

test('beyond the budget they wait in their order, and an aborted one leaves its place to the next', async () => {
  const pool = new SlabPool(1, 100);
  const first = await pool.acquire();
  const got: [string, Slab][] = [];
  const controller = new AbortController();
  const reason = new Error('no longer');
  const aborted = pool.acquire(controller.signal);
  const waiting = ['second', 'third'].map((name) => pool.acquire().then((slab) => void got.push([name, slab])));
  controller.abort(reason);
  await expect(aborted).rejects.toBe(reason);
  await expect(pool.acquire(controller.signal)).rejects.toBe(reason);
  expect(got).toEqual([]);
  pool.release(first);
  await waiting[0];
  expect([got.map(([name]) => name), pool.inFlight]).toEqual([['second'], 1]);
  pool.release(got[0]![1]);
  await waiting[1];
  expect([got.map(([name]) => name), pool.inFlight, pool.held.bytes]).toEqual([['second', 'third'], 1, 100]);
  pool.release(got[1]![1]);
  expect(pool.inFlight).toBe(0);
});

test('one that has a slab is not disturbed when it is aborted later', async () => {
  const pool = new SlabPool(1, 100);
  const controller = new AbortController();
  const first = await pool.acquire(controller.signal);
  const second = pool.acquire(controller.signal);
  pool.release(first);
  const slab = await second;
  controller.abort();
  pool.release(slab);
  expect(pool.inFlight).toBe(0);
});
