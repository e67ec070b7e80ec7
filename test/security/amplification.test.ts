// No request costs much more than good rows of the same bytes would, holds much more memory than the limits say, or silences the probe.
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { tableFromArrays, tableToIPC, utf8 } from '@uwdata/flechette';
import { expect, test } from 'vitest';
import { fieldsOfStat } from '../../src/core/processes.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { startOwnServer } from '../support/own-server.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { asNative, asObjects, predictUrl } from '../support/service.ts';
import { checkTest, ONLY, TIER } from '../support/tiers.ts';
import { type Attack, attacksWith } from './attacks.ts';

/** Times the CPU of good rows of the same (uncompressed) bytes. */
const MOST_RATIO = 20;
/** Below this, the cost of a request is noise: garbage collection, compilation, the probe. */
const LEAST_CPU_SECONDS = 0.3;
/** Rows of two bytes are rejected one by one, with an answer for each: times the CPU of as many good rows. */
const MOST_ROW_RATIO = 3;
/**
 * Memory beyond what the limits of the entry points say: one record batch of Arrow, compressed and not, and one body of V2. On a busy
 * machine, garbage waits longer for its collection: a word of 60 MiB took 170 to 180 MB alone, and 220 MB beside another check.
 */
const MOST_EXTRA_BYTES = 96 * 1024 * 1024;
const DECLARED: Readonly<Record<string, number>> = { Arrow: 2 * 64 * 1024 * 1024, V2: 16 * 16 * 1024 * 1024 };
const MOST_PROBE_MS = 250;

/** Measurements of an attack whose cost exceeds the limit. */
const ATTEMPTS = 3;

const TICKS = 100;

/** CPU seconds of a process with all its threads. */
function cpuOf(pid: number): number {
  const stat = fieldsOfStat(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  return (Number(stat[11]) + Number(stat[12])) / TICKS;
}

const statusOf = (pid: number, field: string): number =>
  Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1024;

interface Sent {
  status: number;
  bytes: number;
  cut: boolean;
}

function send(port: number, token: string, { method = 'POST', path, headers = {}, body }: Attack): Promise<Sent> {
  return new Promise((resolve) => {
    const all = {
      authorization: `API-Key ${token}`,
      'x-forwarded-proto': 'https',
      'content-length': body.length,
      ...headers,
    };
    const request = http.request({ port, agent: false, host: '127.0.0.1', method, path, headers: all }, (response) => {
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      response.on('close', () => resolve({ status: response.statusCode!, bytes, cut: !response.complete }));
      response.on('error', () => {});
    });
    request.on('error', () => resolve({ status: 0, bytes: 0, cut: true }));
    // An answer that takes so long is one that does not end.
    setTimeout(() => request.destroy(), PATIENCE_MS).unref();
    request.end(body);
  });
}

/** Asks for `/livez` again and again; milliseconds of each answer. */
function probe(port: number): { stop(): Promise<number[]> } {
  let stopped = false;
  const times: number[] = [];
  const run = (async () => {
    while (!stopped) {
      const began = performance.now();
      await new Promise<void>((resolve) => {
        http
          .get({ port, host: '127.0.0.1', path: '/livez' }, (response) => response.resume().on('close', resolve))
          .on('error', () => resolve());
      });
      times.push(performance.now() - began);
      // The pace of the probes.
      await sleep(5);
    }
  })();
  return {
    stop: async () => {
      stopped = true;
      await run;
      return times;
    },
  };
}

const rows = asNative(asObjects(Buffer.concat([...generatePortfolio({ rows: 10_000, seed: 3 })]).toString()));
const goodBody = Buffer.from(JSON.stringify(rows));
/** All columns as texts, as many writers have them. */
const texts = Object.keys(rows[0]!).map((name): [string, (string | null)[]] => [
  name,
  rows.map((row) => (row[name] === null || row[name] === undefined ? null : String(row[name]))),
]);
const types = Object.fromEntries(texts.map(([name]) => [name, utf8()]));
const goodArrow = Buffer.from(tableToIPC(tableFromArrays(texts, { types }), { format: 'stream' })!);
const ARROW_HEADERS = { 'content-type': 'application/vnd.apache.arrow.stream' };
const attacks = attacksWith(rows[0]!);

test('attacks are many, and each is another one', () => {
  expect(new Set(attacks.map(({ name }) => name)).size).toBe(attacks.length);
  expect(attacks.length).toBeGreaterThanOrEqual(60);
});

checkTest('no attack costs more than good rows of its bytes, or what the limits say', async () => {
  // Ours only: a test machine has no limit of its own.
  const { server, token } = await startOwnServer(['limits.expanded_bytes=268435456']);
  const { pid, port } = server;
  const good = { name: 'good', path: predictUrl('json'), body: goodBody };
  for (let i = 0; i < 3; i++) await send(port, token, good);
  // What the first Arrow request loads is not the cost of an attack.
  const warm = { name: 'good Arrow', path: predictUrl('arrow'), headers: ARROW_HEADERS, body: goodArrow };
  for (let i = 0; i < 3; i++) expect((await send(port, token, warm)).status).toBe(200);
  /** CPU seconds of a good row. */
  const costOfRow = async () => {
    const before = cpuOf(pid);
    for (let i = 0; i < 3; i++) expect((await send(port, token, good)).status).toBe(200);
    return (cpuOf(pid) - before) / (3 * rows.length);
  };

  const table: object[] = [];
  const wrong: string[] = [];
  const live: number[] = [];
  /** Until nothing of the request before is worked on any more. */
  const settled = async () => {
    for (let last = -1; last !== cpuOf(pid); await sleep(60)) last = cpuOf(pid);
  };
  // A sample, unless the campaigns run.
  const step = TIER === 'campaigns' ? 1 : 6;
  let perRow = await costOfRow();
  const attempt = async (attack: Attack) => {
    await settled();
    const rss = statusOf(pid, 'VmRSS');
    // Resets the peak.
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
    const cpu = cpuOf(pid);
    const probing = probe(port);
    const sent = await send(port, token, attack);
    const times = await probing.stop();
    await settled();
    live.push(...times);
    const perByte = (perRow * rows.length) / goodBody.length;
    const most = Math.max(
      LEAST_CPU_SECONDS,
      (attack.ratio ?? MOST_RATIO) * perByte * Math.max(attack.body.length, attack.expanded ?? 0),
      MOST_ROW_RATIO * perRow * (attack.rows ?? 0),
    );
    return {
      ...sent,
      seconds: cpuOf(pid) - cpu,
      most,
      grown: statusOf(pid, 'VmHWM') - rss,
      slowest: Math.max(...times),
    };
  };
  for (const attack of attacks.filter(({ name }, i) => (ONLY?.test(name) ?? true) && i % step === 0)) {
    let tried = await attempt(attack);
    // The speed of a busy machine changes between two requests, so both are measured again.
    for (let n = 1; n < ATTEMPTS && tried.seconds > tried.most; n++) {
      await settled();
      perRow = await costOfRow();
      tried = await attempt(attack);
    }
    const { status, bytes, cut, seconds, most, grown, slowest } = tried;
    const [kind] = attack.name.split(':');
    const room = MOST_EXTRA_BYTES + (DECLARED[kind!] ?? 0);
    table.push({
      name: attack.name.slice(0, 50),
      bytes: attack.body.length,
      status,
      cut,
      answer: bytes,
      cpu: seconds.toFixed(2),
      of: most.toFixed(2),
      MB: Math.round(grown / 1e6),
      live: Math.round(slowest),
    });
    if (seconds > most) wrong.push(`${attack.name}: ${seconds} CPU seconds, at most ${most}`);
    if (grown > room) wrong.push(`${attack.name}: ${grown} bytes, at most ${room}`);
    if (status >= 500 || status === 0) wrong.push(`${attack.name}: status ${status}`);
  }
  if (TIER === 'campaigns') console.table(table);
  live.sort((a, b) => a - b);
  const slow = live[Math.floor(live.length * 0.99)]!;
  console.log(
    `${attacks.length} attacks; /livez: ${live.length} answers, 99 of 100 within ${Math.round(slow)} ms, the slowest ${Math.round(live.at(-1)!)} ms`,
  );
  expect(wrong).toEqual([]);
  // Other tests on the machine delay the probe, too.
  if (TIER === 'campaigns') expect(slow).toBeLessThan(MOST_PROBE_MS);
  expect((await send(port, token, good)).status).toBe(200);
});
