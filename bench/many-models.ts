// Many models in one service: memory and CPU of requests that go to all of them in turn, with and without effects.
import { cpSync, createReadStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { nameOf, type Program, REGISTRY } from './prepare.ts';
import { say } from './run.ts';
import { type Server, startSluice } from './servers.ts';

export interface ManyModelsResult {
  name: string;
  load: number;
  rowsPerRequest: number;
  cases: ManyModelsCase[];
}

export interface ManyModelsCase {
  models: number;
  effects: boolean;
  requests: number;
  /** Memory of the process after loading the models, and its largest during the load; bytes. */
  loadedBytes: number;
  peakBytes: number;
  /** Memory of the tables that make effects faster, and its limit; bytes. */
  tableBytes: number;
  tableLimitBytes: number;
  /** CPU seconds of the service per million rows. */
  cpuSecondsPerMillion: number;
  p50Ms: number;
  p99Ms: number;
}

interface ManyModelsSetting {
  program: Program;
  model: string;
  input: string;
  quick: boolean;
}

const ROWS_PER_REQUEST = 100;
const CONNECTIONS = 4;
const MOST_MODELS = 50;

export async function benchManyModels({ program, model, input, quick }: ManyModelsSetting): Promise<ManyModelsResult> {
  const load = loadavg()[0]!;
  const requests = quick ? 200 : 4000;
  const bodies = await bodiesOf(input, 1000);
  const registry = mkdtempSync(path.join(tmpdir(), 'sluice-many-'));
  try {
    const ids = copies(model, registry);
    const cases: ManyModelsCase[] = [];
    for (const effects of [false, true]) {
      for (const models of [1, 10, MOST_MODELS]) {
        const more = [`models_max=${MOST_MODELS}`, `preload=${JSON.stringify(ids.slice(0, models))}`];
        const server = await startSluice(program, registry, more);
        try {
          cases.push(await underLoad(server, { ids: ids.slice(0, models), effects, requests, bodies }));
        } finally {
          await server.stop();
        }
      }
    }
    return { name: nameOf(model), load, rowsPerRequest: ROWS_PER_REQUEST, cases };
  } finally {
    rmSync(registry, { recursive: true });
  }
}

/** Copies of a model under other IDs. */
function copies(model: string, registry: string): string[] {
  return Array.from({ length: MOST_MODELS }, (_, i) => {
    const id = `${model}-${i + 1}`;
    const to = path.join(registry, id, '1');
    cpSync(path.join(REGISTRY, model, '1'), to, { recursive: true });
    rmSync(path.join(to, 'package.lock'));
    const yaml = path.join(to, 'model.yaml');
    writeFileSync(yaml, readFileSync(yaml, 'utf8').replace(/^id: .*$/m, `id: ${id}`));
    return id;
  });
}

/** Request bodies with other rows each. */
async function bodiesOf(input: string, count: number): Promise<string[]> {
  const lines = createInterface({ input: createReadStream(input) });
  let header: string | null = null;
  const bodies: string[] = [];
  let rows: string[] = [];
  for await (const line of lines) {
    if (header === null) header = line;
    else rows.push(line);
    if (rows.length < ROWS_PER_REQUEST) continue;
    bodies.push(`${header}\n${rows.join('\n')}\n`);
    rows = [];
    if (bodies.length === count) break;
  }
  lines.close();
  return bodies;
}

interface Load {
  ids: readonly string[];
  effects: boolean;
  requests: number;
  bodies: readonly string[];
}

/** @throws Error when a request is not answered with 200 */
async function underLoad(server: Server, { ids, effects, requests, bodies }: Load): Promise<ManyModelsCase> {
  const agent = new Agent({ keepAlive: true, rejectUnauthorized: false, maxSockets: CONNECTIONS });
  const send = (method: string, at: string, body = ''): Promise<string> => {
    const headers = { ...server.headers, 'content-type': 'text/csv' };
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const sent = request(server.url + at, { method, agent, headers }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      answer.on('end', () => (answer.statusCode === 200 ? resolve(text) : reject(new Error(`${at}: ${text}`))));
    });
    sent.on('error', reject).end(body);
    return promise;
  };
  const kind = effects ? 'predict/interpretation.csv' : 'predict.csv';
  const predict = (i: number): Promise<string> =>
    send(
      'POST',
      `/api/v1/scoring/${kind}?delimiter=comma&modelId=${ids[i % ids.length]}`,
      bodies[Math.floor(i / ids.length) % bodies.length],
    );
  const loadedBytes = server.residentBytes();
  // The first request of each model opens what explains it.
  for (let i = 0; i < ids.length; i++) await predict(i);
  const before = server.cpuSeconds();
  const times: number[] = [];
  let [next, peakBytes] = [0, 0];
  const connection = async (): Promise<void> => {
    while (next < requests) {
      const started = performance.now();
      await predict(next++);
      times.push(performance.now() - started);
      if (times.length % 50 === 0) peakBytes = Math.max(peakBytes, server.residentBytes());
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, connection));
  const cpuSeconds = (server.cpuSeconds() ?? Number.NaN) - (before ?? Number.NaN);
  const metrics = await send('GET', '/metrics');
  agent.destroy();
  const metric = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1] ?? Number.NaN);
  times.sort((a, b) => a - b);
  const result: ManyModelsCase = {
    models: ids.length,
    effects,
    requests,
    loadedBytes,
    peakBytes,
    tableBytes: metric('sluice_explain_memory_bytes'),
    tableLimitBytes: metric('sluice_explain_memory_limit_bytes'),
    cpuSecondsPerMillion: (cpuSeconds / (requests * ROWS_PER_REQUEST)) * 1e6,
    p50Ms: times[times.length >> 1]!,
    p99Ms: times[Math.floor(times.length * 0.99)]!,
  };
  say(
    `${ids.length} models${effects ? ' with effects' : ''}: ${(peakBytes / 1e6).toFixed(0)} MB, ` +
      `${result.cpuSecondsPerMillion.toFixed(2)} CPU s per million rows, p50 ${result.p50Ms.toFixed(1)} ms`,
  );
  return result;
}
