// A client of HTTP/2 (RFC 9113) that sends whatever frames it is told to: no library sends those that a server has to bear.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';
import { onTestFinished, vi } from 'vitest';
import { PATIENCE_MS } from './patience.ts';

export const FRAME = { data: 0, headers: 1, priority: 2, reset: 3, settings: 4, ping: 6, goaway: 7, window: 8, continuation: 9 }; // biome-ignore format: one line
export const END_STREAM = 1;
export const ACK = 1;
export const END_HEADERS = 4;

export interface Frame {
  type: number;
  flags: number;
  stream: number;
  payload: Buffer;
}

export function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Length of a text (RFC 7541, section 5.1, prefix of 7 bits), and the text. */
function literal(text: string): Buffer {
  const bytes = Buffer.from(text);
  const length: number[] = [];
  let rest = bytes.length;
  if (rest < 127) length.push(rest);
  else {
    length.push(127);
    for (rest -= 127; rest >= 128; rest >>= 7) length.push((rest & 127) | 128);
    length.push(rest);
  }
  return Buffer.concat([Buffer.from(length), bytes]);
}

/** Fields as literals that are never indexed. */
export const fields = (...all: [string, string][]): Buffer =>
  Buffer.concat(all.flatMap(([name, value]) => [Buffer.of(0x10), literal(name), literal(value)]));

export const requestHead = (method: string, url: string, more: Record<string, string> = {}): Buffer =>
  fields(
    [':method', method],
    [':scheme', 'https'],
    [':path', url],
    [':authority', 'localhost'],
    ...Object.entries(more),
  );

export const resetFrame = (stream: number, code: number): Buffer => frame(FRAME.reset, 0, stream, uint32(code));

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');

/** `settings`: pairs of an identifier and a value. */
export function greeting(settings: [number, number][] = []): Buffer {
  const pairs = settings.map(([id, value]) => Buffer.concat([Buffer.of(id >> 8, id & 255), uint32(value)]));
  return Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0, Buffer.concat(pairs))]);
}

export class FrameClient {
  readonly socket: tls.TLSSocket;
  /** What came, in its order. */
  readonly came: Frame[] = [];
  #rest: Buffer = Buffer.alloc(0);

  private constructor(socket: tls.TLSSocket) {
    this.socket = socket;
    socket.on('data', (bytes: Buffer) => this.#parse(bytes));
  }

  /** Says hello and acknowledges nothing. */
  static async connect(port: number, settings: [number, number][] = []): Promise<FrameClient> {
    const socket = tls.connect({ port, rejectUnauthorized: false, ALPNProtocols: ['h2'] });
    socket.on('error', () => {});
    onTestFinished(() => void socket.destroy());
    await once(socket, 'secureConnect');
    const client = new FrameClient(socket);
    client.send(greeting(settings));
    return client;
  }

  get closed(): boolean {
    return this.socket.destroyed || this.socket.readableEnded;
  }

  send(...frames: Buffer[]): void {
    if (!this.socket.destroyed) this.socket.write(Buffer.concat(frames));
  }

  /** Sends until the connection is over; gives the bytes that it took. */
  async flood(piece: (i: number) => Buffer, most: number): Promise<number> {
    let sent = 0;
    for (let i = 0; !this.closed && sent < most; i++) {
      const bytes = piece(i);
      sent += bytes.length;
      if (!this.socket.write(bytes)) await this.#written();
      if (i % 16 === 0) await sleep(0);
    }
    return sent;
  }

  /** Waits until what was sent is out, or the connection is over. */
  async #written(): Promise<void> {
    const over = new AbortController();
    const { signal } = over;
    const ends = ['drain', 'close'].map((event) => once(this.socket, event, { signal }));
    await Promise.race(ends).catch(() => {});
    // Whoever lost listens no more.
    over.abort();
  }

  /** The first frame of this type, of a stream if it is named. */
  async frame(type: number, stream?: number): Promise<Frame> {
    const find = () => this.came.find((f) => f.type === type && (stream === undefined || f.stream === stream));
    return vi.waitUntil(find, { timeout: PATIENCE_MS }) as Promise<Frame>;
  }

  async over(): Promise<void> {
    await vi.waitUntil(() => this.closed, { timeout: PATIENCE_MS });
  }

  /** Whether a stream was ended as a whole answer is. */
  ended(stream: number): boolean {
    const ends = (f: Frame) => f.type === FRAME.data || f.type === FRAME.headers;
    return this.came.some((f) => f.stream === stream && ends(f) && (f.flags & END_STREAM) !== 0);
  }

  /** The error code of a reset or a goodbye. */
  static codeOf({ type, payload }: Frame): number {
    return payload.readUInt32BE(type === FRAME.goaway ? 4 : 0);
  }

  #parse(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    while (this.#rest.length >= 9) {
      const end = 9 + this.#rest.readUIntBE(0, 3);
      if (this.#rest.length < end) return;
      const rest = this.#rest;
      this.came.push({ type: rest[3]!, flags: rest[4]!, stream: rest.readUInt32BE(5), payload: rest.subarray(9, end) });
      this.#rest = rest.subarray(end);
    }
  }
}
