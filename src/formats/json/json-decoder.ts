// Decodes JSON objects with JSON.parse. This is the reference for tests and benchmarks of the fast decoder.
import { isUtf8 } from 'node:buffer';
import type { ColumnBatch, Rejection } from '../../core/batch.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { type JsonToken, membersOf } from '../../core/exact-json.ts';
import type { DeclaredColumns } from '../../core/input-declaration.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import { beginBatch, type Decoder, notTextMessage, type RecordSlice, reject, rejectFaulty } from '../decode/decoder.ts';
import { InputNames } from '../decode/input-names.ts';
import { CONSTANT_GIVEN, simplified } from '../delimited/header.ts';

export interface JsonLayout {
  /** Columns outside the model to pass through; '*' passes all such columns as one fragment of JSON. */
  passthrough: readonly string[] | '*';
  /** Keys that are reserved, because they would collide with output fields. */
  reserved: readonly string[];
  /** The outcome column, which the input must not have. */
  outcome: string | null;
  /** Maximum keys of an object. */
  maxColumns: number;
  /** Declared renamed, ignored and constant columns. */
  declared?: DeclaredColumns;
  /** The original encoding, if the input was converted to UTF-8. */
  encoding?: string;
}

type RecordFault = Omit<Rejection, 'index'>;

const fault = (code: ErrorCode, column: string | null, message: string): RecordFault => ({ code, column, message });

export class JsonDecoder implements Decoder {
  readonly #readers: readonly ColumnReader[];
  readonly #known: ReadonlyMap<string, number>;
  readonly #layout: JsonLayout;
  /** The input key of each column reader. */
  readonly #keys: readonly string[];
  readonly #echoed: ReadonlyMap<string, number>;
  readonly #names: InputNames;
  /** Keys by their simplified spelling. The map is built for the first unknown key. */
  #spellings: Map<string, string> | null = null;
  /** Names that the model or passthrough uses. They are kept even if all other columns are ignored. */
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

  /** Decodes record `i` of a block into row `row` of a batch that is being filled. */
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
      return fault('unexpected_column', null, `more than ${this.#layout.maxColumns} keys (max_columns)`);
    }
    const wrong = this.#wrongKey(members);
    // A rejected row keeps its passthrough columns, which identify it. With `*`, they are dropped, because an unchecked
    // key could collide with an output field.
    const broken = wrong === null || this.#layout.passthrough !== '*' ? this.#echo(members, row, batch) : null;
    const refused = wrong ?? broken;
    if (refused) return refused;
    const object = value as Record<string, unknown>;
    for (let c = 0; c < this.#readers.length; c++) {
      const reader = this.#readers[c]!;
      const key = this.#keys[c]!;
      if (!Object.hasOwn(object, key)) {
        return fault('missing_column', reader.name, 'the column is missing');
      }
      const bad = reader.readNative(object[key], batch.columns[c]!, row);
      if (bad) return fault(bad.code, reader.name, bad.message);
    }
    return null;
  }

  /** Whether an object with these keys would be rejected because of one of them. */
  refusesKeys(keys: readonly string[]): boolean {
    return keys.length > this.#layout.maxColumns || this.#wrongKey(keys.map((key) => ({ key, token: '' }))) !== null;
  }

  #wrongKey(members: readonly JsonToken[]): RecordFault | null {
    const { passthrough, reserved, outcome } = this.#layout;
    const seen = new Set<string>();
    for (const [i, { key }] of members.entries()) {
      const column = this.#known.get(key);
      const meant = column === undefined ? this.#names.meaning(key, this.#used) : null;
      const isIgnored = column === undefined && meant === null;
      if (isIgnored) continue;
      if (seen.has(key)) {
        return fault(
          'duplicate_column',
          column === undefined ? null : this.#readers[column]!.name,
          'a key occurs twice',
        );
      }
      seen.add(key);
      if (meant === null) continue;
      if (this.#names.isConstant(meant)) return fault('unexpected_column', meant, CONSTANT_GIVEN);
      if (meant === outcome) {
        return fault('outcome_present', meant, 'the application contains the outcome column');
      }
      if (passthrough === '*' && reserved.includes(meant)) {
        return fault('unexpected_column', meant, 'the key has the name of an output field');
      }
      if (passthrough !== '*' && !this.#echoed.has(key)) {
        return fault('unexpected_column', null, this.#unknownKey(key, i + 1));
      }
    }
    return null;
  }

  /**
   * Describes an unknown key by its position and the column that it resembles. The key itself is not reported, because
   * it could contain input values.
   */
  #unknownKey(key: string, place: number): string {
    this.#spellings ??= new Map(this.#keys.map((name) => [simplified(name), name]));
    const like = this.#spellings.get(simplified(key));
    const meant = like === undefined ? '' : ` (did you mean ${like}?)`;
    return `key ${place} of the object is neither a model column nor passed through${meant}`;
  }

  /** Copies passthrough tokens. Rejects a text or key that no output but JSON could contain unchanged. */
  #echo(members: readonly JsonToken[], row: number, batch: ColumnBatch): RecordFault | null {
    let broken: RecordFault | null = null;
    if (this.#layout.passthrough === '*') {
      const rest = members.flatMap(({ key, token }) => {
        const meant = this.#known.has(key) ? null : this.#names.meaning(key, this.#used);
        if (meant === null) return [];
        // The message does not name the column, because its name may be a value of the input.
        if (isBroken(token) || !meant.isWellFormed()) broken = halfPair(null);
        return [`${JSON.stringify(meant)}:${token}`];
      });
      batch.passthrough[0]![row] = broken === null ? rest.join(',') : '';
      return broken;
    }
    for (const { key, token } of members) {
      const at = this.#echoed.get(key);
      if (at === undefined) continue;
      const refused = isBroken(token) ? halfPair(this.#layout.passthrough[at]!) : null;
      broken = refused ?? broken;
      batch.passthrough[at]![row] = refused ? null : token;
    }
    return broken;
  }
}

/** Whether a string token contains half a surrogate pair, which only an escape can write. */
const isBroken = (token: string): boolean =>
  token.startsWith('"') && token.includes('\\u') && !(JSON.parse(token) as string).isWellFormed();

const halfPair = (column: string | null): RecordFault =>
  fault('invalid_utf8', column, 'a passthrough text or key contains half a surrogate pair');
