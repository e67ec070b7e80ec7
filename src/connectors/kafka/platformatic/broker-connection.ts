// A connection to one broker. It sends and receives frames, and can be closed immediately and completely.
// The connection of the library is not used, for two reasons. After a response that exceeds its time limit, it reads
// the next response at the wrong position. Closing it waits for the broker.
import { connect as connectPlain, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { epochMs, startInterval, startTimer, stopTimer, type Timer } from '../../../core/clock.ts';
import { NoConnection, Refusal } from './broker-failures.ts';
import {
  type API,
  apiVersionsV3,
  type Connection,
  Reader,
  ResponseError,
  type ResponseParser,
  type Writer,
} from './kafka-protocol.ts';

export interface BrokerAddress {
  readonly host: string;
  readonly port: number;
}

export interface Wire {
  readonly clientId: string;
  /** null: the connection does not use TLS. */
  readonly tls: ConnectionOptions | null;
  readonly connectTimeoutMs: number;
  readonly requestTimeoutMs: number;
}

/** Options of a request, for messages that the caller encodes or decodes instead of the library. */
interface CallOptions<R> {
  /** The body of the request. */
  payload?: readonly Buffer[];
  /** Decodes the body of the response. */
  parse?: (body: Buffer) => R;
  /**
   * Timeout of the response, ms. After it, the connection is closed. Default: the request timeout of the connection.
   */
  timeoutMs?: number;
}

interface Pending {
  read(frame: Buffer): void;
  fail(error: Error): void;
  timer: Timer;
}

const LENGTH_BYTES = 4;
/**
 * Interval for checking whether a retired connection is idle, ms. The previous users of the connection may still send
 * requests during this time.
 */
const RETIRED_MS = 2_000;
const NO_TAGS = Buffer.from([0]);
/** Whether the bytes received instead of the length of a response start a TLS alert or handshake. */
const isTls = (size: number): boolean => size >>> 16 === 0x1503 || size >>> 16 === 0x1603;

export class BrokerConnection {
  readonly endpoint: BrokerAddress;
  /** Time after which a new connection should be opened, ms since 1970. */
  renewAt = Number.POSITIVE_INFINITY;
  /** Time when the login expires, ms since 1970. The broker then closes the connection at the next request. */
  expires = Number.POSITIVE_INFINITY;
  readonly #wire: Wire;
  readonly #socket: Socket;
  readonly #pending = new Map<number, Pending>();
  readonly #listeners: (() => void)[] = [];
  #correlation = 0;
  readonly #length = Buffer.alloc(LENGTH_BYTES);
  /**
   * The partly received response; null: its length is not known yet. `#filled`: number of received bytes of the
   * response or of its length.
   */
  #frame: Buffer | null = null;
  #filled = 0;
  #end: Error | null = null;
  #versions: Promise<ReadonlyMap<number, number>> | null = null;

  private constructor(endpoint: BrokerAddress, wire: Wire, socket: Socket) {
    this.endpoint = endpoint;
    this.#wire = wire;
    this.#socket = socket;
    socket.on('data', (chunk) => this.#take(chunk));
    socket.on('error', (error) => this.destroy(error));
    socket.on('close', () => this.destroy(null));
  }

  /** @throws NoConnection */
  static open(endpoint: BrokerAddress, wire: Wire, signal: AbortSignal): Promise<BrokerConnection> {
    const { host, port } = endpoint;
    const { promise, resolve, reject } = Promise.withResolvers<BrokerConnection>();
    if (signal.aborted) return Promise.reject(new NoConnection('the client is closed'));
    const socket = wire.tls ? connectTls({ host, port, ...wire.tls }) : connectPlain({ host, port });
    socket.setNoDelay(true).setKeepAlive(true, 60_000);
    const give = (why: string, cause?: unknown) => {
      settle();
      socket.on('error', () => {}).destroy();
      reject(new NoConnection(`${host}:${port} ${why}`, cause));
    };
    const onError = (error: NodeJS.ErrnoException) => give(`cannot be reached: ${error.code ?? error.message}`, error);
    const onClose = () => give('closed the connection immediately');
    const onAbort = () => give('was cancelled: the client is closed');
    const onReady = () => {
      settle();
      resolve(new BrokerConnection(endpoint, wire, socket));
    };
    const ready = wire.tls ? 'secureConnect' : 'connect';
    const timer = startTimer(() => give(`did not answer within ${wire.connectTimeoutMs} ms`), wire.connectTimeoutMs);
    const settle = () => {
      stopTimer(timer);
      signal.removeEventListener('abort', onAbort);
      socket.off('error', onError).off('close', onClose).off(ready, onReady);
    };
    signal.addEventListener('abort', onAbort);
    socket.once('error', onError).once('close', onClose).once(ready, onReady);
    return promise;
  }

  /** Records that the login expires in `lifetimeMs`, and should be renewed in `renewedAfterMs`. */
  lastsFor(lifetimeMs: number, renewedAfterMs: number): void {
    const now = epochMs();
    this.renewAt = now + renewedAfterMs;
    this.expires = now + lifetimeMs;
  }

  /** Retires the connection, which a new connection replaces: it closes once no request is pending. */
  retire(): void {
    const timer = startInterval(() => {
      if (this.#pending.size === 0) this.destroy(null);
    }, RETIRED_MS);
    timer.unref();
    this.whenClosed(() => stopTimer(timer));
  }

  get alive(): boolean {
    return this.#end === null;
  }

  /** Registers a listener. It is called once, when the connection has ended for any reason. */
  whenClosed(listener: () => void): void {
    if (this.#end) listener();
    else this.#listeners.push(listener);
  }

  /** Whether the broker supports a version of an API. Queried once per connection. @throws Refusal | NoConnection */
  async supports(api: number, version: number): Promise<boolean> {
    this.#versions ??= this.call(apiVersionsV3.api, ['sluice', '1']).then(
      ({ apiKeys }) => new Map(apiKeys.map(({ apiKey, maxVersion }) => [apiKey, maxVersion])),
    );
    const versions = this.#versions;
    try {
      return ((await versions).get(api) ?? -1) >= version;
    } catch (error) {
      if (this.#versions === versions) this.#versions = null;
      throw error;
    }
  }

  /**
   * Sends a request and returns the response.
   * @throws Refusal if the response contains an error; NoConnection if no response arrives
   */
  async call<A extends unknown[], R>(api: API<A, R>, args: A, options: CallOptions<R> = {}): Promise<R> {
    const send = (
      key: number,
      version: number,
      createPayload: () => Writer,
      parser: ResponseParser<R>,
      tagged: boolean,
      answerTagged: boolean,
      done: (error: Error | null, answer?: R) => void,
    ) => {
      const head = this.#head(key, version, tagged);
      const body = options.payload ?? [createPayload().buffer];
      const read = (frame: Buffer) => {
        const start = answerTagged ? afterTags(frame, LENGTH_BYTES) : LENGTH_BYTES;
        const bytes = frame.subarray(start);
        return options.parse ? options.parse(bytes) : parser(0, key, version, Reader.from(bytes));
      };
      this.#send(head, body, options.timeoutMs ?? this.#wire.requestTimeoutMs, (error, frame) => {
        if (error) return done(error);
        try {
          done(null, read(frame!) as R);
        } catch (failed) {
          done(failed as Error);
        }
      });
    };
    try {
      return await api.async({ send } as unknown as Connection, ...args);
    } catch (error) {
      if (error instanceof ResponseError) throw refusalOf(error);
      throw error;
    }
  }

  /** Closes the connection immediately, without waiting for the broker. Unanswered requests fail. Idempotent. */
  destroy(cause: Error | null): void {
    if (this.#end) return;
    const { host, port } = this.endpoint;
    const why = (cause as NodeJS.ErrnoException | null)?.code ?? cause?.message;
    const told = why === undefined ? 'closed the connection' : `broke the connection: ${why}`;
    this.#end = cause instanceof NoConnection ? cause : new NoConnection(`${host}:${port} ${told}`, cause);
    this.#socket.destroy();
    this.#frame = null;
    for (const { fail, timer } of this.#pending.values()) {
      stopTimer(timer);
      fail(this.#end);
    }
    this.#pending.clear();
    for (const listener of this.#listeners.splice(0)) listener();
  }

  #head(key: number, version: number, tagged: boolean): Buffer {
    this.#correlation = (this.#correlation + 1) & 0x7fff_ffff;
    const client = Buffer.from(this.#wire.clientId);
    const head = Buffer.alloc(LENGTH_BYTES + 10 + client.length + (tagged ? 1 : 0));
    head.writeInt16BE(key, 4);
    head.writeInt16BE(version, 6);
    head.writeInt32BE(this.#correlation, 8);
    head.writeInt16BE(client.length, 12);
    client.copy(head, 14);
    if (tagged) NO_TAGS.copy(head, head.length - 1);
    return head;
  }

  #send(
    head: Buffer,
    body: readonly Buffer[],
    timeoutMs: number,
    done: (error: Error | null, frame?: Buffer) => void,
  ): void {
    if (this.#end) {
      done(this.#end);
      return;
    }
    const size = body.reduce((n, part) => n + part.length, head.length);
    head.writeInt32BE(size - LENGTH_BYTES, 0);
    const { host, port } = this.endpoint;
    const timer = startTimer(() => {
      // After a timeout, later data cannot be matched to requests, so the connection is closed and all its requests
      // fail.
      this.destroy(new NoConnection(`${host}:${port} did not answer within ${timeoutMs} ms`));
    }, timeoutMs);
    this.#pending.set(this.#correlation, {
      timer,
      fail: (error) => done(error),
      read: (frame) => done(null, frame),
    });
    this.#socket.cork();
    this.#socket.write(head);
    for (const part of body) this.#socket.write(part);
    this.#socket.uncork();
  }

  /**
   * Receives bytes. They are copied into the response, so that the chunks of a large response do not stay in memory.
   */
  #take(chunk: Buffer): void {
    for (let at = 0; at < chunk.length && !this.#end; ) {
      if (this.#frame === null) {
        const taken = chunk.copy(this.#length, this.#filled, at, at + LENGTH_BYTES - this.#filled);
        this.#filled += taken;
        at += taken;
        if (this.#filled < LENGTH_BYTES) return;
        this.#filled = 0;
        const size = this.#length.readInt32BE(0);
        if (size < LENGTH_BYTES || isTls(size)) {
          const { host, port } = this.endpoint;
          const what = isTls(size) ? 'answers in TLS: does it expect TLS (kafka.tls)?' : 'is not a Kafka broker';
          this.destroy(new NoConnection(`${host}:${port} ${what}`));
          return;
        }
        if (chunk.length - at >= size) {
          this.#answer(chunk.subarray(at, at + size));
          at += size;
          continue;
        }
        this.#frame = Buffer.allocUnsafeSlow(size);
      }
      const frame: Buffer = this.#frame;
      const taken = chunk.copy(frame, this.#filled, at);
      this.#filled += taken;
      at += taken;
      if (this.#filled < frame.length) return;
      this.#frame = null;
      this.#filled = 0;
      this.#answer(frame);
    }
  }

  #answer(frame: Buffer): void {
    const id = frame.readInt32BE(0);
    const pending = this.#pending.get(id);
    if (!pending) {
      this.destroy(new NoConnection('an unexpected response'));
      return;
    }
    this.#pending.delete(id);
    stopTimer(pending.timer);
    pending.read(frame);
  }
}

/** Skips the tagged fields in a response header. Kafka defines no such fields so far. */
function afterTags(frame: Buffer, at: number): number {
  let position = at + 1;
  for (let n = frame[at]!; n > 0; n--) {
    position++;
    position += 1 + frame[position]!;
  }
  return position;
}

const UNNAMED = 'UNKNOWN_SERVER_ERROR';

interface Told {
  apiId?: string;
}

function refusalOf(error: InstanceType<typeof ResponseError>): Refusal {
  const told = error.errors.map((e) => (e as Told).apiId ?? UNNAMED);
  // Errors of single records have no name and precede the error of their batch, so errors with a name are moved to the
  // front.
  const ids = [...told.filter((id) => id !== UNNAMED), ...told.filter((id) => id === UNNAMED)];
  const api = /API (\w+)/.exec(error.message)?.[1] ?? 'a request';
  return new Refusal(api, ids, (error as unknown as { response?: unknown }).response);
}
