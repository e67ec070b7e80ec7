// The fields of a prediction for all schema languages, including passthrough columns.
import { SluiceError } from '../../core/errors.ts';
import { ExactNumber, type ExactObject } from '../../core/exact-json.ts';
import type { SchemaRegistry, SchemaType } from './schema-registry.ts';

/** A prediction field, as in `PREDICTION_FIELDS`. */
export interface SchemaField {
  key: string;
  kind: 'integer' | 'number' | 'text' | 'class' | 'numbers' | 'error' | 'json';
  description: string;
}

type SubjectStrategy = 'topic' | 'record' | 'topic_record';

export interface PredictionSchemaOptions {
  topic: string;
  /** All fields that a prediction can have. */
  fields: readonly SchemaField[];
  /** Passthrough columns, each with its own field; '*': all columns, in one map. */
  passthrough: readonly string[] | '*';
  subject: SubjectStrategy;
  /** Whether to register the schema; false: it must already exist. */
  register: boolean;
}

export const MODEL_KEYS: readonly string[] = ['modelId', 'modelVersion'];
export const RECORD_NAME = 'Prediction';
export const NAMESPACE = 'sluice';

/**
 * The subject of the prediction schema, by the subject name strategies of Confluent's serializers: TopicName,
 * RecordName, TopicRecordName.
 */
export function subjectOf({ topic, subject }: Pick<PredictionSchemaOptions, 'topic' | 'subject'>): string {
  const record = `${NAMESPACE}.${RECORD_NAME}`;
  return { topic: `${topic}-value`, record, topic_record: `${topic}-${record}` }[subject];
}

/**
 * Registers or finds the schema of predictions; returns its ID.
 * @throws SluiceError schema_registry_unavailable | kafka_config
 */
export function schemaId(
  registry: SchemaRegistry,
  schema: { type: SchemaType; text: string },
  options: PredictionSchemaOptions,
): Promise<number> {
  const subject = subjectOf(options);
  return options.register ? registry.register(subject, schema) : registry.find(subject, schema);
}

export interface PassthroughField {
  readonly column: string;
  /** The field name, which is valid in Avro and Protobuf. */
  readonly name: string;
}

/** Converts a field name to snake case, the style of .proto files. */
export const snake = (key: string): string => key.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);

/**
 * The fields for passthrough columns listed by name.
 * @throws SluiceError kafka_config if two columns would share a name
 */
export function passthroughFields({ passthrough, fields }: PredictionSchemaOptions): PassthroughField[] {
  if (passthrough === '*') return [];
  const ours = [...MODEL_KEYS, ...fields.map((f) => f.key), 'passthrough'];
  const taken = new Map(ours.flatMap((key) => [key, snake(key)].map((name): [string, string] => [name, key])));
  return passthrough.map((column) => {
    // Libraries for JavaScript omit fields with the name __proto__.
    const name = column.replace(/[^A-Za-z0-9_]/g, '_').replace(/^(?=\d|$|__proto__$)/, '_');
    const other = taken.get(name);
    if (other !== undefined) {
      throw new SluiceError(
        'kafka_config',
        `the passthrough columns ${other} and ${column} have the same name in a schema`,
      );
    }
    taken.set(name, column);
    return { column, name };
  });
}

/**
 * A passthrough value by its JSON type. Objects and lists are JSON texts, and so are numbers whose digits neither a long
 * nor a double keeps.
 */
type Passed = { boolean: boolean } | { long: number | string } | { double: number } | { string: string };

/** Matches integers that may fit into a long. */
const WHOLE = /^-?\d{1,19}$/;
const LONG_MIN = -(2n ** 63n);
const LONG_MAX = 2n ** 63n - 1n;

const fitsLong = (digits: string): boolean =>
  WHOLE.test(digits) && BigInt(digits) >= LONG_MIN && BigInt(digits) <= LONG_MAX;

const NUMBER_PARTS = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

/** The number of a JSON token as its significant digits and an exponent, so that 1.50, 1.5 and 15e-1 are equal. */
function decimalOf(token: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = NUMBER_PARTS.exec(token) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  let end = digits.length;
  while (digits[end - 1] === '0') end--;
  const figures = digits.slice(0, end);
  return figures === ''
    ? '0'
    : `${sign}${figures}e${Number(exponent) - fraction.length + digits.length - figures.length}`;
}

export function passed(value: unknown): Passed | null {
  if (value === null || value === undefined) return null;
  if (typeof value === 'boolean') return { boolean: value };
  if (value instanceof ExactNumber) {
    const number = Number(value.text);
    if (decimalOf(value.text) === decimalOf(String(number))) return passed(number);
    return fitsLong(value.text) ? { long: value.text } : { string: value.text };
  }
  if (typeof value === 'number') {
    // A long has no negative zero.
    if (!Number.isInteger(value) || Object.is(value, -0)) return { double: value };
    if (Number.isSafeInteger(value)) return { long: value };
    // The text, which has no exponent below 2^63, is the number in JSON. The double can differ from both.
    return fitsLong(String(value)) ? { long: String(value) } : { double: value };
  }
  return { string: typeof value === 'string' ? value : JSON.stringify(value) };
}

/** Converts an `ExactNumber`, which has any number of digits, to a double. Returns other values unchanged. */
export const asDouble = (value: unknown): unknown => (value instanceof ExactNumber ? Number(value.text) : value);

/** Applies `asDouble` to all values of an object. */
export const asDoubles = (values: unknown): unknown =>
  Object.fromEntries(Object.entries(values as object).map(([key, value]) => [key, asDouble(value)]));

/** Splits a prediction for encoders: its fields, passthrough columns listed by name, and all other members. */
export class PredictionParts {
  readonly fields: readonly SchemaField[];
  readonly named: readonly PassthroughField[];
  readonly #known: ReadonlySet<string>;

  /** @throws SluiceError kafka_config if two columns would share a name */
  constructor(options: PredictionSchemaOptions) {
    this.fields = options.fields;
    this.named = passthroughFields(options);
    this.#known = new Set([...MODEL_KEYS, ...this.fields.map((f) => f.key), ...this.named.map((n) => n.column)]);
  }

  /** The members that are neither prediction fields nor columns listed by name. */
  rest(prediction: ExactObject): [column: string, value: unknown][] {
    const rest: [string, unknown][] = [];
    for (const key of Object.keys(prediction)) if (!this.#known.has(key)) rest.push([key, prediction[key]]);
    return rest;
  }
}

export const isNothing = (value: unknown): value is null | undefined => value === undefined || value === null;
