// Reads the messages of an Arrow IPC stream one at a time.
// An Arrow file is the same stream between a magic number and a table of contents.
import { SluiceError } from '../../core/errors.ts';
import type { PerSecond } from '../columns/json-text.ts';

// Checks a message's description (a flatbuffer) before a library decodes it. A small flatbuffer can cause unbounded
// work: a list can claim more elements than there are bytes, tables can contain each other, and many tables can refer
// to the same long text.

/** Maximum nesting depth. Arrow allows deeper nesting, but no known writer uses it. */
const MOST_DEPTH = 32;

const SCHEMA = 1;
const DICTIONARY = 2;
const BATCH = 3;

/** Types whose table contains a text or a list: the time zone of a timestamp, and the type IDs of a union. */
const TIMESTAMP = 10;
const UNION = 14;
const DURATION = 18;
const MILLISECONDS = 1;
/** Units per second, by Arrow time unit: second, millisecond, microsecond, nanosecond. */
export const PER_SECOND: readonly PerSecond[] = [1, 1_000, 1_000_000, 1_000_000_000];

/**
 * Bytes that each element costs: a table with its field offsets, a column node of a record batch, and a buffer region.
 */
const TABLE_BYTES = 16;
const NODE_BYTES = 16;
const REGION_BYTES = 16;

type MessageKind = 'schema' | 'dictionary' | 'batch';

interface MessageHead {
  /** null: a message of an unsupported kind, such as a tensor. */
  kind: MessageKind | null;
  /** Number of bytes in the body, which follows the description. */
  body: number;
  /** For a dictionary: its ID, and whether it extends the previous dictionary with this ID. */
  id: bigint;
  isDelta: boolean;
}

/**
 * Reads the description of a message. `head`: the description without its length prefix.
 * @throws SluiceError truncated_input if this is not a description, a list has more elements than there are bytes, or
 * the budget of bytes to read is exceeded
 */
export function readHead(head: Buffer): MessageHead {
  try {
    return new HeadReader(head).message();
  } catch (cause) {
    throw new SluiceError('truncated_input', 'the input is not an Arrow stream', { cause });
  }
}

/** A column of durations: its name, and how many units of its values a second has. */
interface DurationColumn {
  name: string;
  perSecond: PerSecond;
}

/**
 * The duration columns of a schema, one element per column; null: the column has another type. `head`: as for
 * `readHead`.
 * @throws SluiceError truncated_input if the message is not a schema
 */
export function durationColumns(head: Buffer): (DurationColumn | null)[] {
  if (readHead(head).kind !== 'schema') throw new SluiceError('truncated_input', 'this is not an Arrow schema');
  return new HeadReader(head).durations();
}

class HeadReader {
  readonly #bytes: Buffer;
  /** Remaining budget of bytes to read: twice the size, because tables may share texts. */
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

  durations(): (DurationColumn | null)[] {
    const columns: (DurationColumn | null)[] = [];
    this.#table(0).at(2, (at) =>
      this.#table(at).at(1, (fields) => this.#tables(fields, (field) => columns.push(this.#duration(field)))),
    );
    return columns;
  }

  #duration(field: FlatTable): DurationColumn | null {
    if (field.at(2, (at) => this.#bytes.readUInt8(at)) !== DURATION) return null;
    const unit = field.at(3, (at) => this.#table(at).at(0, (unitAt) => this.#bytes.readInt16LE(unitAt)));
    const perSecond = PER_SECOND[unit ?? MILLISECONDS];
    if (perSecond === undefined) throw new Error('a duration has an unknown unit');
    const name = field.at(0, (at) => this.#list(at, 1)) ?? { from: 0, count: 0 };
    return { name: this.#bytes.toString('utf8', name.from, name.from + name.count), perSecond };
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

  /** The table to which the offset at `at` points. */
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

/** A flatbuffer table; fields are accessed by number. */
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

  /** Reads a field; undefined: the field is absent. */
  at<T>(field: number, read: (at: number) => T): T | undefined {
    const entry = 4 + 2 * field;
    const offset = entry < this.#size ? this.#bytes.readUInt16LE(this.#fields + entry) : 0;
    return offset === 0 ? undefined : read(this.#at + offset);
  }
}

/** A complete message. Its memory ends after its last byte, so that a decoder that reads beyond it fails. */
export interface ArrowMessage {
  kind: MessageKind;
  /** For a record batch: valid until the next message is requested. The bytes of other messages stay valid. */
  bytes: Uint8Array;
  /** For a dictionary: its ID, and whether it extends the previous dictionary with this ID. */
  id: bigint;
  isDelta: boolean;
}

const MAGIC = Buffer.from('ARROW1\0\0');
/** A file ends with its footer, the length of the footer (4 bytes), and these bytes. */
const END_OF_FILE = Buffer.from('ARROW1');
/** Bytes that may fill the space between the last message of a file and its footer: fewer than an alignment of 64. */
const MAX_PADDING = 63;
const CONTINUATION = -1;
/** Every description is longer, bytes. A smaller number in place of its length is the start of a flatbuffer. */
const LEAST_HEAD = 16;
/** Maximum bytes of a message's description, enough for about 200,000 columns. */
const MOST_HEAD = 16 * 1024 * 1024;
export const MOST_BODY = 2 ** 31;

/**
 * Yields the messages of a stream. `mostBody`: maximum bytes of the columns of one message. `onBytes` receives all
 * bytes of the input; the bytes of a message are passed before the message is yielded.
 * @throws SluiceError truncated_input (the input ends inside a message or is not an Arrow stream) | empty_input |
 * limit_exceeded; errors of the chunks
 */
export async function* arrowMessages(
  chunks: AsyncIterable<Uint8Array>,
  mostBody = MOST_BODY,
  onBytes?: (bytes: Uint8Array) => void,
): AsyncGenerator<ArrowMessage> {
  const bytes = new ByteQueue(chunks);
  const memory = new BatchMemory();
  if (!(await bytes.has(8))) {
    if (bytes.length === 0)
      throw new SluiceError('empty_input', 'the input is empty: an Arrow stream must contain at least a schema');
    throw cut();
  }
  const isFile = MAGIC.equals(bytes.peek(8));
  if (isFile) {
    const magic = bytes.take(8);
    onBytes?.(magic);
    const schema = await bareSchema(bytes, onBytes);
    if (schema) yield schema;
  }
  while (await bytes.has(4)) {
    const first = bytes.peek(4).readInt32LE(0);
    const prefix = first === CONTINUATION ? 8 : 4;
    if (!(await bytes.has(prefix))) throw cut();
    const head = bytes.peek(prefix).readInt32LE(prefix - 4);
    if (head === 0) {
      const marker = bytes.take(prefix);
      onBytes?.(marker);
      const rest = await bytes.drain(onBytes);
      if (isFile) checkFooter(rest);
      else if (!rest.isZero) throw secondStream();
      return;
    }
    if (head < 0 || head > MOST_HEAD) throw new SluiceError('truncated_input', 'the input is not an Arrow stream');
    if (!(await bytes.has(prefix + head))) throw cut();
    const { kind, body, id, isDelta } = readHead(bytes.peek(prefix + head).subarray(prefix));
    if (body < 0 || body > MOST_BODY) throw new SluiceError('truncated_input', 'a message has an impossible size');
    if (body > mostBody) throw tooLarge(mostBody);
    if (!(await bytes.has(prefix + head + body))) throw cut();
    const own = kind === 'batch' ? memory.last(prefix + head + body) : memoryOf(prefix + head + body);
    own.set(bytes.take(own.length));
    onBytes?.(own);
    if (kind !== null) yield { kind, bytes: own, id, isDelta };
  }
  if (bytes.length > 0) throw cut();
  // A stream may end without an end-of-stream marker; a file may not.
  if (isFile) throw withoutFooter();
}

/** The bytes after the end-of-stream marker: their number, their last ten bytes, and whether all of them are zero. */
interface Rest {
  length: number;
  last: Buffer;
  isZero: boolean;
}

/** @throws SluiceError truncated_input if the file was cut before its end, or another file follows */
function checkFooter({ length, last }: Rest): void {
  if (last.length < 10 || !END_OF_FILE.equals(last.subarray(4))) throw withoutFooter();
  const padding = length - 10 - last.readInt32LE(0);
  if (padding < 0 || padding > MAX_PADDING) throw secondStream();
}

/**
 * The schema of a file that polars wrote: without the length in front of it. It ends where the next message begins.
 * null: the file has a complete message. Readers of files take the schema from the end of the file instead, but this
 * reader reads a file while it arrives.
 */
async function bareSchema(bytes: ByteQueue, onBytes?: (bytes: Uint8Array) => void): Promise<ArrowMessage | null> {
  if (!(await bytes.has(4))) return null;
  const first = bytes.peek(4).readInt32LE(0);
  if (first <= 0 || first >= LEAST_HEAD) return null;
  let end = ALIGNED;
  for (; ; end += ALIGNED) {
    if (end > MOST_HEAD) throw new SluiceError('truncated_input', 'the input is not an Arrow stream');
    if (!(await bytes.has(end + 4))) throw cut();
    if (bytes.peek(end + 4).readInt32LE(end) === CONTINUATION) break;
  }
  const { kind, id, isDelta } = readHead(bytes.peek(end));
  if (kind !== 'schema') throw new SluiceError('truncated_input', 'the input is not an Arrow stream');
  const message = memoryOf(8 + end);
  new Int32Array(message.buffer, message.byteOffset, 2).set([CONTINUATION, end]);
  const head = bytes.take(end);
  message.set(head, 8);
  onBytes?.(head);
  return { kind, bytes: message, id, isDelta };
}

/** Error for a record batch that does not fit into memory. */
export const tooLarge = (bytes: number): SluiceError =>
  new SluiceError('limit_exceeded', `a record batch takes more than ${bytes} bytes: send smaller ones`);

const cut = (): SluiceError => new SluiceError('truncated_input', 'the input ends in the middle of an Arrow message');

const withoutFooter = (): SluiceError =>
  new SluiceError('truncated_input', 'the Arrow file ends without its footer, so record batches may be missing');

const secondStream = (): SluiceError =>
  new SluiceError(
    'truncated_input',
    'bytes follow the end of the Arrow data; only one stream or file is read, so score concatenated ones separately',
  );

const memoryOf = (bytes: number): Uint8Array => new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer);

/** Alignment that decoders require, bytes. */
const ALIGNED = 8;

/**
 * Memory reused by consecutive record batches. Discarding such large buffers would make V8 mark its entire heap
 * repeatedly.
 */
class BatchMemory {
  #bytes = memoryOf(0);

  /** The last `count` bytes of the memory. */
  last(count: number): Uint8Array {
    if (count % ALIGNED !== 0) return memoryOf(count);
    // Allocates a reserve, because the texts of batches differ in length.
    if (count > this.#bytes.length) this.#bytes = memoryOf(count + ((count >> 4) & -ALIGNED));
    return this.#bytes.subarray(this.#bytes.length - count);
  }
}

/** Received bytes that no message has taken yet. */
class ByteQueue {
  length = 0;
  #bytes = Buffer.alloc(64 * 1024);
  #from = 0;
  readonly #chunks: AsyncIterator<Uint8Array>;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Reads until `count` bytes are available; false: the input ends first. */
  async has(count: number): Promise<boolean> {
    while (this.length < count) {
      const { value, done } = await this.#chunks.next();
      if (done) return false;
      this.#add(value, count);
    }
    return true;
  }

  peek(count: number): Buffer {
    return this.#bytes.subarray(this.#from, this.#from + count);
  }

  take(count: number): Buffer {
    const taken = this.peek(count);
    this.#from += count;
    this.length -= count;
    return taken;
  }

  /** Reads the remaining input without decoding, so that the source counts all bytes. */
  async drain(onBytes?: (bytes: Uint8Array) => void): Promise<Rest> {
    let rest: Rest = { length: 0, last: Buffer.alloc(0), isZero: true };
    const pass = (bytes: Uint8Array): void => {
      onBytes?.(bytes);
      const last = Buffer.concat([rest.last, bytes.subarray(-10)]).subarray(-10);
      rest = { length: rest.length + bytes.length, last, isZero: rest.isZero && bytes.every((byte) => byte === 0) };
    };
    pass(this.take(this.length));
    for (let next = await this.#chunks.next(); !next.done; next = await this.#chunks.next()) pass(next.value);
    return rest;
  }

  #add(chunk: Uint8Array, wanted: number): void {
    const end = this.#from + this.length;
    if (end + chunk.length > this.#bytes.length) {
      const size = Math.max(wanted + chunk.length, this.length + chunk.length, 64 * 1024);
      const into = size > this.#bytes.length ? Buffer.allocUnsafeSlow(size) : this.#bytes;
      this.#bytes.copy(into, 0, this.#from, end);
      this.#bytes = into;
      this.#from = 0;
    }
    this.#bytes.set(chunk, this.#from + this.length);
    this.length += chunk.length;
  }
}
