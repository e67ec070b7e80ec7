// A gate in front of a real server: calls pass, are refused, cut, or lose their answer, as the test says.
import http from 'node:http';
import https from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';

/** `cut`: the connection is reset. `lost`: carried out, then reset. A number: this status and nothing done. */
export type Fate = 'pass' | 'cut' | 'lost' | number;
interface Call {
  method: string;
  path: string;
  headers: http.IncomingHttpHeaders;
}
export type Rule = (call: Call) => Fate;

export interface GateOptions {
  tls?: { key: string; cert: string };
  /** For a server that checks a condition and writes in two steps, where the real ones do both at once. */
  oneAtATime?: boolean;
}

export class Gate implements AsyncDisposable {
  /** What happens to a call from now on. */
  rule: Rule = () => 'pass';
  /** Every call waits this long first. */
  delayMs = 0;
  calls = 0;
  #held: Promise<void> = Promise.resolve();
  #holds: (call: Call) => boolean = () => true;
  readonly #server: http.Server;
  readonly #target: URL;
  readonly #oneAtATime: boolean;
  #turns: Promise<unknown> = Promise.resolve();

  private constructor(target: URL, { tls, oneAtATime = false }: GateOptions) {
    this.#target = target;
    this.#oneAtATime = oneAtATime;
    const handle = (request: http.IncomingMessage, response: http.ServerResponse) => {
      this.#handle(request, response).catch(() => request.socket.destroy());
    };
    this.#server = tls ? https.createServer(tls, handle) : http.createServer(handle);
  }

  static async open(target: URL, options: GateOptions = {}): Promise<Gate> {
    const gate = new Gate(target, options);
    await new Promise<void>((resolve) => gate.#server.listen(0, '127.0.0.1', resolve));
    return gate;
  }

  get url(): URL {
    const { port } = this.#server.address() as { port: number };
    return new URL(`${this.#server instanceof https.Server ? 'https' : 'http'}://127.0.0.1:${port}`);
  }

  /** Nobody is reached: connections are reset as soon as something is said. */
  down(): void {
    this.rule = () => 'cut';
    this.#server.closeAllConnections();
  }

  /** Every call that `holds` says waits until the function returned is called. */
  hold(holds: (call: Call) => boolean = () => true): () => void {
    this.#holds = holds;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held = promise;
    return resolve;
  }

  up(): void {
    this.rule = () => 'pass';
    this.#held = Promise.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #handle(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    this.calls++;
    const { method = 'GET', url = '/', headers } = request;
    const call = { method, path: decodeURIComponent(url), headers };
    const fate = this.rule(call);
    if (this.delayMs > 0) await sleep(this.delayMs);
    if (this.#holds(call)) await this.#held;
    if (fate === 'cut') {
      request.socket.destroy();
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (typeof fate === 'number') {
      response.writeHead(fate, { 'content-length': 0 }).end();
      return;
    }
    const forward = () => this.#forward(method, url, headers, Buffer.concat(chunks));
    const answer = this.#oneAtATime ? await this.#inTurn(forward) : await forward();
    if (fate === 'lost') request.socket.destroy();
    else response.writeHead(answer.status, answer.headers).end(answer.body);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turns.then(work, work);
    this.#turns = turn.catch(() => {});
    return turn;
  }

  #forward(method: string, path: string, headers: http.IncomingHttpHeaders, body: Buffer) {
    const { hostname, port } = this.#target;
    type Answer = { status: number; headers: http.IncomingHttpHeaders; body: Buffer };
    return new Promise<Answer>((resolve, reject) => {
      // The Host header stays what the client signed.
      const request = http.request({ hostname, port, method, path, headers }, async (answer) => {
        const chunks: Buffer[] = [];
        for await (const chunk of answer) chunks.push(chunk as Buffer);
        resolve({ status: answer.statusCode!, headers: answer.headers, body: Buffer.concat(chunks) });
      });
      request.on('error', reject);
      request.end(body);
    });
  }
}
