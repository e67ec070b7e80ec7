// Finds the poison row of a block that fails: the block is split in two again and again, down to the row that is at fault.
import { RECORD_OK } from '../core/block.ts';
import type { SluiceError } from '../core/errors.ts';
import { type BlockJob, type JobQueue, partOf } from './job-queue.ts';

interface BisectOptions {
  queue: JobQueue;
  /** RECORD_* that a poison row is marked with. */
  fault: number;
  /** Poison rows of one stream before it is given up with `tooMany`. */
  maxPoisonRows: number;
  tooMany: SluiceError;
}

/**
 * Queues both halves of a job that failed. A single row that was to be interpreted is queued again without that, because a prediction
 * must not be lost for it; any other one is marked and queued again, to be answered as a rejected row.
 */
export function bisect(job: BlockJob, { queue, fault, maxPoisonRows, tooMany }: BisectOptions): void {
  const { block, stream } = job;
  const records = block.faults.length;
  if (records === 1) {
    const counted = job.uninterpreted ? stream.poisonRows : ++stream.poisonRows;
    const interpreted = stream.kind.spec.output.interpretation !== null && !job.uninterpreted;
    if (block.faults[0] !== RECORD_OK || counted > maxPoisonRows) job.reject(tooMany);
    // One more death is enough to know that the row fails without it, too.
    else if (interpreted) queue.putBack({ ...job, deaths: 1, uninterpreted: true });
    else queue.putBack({ ...job, deaths: 0, block: { ...block, faults: Uint8Array.of(fault) } });
    return;
  }
  const middle = records >> 1;
  // The left half is queued last, which puts it in front.
  const right = queue.addPart(stream, partOf(block, middle, records));
  const left = queue.addPart(stream, partOf(block, 0, middle));
  Promise.all([left, right]).then(([a, b]) => job.resolve([...a, ...b]), job.reject);
}
