// The wire format of registry-aware serializers: a zero, a four-byte schema ID, for Protobuf the message path, then the value.

/** Bytes before a value: the zero and the schema ID. */
export const HEAD_BYTES = 5;

/** The schema ID before a value; null: there is none. */
export const schemaIdOf = (value: Buffer): number | null =>
  value.length < HEAD_BYTES || value[0] !== 0 ? null : value.readInt32BE(1);

export function headOf(id: number): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeInt32BE(id, 1);
  return head;
}

/** The path of a file's first message is encoded as a single zero. */
export const FIRST_MESSAGE = Buffer.from([0]);
/** Maximum nesting depth of messages. */
const MAX_DEPTH = 16;

interface MessagePath {
  /** Index of the message in its file, then in each enclosing message. */
  readonly path: readonly number[];
  /** Start of the value. */
  readonly end: number;
}

/** The message path of a Protobuf value: zigzag numbers from `start`; null: invalid. */
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
