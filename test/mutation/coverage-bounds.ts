// Covered text as the offsets where it begins and ends, in turn.

/** A range of a coverage report of V8, whose `count` holds for the text that no inner range covers. */
export interface Range {
  startOffset: number;
  endOffset: number;
  count: number;
}
/** Where covered text begins and ends, in turn: of nested ranges the innermost counts. */
export function coveredBounds(ranges: readonly Range[]): number[] {
  const sorted = ranges.toSorted((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset);
  const bounds: number[] = [];
  const open: Range[] = [];
  let covered = false;
  const at = (offset: number): void => {
    const now = (open.at(-1)?.count ?? 0) > 0;
    if (now === covered) return;
    covered = now;
    // Text that ends and begins again at the same offset is one.
    if (bounds.at(-1) === offset) bounds.pop();
    else bounds.push(offset);
  };
  const close = (until: number): void => {
    while (open.length > 0 && open.at(-1)!.endOffset <= until) at(open.pop()!.endOffset);
  };
  for (const range of sorted) {
    close(range.startOffset);
    open.push(range);
    at(range.startOffset);
  }
  close(Number.POSITIVE_INFINITY);
  return bounds;
}

/** The bounds of what either covers. */
export function union(a: readonly number[], b: readonly number[]): number[] {
  const ranges = [a, b].flatMap((bounds) =>
    Array.from({ length: bounds.length / 2 }, (_, i) => [bounds[2 * i]!, bounds[2 * i + 1]!] as const),
  );
  const joined: number[] = [];
  for (const [start, end] of ranges.sort((x, y) => x[0] - y[0])) {
    if (joined.length > 0 && start <= joined.at(-1)!) joined.push(Math.max(joined.pop()!, end));
    else joined.push(start, end);
  }
  return joined;
}

/** Whether an offset lies in one of the ranges. */
export function isCovered(bounds: readonly number[], offset: number): boolean {
  let low = 0;
  let high = bounds.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (bounds[middle]! <= offset) low = middle + 1;
    else high = middle;
  }
  return low % 2 === 1;
}
