// Converts Avro values to JSON: logical types in readable form, integers exactly, unions without wrappers.
import avro from 'avsc';
import { ExactNumber } from '../../core/exact-json.ts';
import { uuidText } from '../columns/json-text.ts';
import type { RegisteredSchema } from '../schemas/schema-registry.ts';
import { type ReadValue, TypedText, writingOf } from '../schemas/value-codec.ts';
import { boundsOf, checkOf, plainName } from './avro-bounds.ts';

const { LongType, LogicalType } = avro.types;

const MS_PER_DAY = 86_400_000;
const MICROS_PER_MS = 1000n;
const NANOS_PER_MS = 1_000_000n;

/**
 * The type of longs of any size. A value is a number if a double represents it exactly. Otherwise it is the text of its
 * digits, which `plainer` writes as a JSON number.
 */
export const exactLong = LongType.__with({
  fromBuffer: (bytes: Buffer): number | string => {
    const value = bytes.readBigInt64LE();
    return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  },
  toBuffer: (value: number | string): Buffer => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(value));
    return bytes;
  },
  fromJSON: Number,
  toJSON: Number,
  isValid: (value: unknown) => Number.isSafeInteger(value) || (typeof value === 'string' && /^-?\d{1,19}$/.test(value)),
  compare: (a: number | string, b: number | string) => Number(a) - Number(b),
} as unknown as Parameters<typeof LongType.__with>[0]);

/** The methods by which types of avsc read values of another type. */
interface Resolving {
  _read(tap: unknown): unknown;
  _update(resolver: Pick<Resolving, '_read'>, written: avro.Type, options?: unknown): void;
}

/**
 * Creates a floating-point type that reads longs as the nearest double. avsc decodes such a long in doubles, which loses
 * the sign of negative numbers beyond 2^52.
 */
function readingLongs(base: new () => avro.Type): avro.Type {
  const Base = base as unknown as new () => Resolving;
  const Exact = class extends Base {
    override _update(resolver: Pick<Resolving, '_read'>, written: avro.Type, options?: unknown): void {
      if (written !== exactLong) super._update(resolver, written, options);
      else resolver._read = (tap) => Number((exactLong as unknown as Resolving)._read(tap));
    }
  };
  return new Exact() as unknown as avro.Type;
}

const FLOATS = {
  float: readingLongs(avro.types.FloatType as unknown as new () => avro.Type),
  double: readingLongs(avro.types.DoubleType as unknown as new () => avro.Type),
};

type Resolver = ReturnType<avro.Type['createResolver']>;

interface LogicalAttributes {
  scale?: number;
}

/** Conversion of a value whose type in the reader schema differs from its type in the schema it was written with. */
function promotionOf(written: string, read: string): (value: unknown) => unknown {
  if (written === 'bytes' && read === 'string') return String;
  return written === 'string' && read === 'bytes' ? (text) => Buffer.from(text as string) : (value) => value;
}

/**
 * Creates a logical type that converts values of its underlying type when they are read. `of`: the underlying types
 * that the specification allows. avsc ignores the logical type of any other, as the specification demands.
 */
function readAs(
  of: readonly string[],
  kind: TypedText['kind'],
  convert: (value: never, attributes: LogicalAttributes) => string,
) {
  return class extends LogicalType {
    static readonly of = of;
    readonly #attributes: LogicalAttributes;
    #isInUnion = false;
    constructor(schema: avro.Schema, options?: unknown) {
      super(schema, options as never);
      this.#attributes = schema as LogicalAttributes;
      const { scale = 0 } = this.#attributes;
      if (!of.includes(plainName(this.underlyingType)) || !(Number.isInteger(scale) && scale >= 0)) {
        throw new Error('a logical type that its type cannot have');
      }
    }
    protected override _fromValue(value: unknown): unknown {
      return new TypedText(convert(value as never, this.#attributes), kind, value);
    }
    /** avsc converts the default of a field, and converts it back to check and to copy it. */
    protected override _toValue(value: unknown): unknown {
      return value instanceof TypedText ? value.raw : undefined;
    }
    /** If the written type is a union, a branch that does not fit rejects its values only, not the schema. */
    override createResolver(written: avro.Type, options?: unknown): Resolver {
      const create = (type: avro.Type): Resolver => super.createResolver(type, options as never);
      if (!(written instanceof avro.types.WrappedUnionType)) {
        if (!this.#isInUnion) return create(written);
        try {
          return create(written);
        } catch (error) {
          const _read = (): never => {
            throw error;
          };
          return { _read } as unknown as Resolver;
        }
      }
      this.#isInUnion = true;
      try {
        return create(written);
      } finally {
        this.#isInUnion = false;
      }
    }
    /**
     * @throws Error if values of `type` are not values of the underlying type: for a reader's union, avsc then tries its
     * next branch
     */
    protected override _resolve(type: avro.Type): ((value: unknown) => unknown) | undefined {
      // A value of the same logical type is already converted; a value of the underlying type is not.
      if (type.typeName === this.typeName) return (value) => value;
      if (type instanceof LogicalType) return undefined;
      this.underlyingType.createResolver(type);
      const convert = promotionOf(plainName(type), plainName(this.underlyingType));
      return (value) => this._fromValue(convert(value));
    }
  };
}

const iso = (ms: number): string => new Date(ms).toISOString();
const local = (ms: number): string => iso(ms).slice(0, -1);
const time = (ms: number): string => iso(ms).slice(11, -1);

/** Formats a time in units of 1/`perMs` ms as ISO 8601 with all digits and without a time zone. */
function fine(value: number | string, perMs: bigint): string {
  const units = BigInt(value);
  const rest = ((units % perMs) + perMs) % perMs;
  return `${local(Number((units - rest) / perMs))}${String(rest).padStart(String(perMs).length - 1, '0')}`;
}

/** Formats an unscaled decimal (two's complement, big-endian) with `scale` digits after the point. */
function decimalText(bytes: Buffer, { scale = 0 }: LogicalAttributes): string {
  const unscaled = BigInt.asIntN(bytes.length * 8, BigInt(`0x${bytes.toString('hex') || '0'}`));
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0');
  const sign = unscaled < 0n ? '-' : '';
  return scale === 0 ? sign + digits : `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

/**
 * The logical types of the Avro specification 1.12. Decimals become texts, because readers of a JSON number may lose
 * digits.
 */
const LOGICAL_TYPES = {
  decimal: readAs(['bytes', 'fixed'], 'number', decimalText as never),
  'big-decimal': readAs(['bytes'], 'other', (bytes: Buffer) => bytes.toString('base64')),
  uuid: readAs(['string', 'fixed'], 'text', (value: string | Buffer) =>
    typeof value === 'string' ? value : uuidText(value),
  ),
  date: readAs(['int'], 'other', (days: number) => iso(days * MS_PER_DAY).split('T')[0]!),
  'time-millis': readAs(['int'], 'other', (ms: number) => time(ms)),
  'time-micros': readAs(['long'], 'other', (micros: number | string) => fine(micros, MICROS_PER_MS).slice(11)),
  'timestamp-millis': readAs(['long'], 'other', (ms: number) => iso(ms)),
  'timestamp-micros': readAs(['long'], 'other', (micros: number | string) => `${fine(micros, MICROS_PER_MS)}Z`),
  'timestamp-nanos': readAs(['long'], 'other', (nanos: number | string) => `${fine(nanos, NANOS_PER_MS)}Z`),
  'local-timestamp-millis': readAs(['long'], 'other', (ms: number) => local(ms)),
  'local-timestamp-micros': readAs(['long'], 'other', (micros: number | string) => fine(micros, MICROS_PER_MS)),
  'local-timestamp-nanos': readAs(['long'], 'other', (nanos: number | string) => fine(nanos, NANOS_PER_MS)),
  duration: readAs(['fixed'], 'other', (bytes: Buffer) => {
    const [months, days, ms] = [0, 4, 8].map((at) => bytes.readUInt32LE(at)) as [number, number, number];
    return `P${months}M${days}DT${ms / 1000}S`;
  }),
};

type LogicalName = keyof typeof LOGICAL_TYPES;

/**
 * Creates a type hook for numbers whose schema is an object, because avsc uses its registry only for type names. For a
 * logical type the hook is called twice; the second call returns the underlying type.
 */
function exactNumbers(): (schema: avro.Schema) => avro.Type | undefined {
  const wrapped = new Set<avro.Schema>();
  return (schema) => {
    const { type, logicalType = '' } = schema as { type?: string; logicalType?: string };
    if (type === 'float' || type === 'double') return FLOATS[type];
    if (type !== 'long') return undefined;
    const isLogical =
      Object.hasOwn(LOGICAL_TYPES, logicalType) && LOGICAL_TYPES[logicalType as LogicalName].of.includes('long');
    if (!isLogical || wrapped.has(schema)) return exactLong;
    wrapped.add(schema);
    return undefined;
  };
}

/**
 * Creates the type of a schema with all its references. Unions are wrapped so that their branches can be distinguished.
 * @throws Error if avsc rejects the schema
 */
export function avroType(schema: RegisteredSchema): avro.Type {
  const registry: Record<string, avro.Type> = { long: exactLong, ...FLOATS };
  const options = {
    registry,
    wrapUnions: true,
    logicalTypes: LOGICAL_TYPES,
    typeHook: exactNumbers(),
  } as unknown as Partial<avro.ForSchemaOptions>;
  const define = ({ text, references }: RegisteredSchema): avro.Type => {
    for (const { schema: other } of references) {
      const { name, namespace } = JSON.parse(other.text) as { name?: string; namespace?: string };
      const full = namespace && name && !name.includes('.') ? `${namespace}.${name}` : name;
      if (full === undefined || !(full in registry)) define(other);
    }
    return avro.Type.forSchema(JSON.parse(text) as avro.Schema, options);
  };
  return define(schema);
}

type Plain = (value: unknown) => unknown;
const asItIs: Plain = (value) => value;

/**
 * Creates a function that returns the converter from a type's Avro values to JSON-compatible values. Converters are
 * cached by type, so that recursive types terminate. `onReplaced`: called for each text that contains U+FFFD, by which
 * avsc replaces bytes that are not UTF-8.
 */
function plainer(onReplaced: () => void): (type: avro.Type) => Plain {
  const made = new Map<avro.Type, Plain>();
  const of = (type: avro.Type): Plain => {
    const known = made.get(type);
    if (known) return known;
    // Placeholder for types that contain themselves.
    made.set(type, (value) => made.get(type)!(value));
    const plain = make(type);
    made.set(type, plain);
    return plain;
  };
  const checkedText = (text: string): string => {
    if (text.includes('\ufffd')) onReplaced();
    return text;
  };
  const make = (type: avro.Type): Plain => {
    if (type instanceof avro.types.RecordType) {
      const fields = type.fields.map((f) => [f.name, of(f.type)] as const);
      return (value) => {
        const plain: Record<string, unknown> = {};
        for (const [name, field] of fields) plain[name] = field((value as Record<string, unknown>)[name]);
        return plain;
      };
    }
    if (type instanceof avro.types.WrappedUnionType) {
      const branches = new Map(type.types.map((t) => [t.branchName, of(t)]));
      return (value) => {
        if (value === null) return null;
        const [name, inner] = Object.entries(value as object)[0]!;
        return branches.get(name)!(inner);
      };
    }
    if (type instanceof avro.types.ArrayType) {
      const item = of(type.itemsType);
      return (value) => (value as unknown[]).map(item);
    }
    if (type instanceof avro.types.MapType) {
      const item = of(type.valuesType);
      return (value) => Object.fromEntries(Object.entries(value as object).map(([k, v]) => [checkedText(k), item(v)]));
    }
    if (type === exactLong) return (value) => (typeof value === 'string' ? new ExactNumber(value) : value);
    // As in other typed formats, JSON.stringify writes NaN as null, which is a missing value. An infinity becomes a
    // text, so that number columns reject it.
    if (type.typeName === 'double' || type.typeName === 'float') {
      return (value) => (Math.abs(value as number) === Infinity ? String(value) : value);
    }
    if (type instanceof avro.types.StringType) return (value) => checkedText(value as string);
    if (type instanceof avro.types.BytesType || type instanceof avro.types.FixedType) {
      return (value) => new TypedText(Buffer.from(value as Buffer).toString('base64'), 'other');
    }
    return asItIs;
  };
  return of;
}

/**
 * Creates a function that reads values written with `schema`. If `reader` is given, its field names and defaults apply.
 * @throws Error if the schemas are incompatible
 */
export function readAvro(schema: RegisteredSchema, reader: RegisteredSchema | null): ReadValue {
  const written = avroType(schema);
  const type = reader ? avroType(reader) : written;
  const resolver = reader ? type.createResolver(written) : undefined;
  let isReplaced = false;
  const plain = plainer(() => {
    isReplaced = true;
  })(type);
  const check = boundsOf(written);
  // Where a reader schema applies, it may read bytes as a text.
  const checkTexts = checkOf(written, { bytes: reader !== null });
  return (bytes) => {
    check?.(bytes);
    isReplaced = false;
    const value = plain(type.fromBuffer(bytes, resolver));
    if (isReplaced) checkTexts(bytes);
    return writingOf(value);
  };
}
