// Over HTTPS: the file as an upload, and one application a request, against servers that Python users start.
import { spawnSync } from 'node:child_process';
import { createReadStream, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { availableParallelism, loadavg } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { codesOf } from './codes.ts';
import { sluice } from './contenders.ts';
import type { LoadResult, LoadSpec } from './load.ts';
import { BUNDLED, CACHE, environment, NODE, nameOf, type Program } from './prepare.ts';
import { folder, measure, median, run, type Spread, say, spread, warn } from './run.ts';
import { type Server, startFastapi, startMlserver, startSluice } from './servers.ts';

export interface HttpResult {
  model: string;
  name: string;
  rows: number;
  rounds: number;
  load: number;
  upload: {
    bytes: number;
    client: string;
    fileSeconds: Spread;
    httpSeconds: Spread;
    serverCpuSeconds: Spread | null;
  } | null;
  single: SingleResult[];
}

export interface SingleResult {
  name: string;
  what: string;
  /** What made the load at full speed. */
  client: string;
  connections: number;
  /** Medians of the rounds. */
  full: LoadResult;
  /** Requests a CPU second of the server at full load, the load generator not counted; median of the rounds. */
  requestsPerCpuSecond: number | null;
  half: LoadResult;
}

/** A server that runs, and how it is asked for one application. */
export interface Target {
  name: string;
  what: string;
  server: Server;
  spec: LoadSpec;
}

export interface HttpSetting {
  program: Program;
  input: string;
  rows: number;
  rounds: number;
  quick: boolean;
  /** Whether the trained models are there. */
  trained: boolean;
}

const CONNECTIONS = 16;

export async function benchHttp(setting: HttpSetting): Promise<HttpResult> {
  const { program, input, rows, rounds, trained } = setting;
  const model = trained ? 'bench-lightgbm' : BUNDLED;
  const load = loadavg()[0]!;
  const application = await firstApplication(input);
  const servers: Server[] = [];
  try {
    const server = await startSluice(program);
    servers.push(server);
    const body = JSON.stringify([application.object]);
    const at = `/api/v1/scoring/predict.json?modelId=${model}`;
    say(`one application: ${await ask(server, at, body)}`);
    const what = 'HTTPS, one JSON object of 23 named values a request, checked and encoded by the server';
    const targets = [target('sluice', what, server, at, body)];
    if (trained) targets.push(...(await peers(model, application.floats, servers)));
    const single = await oneByOne(targets, rounds, setting.quick ? 3 : 8);
    // The peers are idle by now.
    const upload = await uploads(setting, server, model);
    return { model, name: nameOf(model), rows, rounds, load, upload, single };
  } finally {
    for (const s of servers) await s.stop();
  }
}

/** Starts what Python users would start; pushes to `servers` what has to be stopped. */
async function peers(model: string, floats: readonly number[], servers: Server[]): Promise<Target[]> {
  const targets: Target[] = [];
  const mlserver = await environment('venv-http', 'requirements-http.txt', 'MLServer');
  const python = mlserver ?? (await environment('venv-http', 'requirements-fastapi.txt', 'the stand-in for MLServer'));
  if (mlserver === null) warn('MLServer is not installed: FastAPI with ONNX Runtime stands in for it');
  else {
    const server = await startMlserver(mlserver, model);
    servers.push(server);
    const tensor = { name: 'input', shape: [1, floats.length], datatype: 'FP32', data: floats };
    const what =
      'its LightGBM runtime with one thread, REST without TLS, the model in the process of the server; ' +
      'the client sends 23 encoded floats';
    targets.push(target('MLServer', what, server, `/v2/models/${model}/infer`, JSON.stringify({ inputs: [tensor] })));
  }
  if (python !== null) {
    const server = await startFastapi(python, model);
    servers.push(server);
    const what = 'uvicorn, one process, without TLS, ONNX Runtime with one thread; the client sends 23 encoded floats';
    targets.push(target('FastAPI + onnxruntime', what, server, '/predict', JSON.stringify({ rows: [floats] })));
  }
  return targets;
}

export function target(name: string, what: string, server: Server, at: string, body: string): Target {
  const headers = { ...server.headers, 'content-type': 'application/json' };
  const spec = { url: server.url + at, headers, body, connections: CONNECTIONS, rate: 0, seconds: 0 };
  return { name, what, server, spec };
}

/** Of ours every request must be answered; what a peer loses is said. */
function assertAnswered({ name }: Target, { errors, requests }: LoadResult, ours: boolean): void {
  if (errors === 0) return;
  if (ours) throw new Error(`${name}: ${errors} of ${requests} requests failed`);
  warn(`${name}: ${errors} of ${requests} requests failed`);
}

/** Full load in turn, round by round, then half of each one's median. @throws Error when a request fails */
async function oneByOne(targets: readonly Target[], rounds: number, seconds: number): Promise<SingleResult[]> {
  const wrk = spawnSync('wrk', ['-v']).error === undefined;
  // Code is compiled after some thousand requests.
  for (const t of targets) await generate({ ...t.spec, seconds });
  const full = new Map<Target, { result: LoadResult; perCpuSecond: number | null }[]>(targets.map((t) => [t, []]));
  const half = new Map<Target, LoadResult[]>(targets.map((t) => [t, []]));
  for (let round = 0; round < rounds; round++) {
    for (const t of targets) {
      const before = t.server.cpuSeconds();
      const spec = { ...t.spec, seconds };
      const result = await (wrk ? withWrk(spec) : generate(spec));
      const after = t.server.cpuSeconds();
      // The generator's own second of warming up is in the CPU time of the server, too.
      const requests = wrk ? result.requests : (result.requests / seconds) * (seconds + 1);
      const perCpuSecond = before === null || after === null || after === before ? null : requests / (after - before);
      full.get(t)!.push({ result, perCpuSecond });
      assertAnswered(t, result, t === targets[0]);
    }
  }
  const fullOf = (t: Target): LoadResult => middle(full.get(t)!.map((f) => f.result));
  for (let round = 0; round < rounds; round++) {
    for (const t of targets) {
      const rate = Math.max(1, fullOf(t).requestsPerSecond / 2);
      const result = await (wrk ? pacedWrk({ ...t.spec, seconds }, rate) : generate({ ...t.spec, seconds, rate }));
      assertAnswered(t, result, t === targets[0]);
      half.get(t)!.push(result);
    }
  }
  return targets.map((t): SingleResult => {
    const perCpu = full.get(t)!.flatMap((f) => (f.perCpuSecond === null ? [] : [f.perCpuSecond]));
    const client = wrk ? 'wrk' : 'bench/load.ts';
    const r = {
      name: t.name,
      what: t.what,
      client,
      connections: CONNECTIONS,
      full: fullOf(t),
      half: middle(half.get(t)!),
    };
    say(
      `${t.name}: ${r.full.requestsPerSecond.toFixed(0)} requests/s, p50 ${r.full.p50Ms.toFixed(2)} ms, p99 ${r.full.p99Ms.toFixed(2)} ms; ` +
        `at half load p50 ${r.half.p50Ms.toFixed(2)} ms, p99 ${r.half.p99Ms.toFixed(2)} ms`,
    );
    return { ...r, requestsPerCpuSecond: perCpu.length > 0 ? median(perCpu) : null };
  });
}

const middle = (results: readonly LoadResult[]): LoadResult => {
  const of = (key: keyof LoadResult): number => median(results.map((r) => r[key]));
  return {
    requestsPerSecond: of('requestsPerSecond'),
    p50Ms: of('p50Ms'),
    p99Ms: of('p99Ms'),
    requests: of('requests'),
    errors: of('errors'),
  };
};

export const generate = async (spec: LoadSpec): Promise<LoadResult> =>
  JSON.parse(
    await run({ args: [NODE, path.join(import.meta.dirname, 'load.ts'), JSON.stringify(spec)] }),
  ) as LoadResult;

/** About `rate` requests a second: each connection waits a random time before it asks again. */
async function pacedWrk(spec: LoadSpec, rate: number): Promise<LoadResult> {
  const msBetween = (perSecond: number): number => (spec.connections * 1000) / perSecond;
  let delayMs = msBetween(rate);
  for (let trial = 0; trial < 3; trial++) {
    const { requestsPerSecond } = await withWrk({ ...spec, seconds: 2 }, delayMs);
    delayMs = Math.max(0, delayMs + msBetween(rate) - msBetween(requestsPerSecond));
  }
  return withWrk(spec, delayMs);
}

/** `delayMs`: mean time a connection waits before it asks. */
async function withWrk(spec: LoadSpec, delayMs = 0): Promise<LoadResult> {
  const script = path.join(folder(CACHE, 'outputs'), 'wrk.lua');
  const quoted = (text: string): string => `[==[${text}]==]`;
  const headers = Object.entries(spec.headers).map(([k, v]) => `wrk.headers[ ${quoted(k)} ] = ${quoted(v)}`);
  writeFileSync(
    script,
    `wrk.method = "POST"
wrk.body = ${quoted(spec.body)}
${headers.join('\n')}
${delayMs > 0 ? `delay = function() return math.floor(math.random() * ${2 * delayMs} + 0.5) end` : ''}
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format('\\nRESULT{"requests":%d,"us":%d,"p50":%f,"p99":%f,"errors":%d}\\n', summary.requests,
    summary.duration, latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
`,
  );
  const args = ['wrk', '-t', '1', '-c', String(spec.connections), '-d', `${spec.seconds}s`, '-s', script, spec.url];
  const r = JSON.parse(/RESULT(.*)/.exec(await run({ args }))![1]!) as Record<
    'requests' | 'us' | 'p50' | 'p99' | 'errors',
    number
  >;
  return {
    requestsPerSecond: r.requests / (r.us / 1e6),
    p50Ms: r.p50 / 1000,
    p99Ms: r.p99 / 1000,
    requests: r.requests,
    errors: r.errors,
  };
}

/** The whole file through `sluice score` and as an upload, in turn; both CSV to CSV. */
async function uploads(setting: HttpSetting, server: Server, model: string): Promise<HttpResult['upload']> {
  const { program, input, rows, rounds } = setting;
  const curl = spawnSync('curl', ['--version']).error === undefined;
  if (!curl) {
    warn('no curl: the upload of the file is skipped');
    return null;
  }
  const outputs = folder(CACHE, 'outputs');
  const [direct, answered] = [path.join(outputs, 'file.csv'), path.join(outputs, 'upload.csv')];
  const contender = sluice(program, 'sluice', '', ['--workers', String(availableParallelism())]);
  const fileSeconds: number[] = [];
  const httpSeconds: number[] = [];
  const serverCpu: number[] = [];
  for (let round = 0; round < rounds; round++) {
    fileSeconds.push((await measure(contender.command({ model }, input, direct))).seconds);
    const { seconds, cpuSeconds } = await upload(server, { model, input, answered });
    httpSeconds.push(seconds);
    if (cpuSeconds !== null) serverCpu.push(cpuSeconds);
    const lines = await countLines(answered);
    if (lines !== rows + 1) throw new Error(`the answer to the upload has ${lines} lines for ${rows} rows`);
    say(`upload: ${httpSeconds.at(-1)!.toFixed(2)} s, file ${fileSeconds.at(-1)!.toFixed(2)} s`);
  }
  rmSync(direct);
  rmSync(answered);
  return {
    bytes: statSync(input).size,
    client: 'curl',
    fileSeconds: spread(fileSeconds),
    httpSeconds: spread(httpSeconds),
    serverCpuSeconds: serverCpu.length > 0 ? spread(serverCpu) : null,
  };
}

/** One upload of a CSV file by curl, its answer written to `answered`: the client's seconds, the server's CPU seconds. */
export async function upload(
  server: Server,
  { model, input, answered }: { model: string; input: string; answered: string },
): Promise<{ seconds: number; cpuSeconds: number | null }> {
  const url = `${server.url}/api/v1/scoring/predict.csv?modelId=${model}&delimiter=comma`;
  const said = ['-H', `Authorization: ${server.headers.authorization}`, '-H', 'Expect:'];
  const before = server.cpuSeconds();
  const began = performance.now();
  const transfer = ['-X', 'POST', '-T', input, '-o', answered];
  await run({ args: ['curl', '-sS', '--fail', '--insecure', ...said, ...transfer, url] });
  const seconds = (performance.now() - began) / 1000;
  const after = server.cpuSeconds();
  return { seconds, cpuSeconds: before === null || after === null ? null : after - before };
}

async function countLines(file: string): Promise<number> {
  let n = 0;
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) n++;
  }
  return n;
}

/** The first application with nothing missing, as JSON and as the floats of the trained models. */
export async function firstApplication(
  input: string,
): Promise<{ object: Record<string, string | number | boolean>; floats: number[] }> {
  const codes = codesOf();
  let header: string[] | null = null;
  for await (const line of createInterface({ input: createReadStream(input) })) {
    // Without unseen categories no value is quoted.
    const fields = line.split(',');
    if (header === null) header = fields;
    else if (!fields.includes('')) {
      const names = header;
      const native = (name: string, text: string): string | number | boolean =>
        codes[name] ? text : text === 'true' ? true : text === 'false' ? false : Number(text);
      const object = Object.fromEntries(names.map((name, i) => [name, native(name, fields[i]!)]));
      return { object, floats: names.map((name) => codes[name]?.[String(object[name])] ?? Number(object[name])) };
    }
  }
  throw new Error('every application has gaps');
}

async function ask(server: Server, at: string, body: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const headers = { ...server.headers, 'content-type': 'application/json' };
  const q = request(server.url + at, { method: 'POST', headers, rejectUnauthorized: false }, async (answer) => {
    let text = '';
    for await (const chunk of answer) text += chunk;
    if (answer.statusCode === 200 && !text.includes('"error"')) resolve(text);
    else reject(new Error(`${answer.statusCode}: ${text}`));
  });
  q.once('error', reject);
  q.end(body);
  return promise;
}
