// Memory of bodies that are held as a whole: budgets of all and of each key, and large ones one after another.
import { expect, test } from 'vitest';
import { HeldBodies } from '../../../src/doors/http/wire/held-bodies.ts';

const heldBodies = (): HeldBodies => new HeldBodies({ bytes: 100, bytesPerKey: 60, small: 10 });
const OVERLOADED = expect.objectContaining({ code: 'overloaded' });
const { signal } = new AbortController();

/** Whether a promise is settled once all that can happen now has happened. */
async function settled(promise: Promise<void>): Promise<boolean> {
  let isSettled = false;
  const onSettled = () => {
    isSettled = true;
  };
  promise.then(onSettled, onSettled);
  await new Promise((resolve) => setImmediate(resolve));
  return isSettled;
}

test('all bodies together have a budget', () => {
  const bodies = heldBodies();
  bodies.hold('a').add(50);
  bodies.hold('b').add(50);
  expect(() => bodies.hold('c').add(1)).toThrow(OVERLOADED);
  expect(bodies.bytes).toBe(100);
});

test('a key has a budget for all of its bodies', () => {
  const bodies = heldBodies();
  bodies.hold('a').add(40);
  const second = bodies.hold('a');
  second.add(20);
  expect(() => second.add(1)).toThrow(OVERLOADED);
  bodies.hold('b').add(40);
});

test('a body that is released gives its bytes back, once', () => {
  const bodies = heldBodies();
  const first = bodies.hold('a');
  first.add(60);
  first.release();
  first.release();
  expect(bodies.bytes).toBe(0);
  bodies.hold('a').add(60);
  expect(bodies.bytes).toBe(60);
});

test('large bodies take turns, small ones do not wait', async () => {
  const bodies = heldBodies();
  const large = ['a', 'b', 'c'].map((key) => bodies.hold(key));
  for (const body of large) body.add(20);
  const [first, second, third] = large.map((body) => body.turn(signal));
  await first;
  expect(await settled(second!)).toBe(false);
  const small = bodies.hold('d');
  small.add(10);
  await small.turn(signal);
  small.release();
  expect(await settled(second!)).toBe(false);
  large[0]!.release();
  expect([await settled(second!), await settled(third!)]).toEqual([true, false]);
  large[1]!.release();
  expect(await settled(third!)).toBe(true);
  large[2]!.release();
  const next = bodies.hold('a');
  next.add(20);
  await next.turn(signal);
});

test('a body whose client is gone leaves its turn to the next one', async () => {
  const bodies = heldBodies();
  const [working, leaving, waiting] = ['a', 'b', 'c'].map((key) => bodies.hold(key));
  for (const body of [working, leaving, waiting]) body!.add(20);
  await working!.turn(signal);
  const gone = new AbortController();
  const left = leaving!.turn(gone.signal);
  const turn = waiting!.turn(signal);
  gone.abort(new Error('gone'));
  await expect(left).rejects.toThrow('gone');
  leaving!.release();
  expect(await settled(turn)).toBe(false);
  working!.release();
  expect(await settled(turn)).toBe(true);
});
