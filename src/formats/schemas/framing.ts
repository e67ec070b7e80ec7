// The wire format of registry-aware serializers: a zero, four bytes of schema id, for Protobuf the way to the message, then the value.

/** Bytes in front of a value. */
export const HEAD_BYTES = 5;

/** The id of the schema in front of a value, null where there is none. */
export const schemaIdOf = (value: Buffer): number | null =>
  value.length < HEAD_BYTES || value[0] !== 0 ? null : value.readInt32BE(1);

export function headOf(id: number): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeInt32BE(id, 1);
  return head;
}

/** The only message of a file is written as one zero. */
export const FIRST_MESSAGE = Buffer.from([0]);
/** Messages are nested in messages, but not this deep. */
const MAX_DEPTH = 16;

interface MessagePath {
  /** Position of the message in its file, then in the message around it. */
  readonly path: readonly number[];
  /** Where the value begins. */
  readonly end: number;
}

/** The way to the message of a Protobuf value: zigzag numbers from `start` on; null where they are none. */
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
