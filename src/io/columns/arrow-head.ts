// The description of an Arrow message (a flatbuffer), checked before a library decodes it: lists of a flatbuffer can be longer than its
// bytes, its tables can contain each other, and many of them can share a long text, so decoding work is not bounded by its size.
import { SluiceError } from '../../core/errors.ts';

/** Arrow allows deeper nesting; no writer uses it. */
const MOST_DEPTH = 32;

const SCHEMA = 1;
const DICTIONARY = 2;
const BATCH = 3;

/** Types whose tables hold a text or a list: a time zone, the ids of a union. */
const TIMESTAMP = 10;
const UNION = 14;

/** Bytes of a table and its field offsets, of a field of a record batch, and of a region of one. */
const TABLE_BYTES = 16;
const NODE_BYTES = 16;
const REGION_BYTES = 16;

export type MessageKind = 'schema' | 'dictionary' | 'batch';

interface MessageHead {
  /** null: a kind that is not read (tensors). */
  kind: MessageKind | null;
  /** Bytes of the columns that follow. */
  body: number;
  /** Of a dictionary: which one, and whether it extends the words sent before. */
  id: bigint;
  isDelta: boolean;
}

/**
 * `head`: the description without its length prefix.
 * @throws SluiceError truncated_input: it is not a description, a list is longer than it, or its parts overlap
 */
export function readHead(head: Buffer): MessageHead {
  try {
    return new HeadReader(head).message();
  } catch (cause) {
    throw new SluiceError('truncated_input', 'the input is no Arrow stream', { cause });
  }
}

class HeadReader {
  readonly #bytes: Buffer;
  /** Bytes that may still be read. Every byte is read once, or twice where writers share texts. */
  #left: number;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.#left = bytes.length * 2 + 1024;
  }

  message(): MessageHead {
    const message = this.#table(0);
    const type = message.at(1, (at) => this.#bytes.readUInt8(at));
    const body = Number(message.at(3, (at) => this.#bytes.readBigInt64LE(at)) ?? 0n);
    const content = message.at(2, (at) => this.#table(at));
    const head: MessageHead = { kind: null, body, id: 0n, isDelta: false };
    if (!content) return head;
    if (type === SCHEMA) {
      this.#schema(content);
      return { ...head, kind: 'schema' };
    }
    if (type === BATCH) {
      this.#batch(content);
      return { ...head, kind: 'batch' };
    }
    if (type !== DICTIONARY) return head;
    content.at(1, (at) => this.#batch(this.#table(at)));
    const id = content.at(0, (at) => this.#bytes.readBigInt64LE(at)) ?? 0n;
    return { ...head, kind: 'dictionary', id, isDelta: content.at(2, (at) => this.#bytes.readUInt8(at)) === 1 };
  }

  #schema(schema: FlatTable): void {
    schema.at(1, (at) => this.#tables(at, (field) => this.#field(field, 0)));
    schema.at(2, (at) => this.#metadata(at));
  }

  #field(field: FlatTable, depth: number): void {
    if (depth > MOST_DEPTH) throw new Error('a column is nested too deeply');
    field.at(0, (at) => this.#text(at));
    const type = field.at(2, (at) => this.#bytes.readUInt8(at));
    const own = field.at(3, (at) => this.#table(at));
    if (type === TIMESTAMP) own?.at(1, (at) => this.#text(at));
    if (type === UNION) own?.at(1, (at) => this.#list(at, 4));
    field.at(4, (at) => this.#table(at));
    field.at(5, (at) => this.#tables(at, (child) => this.#field(child, depth + 1)));
    field.at(6, (at) => this.#metadata(at));
  }

  #metadata(at: number): void {
    this.#tables(at, (pair) => {
      pair.at(0, (text) => this.#text(text));
      pair.at(1, (text) => this.#text(text));
    });
  }

  #batch(batch: FlatTable): void {
    batch.at(1, (at) => this.#list(at, NODE_BYTES));
    batch.at(2, (at) => this.#list(at, REGION_BYTES));
    batch.at(3, (at) => this.#table(at));
    batch.at(4, (at) => this.#list(at, 8));
  }

  /** The table that the offset at `at` points to. */
  #table(at: number): FlatTable {
    this.#use(TABLE_BYTES);
    return new FlatTable(this.#bytes, at + this.#bytes.readInt32LE(at));
  }

  #tables(at: number, visit: (table: FlatTable) => void): void {
    const { from, count } = this.#list(at, 4);
    for (let i = 0; i < count; i++) visit(this.#table(from + 4 * i));
  }

  #text(at: number): void {
    this.#list(at, 1);
  }

  #list(at: number, elementBytes: number): { from: number; count: number } {
    const start = at + this.#bytes.readInt32LE(at);
    const count = this.#bytes.readUInt32LE(start);
    const from = start + 4;
    if (from + count * elementBytes > this.#bytes.length) throw new Error('a list is longer than its message');
    this.#use(count * elementBytes);
    return { from, count };
  }

  #use(bytes: number): void {
    this.#left -= bytes;
    if (this.#left < 0) throw new Error('the parts of a description overlap');
  }
}

/** A table of a flatbuffer: its fields by number. */
class FlatTable {
  readonly #bytes: Buffer;
  readonly #at: number;
  readonly #fields: number;
  readonly #size: number;

  constructor(bytes: Buffer, at: number) {
    this.#bytes = bytes;
    this.#at = at;
    this.#fields = at - bytes.readInt32LE(at);
    this.#size = bytes.readUInt16LE(this.#fields);
  }

  /** undefined: the field is absent. */
  at<T>(field: number, read: (at: number) => T): T | undefined {
    const entry = 4 + 2 * field;
    const offset = entry < this.#size ? this.#bytes.readUInt16LE(this.#fields + entry) : 0;
    return offset === 0 ? undefined : read(this.#at + offset);
  }
}
