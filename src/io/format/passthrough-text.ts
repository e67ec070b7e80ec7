// A value that is passed through as the text of a cell, the same in CSV, tables of columns and the rejects file.

/**
 * A token of JSON as text: a string without its quotes, anything else as it is written, so that numbers keep all their digits; null: the
 * row has no value.
 */
export function textOfToken(token: string | null): string | null {
  if (token === null || token === 'null') return null;
  if (!token.startsWith('"')) return token;
  return token.includes('\\') ? (JSON.parse(token) as string) : token.slice(1, -1);
}
