// JSON.parse that keeps numbers a double would change: 0.10, 1E2, and integers beyond 2^53 keep their text.

/** A number whose shortest text as a double differs from its text in the JSON. `String` and `JSON.stringify` give the latter. */
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

/** An object of JSON, with `ExactNumber` where a number would change. */
export type ExactObject = Readonly<Record<string, unknown>>;

const LONG_OR_ODD = /\d{16}|\d[eE][-+\d]|-0(?![.\d])/;
const DECIMALS = /\.\d+/g;

/** Whether a number of the text may change. Most texts have none and are parsed five times as fast. */
function mayChange(text: string): boolean {
  if (LONG_OR_ODD.test(text)) return true;
  for (const [decimals] of text.matchAll(DECIMALS)) if (decimals.endsWith('0')) return true;
  return false;
}

/** @throws SyntaxError */
export function parseExact(json: Buffer): ExactObject {
  const text = json.toString('utf8');
  if (!mayChange(text)) return JSON.parse(text);
  return (JSON.parse as (text: string, reviver: typeof exact) => ExactObject)(text, exact);
}

const exact = (_key: string, value: unknown, { source }: { source?: string }): unknown =>
  typeof value === 'number' && source !== undefined && source !== String(value) ? new ExactNumber(source) : value;
