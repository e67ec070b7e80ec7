// How often the client of registries and object storage sends a request, how long it waits in between, and what it returns.
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { replaceClock } from '../../src/core/clock.ts';
import { type HttpCall, HttpClient } from '../../src/storage/http-client.ts';
import { ControlledClock } from '../support/controlled-clock.ts';
import { PATIENCE_MS } from '../support/patience.ts';

/** An answer of the server; 'reset': it ends the connection after it has read the request. */
type Answer = number | 'reset' | { status: number; retryAfter: string };

/** Sleeps end at once and are recorded. */
class RecordingClock extends ControlledClock {
  readonly pauses: number[] = [];

  override async sleep(ms: number): Promise<void> {
    this.pauses.push(ms);
  }
}

/** Answers requests in turn; the last answer repeats. */
async function serverWith(answers: readonly Answer[]): Promise<{ url: URL; calls: () => number }> {
  let calls = 0;
  const server = http.createServer((request, response) => {
    const answer = answers[Math.min(calls++, answers.length - 1)]!;
    request.resume().on('end', () => {
      if (answer === 'reset') return void request.socket.destroy();
      if (typeof answer === 'object') response.setHeader('retry-after', answer.retryAfter);
      response.writeHead(typeof answer === 'object' ? answer.status : answer).end(`body of ${JSON.stringify(answer)}`);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`), calls: () => calls };
}

async function send(answers: readonly Answer[], call: Partial<HttpCall> = {}, retries = 2) {
  const clock = new RecordingClock();
  onTestFinished(replaceClock(clock));
  const { url, calls } = await serverWith(answers);
  const client = new HttpClient(false, { name: 'the registry', timeoutMs: PATIENCE_MS, retries });
  onTestFinished(() => client.close());
  const outcome = await client.text({ method: 'GET', url, ...call }).catch((error: Error) => error);
  return { outcome, calls: calls(), pauses: clock.pauses };
}

const ONCE = { method: 'POST', repeatable: false } as const;

test.each<[string, Answer[], Partial<HttpCall>, number, number]>([
  ['a success', [200], {}, 200, 1],
  ['a rejection', [404], {}, 404, 1],
  ['a rejection of what may be sent once', [409], ONCE, 409, 1],
  ['a redirect that the caller expects', [308], { accepts: 308 }, 308, 1],
  ['an outage that ends', [503, 502, 200], {}, 200, 3],
  ['a rejection after an outage', [500, 404], {}, 404, 2],
  ['too many requests, which were not processed', [429, 429, 201], ONCE, 201, 3],
  ['a server that is not ready, of what may be sent once', [503, 201], ONCE, 201, 2],
  ['a connection that breaks', ['reset', 200], {}, 200, 2],
])('%s: the status and the number of requests', async (_, answers, call, status, sent) => {
  const { outcome, calls, pauses } = await send(answers, call);
  expect(outcome).toMatchObject({ status, sent, text: `body of ${answers.at(-1)}` });
  expect([calls, pauses.length]).toEqual([sent, sent - 1]);
});

test.each<[string, Answer[], Partial<HttpCall>, number, RegExp]>([
  ['an outage', [503], {}, 3, /^the registry: it answered 503$/],
  ['an error of what may be sent once', [500], ONCE, 1, /^the registry: it answered 500 body of 500$/],
  ['a redirect', [302], {}, 1, /^the registry: it answered 302 body of 302$/],
  ['another redirect than the expected one', [302], { accepts: 308 }, 1, /it answered 302/],
  ['a connection that breaks, of what may be sent once', ['reset'], ONCE, 1, /^the registry: ECONNRESET$/],
  ['connections that break', ['reset'], {}, 3, /^the registry: ECONNRESET$/],
])('%s: the message and the number of requests', async (_, answers, call, sent, message) => {
  const { outcome, calls } = await send(answers, call);
  expect(outcome).toMatchObject({ code: 'registry_unavailable', message: expect.stringMatching(message) });
  expect(calls).toBe(sent);
});

test('what no server received is sent again, although it may be processed once only', async () => {
  const clock = new RecordingClock();
  onTestFinished(replaceClock(clock));
  const client = new HttpClient(false, { name: 'n', timeoutMs: PATIENCE_MS, retries: 4, code: 'storage_unavailable' });
  onTestFinished(() => client.close());
  // Nobody listens on this port of the machine.
  const failed = client.text({ ...ONCE, url: new URL('http://127.0.0.1:1/') });
  await expect(failed).rejects.toMatchObject({ code: 'storage_unavailable', message: 'n: ECONNREFUSED' });
  expect(clock.pauses).toHaveLength(4);
});

test('pauses double and vary by half; none is longer than ten seconds', async () => {
  const { pauses } = await send([503], {}, 9);
  expect(pauses).toHaveLength(9);
  for (const [n, pause] of pauses.entries()) {
    expect(pause).toBeGreaterThanOrEqual(Math.min(10_000, 100 * 2 ** n));
    expect(pause).toBeLessThanOrEqual(Math.min(10_000, 300 * 2 ** n));
  }
});

test.each([
  ['7', 7_000, 7_000],
  ['3600', 10_000, 10_000],
  ['0', 100, 300],
  ['-1', 100, 300],
  ['soon', 100, 300],
])('Retry-After %s', async (retryAfter, least, most) => {
  const { pauses } = await send([{ status: 429, retryAfter }, 200]);
  expect(pauses).toHaveLength(1);
  expect(pauses[0]).toBeGreaterThanOrEqual(least);
  expect(pauses[0]).toBeLessThanOrEqual(most);
});
