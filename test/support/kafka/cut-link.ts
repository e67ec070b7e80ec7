// A way to the broker on which answers get lost: the request arrives, its effect is there, and who asked hears of a broken connection.
import { connect, createServer, type Server, type Socket } from 'node:net';
import { freePorts } from '../ports.ts';
import type { ExtraSettings } from './settings.ts';

const LENGTH_BYTES = 4;

export class CutLink implements AsyncDisposable {
  /** Address of the broker as those behind the link know it. */
  readonly address: string;
  /** Lets the broker answer on the other side of the link, too. */
  readonly settings: ExtraSettings;
  /** Answers that were lost. */
  cuts = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #armed: number | null = null;
  #down = false;

  private constructor(port: number, brokerPort: number) {
    this.address = `127.0.0.1:${port}`;
    this.settings = (usual) => ({
      listeners: `${usual.listeners},CUT://127.0.0.1:${brokerPort}`,
      'advertised.listeners': `${usual['advertised.listeners']},CUT://${this.address}`,
      'listener.security.protocol.map': `${usual['listener.security.protocol.map']},CUT:PLAINTEXT`,
    });
    this.#server = createServer((socket) => this.#join(socket, connect({ host: '127.0.0.1', port: brokerPort })));
    this.#server.listen(port, '127.0.0.1');
  }

  static async open(): Promise<CutLink> {
    const [port, brokerPort] = await freePorts(2);
    return new CutLink(port!, brokerPort!);
  }

  /** The answer to the next request of this kind (the protocol's number of it) is lost with its connection. */
  cutNext(apiKey: number): void {
    this.#armed = apiKey;
  }

  /** Nothing passes any more, and who connects is cut off: to the broker it is as if those behind the link had been killed. */
  down(): void {
    this.#down = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  up(): void {
    this.#down = false;
  }

  #join(client: Socket, broker: Socket): void {
    if (this.#down) {
      client.on('error', () => {}).destroy();
      broker.on('error', () => {}).destroy();
      return;
    }
    for (const socket of [client, broker]) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
    }
    let lost = false;
    let received = Buffer.alloc(0);
    client.on('data', (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      while (received.length >= LENGTH_BYTES && received.length >= LENGTH_BYTES + received.readInt32BE(0)) {
        const request = received.subarray(0, LENGTH_BYTES + received.readInt32BE(0));
        received = received.subarray(request.length);
        if (request.readInt16BE(LENGTH_BYTES) === this.#armed) {
          this.#armed = null;
          lost = true;
        }
        broker.write(request);
      }
    });
    broker.on('data', (bytes: Buffer) => {
      if (!lost) client.write(bytes);
      else if (!client.destroyed) {
        this.cuts++;
        client.destroy();
      }
    });
    client.on('close', () => broker.end());
    broker.on('close', () => client.destroy());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
