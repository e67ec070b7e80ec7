// Ports for servers that tests start as processes.
import { createServer } from 'node:net';

/** Below the ports that the kernel gives to connections, which could take one between the check and its use. */
const [FIRST, LAST] = [10_240, 32_000];

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer().once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });

/** Different random free ports: processes that choose at the same time are unlikely to choose the same ones. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    if (await isFree(port)) ports.add(port);
  }
  return [...ports];
}

export const freePort = async (): Promise<number> => (await freePorts(1))[0]!;
