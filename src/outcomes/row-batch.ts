// Rows of a table, file or topic as texts of named columns. Members of JSON objects are converted to texts.

import { type ErrorCode, type ErrorDetail, SluiceError } from '../core/errors.ts';
import { membersOf } from '../core/exact-json.ts';
import { ownValue } from '../core/own-keys.ts';

export interface WantedColumn {
  /** Name of the column. An empty name means that the column is not requested, but keeps its index. */
  name: string;
  /** Reject a header without this column. In JSON, each row without it is rejected. */
  required?: true;
  /** Reject a JSON object that has neither this member nor `error`, because it is not a prediction. */
  orError?: true;
  /** Keep the text of JSON numbers, because `1.50` and `1.5` are different keys. */
  asWritten?: true;
}

export interface RowFault {
  /** Row of the batch, from 0. */
  readonly row: number;
  readonly code: ErrorCode;
  /** The requested column that is invalid; null: the whole row is invalid. */
  readonly column: string | null;
  /** The message, which never contains input values. */
  readonly message: string;
}

export interface RowBatch {
  readonly rows: number;
  /** The row number in the input (from 1) of a row in the batch. For a topic, the offset of its record. */
  placeOf(row: number): number;
  /** For each requested column, the text of each row; null: the row has no value. */
  readonly texts: readonly (readonly (string | null)[])[];
  /** For each requested column, whether the header, or any record so far, contains it. In JSON, its value may be null. */
  readonly has: readonly boolean[];
  /** The rows that could not be read, in order. Their texts are undefined. */
  readonly faults: readonly RowFault[];
  /** Metadata of the records; only for a topic. */
  readonly records?: {
    readonly keys: readonly (string | null)[];
    /** Time of the application, ms since 1970. */
    readonly times: readonly number[];
    /** The model in the headers; null: the headers name no model. */
    readonly models: readonly (string | null)[];
    /** Whether the record is a tombstone: it has no value, because its key was deleted. */
    readonly gone: readonly boolean[];
  };
}

/** A file or a topic. */
export interface RowSource {
  /** Name for messages. */
  readonly name: string;
  rows(columns: readonly WantedColumn[], signal: AbortSignal | undefined): AsyncIterable<RowBatch>;
}

/** Maximum number of reported errors. */
const MOST_LISTED = 20;

/** Counts the invalid rows of an input and collects the first errors. */
export class RowFaults {
  #count = 0;
  readonly #listed: ErrorDetail[] = [];

  get count(): number {
    return this.#count;
  }

  /** `row`: row number in the input, from 1. */
  add(row: number, { code, column, message }: Omit<RowFault, 'row'>): void {
    this.#count++;
    if (this.#listed.length < MOST_LISTED)
      this.#listed.push({ code, message, row, ...(column === null ? {} : { column }) });
  }

  /** Adds the errors of `other`, which are those of later rows. */
  append(other: RowFaults): void {
    this.#count += other.#count;
    this.#listed.push(...other.#listed.slice(0, MOST_LISTED - this.#listed.length));
  }

  /** Throws if there were invalid rows. @throws SluiceError outcomes_invalid */
  refuse(name: string): void {
    if (this.#count === 0) return;
    const rows = this.#count === 1 ? 'one row' : `${this.#count} rows`;
    throw new SluiceError('outcomes_invalid', `${name}: ${rows} cannot be used`, { details: this.#listed });
  }
}

type Fault = Omit<RowFault, 'row'>;

/** Prefix of the columns with class probabilities. In JSON, they are members of an object. */
const OF_CLASS = 'probability.';
const TAGS = new Set(['boolean_value', 'long_value', 'double_value', 'string_value']);

const fault = (code: Fault['code'], column: string | null, message: string): Fault => ({ code, column, message });

export class ObjectColumns {
  readonly #columns: readonly WantedColumn[];
  readonly #has: boolean[];

  constructor(columns: readonly WantedColumn[]) {
    this.#columns = columns;
    this.#has = columns.map(() => false);
  }

  /** For each column, whether any object so far has it. The first one may be rejected, or lack unknown values. */
  get has(): readonly boolean[] {
    return this.#has;
  }

  newTexts(rows: number): (string | null)[][] {
    return this.#columns.map(() => new Array<string | null>(rows).fill(null));
  }

  /** Reads an object into row `row`. `otherwise`: values for missing members. null: the row is valid. */
  read(
    json: string,
    texts: readonly (string | null)[][],
    row: number,
    otherwise: Record<string, unknown>,
  ): Fault | null {
    let object: unknown;
    try {
      object = JSON.parse(json);
    } catch {
      return fault('malformed_json', null, 'the record is not valid JSON');
    }
    if (typeof object !== 'object' || object === null || Array.isArray(object)) {
      return fault('not_an_object', null, 'the record is not a JSON object');
    }
    const found = object as Record<string, unknown>;
    for (const [c, { name }] of this.#columns.entries()) this.#has[c] ||= hasMember(found, name, otherwise);
    for (const [c, column] of this.#columns.entries()) {
      if (column.orError && !Object.hasOwn(found, 'error') && !hasMember(found, column.name, otherwise)) {
        return fault('missing_column', column.name, 'the object has neither this member nor an error: no prediction');
      }
      const value = bare(memberOf(found, column.name) ?? ownValue(otherwise, column.name));
      if (value === undefined || value === null) continue;
      if (typeof value === 'object')
        return fault('bad_type', column.name, 'a text, a number, true or false is expected');
      const text = typeof value === 'number' && column.asWritten ? writtenIn(json, column.name, value) : String(value);
      // Different texts with unpaired surrogates can have the same UTF-8 bytes, so they are rejected.
      if (!text.isWellFormed()) return fault('invalid_utf8', column.name, 'contains half a surrogate pair');
      texts[c]![row] = text;
    }
    return null;
  }
}

/** Whether the object, or `otherwise`, has the member, which may be null. */
const hasMember = (object: Record<string, unknown>, name: string, otherwise: Record<string, unknown>): boolean =>
  memberOf(object, name) !== undefined || ownValue(otherwise, name) !== undefined;

function memberOf(object: Record<string, unknown>, name: string): unknown {
  if (name === '') return undefined;
  if (Object.hasOwn(object, name)) return object[name];
  return name.startsWith(OF_CLASS)
    ? memberWithin(object.probabilities, name.slice(OF_CLASS.length))
    : memberWithin(object.passthrough, name);
}

/** Unwraps a value of any type, which in Protobuf is a message with one field per type. */
function bare(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value);
  if (members.length === 0) return null;
  return members.length === 1 && TAGS.has(members[0]![0]) ? members[0]![1] : value;
}

/** Finds a passthrough column. In values with a schema, such columns are in a separate map. */
function memberWithin(map: unknown, name: string): unknown {
  if (typeof map !== 'object' || map === null || !Object.hasOwn(map, name)) return undefined;
  return (map as Record<string, unknown>)[name];
}

/** The text of a number that `memberOf` found. It is needed because JSON.parse loses digits beyond 2^53. */
function writtenIn(json: string, name: string, value: number): string {
  const own = tokenOf(json.trim(), name);
  const within = own === undefined ? tokenOf(json.trim(), 'passthrough') : undefined;
  const token = own ?? (within === undefined ? undefined : tokenOf(within, name));
  // In Protobuf, the number is wrapped in another member.
  const bareToken = token?.startsWith('{') ? membersOf(token)[0]?.token : token;
  return bareToken ?? String(value);
}

/** The text of the last member with this name, which is the member that JSON.parse uses. */
const tokenOf = (json: string, name: string): string | undefined =>
  json.startsWith('{') ? membersOf(json).findLast(({ key }) => key === name)?.token : undefined;
