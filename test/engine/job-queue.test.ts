// Whose turn it is, and how a failing block is split: without workers, because neither needs one.
import { expect, test } from 'vitest';
import { RECORD_CRASHED } from '../../src/core/block.ts';
import { SluiceError } from '../../src/core/errors.ts';
import { type BlockJob, type JobBlock, JobQueue, type JobStream } from '../../src/engine/job-queue.ts';
import type { ScoredPart, StreamSpec } from '../../src/engine/protocol.ts';
import { bisect } from '../../src/engine/worker-pool.ts';

const stream = (id: number): JobStream => ({
  kind: { id, spec: { output: { interpretation: null } } as StreamSpec, users: 1, rowMs: null },
  queue: [],
  poisonRows: 0,
  closed: false,
});
/** `rows` records of two bytes each, from row `firstRow` on. */
const block = (rows: number, firstRow = 1): JobBlock => ({
  slab: new SharedArrayBuffer(rows * 2),
  spans: Int32Array.from({ length: rows * 2 }, (_, i) => i),
  faults: new Uint8Array(rows),
  lines: Int32Array.from({ length: rows }, (_, i) => i + 2),
  firstRow,
  firstByte: 0,
});
const part = (rows: number): ScoredPart => ({ rows }) as ScoredPart;

test('streams are served in turn, each in its own order', () => {
  const queue = new JobQueue();
  const [a, b] = [stream(1), stream(2)];
  for (const row of [1, 2, 3]) void queue.add(a, block(1, row));
  void queue.add(b, block(1, 10));
  expect(queue.length).toBe(4);
  const order = [];
  while (!queue.empty) order.push(queue.take().block.firstRow);
  expect(order).toEqual([1, 10, 2, 3]);
});

test('what is put back comes before everything, and a closed stream leaves the others', async () => {
  const queue = new JobQueue();
  const [a, b] = [stream(1), stream(2)];
  void queue.add(a, block(1, 1));
  const dropped = queue.add(b, block(1, 10));
  const first = queue.take();
  queue.putBack(first);
  expect(queue.take()).toBe(first);
  queue.drop(b, () => new SluiceError('cancelled', 'closed'));
  await expect(dropped).rejects.toMatchObject({ code: 'cancelled' });
  expect(queue.empty).toBe(true);
});

/** Serves the queue as workers would that die of some rows; the rows that came back as poison. */
async function poisoned(rows: number, deadly: (row: number) => boolean, maxPoisonRows: number) {
  const queue = new JobQueue();
  const tooMany = new SluiceError('worker_failed', 'too many');
  const options = { queue, fault: RECORD_CRASHED, maxPoisonRows, tooMany };
  const scored = queue.add(stream(1), block(rows));
  const found: number[] = [];
  const order: number[] = [];
  const kills = ({ block: { faults, firstRow } }: BlockJob): boolean =>
    faults.some((fault, i) => fault === 0 && deadly(firstRow + i));
  while (!queue.empty) {
    const job = queue.take();
    if (kills(job)) {
      bisect(job, options);
      continue;
    }
    order.push(job.block.firstRow);
    if (job.block.faults[0] === RECORD_CRASHED) found.push(job.block.firstRow);
    job.resolve([part(job.block.faults.length)]);
  }
  return { parts: await scored, found, order };
}

test('a block is split down to its poison rows; the parts cover it in order', async () => {
  const deadly = [1, 6, 7, 100];
  const { parts, found, order } = await poisoned(100, (row) => deadly.includes(row), 10);
  expect(found).toEqual(deadly);
  expect(parts.reduce((n, p) => n + p.rows, 0)).toBe(100);
  expect(order).toEqual(order.toSorted((a, b) => a - b));
});

test('a stream with too many poison rows is given up', async () => {
  await expect(poisoned(20, () => true, 3)).rejects.toMatchObject({ code: 'worker_failed' });
});

test('a job is cut as it is served: pieces in order, all rows once, other streams in between', async () => {
  const queue = new JobQueue();
  const [a, b] = [stream(1), stream(2)];
  const long = queue.add(a, block(10, 1));
  const short = [queue.add(b, block(1, 100)), queue.add(b, block(1, 101))];
  const served: [number, number][] = [];
  while (!queue.empty) {
    const taken = queue.take();
    const job = taken.block.faults.length > 4 ? queue.cut(taken, 4) : taken;
    const { firstRow, faults, spans, lines } = job.block;
    served.push([firstRow, faults.length]);
    if (job.stream === a) expect([spans[0], lines[0]]).toEqual([(firstRow - 1) * 2, firstRow + 1]);
    job.resolve([part(faults.length)]);
  }
  expect(served).toEqual([
    [1, 4],
    [100, 1],
    [5, 4],
    [101, 1],
    [9, 2],
  ]);
  expect((await long).map((p) => p.rows)).toEqual([4, 4, 2]);
  expect((await Promise.all(short)).flat()).toHaveLength(2);
});

test('a piece that fails fails the whole', async () => {
  const queue = new JobQueue();
  const whole = queue.add(stream(1), block(4));
  const piece = queue.cut(queue.take(), 1);
  piece.reject(new SluiceError('model_failed', 'no'));
  await expect(whole).rejects.toMatchObject({ code: 'model_failed' });
});
