// A cut answer is never accepted as a whole one: by no client of many makers, whatever cut it.
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { createKey } from '../../../src/doors/commands/keys.ts';
import { scratch, start } from '../../support/cli.ts';
import { sampleOf } from '../../support/exposition.ts';
import { startBehindProxy, startNginx } from '../../support/proxies.ts';
import { predictUrl } from '../../support/service.ts';
import { TIER, times } from '../../support/tiers.ts';
import { checkTestNeeding, missingTools, type ToolName } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

/** Answers that are cut, of all clients and both ways of cutting together. */
const CUTS = times('cuts', { quick: 0, check: 6, campaigns: 1000 });
const MORE_ROWS = times('rows beyond what an answer holds back', { quick: 0, check: 8000, campaigns: 30_000 });
const CLIENTS = path.resolve('test/support/cut-clients');

/** A client: the program it needs, how it is started, and whether nginx stands between. */
const ALL: { name: string; needs: ToolName[]; command: string[]; nginx?: true }[] = [
  { name: 'curl', needs: ['curl'], command: ['sh', `${CLIENTS}/curl.sh`] },
  { name: 'curl behind nginx', needs: ['curl', 'nginx'], command: ['sh', `${CLIENTS}/curl.sh`], nginx: true },
  { name: 'requests', needs: ['Python 3 with requests'], command: ['python3', `${CLIENTS}/requests_client.py`] },
  { name: 'httpx', needs: ['Python 3 with httpx'], command: ['python3', `${CLIENTS}/httpx_client.py`] },
  { name: 'HttpClient of Java', needs: ['Java 17 or newer', 'a Java compiler'], command: ['java', `${CLIENTS}/JavaClient.java`] },
  { name: 'net/http of Go', needs: ['Go'], command: ['go', 'run', `${CLIENTS}/main.go`] },
]; // biome-ignore format: a table
const EACH = Math.ceil(CUTS / ALL.length / 2);

interface Told {
  /** null: the client reported a failure. */
  status: number | null;
  rows: number;
}

const portfolio = (rows: number): Buffer =>
  zlib.gzipSync(Buffer.concat([...generatePortfolio({ rows, seed: 41, delimiter: '\t', oddness: 'none' })]), {
    level: 1,
  });

/** Starts a client that posts these files one after the other. */
function ask(command: readonly string[], url: string, token: string, files: readonly string[]): Promise<Told[]> {
  const [program, ...args] = command;
  const child = spawn(program!, [...args, url, token, ...files], { stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  let words = '';
  child.stdout.setEncoding('utf8').on('data', (d: string) => {
    text += d;
  });
  child.stderr.setEncoding('utf8').on('data', (d: string) => {
    words += d;
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => {
      const told = text.trimEnd().split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as Told);
      if (code === 0 && told.length === files.length) resolve(told);
      else reject(new Error(`${program} ended with ${code} after ${told.length} of ${files.length}: ${words}`));
    });
  }); // biome-ignore format: one call
}

const services = new Map<string, ReturnType<typeof startBehindProxy>>();
/** One service of each kind for all clients. */
function behind(settings: string[]): ReturnType<typeof startBehindProxy> {
  const key = String(settings);
  const service = services.get(key) ?? startBehindProxy(settings, { keep: true });
  services.set(key, service);
  return service;
}
afterAll(async () => {
  for (const service of services.values()) await (await service).stop();
});

describe.each(ALL)('$name', ({ needs, command, nginx }) => {
  checkTestNeeding(needs, `takes none of ${EACH} answers for whole that fail late, and whole ones for whole`, async () => {
    // Not behind nginx answers stream, so that a failure can only cut them.
    const { port, token } = await behind(nginx ? [] : ['proxy_streams=true']);
    const at = nginx ? await startNginx(`http://127.0.0.1:${port}`) : port;
    const folder = scratch();
    const whole = path.join(folder, 'whole.gz');
    writeFileSync(whole, portfolio(12_000));
    const broken = Array.from({ length: EACH }, (_, i) => {
      const file = path.join(folder, `broken-${i}.gz`);
      const bytes = portfolio(13_000 + Math.floor(Math.random() * MORE_ROWS));
      writeFileSync(file, bytes.subarray(0, Math.floor(bytes.length * (0.75 + Math.random() * 0.24))));
      return file;
    });
    const told = await ask(command, `http://127.0.0.1:${at}${predictUrl('csv')}`, token, [whole, ...broken, whole]);
    expect([told[0], told.at(-1)]).toEqual([{ status: 200, rows: 12_000 }, { status: 200, rows: 12_000 }]);
    const cut = told.slice(1, -1);
    expect(cut.filter((t) => t.status === 200)).toEqual([]);
    // Most are cut behind their head, but a quick one of a sample may have arrived whole before it; where the answer has a length, all
    // are refused in words.
    expect(cut.filter((t) => t.status !== null && t.status !== 400)).toEqual([]);
    if (nginx) expect(cut.every((t) => t.status === 400)).toBe(true);
    else if (EACH >= 10) expect(cut.some((t) => t.status === null)).toBe(true);
  }); // biome-ignore format: one case
});

/** A service as a process, to be killed. */
async function startVictim(folder: string): Promise<{ port: number; kill: () => Promise<unknown> }> {
  const { child, done } = start(
    [
      'serve', '--port', '0', '--registry', path.resolve('src/bundled'), '--set', 'workers=1', 'listen.host=127.0.0.1',
      'behind_tls_proxy=["127.0.0.0/8"]', 'proxy_streams=true', `keys_file=${folder}/keys.yaml`, `jobs.folder=${folder}/jobs`,
      `spill.folder=${folder}`, 'preload=["credit-default"]',
    ],
    { cwd: folder },
  ); // biome-ignore format: one command
  let words = '';
  child.stderr!.on('data', (text: string) => {
    words += text;
  });
  const kill = () => {
    child.kill('SIGKILL');
    return done;
  };
  onTestFinished(() => void kill());
  await expect.poll(() => words).toContain('serving');
  return { port: Number(/127\.0\.0\.1:(\d+)/.exec(words)![1]), kill };
}

/** Those that are compiled first are left to the campaigns: what a cut looks like to them is tried above. */
const COMPILED = ['java', 'go'];
const found = ALL.filter(
  ({ needs, command }) => missingTools(...needs) === null && (TIER === 'campaigns' || !COMPILED.includes(command[0]!)),
);

checkTestNeeding(['curl'], `no client takes an answer for whole that a kill of the server cut`, async () => {
  const rows = 30_000;
  const folder = scratch();
  const body = path.join(folder, 'body.gz');
  writeFileSync(body, portfolio(rows));
  mkdirSync(path.join(folder, 'jobs'));
  const token = await createKey('all', { file: path.join(folder, 'keys.yaml'), scopes: 'predict,metrics' });
  const seen = { cut: 0, whole: 0 };
  const rounds = Math.ceil(EACH / 2);
  for (let round = 0; round < rounds; round++) {
    const { port, kill } = await startVictim(folder);
    const url = `http://127.0.0.1:${port}${predictUrl('csv')}`;
    const asked = found.map(async ({ command, nginx }) => {
      const at = nginx ? url.replace(String(port), String(await startNginx(`http://127.0.0.1:${port}`))) : url;
      return ask(command, at, token, [body, body]);
    });
    const metrics = async () => {
      const headers = { authorization: `API-Key ${token}`, 'x-forwarded-proto': 'https' };
      return (await fetch(`http://127.0.0.1:${port}/metrics`, { headers })).text();
    };
    const scored = async () => sampleOf(await metrics(), 'sluice_rows_total') ?? 0;
    // The first comes before any answer can be whole, however fast the machine is; the others anywhere.
    const enough = round === 0 ? 1 : Math.random() * found.length * 2 * rows;
    const condition = until(async () => (await scored()) >= enough);
    await Promise.race([condition, Promise.all(asked)]);
    await kill();
    await condition.catch(() => {});
    for (const told of (await Promise.all(asked)).flat()) {
      if (told.status === 200) expect(told.rows).toBe(rows);
      seen[told.status === 200 ? 'whole' : 'cut']++;
    }
  }
  console.log(`kills of the server: ${seen.cut} answers cut or not given, ${seen.whole} whole`);
  expect(seen.cut).toBeGreaterThan(0);
});
