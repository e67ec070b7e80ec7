// Decodes JSON objects with JSON.parse: the reference that a faster decoder is measured and tested against.
import { isUtf8 } from 'node:buffer';
import type { ColumnBatch, Rejection } from '../../core/batch.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import { beginBatch, type Decoder, type RecordSlice, reject, rejectFaulty } from './decoder.ts';

export interface JsonLayout {
  /** Keys outside the model to echo; '*' echoes all of them as one fragment of JSON. */
  passthrough: readonly string[] | '*';
  /** Keys that would hide a key of the answer. */
  reserved: readonly string[];
  /** The outcome column, which must not be there. */
  outcome: string | null;
  /** Most keys an object may have. */
  maxColumns: number;
}

type RecordFault = Omit<Rejection, 'index'>;

const fault = (code: ErrorCode, column: string | null, message: string): RecordFault => ({ code, column, message });

interface Member {
  key: string;
  /** The value as it stands in the text. */
  token: string;
}

export class JsonDecoder implements Decoder {
  readonly #readers: readonly ColumnReader[];
  readonly #known: ReadonlyMap<string, number>;
  readonly #layout: JsonLayout;
  readonly #echoed: ReadonlyMap<string, number>;

  constructor(readers: readonly ColumnReader[], layout: JsonLayout) {
    this.#readers = readers;
    this.#known = new Map(readers.map((r, i) => [r.name, i]));
    this.#layout = layout;
    this.#echoed = new Map(layout.passthrough === '*' ? [] : layout.passthrough.map((name, i) => [name, i]));
  }

  decode(block: RecordSlice, from: number, to: number, batch: ColumnBatch): void {
    beginBatch(batch, to - from);
    for (let i = from; i < to; i++) {
      if (!rejectFaulty(batch, i - from, block.faults[i]!)) this.decodeOne(block, i, i - from, batch);
    }
  }

  /** Record `i` of a block into row `row` of a batch under way. */
  decodeOne(block: RecordSlice, i: number, row: number, batch: ColumnBatch): void {
    const start = block.spans[i * 2]!;
    const bad = this.#record(Buffer.from(block.slab, start, block.spans[i * 2 + 1]! - start), row, batch);
    if (bad) reject(batch, row, bad.code, bad.column, bad.message);
  }

  #record(record: Buffer, row: number, batch: ColumnBatch): RecordFault | null {
    if (!isUtf8(record)) return fault('invalid_utf8', null, 'the record is not valid UTF-8');
    const text = record.toString('utf8').trim();
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return fault('malformed_json', null, 'the record is not valid JSON');
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return fault('not_an_object', null, 'the record is not a JSON object');
    }
    const members = membersOf(text);
    if (members.length > this.#layout.maxColumns) {
      return fault('unexpected_column', null, `more than ${this.#layout.maxColumns} keys`);
    }
    const wrong = this.#wrongKey(members);
    if (wrong) return wrong;
    this.#echo(members, row, batch);
    const object = value as Record<string, unknown>;
    for (let c = 0; c < this.#readers.length; c++) {
      const reader = this.#readers[c]!;
      if (!Object.hasOwn(object, reader.name)) {
        return fault('missing_column', reader.name, 'the column is missing');
      }
      const refused = reader.readNative(object[reader.name], batch.columns[c]!, row);
      if (refused) return fault(refused.code, reader.name, refused.message);
    }
    return null;
  }

  #wrongKey(members: readonly Member[]): RecordFault | null {
    const { passthrough, reserved, outcome } = this.#layout;
    const seen = new Set<string>();
    for (const { key } of members) {
      if (seen.has(key)) {
        return fault('duplicate_column', this.#known.has(key) ? key : null, 'a key is there twice');
      }
      seen.add(key);
      if (this.#known.has(key)) continue;
      if (key === outcome) {
        return fault('outcome_present', key, 'the outcome is part of the application');
      }
      if (passthrough === '*' && reserved.includes(key)) {
        return fault('unexpected_column', key, 'the key has the name of a field of the answer, which it would hide');
      }
      if (passthrough !== '*' && !this.#echoed.has(key)) {
        // The name comes from outside and may be anything, so it is not repeated.
        return fault('unexpected_column', null, 'a key is not a column of the model and is not passed through');
      }
    }
    return null;
  }

  #echo(members: readonly Member[], row: number, batch: ColumnBatch): void {
    if (this.#layout.passthrough === '*') {
      const rest = members.filter((m) => !this.#known.has(m.key));
      batch.passthrough[0]![row] = rest.map((m) => `${JSON.stringify(m.key)}:${m.token}`).join(',');
      return;
    }
    for (const m of members) {
      const at = this.#echoed.get(m.key);
      if (at !== undefined) batch.passthrough[at]![row] = m.token;
    }
  }
}

/** The members of the object in `text` (valid JSON) in order, those that are there twice included. */
export function membersOf(text: string): Member[] {
  const members: Member[] = [];
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

/** One past the closing quote of the string that begins at `i`. */
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
