// Suggestions for mistyped names.

/** Longer words are nobody's typing. */
const LONGEST = 64;
/** Cells of distance tables that one suggestion may cost: some hundred names of columns. */
const MOST_CELLS = 50_000;

/**
 * ` (did you mean x?)` for the known word nearest to `word`, or nothing. Its cost is bounded whatever comes: words may be of
 * somebody else's making, and the distance of two words costs the product of their lengths.
 */
export function didYouMean(word: string, known: Iterable<string>): string {
  if (word.length > LONGEST) return '';
  let best = '';
  let distance = Math.max(2, Math.floor(word.length / 3)) + 1;
  let cells = 0;
  for (const k of known) {
    if (Math.abs(k.length - word.length) >= distance) continue;
    cells += word.length * k.length;
    if (cells > MOST_CELLS) break;
    const d = editDistance(word.toLowerCase(), k.toLowerCase());
    if (d < distance) [best, distance] = [k, d];
  }
  return best === '' ? '' : ` (did you mean ${best}?)`;
}

/** Levenshtein distance, two rows of the table. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      row.push(
        Math.min(
          previous[j]! + 1,
          row[j - 1]! + 1,
          previous[j - 1]! + (a.charCodeAt(i - 1) === b.charCodeAt(j - 1) ? 0 : 1),
        ),
      );
    }
    previous = row;
  }
  return previous[b.length]!;
}
