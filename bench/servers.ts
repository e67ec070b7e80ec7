// Servers under test: started as processes of their own, with the CPU time of each and its children read from /proc.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fieldsOfStat } from '../src/core/processes.ts';
import { MODELS, PEERS, type Program, REGISTRY } from './prepare.ts';

export interface Server {
  url: string;
  headers: Record<string, string>;
  /** CPU seconds so far, children included; null where there is no /proc. */
  cpuSeconds: () => number | null;
  /** Memory of the process without children; NaN where there is no /proc. */
  residentBytes: () => number;
  stop: () => Promise<void>;
}

/** `serve --dev`: HTTPS with a certificate and a key made on the spot. `more`: further settings, as KEY=VALUE. */
export async function startSluice(
  program: Program,
  registry = REGISTRY,
  more: readonly string[] = [],
): Promise<Server> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'));
  const jobs = `jobs.folder=${path.join(folder, 'jobs')}`;
  const settings = ['limits.requests_per_second_per_key=1000000', jobs, ...more];
  const args = [...program.sluice, 'serve', '--dev', '--port', '0', '--registry', registry];
  const child = start([...args, ...settings.flatMap((s) => ['--set', s])], folder);
  let said = '';
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  for (const until = Date.now() + 60_000; !said.includes('key of this run: '); await sleep(20)) {
    if (Date.now() > until || child.exitCode !== null) throw new Error(`sluice serve does not start: ${said}`);
  }
  const url = /serving ([^\s"]+)/.exec(said)![1]!;
  const token = /key of this run: ([^\s"]+)/.exec(said)![1]!;
  return { url, headers: { authorization: `API-Key ${token}` }, ...control(child) };
}

/** MLServer with its own LightGBM runtime. */
export async function startMlserver(python: string, model: string): Promise<Server> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'));
  const [port, grpc, metrics] = [await freePort(), await freePort(), await freePort()];
  const settings = {
    debug: false,
    host: '127.0.0.1',
    http_port: port,
    grpc_port: grpc,
    metrics_port: metrics,
    // The model runs in the server's process: faster for one application a request than its worker processes.
    parallel_workers: 0,
    use_structured_logging: false,
  };
  writeFileSync(path.join(folder, 'settings.json'), JSON.stringify(settings));
  const runtime = {
    name: model,
    implementation: 'mlserver_lightgbm.LightGBMModel',
    parameters: { uri: path.join(MODELS, `${model}.txt`) },
  };
  writeFileSync(path.join(folder, 'model-settings.json'), JSON.stringify(runtime));
  const child = start([path.join(path.dirname(python), 'mlserver'), 'start', folder], folder, {
    // One application gains nothing from threads, and loses by starting them.
    OMP_NUM_THREADS: '1',
  });
  const server = { url: `http://127.0.0.1:${port}`, headers: {}, ...control(child) };
  await ready(server.url, `/v2/models/${model}/ready`, child);
  return server;
}

/** FastAPI, uvicorn and ONNX Runtime: what one writes first in Python. */
export async function startFastapi(python: string, model: string): Promise<Server> {
  const port = await freePort();
  const args = [python, PEERS, 'serve', '--models', MODELS, '--model', model, '--port', String(port)];
  const child = start(args, tmpdir());
  const server = { url: `http://127.0.0.1:${port}`, headers: {}, ...control(child) };
  await ready(server.url, '/ready', child);
  return server;
}

function start(args: readonly string[], cwd: string, env: Record<string, string> = {}): ChildProcess {
  const [program, ...rest] = args as [string, ...string[]];
  const child = spawn(program, rest, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout!.resume();
  child.stderr!.resume();
  return child;
}

const control = (child: ChildProcess): Pick<Server, 'cpuSeconds' | 'residentBytes' | 'stop'> => ({
  cpuSeconds: () => cpuOf(child.pid!),
  residentBytes: () => residentOf(child.pid!),
  stop: async () => {
    if (child.exitCode !== null) return;
    const ended = once(child, 'close');
    child.kill('SIGTERM');
    const late = setTimeout(() => child.kill('SIGKILL'), 15_000);
    await ended;
    clearTimeout(late);
  },
});

async function ready(url: string, at: string, child: ChildProcess): Promise<void> {
  let said = '';
  child.stderr!.on('data', (text) => {
    said = (said + text).slice(-2000);
  });
  for (const until = Date.now() + 60_000; ; await sleep(100)) {
    if (Date.now() > until || child.exitCode !== null) throw new Error(`${url} does not start: ${said}`);
    const status = await new Promise<number>((resolve) => {
      request(url + at, (answer) => resolve(answer.resume().statusCode ?? 0))
        .once('error', () => resolve(0))
        .end();
    });
    if (status === 200) return;
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, 'close');
  return port;
}

function residentOf(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
  } catch {
    return Number.NaN;
  }
}

/** Clock ticks a second, as Linux tells user programs on every architecture. */
const TICKS = 100;

function cpuOf(pid: number): number | null {
  const parents = new Map<number, number>();
  const ticks = new Map<number, number>();
  let processes: string[];
  try {
    processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    return null;
  }
  for (const name of processes) {
    try {
      const fields = fieldsOfStat(readFileSync(`/proc/${name}/stat`, 'latin1'));
      parents.set(Number(name), Number(fields[1]));
      ticks.set(Number(name), Number(fields[11]) + Number(fields[12]));
    } catch {
      // It has ended meanwhile.
    }
  }
  const below = (child: number): boolean => {
    for (let p: number | undefined = child; p !== undefined && p > 1; p = parents.get(p)) if (p === pid) return true;
    return false;
  };
  let sum = 0;
  for (const [child, used] of ticks) if (below(child)) sum += used;
  return sum / TICKS;
}
