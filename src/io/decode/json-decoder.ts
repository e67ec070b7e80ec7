// Decodes JSON objects with JSON.parse: the reference that a faster decoder is measured and tested against.
import { isUtf8 } from 'node:buffer';
import type { ColumnBatch, Rejection } from '../../core/batch.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { DeclaredColumns } from '../../core/input-declaration.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import { beginBatch, type Decoder, notTextMessage, type RecordSlice, reject, rejectFaulty } from './decoder.ts';
import { InputNames } from './input-names.ts';

export interface JsonLayout {
  /** Columns outside the model to echo; '*' echoes all of them as one fragment of JSON. */
  passthrough: readonly string[] | '*';
  /** Keys that would hide a key of the answer. */
  reserved: readonly string[];
  /** The outcome column, which must not be there. */
  outcome: string | null;
  /** Most keys an object may have. */
  maxColumns: number;
  /** Keys that are called otherwise than their columns, or not looked at. */
  declared?: DeclaredColumns;
  /** What its bytes were before they became UTF-8, where they were not. */
  encoding?: string;
}

type RecordFault = Omit<Rejection, 'index'>;

const fault = (code: ErrorCode, column: string | null, message: string): RecordFault => ({ code, column, message });

export const CONSTANT_GIVEN = 'the column is declared as a constant, and the input has it, too';
const UNKNOWN_KEY = 'a key is not a column of the model and is not passed through';

interface Member {
  key: string;
  /** The value as it stands in the text. */
  token: string;
}

export class JsonDecoder implements Decoder {
  readonly #readers: readonly ColumnReader[];
  readonly #known: ReadonlyMap<string, number>;
  readonly #layout: JsonLayout;
  /** Per reader: its key. */
  readonly #keys: readonly string[];
  readonly #echoed: ReadonlyMap<string, number>;
  readonly #names: InputNames;
  /** Keys that ignoring all others leaves. */
  readonly #used: ReadonlySet<string>;

  constructor(readers: readonly ColumnReader[], layout: JsonLayout) {
    this.#readers = readers;
    this.#names = new InputNames(layout.declared);
    const echoed = layout.passthrough === '*' ? [] : layout.passthrough;
    this.#keys = readers.map((r) => this.#names.inInput(r.name));
    this.#known = new Map(this.#keys.map((key, i) => [key, i]));
    this.#layout = layout;
    this.#echoed = new Map(echoed.map((name, i) => [this.#names.inInput(name), i]));
    this.#used = new Set([...readers.map((r) => r.name), ...echoed]);
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
    if (!isUtf8(record)) return fault('invalid_utf8', null, notTextMessage(this.#layout.encoding));
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
      const key = this.#keys[c]!;
      if (!Object.hasOwn(object, key)) {
        return fault('missing_column', reader.name, 'the column is missing');
      }
      const refused = reader.readNative(object[key], batch.columns[c]!, row);
      if (refused) return fault(refused.code, reader.name, refused.message);
    }
    return null;
  }

  /** Whether an object of these keys would be rejected for one that it has. */
  refusesKeys(keys: readonly string[]): boolean {
    return keys.length > this.#layout.maxColumns || this.#wrongKey(keys.map((key) => ({ key, token: '' }))) !== null;
  }

  #wrongKey(members: readonly Member[]): RecordFault | null {
    const { passthrough, reserved, outcome } = this.#layout;
    const seen = new Set<string>();
    for (const { key } of members) {
      const column = this.#known.get(key);
      if (seen.has(key)) {
        return fault(
          'duplicate_column',
          column === undefined ? null : this.#readers[column]!.name,
          'a key is there twice',
        );
      }
      seen.add(key);
      if (column !== undefined) continue;
      const meant = this.#names.meaning(key, this.#used);
      if (meant === null) continue;
      if (this.#names.isConstant(meant)) return fault('unexpected_column', meant, CONSTANT_GIVEN);
      if (meant === outcome) {
        return fault('outcome_present', meant, 'the outcome is part of the application');
      }
      if (passthrough === '*' && reserved.includes(meant)) {
        return fault('unexpected_column', meant, 'the key has the name of a field of the answer, which it would hide');
      }
      if (passthrough !== '*' && !this.#echoed.has(key)) {
        // The name comes from outside and may be anything, so it is not repeated.
        return fault('unexpected_column', null, UNKNOWN_KEY);
      }
    }
    return null;
  }

  #echo(members: readonly Member[], row: number, batch: ColumnBatch): void {
    if (this.#layout.passthrough === '*') {
      const rest = members.flatMap(({ key, token }) => {
        const meant = this.#known.has(key) ? null : this.#names.meaning(key, this.#used);
        return meant === null ? [] : [`${JSON.stringify(meant)}:${token}`];
      });
      batch.passthrough[0]![row] = rest.join(',');
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
