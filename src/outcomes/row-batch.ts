// Rows of any table, file or topic as texts of named columns, and named members of JSON objects as such texts.
import { type ErrorCode, type ErrorDetail, SluiceError } from '../core/errors.ts';
import { membersOf } from '../core/exact-json.ts';

export interface WantedColumn {
  /** Empty: none is asked for, its place is kept. */
  name: string;
  /** A header without it is refused; of JSON each row is asked. */
  required?: true;
  /** A JSON object with neither this member nor `error` is rejected: it is not a prediction. */
  orError?: true;
  /** Numbers of JSON as they are written: `1.50` is another key than `1.5`. */
  asWritten?: true;
}

export interface RowFault {
  /** Row of the batch, from 0. */
  readonly row: number;
  readonly code: ErrorCode;
  /** One of the columns asked for; null: the row as a whole. */
  readonly column: string | null;
  /** Never holds a value of the row. */
  readonly message: string;
}

export interface RowBatch {
  readonly rows: number;
  /** Which row of its input (from 1) a row of the batch is; of a topic: its offset. */
  placeOf(row: number): number;
  /** Per column asked for: the text of each row; null: it has none. */
  readonly texts: readonly (readonly (string | null)[])[];
  /** Per column asked for: whether the input has it, as its header or its first record says. */
  readonly has: readonly boolean[];
  /** Rows that could not be read, in order; their texts mean nothing. */
  readonly faults: readonly RowFault[];
  /** The metadata of topic records. */
  readonly records?: {
    readonly keys: readonly (string | null)[];
    /** Of the application, ms since 1970. */
    readonly times: readonly number[];
    /** From the headers; null: they do not say. */
    readonly models: readonly (string | null)[];
    /** The record has no value: its key was deleted. */
    readonly gone: readonly boolean[];
  };
}

/** A file or a topic. */
export interface RowSource {
  /** For messages. */
  readonly name: string;
  rows(columns: readonly WantedColumn[], signal: AbortSignal | undefined): AsyncIterable<RowBatch>;
}

/** Faults reported with their rows. */
const TOLD = 20;

/** Unusable rows of an input: counted, and the first of them reported. */
export class RowFaults {
  #count = 0;
  readonly #told: ErrorDetail[] = [];

  get count(): number {
    return this.#count;
  }

  /** `row`: of the input, from 1. */
  add(row: number, { code, column, message }: Omit<RowFault, 'row'>): void {
    this.#count++;
    if (this.#told.length < TOLD) this.#told.push({ code, message, row, ...(column === null ? {} : { column }) });
  }

  /** @throws SluiceError outcomes_invalid, if there were any */
  refuse(name: string): void {
    if (this.#count === 0) return;
    const rows = this.#count === 1 ? 'one row' : `${this.#count} rows`;
    throw new SluiceError('outcomes_invalid', `${name}: ${rows} cannot be used`, { details: this.#told });
  }
}

type Fault = Omit<RowFault, 'row'>;

/** Of several classes, tables have a column for each where JSON has an object of them. */
const OF_CLASS = 'probability.';
const TAGS = new Set(['boolean_value', 'long_value', 'double_value', 'string_value']);

const fault = (code: Fault['code'], column: string | null, message: string): Fault => ({ code, column, message });

export class ObjectColumns {
  readonly #columns: readonly WantedColumn[];
  #has: boolean[] | null = null;

  constructor(columns: readonly WantedColumn[]) {
    this.#columns = columns;
  }

  /** Whether the first object had each column. */
  get has(): readonly boolean[] {
    return this.#has ?? this.#columns.map(() => false);
  }

  newTexts(rows: number): (string | null)[][] {
    return this.#columns.map(() => new Array<string | null>(rows).fill(null));
  }

  /** Reads an object into row `row`; `otherwise`: members for objects that lack them. null: nothing is wrong with it. */
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
    const values = this.#columns.map(
      ({ name }) => memberOf(object as Record<string, unknown>, name) ?? otherwise[name],
    );
    this.#has ??= values.map((value) => value !== undefined);
    for (const [c, column] of this.#columns.entries()) {
      if (column.orError && !hasMember(object as Record<string, unknown>, column.name, otherwise)) {
        return fault('missing_column', column.name, 'the object has neither this member nor an error: no prediction');
      }
      const value = bare(values[c]);
      if (value === undefined || value === null) continue;
      if (typeof value === 'object')
        return fault('bad_type', column.name, 'a text, a number, true or false is expected');
      const text = typeof value === 'number' && column.asWritten ? writtenIn(json, column.name, value) : String(value);
      // Two texts with halves of surrogate pairs would be the same bytes.
      if (!text.isWellFormed()) return fault('invalid_utf8', column.name, 'contains half a surrogate pair');
      texts[c]![row] = text;
    }
    return null;
  }
}

/** Whether the object is a prediction: it has the member, if only as null, or says why it has not. */
const hasMember = (object: Record<string, unknown>, name: string, otherwise: Record<string, unknown>): boolean =>
  Object.hasOwn(object, 'error') || memberOf(object, name) !== undefined || otherwise[name] !== undefined;

function memberOf(object: Record<string, unknown>, name: string): unknown {
  if (name === '') return undefined;
  if (Object.hasOwn(object, name)) return object[name];
  return name.startsWith(OF_CLASS)
    ? memberWithin(object.probabilities, name.slice(OF_CLASS.length))
    : memberWithin(object.passthrough, name);
}

/** Protobuf has values of any type in a message with a field for each of them. */
function bare(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value);
  if (members.length === 0) return null;
  return members.length === 1 && TAGS.has(members[0]![0]) ? members[0]![1] : value;
}

/** In values with a schema, columns passed through are in a map of their own. */
function memberWithin(map: unknown, name: string): unknown {
  if (typeof map !== 'object' || map === null || !Object.hasOwn(map, name)) return undefined;
  return (map as Record<string, unknown>)[name];
}

/** The number as it is written, found where `memberOf` finds it: JSON.parse would lose digits beyond 2^53. */
function writtenIn(json: string, name: string, value: number): string {
  const own = tokenOf(json.trim(), name);
  const within = own === undefined ? tokenOf(json.trim(), 'passthrough') : undefined;
  const token = own ?? (within === undefined ? undefined : tokenOf(within, name));
  // Protobuf has one member more around it.
  const bareToken = token?.startsWith('{') ? membersOf(token)[0]?.token : token;
  return bareToken ?? String(value);
}

/** The last member of that name, which is the one that JSON.parse takes. */
const tokenOf = (json: string, name: string): string | undefined =>
  json.startsWith('{') ? membersOf(json).findLast(({ key }) => key === name)?.token : undefined;
