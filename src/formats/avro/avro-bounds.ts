// Checks an Avro value before it is decoded, to bound the size of its lists, and finds texts that are not UTF-8.
// A list states its number of elements, and elements of some types occupy no bytes. So a record of twenty bytes could
// be decoded into a list of billions of elements.
import { isUtf8 } from 'node:buffer';
import avro from 'avsc';

/** Maximum number of elements that occupy no bytes, in all lists of a value. */
const MOST_EMPTY = 1000;
/** Maximum bytes of an encoded 64-bit number. */
const MOST_NUMBER_BYTES = 10;

/** Moves the cursor past one value. */
type Skip = (at: Cursor) => void;

class Cursor {
  readonly bytes: Buffer;
  position = 0;
  empty = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  skip(count: number): void {
    this.position += count;
    if (!(count >= 0 && this.position <= this.bytes.length)) throw new Error('a value is incomplete');
  }

  /** Reads an integer. The result is exact within the safe range of doubles. */
  number(): number {
    let value = 0;
    for (let i = 0; i < MOST_NUMBER_BYTES; i++) {
      this.skip(1);
      const byte = this.bytes[this.position - 1]!;
      value += (byte & 127) * 2 ** (7 * i);
      if (byte < 128) return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
    }
    throw new Error('a number has more than 64 bits');
  }
}

/** Checks an encoded value. @throws Error */
type Check = (bytes: Buffer) => void;

/** Creates a function that checks an encoded value of this type. `bytes`: bytes must be UTF-8 as well. */
export function checkOf(type: avro.Type, { bytes = false } = {}): Check {
  const skip = skipper(new Map(), bytes)(type);
  return (bytes) => skip(new Cursor(bytes));
}

/** The check that is needed before a value is decoded. null: the type has no lists, so none is needed. */
export const boundsOf = (type: avro.Type): Check | null => (hasLists(type, new Set()) ? checkOf(type) : null);

/** The name of a type in the specification. */
export const plainName = ({ typeName }: avro.Type): string => typeName.replace('abstract:', '');

function childrenOf(type: avro.Type): readonly avro.Type[] {
  const { types } = avro;
  if (type instanceof types.LogicalType) return [type.underlyingType];
  if (type instanceof types.RecordType) return type.fields.map((field) => field.type);
  if (type instanceof types.WrappedUnionType) return type.types;
  if (type instanceof types.ArrayType) return [type.itemsType];
  return type instanceof types.MapType ? [type.valuesType] : [];
}

function hasLists(type: avro.Type, seen: Set<avro.Type>): boolean {
  if (seen.has(type)) return false;
  seen.add(type);
  if (type instanceof avro.types.ArrayType || type instanceof avro.types.MapType) return true;
  return childrenOf(type).some((child) => hasLists(child, seen));
}

function skipper(made: Map<avro.Type, Skip>, areBytesTexts: boolean): (type: avro.Type) => Skip {
  const of = (type: avro.Type): Skip => {
    const known = made.get(type);
    if (known) return known;
    // Placeholder for types that contain themselves.
    made.set(type, (at) => made.get(type)!(at));
    const skip = make(type);
    made.set(type, skip);
    return skip;
  };
  const make = (type: avro.Type): Skip => {
    const { types } = avro;
    const children = childrenOf(type).map(of);
    if (type instanceof types.LogicalType) return children[0]!;
    if (type instanceof types.RecordType) {
      return (at) => {
        for (const field of children) field(at);
      };
    }
    if (type instanceof types.WrappedUnionType) {
      return (at) => {
        const branch = children[at.number()];
        if (!branch) throw new Error('a union has no such branch');
        branch(at);
      };
    }
    if (type instanceof types.ArrayType) return listOf(children[0]!);
    if (type instanceof types.MapType) {
      return listOf((at) => {
        textOf(at);
        children[0]!(at);
      });
    }
    if (type instanceof types.BytesType && areBytesTexts) return textOf;
    if (type instanceof types.FixedType) return (at) => at.skip(type.size);
    return PRIMITIVES[plainName(type)] ?? unknownType;
  };
  return of;
}

const numberOf: Skip = (at) => {
  at.number();
};
const bytesOf: Skip = (at) => at.skip(at.number());
const textOf: Skip = (at) => {
  const length = at.number();
  const from = at.position;
  at.skip(length);
  if (!isUtf8(at.bytes.subarray(from, at.position))) throw new Error('a text is not UTF-8');
};
const PRIMITIVES: Readonly<Record<string, Skip>> = {
  null: () => {},
  boolean: (at) => at.skip(1),
  int: numberOf,
  long: numberOf,
  enum: numberOf,
  float: (at) => at.skip(4),
  double: (at) => at.skip(8),
  bytes: bytesOf,
  string: textOf,
};
const unknownType: Skip = () => {
  throw new Error('a type that is not known');
};

/**
 * Skips the blocks of a list. Each block starts with its number of elements. If this number is negative, the size of
 * the block in bytes follows.
 */
function listOf(element: Skip): Skip {
  return (at) => {
    for (;;) {
      const count = at.number();
      if (count === 0) return;
      if (count < 0) at.number();
      for (let i = Math.abs(count); i > 0; i--) {
        const before = at.position;
        element(at);
        if (at.position === before && ++at.empty > MOST_EMPTY) throw new Error('a list has too many empty elements');
      }
    }
  };
}
