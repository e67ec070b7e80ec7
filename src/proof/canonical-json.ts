// Canonical JSON (RFC 8785): equal values have equal bytes, so hashes and signatures do not depend on the program that
// wrote them.

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue | undefined };

/**
 * Returns the canonical text. Keys are sorted by UTF-16 code units, tokens are not separated by whitespace, and members
 * with the value undefined are omitted.
 * @throws RangeError
 */
export function canonicalJson(value: JsonValue): string {
  // A manifest consists mostly of arrays of numbers. If no keys must be sorted, JSON.stringify returns the same text
  // faster.
  if (!holdsKeys(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  const entries = Object.entries(value as Record<string, JsonValue | undefined>).filter(([, v]) => v !== undefined);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([k, v]) => `${JSON.stringify(k)}:${canonicalJson(v!)}`).join(',')}}`;
}

function holdsKeys(value: JsonValue): boolean {
  if (typeof value === 'number' && !Number.isFinite(value)) throw new RangeError('JSON has no such number');
  if (typeof value !== 'object' || value === null) return false;
  return !Array.isArray(value) || value.some(holdsKeys);
}
