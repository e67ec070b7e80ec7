// The wire format of schema-registry serializers: a zero byte, a four-byte schema ID, for Protobuf a message path, then the value.

/** Number of bytes before a value: the zero byte and the schema ID. */
export const HEAD_BYTES = 5;

/** The schema ID in front of a value; null: the value has no schema ID. */
export const schemaIdOf = (value: Buffer): number | null =>
  value.length < HEAD_BYTES || value[0] !== 0 ? null : value.readInt32BE(1);

export function headOf(id: number): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeInt32BE(id, 1);
  return head;
}

/** The message path of the first message in a file, which is encoded as a single zero. */
export const FIRST_MESSAGE = Buffer.from([0]);
/** Maximum nesting depth of messages. */
const MAX_DEPTH = 16;

interface MessagePath {
  /** Indexes of the nested messages: first the index in the file, then the index in each enclosing message. */
  readonly path: readonly number[];
  /** Start of the value. */
  readonly end: number;
}

/** Parses the message path of a Protobuf value, which consists of zigzag numbers starting at `start`; null: invalid. */
export function messagePathOf(value: Buffer, start: number): MessagePath | null {
  let at = start;
  const next = (): number | null => {
    let bits = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = value[at++];
      if (byte === undefined) return null;
      bits += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return bits % 2 === 0 ? bits / 2 : -(bits + 1) / 2;
    }
    return null;
  };
  const count = next();
  if (count === null || count < 0 || count > MAX_DEPTH) return null;
  if (count === 0) return { path: [0], end: at };
  const path: number[] = [];
  for (let i = 0; i < count; i++) {
    const index = next();
    if (index === null || index < 0) return null;
    path.push(index);
  }
  return { path, end: at };
}
