// Real clients of tus, and a body that is cut at random places while the server is killed: the result is that of the direct call.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Upload, type UploadOptions } from 'tus-js-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Random } from '../../../src/core/random.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { scratch } from '../../support/cli.ts';
import { type OwnServer, startOwnServer } from '../../support/own-server.ts';
import { requirePostgres } from '../../support/postgres/require.ts';
import { pythonWith } from '../../support/python-environment.ts';
import { ask, openShared, type Replica, type SharedPlace, startReplicas } from '../../support/replicas.ts';
import { predictUrl } from '../../support/service.ts';
import { campaignTest, checkTest, TIER, times } from '../../support/tiers.ts';
import { checkTestNeeding } from '../../support/tools.ts';

/** Whom to ask, with which key. */
interface Asked {
  server: Replica;
  token: string;
}

const URL = predictUrl('csv', '&passthrough=*');
const TUS = { 'tus-resumable': '1.0.0' };
const PART = { ...TUS, 'content-type': 'application/offset+octet-stream' };
const portfolio = (rows: number, seed = 19): Buffer =>
  Buffer.concat([...generatePortfolio({ rows, seed, faults: 3, delimiter: '\t' })]);

async function resultOf({ server, token }: Asked, job: string): Promise<Buffer> {
  const { port } = server;
  await expect.poll(async () => (await ask(port, 'GET', job, { token })).json.state, { interval: 50 }).toBe('done');
  return (await ask(port, 'GET', `${job}/result`, { token })).bytes;
}

const directly = async ({ server, token }: Asked, body: Buffer): Promise<Buffer> =>
  (await ask(server.port, 'POST', URL, { token, body })).bytes;

/** Of all tests that need one. */
let own: OwnServer;
beforeAll(async () => {
  own = await startOwnServer([], { keep: true });
});
afterAll(() => own?.server.close());

/** As a batch that ends and begins again at the address it kept. */
checkTest('tus-js-client: an upload is paused, its server killed and begun again, and all of it comes', async () => {
  const { server, token } = own;
  const body = portfolio(8000);
  const file = path.join(scratch(), 'portfolio.tsv');
  writeFileSync(file, body);
  const options: UploadOptions = {
    endpoint: `http://127.0.0.1:${server.port}${URL}`,
    headers: { authorization: `API-Key ${token}`, 'x-forwarded-proto': 'https', 'idempotency-key': 'night' },
    metadata: { filename: 'portfolio.tsv' },
    retryDelays: Array(100).fill(200),
  };
  /** Until `most` bytes are sent, then `then`; or to the end. Gives the address of the upload and of its job. */
  const send = (more: UploadOptions, most = Infinity, then: (upload: Upload) => void = () => {}) =>
    new Promise<{ url: string; job: string | undefined }>((resolve, reject) => {
      let over = false;
      const upload: Upload = new Upload(createReadStream(file) as never, {
        ...options,
        ...more,
        onError: reject,
        onProgress: (sent) => {
          if (over || sent < most) return;
          over = true;
          then(upload);
          resolve({ url: upload.url!, job: undefined });
        },
        onSuccess: ({ lastResponse }) =>
          resolve({ url: upload.url!, job: lastResponse.getHeader('sluice-job') ?? undefined }),
      });
      upload.start();
    });
  const { url } = await send({}, 250_000, (upload) => void upload.abort());
  const state = async () => ask(server.port, 'HEAD', new global.URL(url).pathname, { token, headers: TUS });
  await expect.poll(async () => Number((await state()).headers['upload-offset'])).toBeGreaterThan(0);
  let back: Promise<void> | null = null;
  const whole = Promise.withResolvers<string | undefined>();
  const again: Upload = new Upload(createReadStream(file) as never, {
    ...options,
    uploadUrl: url,
    onError: whole.reject,
    chunkSize: 250_000,
    onProgress: (sent) => {
      if (sent > 700_000) back ??= server.end('SIGKILL').then(() => server.start());
    },
    onSuccess: ({ lastResponse }) => whole.resolve(lastResponse.getHeader('sluice-job') ?? undefined),
  });
  again.start();
  const job = await whole.promise;
  expect(back).not.toBe(null);
  expect(await resultOf(own, job!)).toEqual(await directly(own, body));
  // Whoever begins anew with the same key finds it done.
  expect((await send({})).url).toBe(url);
});

const PYTHON = `
import json, sys, threading, time
from tusclient.client import TusClient
address, key, file, checksum = sys.argv[1:]
client = TusClient(address, {"Authorization": "API-Key " + key, "X-Forwarded-Proto": "https"})
uploader = client.uploader(file, chunk_size=300_000, retries=100, retry_delay=0.2, metadata={"filename": "a,b c"}, upload_checksum=checksum == "1")
size = uploader.get_file_size()
uploader.upload(stop_at=size // 2)
print("half", flush=True)
sys.stdin.readline()
# A new one, as of another start of the program.
other = client.uploader(file, chunk_size=300_000, url=uploader.url, retries=100, retry_delay=0.2, upload_checksum=checksum == "1")
assert other.offset >= size // 2, other.offset
other.upload_chunk()
print("again", flush=True)
other.upload()
print(json.dumps({"url": other.url, "job": other.request.response_headers["sluice-job"]}), flush=True)
`;

for (const checksum of ['0', '1']) {
  // Parts without a checksum come from tus-js-client, too.
  (checksum === '1' ? checkTest : campaignTest)(
    `tuspy ${checksum === '1' ? 'with checksums' : 'without'}: goes on with a server that was killed`,
    async () => {
      const found = await pythonWith('test/support/tus-client/requirements.txt');
      if ('missing' in found) throw new Error(`needs ${found.missing}`);
      const { server, token } = own;
      const body = portfolio(5000);
      const file = path.join(scratch(), 'portfolio.tsv');
      writeFileSync(file, body);
      const address = `http://127.0.0.1:${server.port}${URL}`;
      const client = promisify(execFile)(found.python, ['-c', PYTHON, address, token, file, checksum]);
      /** Killed while nothing is sent (in campaigns), then while parts are. */
      const { stdout } = client.child;
      let text = '';
      stdout!.on('data', (chunk: string) => {
        text += chunk;
      });
      const ended = client.then(() => expect.fail(`it ended: ${text}`));
      ended.catch(() => {});
      const until = async (word: string): Promise<void> => {
        while (!text.includes(word)) await Promise.race([once(stdout!, 'data'), ended]);
      };
      for (let kills = 0; kills < 2; kills++) {
        await until(['half', 'again'][kills]!);
        if (kills === 1 || TIER === 'campaigns') {
          await server.end('SIGKILL');
          await server.start();
        }
        if (kills === 0) client.child.stdin!.end('\n');
      }
      const { url, job } = JSON.parse((await client).stdout.split('\n')[2]!);
      expect(job).toBe(new global.URL(url).pathname.replace('uploads', 'jobs'));
      expect(await resultOf(own, job)).toEqual(await directly(own, body));
    },
  );
}

test('an upload of another key is none', async () => {
  const { server, token, other } = own;
  const made = await ask(server.port, 'POST', URL, { token, headers: { ...TUS, 'upload-length': '10' } });
  expect(made.status).toBe(201);
  const at = made.headers.location!;
  for (const method of ['HEAD', 'PATCH', 'DELETE']) {
    const asked = { headers: { ...PART, 'upload-offset': '0' }, body: Buffer.from('x') };
    const { status, json } = await ask(server.port, method, at, { ...asked, token: other });
    expect(status).toBe(404);
    if (method !== 'HEAD') expect(json.code).toBe('upload_not_found');
  }
  const still = await ask(server.port, 'HEAD', at, { token, headers: TUS });
  expect([still.status, still.headers['upload-offset']]).toEqual([200, '0']);
});

interface Part {
  offset: number;
  body: Buffer;
  cutAfterMs: number | null;
  /** Receives the number of bytes that the kernel has taken, for parts that are cut. */
  onSent?: (bytes: number) => void;
}

/** Sends some bytes of a part; `cutAfterMs`: not its end, and the connection is cut then. Gives the status, null where none came. */
function sendPart(
  { server, token }: Asked,
  at: string,
  { offset, body, cutAfterMs, onSent }: Part,
): Promise<number | null> {
  return new Promise((resolve) => {
    const headers = {
      ...PART,
      'upload-offset': offset,
      authorization: `API-Key ${token}`,
      'x-forwarded-proto': 'https',
    };
    const request = http.request({ host: '127.0.0.1', port: server.port, method: 'PATCH', path: at, agent: false, headers }); // biome-ignore format: one line
    request.on('response', (response) => {
      response.resume();
      resolve(response.statusCode!);
    });
    request.on('error', () => resolve(null));
    request.on('close', () => resolve(null));
    if (cutAfterMs === null) request.end(body);
    else {
      const send = (from: number) => {
        onSent?.(from);
        // Varies the moment of the cut.
        if (from === body.length) setTimeout(() => request.destroy(), cutAfterMs);
        else request.write(body.subarray(from, from + PIECE), () => send(Math.min(body.length, from + PIECE)));
      };
      send(0);
    }
  });
}

/** Of each body, at most. */
const KILLS = times('tus kills', { quick: 0, check: 1, campaigns: 2 });
const BODIES = times('tus bodies', { quick: 0, check: 2, campaigns: 60 });
/** Bytes: a part in object storage has 8 MiB. */
const LARGE = 10_000_000;
/** Bytes of one write. */
const PIECE = 1024 * 1024;

/** Few rows that are long: the upload has to be large, the scoring does not. */
function portfolioOf(bytes: number, seed?: number): Buffer {
  const [header, ...lines] = portfolio(1000, seed).toString('latin1').trimEnd().split('\n');
  const note = 'x'.repeat(Math.ceil(bytes / lines.length));
  return Buffer.from([`${header}\tnote`, ...lines.map((line) => `${line}\t${note}`), ''].join('\n'), 'latin1');
}

/**
 * Sends a body in parts of random lengths, some cut, some while a server is killed, each to any of the servers; what was told stands, and the
 * job has the result of the direct call.
 */
async function sendCut(servers: readonly Replica[], token: string, round: number, mostKills: number) {
  const random = new Random();
  random.seed(22, round);
  const below = (n: number) => Math.floor(random.uniform() * n);
  const any = () => ({ server: servers[below(servers.length)]!, token });
  // Some are larger than a part in object storage.
  const isLarge = round % 2 === 1 && servers.length > 1;
  const body = isLarge ? portfolioOf(LARGE, round) : portfolio(1 + below(4000), round);
  const headers = { ...TUS, 'upload-length': `${body.length}` };
  const at = (await ask(any().server.port, 'POST', URL, { token, headers })).headers.location!;
  /** What was acknowledged, and what may have come. */
  let told = 0;
  let sent = 0;
  let [kills, cuts] = [0, 0];
  for (;;) {
    const state = await ask(any().server.port, 'HEAD', at, { token, headers: TUS });
    expect(state.status).toBe(200);
    const offset = Number(state.headers['upload-offset']);
    expect(offset, `round ${round}: told ${told}, sent ${sent}`).toBeGreaterThanOrEqual(told);
    expect(offset).toBeLessThanOrEqual(sent);
    told = offset;
    const job = state.headers['sluice-job'] as string | undefined;
    if (job !== undefined) {
      expect(told).toBe(body.length);
      const one = any();
      expect((await resultOf(one, job)).equals(await directly(one, body)), `round ${round}`).toBe(true);
      return { kills, cuts };
    }
    const to = Math.min(body.length, offset + 1 + below(body.length / 2));
    sent = Math.max(sent, to);
    const how = below(4);
    const part = { offset, body: body.subarray(offset, to) };
    if (how <= 1) {
      const status = await sendPart(any(), at, { ...part, cutAfterMs: null });
      // One that was cut may not be over yet, or be over since it was asked for.
      expect([204, 409, 423]).toContain(status);
      if (status === 204) told = to;
    } else if (how === 2 || kills >= mostKills) {
      cuts++;
      await sendPart(any(), at, { ...part, cutAfterMs: below(3) });
    } else {
      kills++;
      const one = any();
      const cut = sendPart(one, at, { ...part, cutAfterMs: below(2) === 0 ? null : 1000 });
      // Varies the moment of the kill.
      await sleep(below(8));
      await one.server.end('SIGKILL');
      if ((await cut) === 204) told = to;
      await one.server.start();
    }
  }
}

const sum = (all: readonly { kills: number; cuts: number }[]) => [
  all.some((one) => one.kills > 0),
  all.some((one) => one.cuts > 0),
];

checkTest(
  'a body cut anywhere, with kill -9 in between, gives byte for byte the result of the direct call',
  async () => {
    const { server, token } = own;
    const done = [];
    for (let round = 0; round < BODIES; round++) done.push(await sendCut([server], token, round, KILLS));
    expect(sum(done)).toEqual([true, true]);
  },
);

requirePostgres('uploads that servers share', () => {
  let place: SharedPlace;
  let fleet: Awaited<ReturnType<typeof startReplicas>> | undefined;
  beforeAll(async () => {
    place = await openShared();
  });
  afterAll(async () => {
    for (const replica of fleet?.replicas ?? []) await replica.close();
    await place?.close();
  });
  const twoServers = async () => {
    fleet ??= await startReplicas(2, place, { table: 'cut', leaseMs: 2000, keep: true });
    return fleet;
  };

  checkTestNeeding(['versitygw'], 'any of two goes on with what the other was killed at', async () => {
    const { replicas, token } = await twoServers();
    const done = [];
    for (let round = 0; round < BODIES; round++) done.push(await sendCut(replicas, token, round, KILLS));
    expect(sum(done)).toEqual([true, true]);
    const left = async () => (await place.bucket.list('cut/')).objects.filter((o) => /left|body/.test(o.key));
    await expect.poll(left, { interval: 200 }).toEqual([]);
  });

  checkTestNeeding(
    ['versitygw'],
    'a replica that was paused in the middle of a part changes nothing that another went on with',
    async () => {
      const { replicas, token } = await twoServers();
      const [a, b] = replicas.map((server) => ({ server, token })) as [Asked, Asked];
      // Several parts in object storage, and the paused one has sent some of them.
      const body = portfolioOf(35_000_000);
      const headers = { ...TUS, 'upload-length': `${body.length}` };
      const at = (await ask(a.server.port, 'POST', URL, { token, headers })).headers.location!;
      const first = 1_000_000;
      expect(await sendPart(a, at, { offset: 0, body: body.subarray(0, first), cutAfterMs: null })).toBe(204);
      const wrong = Buffer.alloc(body.length - first, 'x');
      let sent = 0;
      const onSent = (bytes: number) => {
        sent = bytes;
      };
      const paused = sendPart(a, at, { offset: first, body: wrong.subarray(1), cutAfterMs: 1000, onSent });
      await expect.poll(() => sent, { interval: 5 }).toBeGreaterThan(2 * LARGE);
      a.server.signal('SIGSTOP');
      const status = await sendPart(b, at, { offset: first, body: body.subarray(first), cutAfterMs: null });
      a.server.signal('SIGCONT');
      expect(status).toBe(204);
      const job = at.replace('uploads', 'jobs');
      const result = await resultOf(b, job);
      expect(result.equals(await directly(b, body))).toBe(true);
      // The other replica completed the upload: this one answers with an error and has changed nothing.
      expect([null, 404, 423, 503]).toContain(await paused);
      expect((await ask(a.server.port, 'HEAD', at, { token, headers: TUS })).headers['sluice-job']).toBe(job);
    },
  );
});

campaignTest('what a large part has brought to the disk is told after kill -9 in the middle of it', async () => {
  const { server, token, jobs } = own;
  const body = Buffer.alloc(90 * 1024 * 1024);
  for (let i = 0; i < body.length; i += 4) body.writeInt32LE(i, i);
  const length = `${body.length + 1}`;
  const made = await ask(server.port, 'POST', URL, { token, headers: { ...TUS, 'upload-length': length } });
  const at = made.headers.location!;
  const state = async () =>
    Number((await ask(server.port, 'HEAD', at, { token, headers: TUS })).headers['upload-offset']);
  const part = sendPart(own, at, { offset: 0, body, cutAfterMs: 60_000 });
  await expect.poll(state, { interval: 20 }).toBeGreaterThan(0);
  await server.end('SIGKILL');
  expect(await part).toBe(null);
  await server.start();
  const kept = await state();
  expect(kept).toBeGreaterThanOrEqual(64 * 1024 * 1024);
  // What lies behind it is cut off by the next part.
  expect(await sendPart(own, at, { offset: kept, body: Buffer.from('x'), cutAfterMs: null })).toBe(204);
  const file = readFileSync(path.join(jobs, `${at.split('/').at(-1)}.upload`));
  expect(file.length).toBe(kept + 1);
  expect(file.subarray(0, kept).equals(body.subarray(0, kept))).toBe(true);
});
