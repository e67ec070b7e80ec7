// Connections end: whatever a client does or leaves undone, the service gets its descriptor back.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { clientTimer } from '../../../src/doors/http/wire/client-timer.ts';
import { controlClock } from '../../support/controlled-clock.ts';
import { predictUrl, startProcess } from '../../support/service.ts';
import { checkTest, SKIPPED, times } from '../../support/tiers.ts';

const RESETS = times('resets', { quick: 40, check: 60, campaigns: 100_000 });
const AT_ONCE = 20;
const REGISTRY = 'src/bundled';
const PROC = existsSync('/proc/self/fd');
/** `test` where the descriptors of another process can be counted. */
const onLinux = (name: string, run: () => Promise<void>, as: typeof checkTest = test) =>
  PROC ? as(name, run) : test.skip(`${name}${SKIPPED}needs /proc`, run);

const descriptors = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length;

/** Connections that the server of a port has not closed yet. */
function connectionsOf(port: number): number {
  const LISTENS = '0A';
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const lines = ['tcp', 'tcp6'].flatMap((table) => readFileSync(`/proc/net/${table}`, 'latin1').split('\n'));
  return lines.filter((line) => {
    const [, address, , state, , , , , , inode] = line.trim().split(/\s+/);
    return address?.endsWith(local) && state !== LISTENS && inode !== '0';
  }).length;
}

async function raw(port: number): Promise<net.Socket> {
  const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('connect', resolve));
  return socket;
}

async function secure(port: number): Promise<{ socket: net.Socket; inside: tls.TLSSocket }> {
  const socket = await raw(port);
  const inside = tls.connect({ socket, rejectUnauthorized: false });
  inside.on('error', () => {});
  await new Promise((resolve) => {
    inside.once('secureConnect', resolve);
    inside.once('close', resolve);
  });
  return { socket, inside };
}

const HELLO = Buffer.from([22, 3, 1, 2, 0, 1, 0, 1, 252]);

onLinux(`${RESETS} resets at any moment leave at most ten descriptors`, async () => {
  const s = await startProcess(REGISTRY);
  const body = Buffer.concat([...generatePortfolio({ rows: 300, seed: 3, delimiter: '\t', oddness: 'none' })]);
  const head = (length: number, more = '') =>
    `POST ${predictUrl('csv')} HTTP/1.1\r\nhost: x\r\nauthorization: ${s.token}\r\ncontent-length: ${length}\r\n${more}\r\n`;
  const inside = (text: () => (string | Uint8Array)[]) => async () => {
    const { socket, inside } = await secure(s.port);
    for (const piece of text()) inside.write(piece);
    return socket;
  };
  const some = () => body.subarray(0, Math.floor(Math.random() * body.length));
  const ways: (() => Promise<net.Socket>)[] = [
    () => raw(s.port),
    async () => {
      const socket = await raw(s.port);
      socket.write(HELLO.subarray(0, 1 + Math.floor(Math.random() * HELLO.length)));
      return socket;
    },
    async () => {
      const socket = await raw(s.port);
      socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
      return socket;
    },
    inside(() => []),
    inside(() => [head(100).slice(0, 40)]),
    inside(() => [head(100)]),
    inside(() => [head(body.length), some()]),
    inside(() => [head(body.length), body]),
    inside(() => [head(body.length, 'via: 1.0 x\r\n'), body]),
    inside(() => [head(body.length, 'prefer: respond-async\r\n'), some()]),
    inside(() => [head(body.length, 'content-encoding: gzip\r\n'), some()]),
    inside(() => [
      head(body.length, 'content-type: multipart/form-data; boundary=x\r\n'),
      '--x\r\ncontent-disposition: form-data; name="f"; filename="a"\r\n\r\n',
      some(),
    ]),
    inside(() => [head(body.length).replace('/api', '/nothing'), some()]),
  ];
  const reset = async (i: number) => {
    const socket = await ways[i % ways.length]!();
    // Varies the moment of the reset.
    await sleep(Math.random() * 15);
    socket.resetAndDestroy();
  };
  // Once before: the first request of a process opens things that stay.
  for (let i = 0; i < ways.length; i++) await reset(i);
  expect((await s.call('POST', predictUrl('csv'), { body })).status).toBe(200);
  // The client of this test keeps one for its requests.
  await expect.poll(() => connectionsOf(s.port)).toBeLessThanOrEqual(1);
  const before = descriptors(s.pid);
  const next = Array(RESETS).keys();
  const client = async () => {
    for (const i of next) await reset(i);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
  await expect.poll(() => descriptors(s.pid)).toBeLessThanOrEqual(before + 10);
  expect((await s.call('POST', predictUrl('csv'), { body })).status).toBe(200);
});

onLinux('clients that stay without a whole head, or without TLS, are let go', async () => {
  const s = await startProcess(REGISTRY, ['timeouts.head_ms=1000']);
  expect((await s.call('GET', '/livez')).status).toBe(200);
  const before = descriptors(s.pid);
  const staying: net.Socket[] = [];
  onTestFinished(() => {
    for (const socket of staying) socket.destroy();
  });
  const ways: (() => Promise<net.Socket>)[] = [
    () => raw(s.port),
    ...[HELLO, HELLO.subarray(0, 1), Buffer.from('GET / HTTP/1.1\r\n\r\n'), Buffer.from('x')].map((bytes) => async () => {
      const socket = await raw(s.port);
      socket.write(bytes);
      return socket;
    }),
    // Without a listener what is sent to it stays unread.
    async () => (await raw(s.port)).pause(),
    ...['', 'GET / HT', 'GET /livez HTTP/1.1\r\nhost: x\r\nx-slow: '].map((text) => async () => {
      const { socket, inside } = await secure(s.port);
      inside.write(text);
      return socket;
    }),
    async () => {
      const { socket, inside } = await secure(s.port);
      inside.write(`GET / HTTP/1.1\r\nx: ${'x'.repeat(40_000)}\r\n\r\n`);
      inside.pause();
      return socket;
    },
  ]; // biome-ignore format: a table
  for (let i = 0; i < 3; i++) for (const way of ways) staying.push(await way());
  await expect.poll(() => descriptors(s.pid)).toBeLessThanOrEqual(before + 2);
});

onLinux('a pause of the server is not held against its clients: heads and bodies that came meanwhile are read', async () => {
  const limits = ['timeouts.head_ms=3000', 'timeouts.body_idle_ms=3000'];
  const s = await startProcess(REGISTRY, limits);
  const body = Buffer.concat([...generatePortfolio({ rows: 3, seed: 3, delimiter: '\t', oddness: 'none' })]);
  expect((await s.call('POST', predictUrl('csv'), { body })).status).toBe(200);
  const whole = `POST ${predictUrl('csv')} HTTP/1.1\r\nhost: x\r\nauthorization: ${s.token}\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  // Cut in the head, in the body, and before the first byte.
  const asked = [60, whole.length - 50, 0].map(async (cut) => {
    const { inside } = await secure(s.port);
    let got = '';
    inside.on('data', (d) => {
      got += d;
    });
    inside.write(whole.slice(0, cut));
    return { ended: new Promise<string>((resolve) => inside.on('end', () => resolve(got))), finish: () => inside.write(whole.slice(cut)) };
  });
  const clients = await Promise.all(asked);
  process.kill(s.pid, 'SIGSTOP');
  for (const { finish } of clients) finish();
  // Longer than any of the limits, which the clock of the stopped process measures.
  await sleep(5000);
  process.kill(s.pid, 'SIGCONT');
  for (const { ended } of clients) expect(await ended).toMatch(/^HTTP\/1\.1 200 /);
}, checkTest); // biome-ignore format: one case

test('a timer of a client that comes due after the event loop stood still gives a fresh interval', async () => {
  const clock = controlClock();
  const fired: string[] = [];
  clientTimer(400, () => fired.push('late'));
  const stop = clientTimer(400, () => fired.push('stopped'));
  stop();
  await clock.advance(50);
  await clock.stall(1500);
  await clock.advance(399);
  expect(fired).toEqual([]);
  await clock.advance(1);
  expect(fired).toEqual(['late']);
  clientTimer(60_000, () => fired.push('beats are no stall'));
  await clock.advance(60_000);
  expect(fired).toHaveLength(2);
});
