// What scoring inline is about: a block as a worker would be sent it, and whether blocks take too long for it.
import type { Block } from '../core/block.ts';
import type { JobBlock } from './job-queue.ts';
import type { ScoreJob, StreamSpec } from './protocol.ts';

/** Blocks a timing window; the first window does not count, because the code is not optimised yet. */
const WINDOW = 64;
/** Blocks of a window that must have taken longer than that: a machine that has other things to do delays a few by much. */
const MANY_SLOW = WINDOW / 4;

export type InlineBlock = Omit<Block, 'seq'>;

/** Of streams that are answered alike. */
export interface InlineKind {
  id: number;
  spec: StreamSpec;
}

/** Whether blocks take too long to hold up the event loop with them. */
export class SlowWatch {
  readonly #maxMeanMs: number;
  tooSlow = false;
  #blocks = 0;
  #windows = 0;
  #windowMs = 0;
  #slow = 0;

  /** ms a block. */
  constructor(maxMeanMs: number) {
    this.#maxMeanMs = maxMeanMs;
  }

  saw(ms: number): void {
    this.#windowMs += ms;
    if (ms > this.#maxMeanMs) this.#slow++;
    if (++this.#blocks % WINDOW !== 0) return;
    const slow = this.#windowMs / WINDOW > this.#maxMeanMs && this.#slow > MANY_SLOW;
    if (this.#windows++ > 0 && slow) this.tooSlow = true;
    this.#windowMs = 0;
    this.#slow = 0;
  }
}

/** A block as a worker would be sent it. */
export const jobOf = (
  { id, spec }: InlineKind,
  { slab, spans, faults, lines, firstRow, firstByte, columns }: JobBlock,
  recycled: ArrayBuffer | null,
): ScoreJob => ({
  type: 'score',
  job: 0,
  kind: id,
  spec,
  slab,
  spans,
  faults,
  lines,
  firstRow,
  firstByte,
  recycled,
  ...(columns ? { columns } : {}),
});

/** Whether a block has at most so many rows and bytes. */
export const isWithin = ({ faults, spans, columns, length }: InlineBlock, rows: number, bytes: number): boolean =>
  faults.length <= rows && (columns ? length : spans[faults.length * 2 - 1]! - spans[0]!) <= bytes;
