// Values of a column in topics: a registry of schemas, the records of the carriers, and what predictions have passed through.
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import avro from 'avsc';
import { CARRIERS, isTable } from './carriers.ts';
import { tokenOf } from './crossing.ts';
import { JSON_VALUES } from './entry-points.ts';
import type { Value } from './rule.ts';

export type RecordFormat = 'json' | 'json_schema' | 'avro' | 'protobuf';
export const RECORD_FORMATS: readonly RecordFormat[] = ['json', 'json_schema', 'avro', 'protobuf'];

/** A schema registry in memory, with what the product asks of one. */
export class Schemas {
  readonly #known: { schema: string; schemaType: string }[] = [];
  readonly #server = http.createServer(async (request, response) => {
    if (request.method === 'POST') {
      const { schema, schemaType = 'AVRO' } = JSON.parse(await text(request)) as { schema: string; schemaType?: string }; // biome-ignore format: one line
      response.end(JSON.stringify({ id: this.add(schema, schemaType) }));
      return;
    }
    const found = this.#known[Number(/^\/schemas\/ids\/(\d+)$/.exec(request.url!)?.[1]) - 1];
    response.statusCode = found ? 200 : 404;
    response.end(JSON.stringify(found ?? { error_code: 40403 }));
  });

  /** Its address. */
  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  add(schema: string, schemaType: string): number {
    return this.#known.push({ schema, schemaType });
  }

  /** The schema of a value. */
  of(value: Buffer): string {
    return this.#known[value.readInt32BE(1) - 1]!.schema;
  }
}

/** A record with a value of a carrier. */
export interface GivenRecord {
  bytes: Buffer;
  value: Value;
  /** The value as it is passed through, in JSON. */
  token: string;
  carrier: string;
}

const headOf = (id: number): Buffer => {
  const head = Buffer.alloc(5);
  head.writeInt32BE(id, 1);
  return head;
};

/** Every value that the format carries, as records with `x` and `row`. */
export function recordsOf(format: RecordFormat, schemas: Schemas): GivenRecord[] {
  if (format === 'json' || format === 'json_schema') {
    const head = format === 'json' ? Buffer.alloc(0) : headOf(schemas.add('{"type":"object"}', 'JSON'));
    return JSON_VALUES.map(([token, value], row) => {
      const bytes = Buffer.concat([head, Buffer.from(`{"x": ${token}, "row": ${row}}`)]);
      return { bytes, value, token, carrier: `${format} ${token}` };
    });
  }
  return CARRIERS.flatMap((carrier) => {
    if (isTable(carrier) || carrier.format !== format) return [];
    const id = schemas.add(carrier.schema, format.toUpperCase());
    // In front of a Protobuf message stands which one of its file it is. M may be the second.
    const place = format === 'avro' ? [] : /message N/.test(carrier.schema) ? [2, 2] : [0];
    return carrier.records.map((hex, i) => {
      const value = carrier.values[i]!;
      const bytes = Buffer.concat([headOf(id), Buffer.from(place), Buffer.from(hex, 'hex')]);
      return { bytes, value, token: tokenOf(value, carrier), carrier: carrier.name };
    });
  });
}

/** A value of a prediction as its schema has it; a long is exact. */
type Typed = null | { boolean: boolean } | { long: bigint } | { double: number } | { string: string };

const exactLong = avro.types.LongType.__with({
  fromBuffer: (bytes: Buffer) => bytes.readBigInt64LE(),
  toBuffer: () => Buffer.alloc(8),
  fromJSON: BigInt,
  toJSON: Number,
  isValid: (value: unknown) => typeof value === 'bigint',
  compare: () => 0,
} as unknown as Parameters<typeof avro.types.LongType.__with>[0]);

const types = new Map<string, avro.Type>();
function inAvro(value: Buffer, schema: string): Typed {
  const options = { wrapUnions: true, registry: { long: exactLong } } as unknown as Partial<avro.ForSchemaOptions>;
  const type = types.get(schema) ?? avro.Type.forSchema(JSON.parse(schema), options);
  types.set(schema, type);
  const read = type.fromBuffer(value.subarray(5));
  return read.x === undefined ? (read.passthrough?.map?.x ?? null) : read.x;
}

/** The fields of a Protobuf message, read from its bytes alone. */
function fieldsOf(bytes: Buffer): [field: number, value: bigint | number | Buffer][] {
  const fields: [number, bigint | number | Buffer][] = [];
  let at = 0;
  const varint = (): bigint => {
    for (let value = 0n, shift = 0n; ; shift += 7n) {
      const byte = bytes[at++]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(varint());
    const field = tag >> 3;
    if ((tag & 7) === 0) fields.push([field, varint()]);
    else if ((tag & 7) === 1) {
      fields.push([field, bytes.readDoubleLE(at)]);
      at += 8;
    } else {
      const length = Number(varint());
      fields.push([field, bytes.subarray(at, at + length)]);
      at += length;
    }
  }
  return fields;
}

/** Numbers of fields of a prediction: the map of columns, and the first column with a field of its own. */
const [PASSED, NAMED] = [9, 100];

function inProtobuf(value: Buffer): Typed {
  for (const [field, inner] of fieldsOf(value.subarray(6))) {
    if (field !== PASSED && field !== NAMED) continue;
    const parts = field === PASSED ? new Map(fieldsOf(inner as Buffer)) : null;
    if (parts !== null && parts.get(1)?.toString() !== 'x') continue;
    const [one] = fieldsOf((parts ? parts.get(2) : inner) as Buffer);
    if (!one) return null;
    const [kind, found] = one;
    if (kind === 1) return { boolean: found === 1n };
    if (kind === 2) return { long: BigInt.asIntN(64, found as bigint) };
    return kind === 3 ? { double: found as number } : { string: String(found) };
  }
  return null;
}

/** What a prediction has in `x` else than the token; null: nothing. */
export function differenceIn(value: Buffer, format: RecordFormat, token: string, schemas: Schemas): string | null {
  if (format === 'json' || format === 'json_schema') {
    const json = value.subarray(format === 'json' ? 0 : 5).toString();
    const found = /"x":(.*?),"(?:row|value|error)":/s.exec(json)?.[1];
    return found === token ? null : `${found} instead of ${token}`;
  }
  const typed = format === 'avro' ? inAvro(value, schemas.of(value)) : inProtobuf(value);
  if (isSame(typed, token)) return null;
  const shown = JSON.stringify(typed, (_, part) => (typeof part === 'bigint' ? String(part) : part));
  return `${typed && 'double' in typed && Object.is(typed.double, -0) ? '-0' : shown} instead of ${token}`;
}

function isSame(typed: Typed, token: string): boolean {
  if (token === 'null' || typed === null) return token === 'null' && typed === null;
  if (token === 'true' || token === 'false') return 'boolean' in typed && String(typed.boolean) === token;
  if (token.startsWith('"')) return 'string' in typed && typed.string === JSON.parse(token);
  if (/^[[{]/.test(token)) return 'string' in typed && typed.string === JSON.stringify(JSON.parse(token));
  // A number is a long or a double of this very value, or a text where there is none.
  if ('string' in typed) return typed.string === token && !isDouble(token) && !isLong(token);
  if ('long' in typed) return figuresOf(String(typed.long)) === figuresOf(token);
  return 'double' in typed && figuresOf(Object.is(typed.double, -0) ? '-0' : String(typed.double)) === figuresOf(token);
}

const isDouble = (token: string): boolean =>
  Number.isFinite(Number(token)) && figuresOf(String(Number(token))) === figuresOf(token);
const isLong = (token: string): boolean => /^-?\d+$/.test(token) && BigInt.asIntN(64, BigInt(token)) === BigInt(token);

/** The sign, the digits and the exponent of a number: 1.50 and 15e-1 are the same. */
function figuresOf(number: string): string {
  const [, sign, whole = '', fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(number)!;
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const figures = digits.replace(/0+$/, '');
  if (figures === '') return `${sign}0`;
  return `${sign}${figures}e${Number(exponent) - fraction.length + digits.length - figures.length}`;
}
