// Two programs as servers under the same load in turn: CPU seconds a request and of an upload, as ratios within a pair.
import { rmSync } from 'node:fs';
import path from 'node:path';
import { firstApplication, generate, type Target, target, upload } from './http.ts';
import { inPairs } from './pairs.ts';
import { CACHE, type Program } from './prepare.ts';
import { folder, type Spread, say, spread } from './run.ts';
import { type Server, startSluice } from './servers.ts';

/** Length of one round of single requests. */
const SECONDS = 6;

/**
 * Ratios (first ÷ second) of servers that run side by side and are asked in turn.
 * @returns by kind of load: CPU seconds a request of one application; wall and CPU seconds of a whole file
 */
export async function compareServers(
  programs: readonly [Program, Program],
  { model, input, rounds }: { model: string; input: string; rounds: number },
): Promise<Record<string, Record<string, Spread>>> {
  const body = JSON.stringify((await firstApplication(input)).object);
  const answered = path.join(folder(CACHE, 'outputs'), 'compare-upload.csv');
  const servers: Server[] = [];
  try {
    for (const p of programs) servers.push(await startSluice(p));
    const at = `/api/v1/scoring/predict.json?modelId=${model}`;
    const targets = servers.map((s, i) => target(i === 0 ? 'here' : 'base', '', s, at, body));
    // Code is compiled after some thousand requests.
    for (const t of targets) await generate({ ...t.spec, seconds: SECONDS });
    const single = await inTurn(targets, rounds, perRequest);
    const uploads = await inTurn(targets, rounds, async ({ name, server }) => {
      const { seconds, cpuSeconds } = await upload(server, { model, input, answered });
      say(`upload to ${name}: ${seconds.toFixed(2)} s, CPU ${cpuSeconds?.toFixed(2)} s`);
      return { wall: seconds, CPU: cpuSeconds ?? Number.NaN };
    });
    return { 'one application a request': single, upload: uploads };
  } finally {
    for (const s of servers) await s.stop();
    rmSync(answered, { force: true });
  }
}

async function perRequest({ name, server, spec }: Target): Promise<{ wall: number; CPU: number }> {
  const before = server.cpuSeconds() ?? Number.NaN;
  const { requestsPerSecond, errors } = await generate({ ...spec, seconds: SECONDS });
  if (errors > 0) throw new Error(`${name}: ${errors} requests failed`);
  // The generator's own second of warming up is in the CPU time of the server, too.
  const cpu = ((server.cpuSeconds() ?? Number.NaN) - before) / (requestsPerSecond * (SECONDS + 1));
  say(`${name}: ${requestsPerSecond.toFixed(0)} requests/s, CPU ${(cpu * 1e6).toFixed(0)} µs a request`);
  return { wall: 1 / requestsPerSecond, CPU: cpu };
}

/** First ÷ second within each pair, by measure. */
async function inTurn<T extends Record<string, number>>(
  targets: readonly Target[],
  rounds: number,
  load: (target: Target) => Promise<T>,
): Promise<Record<string, Spread>> {
  const pairs = await inPairs([targets[0]!, targets[1]!], rounds, load);
  const measures = Object.keys(pairs[0]![0]);
  return Object.fromEntries(measures.map((m) => [m, spread(pairs.map(([x, y]) => x[m]! / y[m]!))]));
}
