// The messages of an Arrow IPC stream, one at a time; a file is a stream with a name in front and a table of contents behind.
import { SluiceError } from '../../core/errors.ts';
import { type MessageKind, readHead } from './arrow-head.ts';

/** A whole message, as decoders want it: behind its last byte its memory ends, so that what points beyond it fails. */
export interface ArrowMessage {
  kind: MessageKind;
  /** Of a batch valid until the next message is asked for, else for good. */
  bytes: Uint8Array;
  /** Of a dictionary: which one, and whether it goes behind what was there. */
  id: bigint;
  isDelta: boolean;
}

const MAGIC = Buffer.from('ARROW1\0\0');
const CONTINUATION = -1;
/** Most bytes of the description of a message: some 200,000 columns. */
const MOST_HEAD = 16 * 1024 * 1024;
export const MOST_BODY = 2 ** 31;

/**
 * `mostBody`: bytes that the columns of one message may have. `onBytes` receives all bytes, those of a message before it is yielded.
 * @throws SluiceError truncated_input: it ends inside a message, or is no Arrow stream | limit_exceeded; what the chunks throw
 */
export async function* arrowMessages(
  chunks: AsyncIterable<Uint8Array>,
  mostBody = MOST_BODY,
  onBytes?: (bytes: Uint8Array) => void,
): AsyncGenerator<ArrowMessage> {
  const bytes = new ByteQueue(chunks);
  const memory = new BatchMemory();
  if (!(await bytes.has(8))) {
    if (bytes.length === 0) throw new SluiceError('empty_input', 'the input is empty: an Arrow stream has a schema');
    throw cut();
  }
  if (MAGIC.equals(bytes.peek(8))) {
    const magic = bytes.take(8);
    onBytes?.(magic);
  }
  while (await bytes.has(4)) {
    const first = bytes.peek(4).readInt32LE(0);
    const prefix = first === CONTINUATION ? 8 : 4;
    if (!(await bytes.has(prefix))) throw cut();
    const head = bytes.peek(prefix).readInt32LE(prefix - 4);
    if (head === 0) return await bytes.drain(onBytes);
    if (head < 0 || head > MOST_HEAD) throw new SluiceError('truncated_input', 'the input is no Arrow stream');
    if (!(await bytes.has(prefix + head))) throw cut();
    const { kind, body, id, isDelta } = readHead(bytes.peek(prefix + head).subarray(prefix));
    if (body < 0 || body > MOST_BODY) throw new SluiceError('truncated_input', 'a message has no size that can be');
    if (body > mostBody) throw tooLarge(mostBody);
    if (!(await bytes.has(prefix + head + body))) throw cut();
    const own = kind === 'batch' ? memory.last(prefix + head + body) : memoryOf(prefix + head + body);
    own.set(bytes.take(own.length));
    onBytes?.(own);
    if (kind !== null) yield { kind, bytes: own, id, isDelta };
  }
  if (bytes.length > 0) throw cut();
}

/** What is held at once has to fit into memory. */
export const tooLarge = (bytes: number): SluiceError =>
  new SluiceError('limit_exceeded', `a record batch takes more than ${bytes} bytes: send smaller ones`);

const cut = (): SluiceError => new SluiceError('truncated_input', 'the input ends in the middle of an Arrow message');

const memoryOf = (bytes: number): Uint8Array => new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer);

/** Decoders align what they read by it. */
const ALIGNED = 8;

/** Memory of one record batch after the other: as garbage they would have V8 mark its whole heap again and again. */
class BatchMemory {
  #bytes = memoryOf(0);

  /** So many bytes at the end of it. */
  last(count: number): Uint8Array {
    if (count % ALIGNED !== 0) return memoryOf(count);
    // A little more: batches differ by the lengths of their texts.
    if (count > this.#bytes.length) this.#bytes = memoryOf(count + ((count >> 4) & -ALIGNED));
    return this.#bytes.subarray(this.#bytes.length - count);
  }
}

/** Bytes that came and were not taken. */
class ByteQueue {
  length = 0;
  #bytes = Buffer.alloc(64 * 1024);
  #from = 0;
  readonly #chunks: AsyncIterator<Uint8Array>;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Whether there are so many bytes; reads until there are. */
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

  /** Reads the rest without decoding it, so that the source counts all bytes of the input. */
  async drain(onBytes?: (bytes: Uint8Array) => void): Promise<void> {
    onBytes?.(this.take(this.length));
    for (let next = await this.#chunks.next(); !next.done; next = await this.#chunks.next()) onBytes?.(next.value);
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
