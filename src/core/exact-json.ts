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

/** Matches every text with a number that may change; most texts have none and are parsed five times as fast. */
const MAY_CHANGE = /\d{16}|\.\d*0(?!\d)|\d[eE][-+\d]|-0(?![.\d])/;

/** @throws SyntaxError */
export function parseExact(json: Buffer): ExactObject {
  const text = json.toString('utf8');
  if (!MAY_CHANGE.test(text)) return JSON.parse(text);
  return (JSON.parse as (text: string, reviver: typeof exact) => ExactObject)(text, exact);
}

const exact = (_key: string, value: unknown, { source }: { source?: string }): unknown =>
  typeof value === 'number' && source !== undefined && source !== String(value) ? new ExactNumber(source) : value;
