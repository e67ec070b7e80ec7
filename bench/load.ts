// A small load generator for keep-alive HTTP and HTTPS, a process of its own so that it takes no time of the servers.
//   node load.ts '{"url", "head", "body", "connections", "rate", "seconds"}'      rate 0: as fast as answers come
// With a rate, latency counts from when a request was due, not from when a connection was free for it.
import { once } from 'node:events';
import { connect as connectPlain, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';

export interface LoadSpec {
  url: string;
  headers: Record<string, string>;
  body: string;
  connections: number;
  /** Requests a second; 0: each connection asks again when it was answered. */
  rate: number;
  seconds: number;
}

export interface LoadResult {
  requestsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
  requests: number;
  errors: number;
}

const END_OF_HEAD = Buffer.from('\r\n\r\n');
const WARM_SECONDS = 1;

/** Asks on one connection; resolves when the whole answer is there with whether it was 200. */
class Connection {
  readonly #socket: Socket;
  #data = Buffer.alloc(0);
  #done: ((ok: boolean) => void) | null = null;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (chunk) => {
      this.#data = this.#data.length === 0 ? chunk : Buffer.concat([this.#data, chunk]);
      this.#whole();
    });
    const fail = () => {
      this.#done?.(false);
      this.#done = null;
    };
    socket.on('error', fail);
    socket.on('close', fail);
  }

  static async open(url: URL): Promise<Connection> {
    const [host, port] = [url.hostname, Number(url.port)];
    if (url.protocol === 'http:') {
      const socket = connectPlain({ host, port });
      await once(socket, 'connect');
      return new Connection(socket);
    }
    // The certificate was made on the spot by the server under test, on this machine.
    const socket = connectTls({ host, port, rejectUnauthorized: false });
    await once(socket, 'secureConnect');
    return new Connection(socket);
  }

  ask(request: Buffer): Promise<boolean> {
    if (this.#socket.destroyed) return Promise.resolve(false);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#done = resolve;
    this.#socket.write(request);
    return promise;
  }

  close(): void {
    this.#socket.destroy();
  }

  #whole(): void {
    const end = this.#data.indexOf(END_OF_HEAD);
    if (end < 0) return;
    const head = this.#data.toString('latin1', 0, end).toLowerCase();
    const length = /\r\ncontent-length: *(\d+)/.exec(head);
    const whole = length
      ? this.#data.length >= end + 4 + Number(length[1])
      : this.#data.toString('latin1', Math.max(end, this.#data.length - 5)) === '0\r\n\r\n';
    if (!whole) return;
    this.#data = Buffer.alloc(0);
    const done = this.#done;
    this.#done = null;
    done?.(head.startsWith('http/1.1 200'));
  }
}

async function load(spec: LoadSpec): Promise<LoadResult> {
  const url = new URL(spec.url);
  const body = Buffer.from(spec.body);
  const headers = Object.entries({ host: url.host, ...spec.headers, 'content-length': String(body.length) });
  const head = `POST ${url.pathname}${url.search} HTTP/1.1\r\n${headers.map(([k, v]) => `${k}: ${v}\r\n`).join('')}\r\n`;
  const request = Buffer.concat([Buffer.from(head), body]);
  const connections = await Promise.all(Array.from({ length: spec.connections }, () => Connection.open(url)));
  const began = performance.now() + WARM_SECONDS * 1000;
  const ends = began + spec.seconds * 1000;
  const latencies: number[] = [];
  let errors = 0;
  const note = (due: number, ok: boolean): void => {
    if (due < began) return;
    if (ok) latencies.push(performance.now() - due);
    else errors++;
  };
  if (spec.rate === 0) {
    const loop = async (c: Connection): Promise<void> => {
      while (performance.now() < ends && errors < 100) {
        const due = performance.now();
        note(due, await c.ask(request));
      }
    };
    await Promise.all(connections.map(loop));
  } else await paced(connections, request, { spec, ends, note });
  for (const c of connections) c.close();
  latencies.sort((a, b) => a - b);
  const quantile = (q: number): number =>
    latencies[Math.min(latencies.length - 1, Math.floor(q * latencies.length))] ?? NaN;
  return {
    requestsPerSecond: latencies.length / spec.seconds,
    p50Ms: quantile(0.5),
    p99Ms: quantile(0.99),
    requests: latencies.length,
    errors,
  };
}

interface Pace {
  spec: LoadSpec;
  ends: number;
  note: (due: number, ok: boolean) => void;
}

/** Requests at even distances, whether answers come or not; those for which no connection is free wait in a queue. */
async function paced(connections: readonly Connection[], request: Buffer, { spec, ends, note }: Pace): Promise<void> {
  const free = [...connections];
  const waiting: number[] = [];
  let open = 0;
  const next = (): void => {
    while (free.length > 0 && waiting.length > 0) {
      const c = free.pop()!;
      const due = waiting.shift()!;
      open++;
      c.ask(request).then((ok) => {
        note(due, ok);
        open--;
        free.push(c);
        next();
      });
    }
  };
  const distance = 1000 / spec.rate;
  for (let due = performance.now(); due < ends; ) {
    const now = performance.now();
    for (; due <= now; due += distance) waiting.push(due);
    next();
    // Timers are a millisecond coarse, so for high rates a few requests go out together; latency counts from when each was due.
    await (due - performance.now() > 1 ? sleep(1) : new Promise(setImmediate));
  }
  const patience = performance.now() + 10_000;
  while ((open > 0 || waiting.length > 0) && performance.now() < patience) await sleep(5);
}

process.stdout.write(JSON.stringify(await load(JSON.parse(process.argv[2]!) as LoadSpec)));
