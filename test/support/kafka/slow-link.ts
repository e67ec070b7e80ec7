// A link to a broker that holds requests back: what was sent arrives, but later, also when its sender has given up.
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePorts } from '../ports.ts';
import type { ExtraSettings } from './settings.ts';

/** Number of the request that ends a transaction. */
const END_TXN = 26;
const LENGTH_BYTES = 4;

export class SlowLink implements AsyncDisposable {
  /** Address of the broker as members behind the link know it. */
  readonly address: string;
  /** Lets the broker answer on the other side of the link, too. */
  readonly settings: ExtraSettings;
  /** Transactions whose end was held back. */
  held = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** What the next end of a transaction sets off. */
  #armed: { ms: number; everything: boolean } | null = null;
  /** Until then nothing passes. */
  #closedUntil = 0;

  private constructor(port: number, brokerPort: number) {
    this.address = `127.0.0.1:${port}`;
    this.settings = (usual) => ({
      listeners: `${usual.listeners},LINK://127.0.0.1:${brokerPort}`,
      'advertised.listeners': `${usual['advertised.listeners']},LINK://${this.address}`,
      'listener.security.protocol.map': `${usual['listener.security.protocol.map']},LINK:PLAINTEXT`,
    });
    this.#server = createServer((socket) => this.#join(socket, connect({ host: '127.0.0.1', port: brokerPort })));
    this.#server.listen(port, '127.0.0.1');
  }

  static async open(): Promise<SlowLink> {
    const [port, brokerPort] = await freePorts(2);
    return new SlowLink(port!, brokerPort!);
  }

  /**
   * The next end of a transaction arrives `ms` later; with `everything` so does all that is sent from then on, heartbeats
   * included. Resolves when it has been held.
   */
  async holdNext(ms: number, everything: boolean): Promise<void> {
    this.#armed = { ms, everything };
    while (this.#armed) await sleep(5);
  }

  #join(member: Socket, broker: Socket): void {
    for (const socket of [member, broker]) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
    }
    broker.pipe(member);
    let received = Buffer.alloc(0);
    let passed = Promise.resolve();
    member.on('data', (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      while (received.length >= LENGTH_BYTES) {
        const end = LENGTH_BYTES + received.readInt32BE(0);
        if (received.length < end) break;
        const request = received.subarray(0, end);
        received = received.subarray(end);
        const due = this.#due(request);
        passed = passed.then(async () => {
          await sleep(Math.max(0, due - Date.now(), this.#closedUntil - Date.now()));
          broker.write(request);
        });
      }
    });
    // What is on its way still arrives.
    member.on('close', () => void passed.then(() => broker.end()));
    broker.on('close', () => member.destroy());
  }

  /** When a request may pass, ms since 1970. */
  #due(request: Buffer): number {
    if (!this.#armed || request.readInt16BE(LENGTH_BYTES) !== END_TXN) return 0;
    const { ms, everything } = this.#armed;
    this.#armed = null;
    this.held++;
    const due = Date.now() + ms;
    if (everything) this.#closedUntil = due;
    return due;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
