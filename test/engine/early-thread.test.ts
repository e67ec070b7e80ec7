// A thread that was started before anybody knew what for: it serves the first pool it fits, and holds up nobody.
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { expect, onTestFinished, test } from 'vitest';
import { DEFAULT_HEAP_MB, FEW_BYTES, startEarly, threadOf, WORKER_ENTRY } from '../../src/engine/early-thread.ts';
import { scratch } from '../support/cli.ts';

const SILENT = new URL('data:text/javascript,setInterval(()=>{},1000)');
const ends = (worker: Worker) => onTestFinished(() => worker.terminate().then(() => {}));

/** The thread that a pool gets, and whether it was there before. */
function taken(entry = WORKER_ENTRY, heapMb = DEFAULT_HEAP_MB) {
  const last = newest();
  const worker = threadOf(entry, heapMb);
  ends(worker);
  return { worker, early: worker.threadId <= last };
}

/** Number of the youngest thread. */
function newest(): number {
  const worker = new Worker(SILENT);
  ends(worker);
  return worker.threadId;
}

test('an input that needs workers has one started early; it is given away once', async () => {
  const folder = scratch();
  const file = path.join(folder, 'much.csv');
  await writeFile(file, Buffer.alloc(FEW_BYTES + 1, 'x'));
  startEarly(['-m', 'a-model', file]);
  expect([taken().early, taken().early]).toEqual([true, false]);
  startEarly(['-']);
  expect(taken().early).toBe(true);
});

test('little input, no file and flags have none', async () => {
  const folder = scratch();
  const file = path.join(folder, 'little.csv');
  await writeFile(file, Buffer.alloc(FEW_BYTES, 'x'));
  startEarly([file, path.join(folder, 'missing.csv'), '--out', '-o', 'x'.repeat(5000)]);
  expect(taken().early).toBe(false);
});

test('another program or another heap is another thread', () => {
  startEarly(['-']);
  expect(taken(SILENT).early).toBe(false);
  startEarly(['-']);
  expect(taken(WORKER_ENTRY, DEFAULT_HEAP_MB + 1).early).toBe(false);
  expect(taken().early).toBe(false);
});
