// How old the records of a partition are that were fetched and not committed, without keeping a number of every one of them.
import { epochMs } from '../core/clock.ts';
import type { IncomingRecord } from './client/records.ts';

/** Records of one fetch whose times are looked at. */
const SAMPLES = 32;
/** Neighbours whose times differ by less count as one, ms. */
const SAME_MS = 1000;
/** Spans that are over are removed when there are so many. */
const MANY = 1024;

/** Records from one offset up to another (not included), none of which is much younger than `time`, ms since 1970. */
interface Span {
  to: number;
  time: number;
}

/** Of one partition, in order. Times are right to within a second and a thirty-second part of a fetch. */
export class RecordTimes {
  #spans: Span[] = [];
  #first = 0;

  /** Records were fetched; `next`: offset behind them. A record without a time is as old as its arrival. */
  add(records: readonly IncomingRecord[], next: bigint): void {
    const step = Math.ceil(records.length / SAMPLES);
    for (let i = 0; i < records.length; i += step) {
      const { timestamp } = records[i]!;
      const time = timestamp > 0 ? timestamp : epochMs();
      const to = Number(i + step < records.length ? records[i + step]!.offset : next);
      const last = this.#spans.at(-1);
      if (last && Math.abs(time - last.time) < SAME_MS) {
        last.to = to;
        last.time = Math.min(last.time, time);
      } else this.#spans.push({ to, time });
    }
  }

  /** Time of the first record from `offset` on; null where none was fetched. Offsets asked for only grow. */
  from(offset: bigint): number | null {
    const at = Number(offset);
    while (this.#first < this.#spans.length && this.#spans[this.#first]!.to <= at) this.#first++;
    if (this.#first > MANY && this.#first * 2 > this.#spans.length) {
      this.#spans = this.#spans.slice(this.#first);
      this.#first = 0;
    }
    return this.#spans[this.#first]?.time ?? null;
  }

  clear(): void {
    this.#spans = [];
    this.#first = 0;
  }
}
