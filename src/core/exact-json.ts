// Parses JSON and keeps the text of numbers that a double would change: 0.10, 1E2, and integers beyond 2^53.

/**
 * A number whose JSON text differs from the shortest text of its double. `String` and `JSON.stringify` return the JSON
 * text.
 */
export class ExactNumber {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
  toString(): string {
    return this.text;
  }
  toJSON(): unknown {
    return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(this.text);
  }
}

/** A value of parsed JSON as text: a text as it is, a number with all its digits, an object or list as its JSON. */
export const textOf = (value: unknown): string =>
  typeof value === 'object' && !(value instanceof ExactNumber) ? JSON.stringify(value) : String(value);

/** A JSON object with `ExactNumber` for numbers that a double would change. */
export type ExactObject = Readonly<Record<string, unknown>>;

const NUMBER = /(?<=[:,[\s])-?\d[\d.eE+-]*/g;
/**
 * Length in characters below which a double changes a number only if it has an exponent, is -0, or has decimals that
 * end in 0.
 */
const LONG = 8;
const EXPONENT = /[eE]/;

/**
 * Whether a double would change any number of the text. Without such a number, the text can be parsed several times as
 * fast.
 */
function changes(text: string): boolean {
  for (const [number] of text.matchAll(NUMBER)) {
    const odd = number.length >= LONG || number.endsWith('0') || EXPONENT.test(number);
    if (odd && String(Number(number)) !== number) return true;
  }
  return false;
}

/** Parses an object. @throws SyntaxError */
export function parseExact(json: Buffer): ExactObject {
  const text = json.toString('utf8');
  if (!changes(text)) return JSON.parse(text);
  return (JSON.parse as (text: string, reviver: typeof exact) => ExactObject)(text, exact);
}

const exact = (_key: string, value: unknown, { source }: { source?: string }): unknown =>
  typeof value === 'number' && source !== undefined && source !== String(value) ? new ExactNumber(source) : value;

// The code below splits a JSON object into the texts of its members. JSON.parse would lose the digits of long numbers
// and duplicate keys.

export interface JsonToken {
  key: string;
  /** The unparsed text of the value. */
  token: string;
}

/** The members of the object in `text` (valid JSON) in order, including duplicates. */
export function membersOf(text: string): JsonToken[] {
  const members: JsonToken[] = [];
  let i = 1;
  for (;;) {
    while (text[i] === ',' || isSpace(text.charCodeAt(i))) i++;
    if (text[i] === '}' || i >= text.length) return members;
    const keyStart = i;
    i = endOfString(text, i);
    const rawKey = text.slice(keyStart + 1, i - 1);
    const key = rawKey.includes('\\') ? (JSON.parse(text.slice(keyStart, i)) as string) : rawKey;
    while (text[i] === ':' || isSpace(text.charCodeAt(i))) i++;
    const start = i;
    i = endOfValue(text, i);
    members.push({ key, token: text.slice(start, i) });
  }
}

const isSpace = (c: number): boolean => c === 32 || c === 10 || c === 13 || c === 9;

/** Offset after the closing quote of the string that starts at `i`. */
function endOfString(text: string, i: number): number {
  for (i++; text[i] !== '"'; i++) if (text[i] === '\\') i++;
  return i + 1;
}

function endOfValue(text: string, i: number): number {
  let depth = 0;
  for (; i < text.length; i++) {
    const c = text[i];
    if (c === '"') {
      i = endOfString(text, i) - 1;
      if (depth === 0) return i + 1;
    } else if (c === '{' || c === '[') depth++;
    else if (c === '}' || c === ']') {
      if (depth === 0) return i;
      if (--depth === 0) return i + 1;
    } else if (depth === 0 && (c === ',' || isSpace(c!.charCodeAt(0)))) return i;
  }
  return i;
}
