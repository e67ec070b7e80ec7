// SIGTERM under load: every answer whose status went out is whole, and the process ends by itself.
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { scratch, start } from '../../support/cli.ts';
import { openUpload } from '../../support/service.ts';
import { times } from '../../support/tiers.ts';

const ROUNDS = times('sigterm rounds', { quick: 1, check: 2, campaigns: 50 });
const ROWS = 15_000;
const CLIENTS = 6;
const EVENTS = ['connected', 'answered', 'ended'] as const;
type Event = (typeof EVENTS)[number];

test(`${ROUNDS} times`, async () => {
  const body = Buffer.concat([...generatePortfolio({ rows: ROWS, seed: 23, delimiter: '\t', oddness: 'none' })]);
  const seen: Record<string, number> = {};
  for (let round = 0; round < ROUNDS; round++) {
    const folder = scratch();
    const { child, done } = start(
      ['serve', '--dev', '--port', '0', '--set', 'workers=1', 'preload=["credit-default"]'],
      { cwd: folder },
    );
    let words = '';
    child.stderr!.on('data', (text: string) => {
      words += text;
    });
    await expect.poll(() => words).toContain('key of this run');
    const port = Number(/localhost:(\d+)/.exec(words)![1]);
    const token = /sluice_[\w-]+/.exec(words)![0];
    const moment = Promise.withResolvers<void>();
    // Once when an answer is certainly on its way, then at any event of any client.
    const due = 1 + ((round * 7) % (CLIENTS * EVENTS.length));
    let happened = 0;
    const onEvent = (event: Event) => {
      happened++;
      if (round === 0 ? event === 'answered' : happened === due) moment.resolve();
    };
    const outcomes: Promise<string>[] = [];
    const clients = (async () => {
      for (let i = 0; i < CLIENTS; i++) {
        // One after the other, so that a SIGTERM finds some of them connected and others not.
        const connected = Promise.withResolvers<void>();
        const asked = ask(port, token, body, (event) => {
          if (event === 'connected') connected.resolve();
          onEvent(event);
        });
        outcomes.push(asked);
        await Promise.race([connected.promise, asked]);
      }
    })();
    await Promise.race([moment.promise, clients.then(() => Promise.all(outcomes))]);
    child.kill('SIGTERM');
    await clients;
    for (const outcome of await Promise.all(outcomes)) seen[outcome] = (seen[outcome] ?? 0) + 1;
    expect((await done).code).toBe(0);
  }
  expect(Object.keys(seen).filter((k) => k.startsWith('cut'))).toEqual([]);
  expect(seen.whole).toBeGreaterThan(0);
});

/** whole, refused (503), not accepted (no status came), or cut (a 200 that is not whole). */
function ask(port: number, token: string, body: Buffer, onEvent: (event: Event) => void): Promise<string> {
  return new Promise((resolve) => {
    const request = openUpload(port, { authorization: token, 'content-length': body.length }, (response) => {
      onEvent('answered');
      let text = '';
      response.setEncoding('utf8').on('data', (d) => {
        text += d;
      });
      response.on('error', () => {});
      response.on('close', () => {
        onEvent('ended');
        if (response.statusCode === 503) resolve('refused');
        else if (response.complete && text.trimEnd().split('\n').length === ROWS + 1) resolve('whole');
        else resolve(`cut ${response.statusCode}`);
      });
    });
    request.on('error', () => resolve('not accepted'));
    request.on('socket', (socket) => socket.once('secureConnect', () => onEvent('connected')));
    request.end(body);
  });
}
