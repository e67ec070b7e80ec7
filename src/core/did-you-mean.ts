// Suggestions for mistyped names, with a cost that does not depend on the length of the input.

/**
 * Maximum length of a word. Longer words are not typing errors, and comparing them would be expensive: the cost is the
 * product of the lengths.
 */
const LONGEST = 64;
/** Maximum number of cells of distance tables per suggestion; enough for some hundred column names. */
const MOST_CELLS = 50_000;

/** ` (did you mean x?)` for the known word nearest to `word`; empty if no known word is similar. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const best = nearest(word, known, Math.max(2, Math.floor(word.length / 3)));
  return best === null ? '' : ` (did you mean ${best}?)`;
}

/**
 * The known word with the fewest edits from `word`, ignoring case; null: every known word needs more than `most` edits.
 */
export function nearest(word: string, known: Iterable<string>, most: number): string | null {
  if (word.length > LONGEST) return null;
  const wanted = word.toLowerCase();
  let best: string | null = null;
  let distance = most + 1;
  let cells = 0;
  for (const k of known) {
    // The difference in length is a lower bound of the number of edits.
    if (k.length > LONGEST || Math.abs(k.length - word.length) >= distance) continue;
    cells += word.length * k.length;
    if (cells > MOST_CELLS) break;
    const d = editDistance(wanted, k.toLowerCase());
    if (d < distance) [best, distance] = [k, d];
  }
  return best;
}

/** Levenshtein distance. Memory holds only two rows of the table. */
export function editDistance(a: string, b: string): number {
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
