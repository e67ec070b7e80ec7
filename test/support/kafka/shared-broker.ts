// One broker for all files of a run of the tests: the process of Vitest has it, and starts it when the first file asks for it.
import { mkdirSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';

const socketIn = (folder: string): string => path.join(folder, 'kafka.sock');

/** Answers with the port of the broker at a socket in the folder. Resolves with what ends both. */
export async function offerBroker(folder: string): Promise<() => Promise<void>> {
  mkdirSync(folder, { recursive: true });
  let starting: Promise<{ brokers: readonly string[]; stop(): Promise<void> }> | null = null;
  const server: Server = createServer((socket) => {
    socket.on('error', () => {});
    // Loaded for those who ask.
    starting ??= import('./cluster.ts').then(({ KafkaCluster }) => KafkaCluster.start());
    starting.then(
      ({ brokers }) => socket.end(brokers[0]!.slice(brokers[0]!.indexOf(':') + 1)),
      (error: Error) => socket.end(error.message),
    );
  });
  server.unref();
  await new Promise<void>((resolve) => {
    // Each project of Vitest asks for it: the first one has it, and the others find its socket.
    server.once('listening', resolve).once('error', () => resolve());
    server.listen(socketIn(folder));
  });
  return async () => {
    server.close();
    await starting?.then(
      (cluster) => cluster.stop(),
      () => {},
    );
  };
}

/** @throws Error with what the broker said where it did not start */
export async function sharedBrokerPort(): Promise<number> {
  const said = await text(connect(socketIn(process.env.SLUICE_CACHE!)));
  if (!/^\d+$/.test(said)) throw new Error(said);
  return Number(said);
}
