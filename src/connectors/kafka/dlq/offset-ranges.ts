// A set of offsets stored as ranges: memory grows with the number of gaps, not with millions of settled dead letters.

/** Added ranges are merged once they have more numbers than this, and more than a quarter of the merged numbers. */
const MERGE_AFTER = 4096;

/** A set of offsets, which are integers below 2^53. Ranges include their first and last offset. */
export class OffsetRanges {
  /** Alternating first and last offsets of sorted, disjoint, non-adjacent ranges. */
  #merged: number[] = [];
  #added: number[] = [];

  /** Parses a list of ranges such as 1-9,12. @throws Error if the text is not such a list */
  static parse(text: string): OffsetRanges {
    const ranges = new OffsetRanges();
    for (const part of text.split(',')) {
      const [, first, last = first] = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(part.trim()) ?? [];
      if (first === undefined || Number(last) < Number(first)) throw new Error('not a list of ranges as 1-9,12');
      ranges.add(Number(first), Number(last));
    }
    return ranges;
  }

  add(first: number, last: number): void {
    const end = this.#added.length - 1;
    if (end > 0 && first >= this.#added[end - 1]! && first <= this.#added[end]! + 1) {
      this.#added[end] = Math.max(last, this.#added[end]!);
      return;
    }
    this.#added.push(first, last);
    if (this.#added.length > Math.max(MERGE_AFTER, this.#merged.length / 4)) this.#merge();
  }

  addAll(other: OffsetRanges): void {
    for (const [first, last] of other) this.add(first, last);
  }

  has(offset: number): boolean {
    return this.covers(offset, offset);
  }

  /** Whether the set contains all offsets from `first` to `last`. */
  covers(first: number, last: number): boolean {
    this.#merge();
    const ranges = this.#merged;
    let low = 0;
    let high = ranges.length / 2;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ranges[middle * 2 + 1]! < first) low = middle + 1;
      else high = middle;
    }
    return low * 2 < ranges.length && ranges[low * 2]! <= first && ranges[low * 2 + 1]! >= last;
  }

  get empty(): boolean {
    return this.#merged.length + this.#added.length === 0;
  }

  *[Symbol.iterator](): Generator<readonly [first: number, last: number]> {
    this.#merge();
    const ranges = this.#merged;
    for (let i = 0; i < ranges.length; i += 2) yield [ranges[i]!, ranges[i + 1]!];
  }

  toString(): string {
    return [...this].map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(',');
  }

  #merge(): void {
    if (this.#added.length === 0) return;
    const pairs = pairsOf(this.#merged).concat(pairsOf(this.#added));
    pairs.sort((a, b) => a[0] - b[0]);
    const merged: number[] = [];
    for (const [first, last] of pairs) {
      const end = merged.length - 1;
      if (end > 0 && first <= merged[end]! + 1) merged[end] = Math.max(merged[end]!, last);
      else merged.push(first, last);
    }
    this.#merged = merged;
    this.#added = [];
  }
}

function pairsOf(flat: readonly number[]): [number, number][] {
  const pairs: [number, number][] = [];
  for (let i = 0; i < flat.length; i += 2) pairs.push([flat[i]!, flat[i + 1]!]);
  return pairs;
}
