// Recognises unseen categories that are known categories in another spelling.
// Such categories would be scored as unseen, without an error.
import type { ColumnReader } from '../inference/encode/column-reader.ts';

const SPELLINGS: readonly [what: string, normal: (text: string) => string][] = [
  ['surrounding spaces', (text) => text.trim()],
  ['letter case', (text) => text.toLowerCase()],
  ['leading zeros', (text) => text.replace(/^0+(?=\d)/, '').replace(/^(\d+)\.0$/, '$1')],
  ['separators', (text) => text.toLowerCase().replaceAll(/[\s_-]/g, '')],
];
/** Maximum number of known categories to compare. */
const MOST_KNOWN = 100_000;

/** How the texts differ from known categories; null: they are not other spellings of known categories. */
export function otherSpelling(reader: ColumnReader, texts: Iterable<string>): string | null {
  const unseen = [...texts];
  if (unseen.length === 0 || reader.values.length > MOST_KNOWN) return null;
  for (const [what, normal] of SPELLINGS) {
    const known = new Set(reader.values.map(normal));
    if (unseen.some((text) => known.has(normal(text)))) return what;
  }
  return null;
}
