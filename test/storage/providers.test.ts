// Every provider of object storage, on a real server or emulator: what `ObjectStore` promises, and runs from objects to objects.
import { execFile } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { accessTokens } from '../../src/storage/azure/azure-tokens.ts';
import { openGcs } from '../../src/storage/gcs/gcs-store.ts';
import { matchingObjects, openObject } from '../../src/storage/object-source.ts';
import type { ObjectStore } from '../../src/storage/object-store.ts';
import { ObjectUpload } from '../../src/storage/object-upload.ts';
import { objectAddress, storeOf } from '../../src/storage/providers.ts';
import { scratch, sluice } from '../support/cli.ts';
import { Gate } from '../support/registries/gate.ts';
import { type Installed, installAzurite, installFakeGcs, installS3 } from '../support/registries/install.ts';
import { requireServer } from '../support/registries/require.ts';
import { S3_KEYS, Server } from '../support/registries/servers.ts';

const AZURE_ACCOUNT = 'devstoreaccount1';
/** Published by the emulator's documentation. */
const AZURE_KEY = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==';

interface Provider {
  name: string;
  root: string;
  install: () => Promise<Installed>;
  start: (installed: string) => Promise<Server>;
  env: (url: string) => Record<string, string>;
  /** Creates the bucket of `root`. */
  create: (url: string) => Promise<Response>;
  /** What reads of a bucket that does not exist are refused with. */
  missing: RegExp;
}

const signedAzure = (url: string, resource: string): Promise<Response> => {
  const date = new Date().toUTCString();
  const text = `PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:${date}\nx-ms-version:2023-11-03\n/${AZURE_ACCOUNT}/${AZURE_ACCOUNT}/${resource}\nrestype:container`;
  const signature = createHmac('sha256', Buffer.from(AZURE_KEY, 'base64')).update(text).digest('base64');
  const authorization = `SharedKey ${AZURE_ACCOUNT}:${signature}`;
  const headers = { 'x-ms-date': date, 'x-ms-version': '2023-11-03', authorization };
  return fetch(`${url}/${AZURE_ACCOUNT}/${resource}?restype=container`, { method: 'PUT', headers });
};

const PROVIDERS: readonly Provider[] = [
  {
    name: 's3',
    root: 's3://bank',
    install: installS3,
    start: (installed) => Server.s3(installed),
    env: (url) => ({ ...S3_KEYS, AWS_ENDPOINT_URL: url }),
    create: async (url) => {
      const { AwsClient } = await import('aws4fetch');
      const keys = { accessKeyId: S3_KEYS.AWS_ACCESS_KEY_ID, secretAccessKey: S3_KEYS.AWS_SECRET_ACCESS_KEY };
      return new AwsClient({ ...keys, service: 's3', region: 'us-east-1' }).fetch(`${url}/bank`, { method: 'PUT' });
    },
    missing: /NoSuchBucket/,
  },
  {
    name: 'azure',
    root: 'az://bank',
    install: installAzurite,
    start: (installed) => Server.azurite(installed),
    env: (url) => ({
      AZURE_STORAGE_CONNECTION_STRING: `DefaultEndpointsProtocol=http;AccountName=${AZURE_ACCOUNT};AccountKey=${AZURE_KEY};BlobEndpoint=${url}/${AZURE_ACCOUNT};`,
    }),
    create: (url) => signedAzure(url, 'bank'),
    missing: /ContainerNotFound/,
  },
  {
    name: 'gcs',
    root: 'gs://bank',
    install: installFakeGcs,
    start: () => Server.fakeGcs(),
    env: (url) => ({ STORAGE_EMULATOR_HOST: url }),
    create: (url) =>
      fetch(`${url}/storage/v1/b`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{"name":"bank"}',
      }),
    missing: /404/,
  },
];

/** Keys that an address, a signature or a listing could change. */
const KEYS = [
  'plain.csv',
  'folder/with space.csv',
  'ümlaut/日本.csv',
  'a+b&c=d%20e?f#g.csv',
  "quote'(1)!*.csv",
  'x~y@z:1,2;3$.csv',
];

const MiB = 1024 * 1024;
const bytesOf = (length: number): Buffer => {
  const bytes = Buffer.alloc(length);
  for (let i = 0; i < length; i++) bytes[i] = Math.imul(i >> 2, 2654435761) >>> (8 * (i & 3));
  return bytes;
};

async function read(name: string): Promise<Buffer> {
  const source = await openObject(name);
  const chunks: Buffer[] = [];
  for await (const chunk of source.chunks) chunks.push(Buffer.from(chunk));
  await source.close();
  return Buffer.concat(chunks);
}

for (const { name, root, install, start, env, create, missing } of PROVIDERS) {
  await requireServer(`object storage of ${name}`, install, (installed) => {
    let server: Server;
    let store: ObjectStore;

    beforeAll(async () => {
      server = await start(installed);
      const url = server.url.href.replace(/\/$/, '');
      expect((await create(url)).ok).toBe(true);
      for (const [key, value] of Object.entries(env(url))) vi.stubEnv(key, value);
      store = (await storeOf(`${root}/x`)).store;
    });
    afterAll(async () => {
      vi.unstubAllEnvs();
      await server?.[Symbol.asyncDispose]();
    });

    test.each(KEYS)('the key %s is written, listed, read and removed', async (key) => {
      const body = Buffer.from(`text of ${key}`);
      expect(await store.put(`keys/${key}`, body)).toBe('done');
      const found = await store.head(`keys/${key}`);
      expect(found).toMatchObject({ bytes: body.length });
      const listed = (await store.list('keys/')).objects.filter((o) => o.key === `keys/${key}`);
      expect(listed).toEqual([{ key: `keys/${key}`, ...found! }]);
      expect((await read(`${root}/keys/${key}`)).equals(body)).toBe(true);
      await store.remove(`keys/${key}`);
      expect(await store.head(`keys/${key}`)).toBe(null);
      await store.remove(`keys/${key}`);
    });

    test('ranges are those of one version; of another there are none', async () => {
      const first = bytesOf(100_000);
      await store.put('versions', first);
      const { version } = (await store.head('versions'))!;
      const source = await openObject(`${root}/versions`);
      for (const [from, to] of [
        [0, 1],
        [99_999, 100_000],
        [5_000, 70_000],
        [0, 100_000],
      ] as const) {
        expect(Buffer.from(await source.slice(from, to)).equals(first.subarray(from, to))).toBe(true);
      }
      await store.put('versions', bytesOf(50_000));
      expect((await store.head('versions'))!.version).not.toBe(version);
      await expect(source.slice(10, 20)).rejects.toThrow(expect.objectContaining({ code: 'input_changed' }));
      await source.close();
    });

    test('a conditional write holds or is refused', async () => {
      expect(await store.put('once', Buffer.from('a'), { ifNone: true })).toBe('done');
      expect(await store.put('once', Buffer.from('b'), { ifNone: true })).toBe('refused');
      const { version } = (await store.head('once'))!;
      expect(await store.put('once', Buffer.from('c'), { ifMatch: version })).toBe('done');
      expect(await store.put('once', Buffer.from('d'), { ifMatch: version })).toBe('refused');
      expect(String(await read(`${root}/once`))).toBe('c');
    });

    test.each([0, 1, 8 * MiB - 1, 8 * MiB, 8 * MiB + 1, 20 * MiB + 12_345])(
      'an upload of %d bytes is visible when it is published, and whole',
      async (length) => {
        const bytes = bytesOf(length);
        const name = `${root}/uploads/${length}`;
        const upload = new ObjectUpload(name);
        for (let at = 0; at < length; at += 3 * MiB) await upload.write(bytes.subarray(at, at + 3 * MiB));
        await upload.end();
        expect(await store.head(`uploads/${length}`)).toBe(null);
        await upload.publish();
        expect((await read(name)).equals(bytes)).toBe(true);
      },
    );

    test('an aborted upload leaves no object, and the one before stays', async () => {
      await store.put('aborted', Buffer.from('before'));
      const upload = new ObjectUpload(`${root}/aborted`);
      await upload.write(bytesOf(17 * MiB));
      await upload.end();
      await upload.abort();
      await upload.abort();
      expect(String(await read(`${root}/aborted`))).toBe('before');
    });

    test('a listing of many objects has all of them, and a pattern those that match', async () => {
      const names = Array.from({ length: 1100 }, (_, i) => `many/part-${String(i).padStart(4, '0')}.csv`);
      for (let at = 0; at < names.length; at += 50) {
        await Promise.all(names.slice(at, at + 50).map((key) => store.put(key, Buffer.from('x'))));
      }
      expect((await store.list('many/')).objects.map((o) => o.key).sort()).toEqual(names);
      expect(await matchingObjects(`${root}/many/part-10?[0-4].csv`)).toEqual(
        names.slice(1000, 1100).filter((key) => /[0-4]\.csv$/.test(key)).map((key) => `${root}/${key}`), // biome-ignore format: one line
      );
    });

    test('a bucket that does not exist is named, not taken for a missing object', async () => {
      const { store: other } = await storeOf(`${root}-of-nobody/x`);
      const calls = [() => other.head('x'), () => other.list('x'), () => other.put('x', Buffer.from('x'))];
      for (const call of calls) {
        const error = await call().then(() => null, (e: Error) => e); // biome-ignore format: one line
        // A HEAD of S3 has no body that could say what is missing, and the emulator of Google says the same of both.
        if (name !== 'azure' && error === null && call === calls[0]) continue;
        expect(error).toMatchObject({ code: 'storage_unavailable', message: expect.stringMatching(missing) });
      }
    });

    test('a run from objects to objects writes the bytes of a run on a disk', async () => {
      const cwd = scratch();
      const portfolio = Buffer.concat([
        ...generatePortfolio({ rows: 3_000, seed: 3, faults: 3, oddness: 'none', ids: true }),
      ]);
      writeFileSync(path.join(cwd, 'in.csv'), portfolio);
      await store.put('in/a.csv.gz', gzipSync(portfolio));
      const flags = ['-m', 'credit-default', '--workers', '1', '--quiet', '--passthrough', 'application_id'];
      const own = env(server.url.href.replace(/\/$/, ''));
      const disk = await sluice(['score', 'in.csv', '-o', 'out.ndjson', '--rejects', 'rejects.csv', ...flags], { cwd });
      const away = await sluice(
        ['score', `${root}/in/*.csv.gz`, '-o', `${root}/out/{name}.ndjson.gz`, '--rejects', `${root}/out/rejects.csv`, ...flags],
        { cwd, env: own },
      ); // biome-ignore format: one line
      expect([disk.code, away.code], away.stderr).toEqual([3, 3]);
      const local = (file: string) => readFileSync(path.join(cwd, file), 'utf8');
      expect(String(gunzipSync(await read(`${root}/out/a.ndjson.gz`)))).toBe(local('out.ndjson'));
      expect(String(await read(`${root}/out/rejects.csv`)).split('\n').length).toBe(
        local('rejects.csv').split('\n').length,
      );
      const verified = await sluice(['verify', `${root}/out/a.ndjson.gz`], { cwd, env: own });
      expect(verified.code, verified.stderr).toBe(0);
    });

    test('an input is scored again if only the manifest of its output was published', async () => {
      await using gate = await Gate.open(server.url);
      const cwd = scratch();
      const [header, ...rows] = String(Buffer.concat([...generatePortfolio({ rows: 20, seed: 5 })]))
        .trim()
        .split('\n');
      const pipeline = `model: credit-default\nsource: { type: file, path: '${root}/night/*.csv' }\nsink: { type: file, path: '${root}/scored/{name}.csv' }\n`; // biome-ignore format: one line
      writeFileSync(path.join(cwd, 'p.yaml'), pipeline);
      const options = { cwd, env: env(new URL(server.url.pathname, gate.url).href.replace(/\/$/, '')) };
      const night = async (of: string[]) => {
        await store.put('night/a.csv', Buffer.from(`${[header, ...of].join('\n')}\n`));
        const { code, stdout } = await sluice(['run', 'p.yaml', '--json'], options);
        return { code, before: code === 0 ? JSON.parse(stdout).inputsDoneBefore : null };
      };
      expect(await night(rows)).toEqual({ code: 0, before: 0 });
      const first = String(await read(`${root}/scored/a.csv`)).split('\n');
      // The sender exchanges two rows: the new output has the size of the old one.
      const exchanged = [rows[1]!, rows[0]!, ...rows.slice(2)];
      gate.rule = ({ method, path: call }) =>
        /^P/.test(method) && /scored(\/|%2F)a\.csv(?!\.)/.test(call) ? 403 : 'pass';
      expect(await night(exchanged)).toEqual({ code: 1, before: null });
      expect(String(await read(`${root}/scored/a.csv`)).split('\n')).toEqual(first);
      gate.rule = () => 'pass';
      expect(await night(exchanged)).toEqual({ code: 0, before: 0 });
      const scoreIn = (lines: string[], row: number) => lines[row]!.split(',').slice(1);
      const second = String(await read(`${root}/scored/a.csv`)).split('\n');
      expect([scoreIn(second, 1), scoreIn(second, 2)]).toEqual([scoreIn(first, 2), scoreIn(first, 1)]);
      expect(await night(exchanged)).toEqual({ code: 0, before: 1 });

      const flags = ['-m', 'credit-default', '-o', `${root}/resumed/{name}.csv`, '--resume', '--workers', '1'];
      const resumed = () => sluice(['score', `${root}/night/*.csv`, ...flags], options);
      expect(await resumed()).toMatchObject({
        code: 0,
        stderr: expect.stringContaining('starting from the beginning'),
      });
      expect(await resumed()).toMatchObject({ code: 0, stderr: expect.stringContaining('was already scored') });
    });

    test('calls whose answers are lost or refused are sent again, and the object is whole', async () => {
      // Every third call is answered with 503, every fourth is carried out but its answer is lost. The emulator of Google repeats the bytes of
      // calls that are sent again; the test below has the protocol of the service.
      await using gate = await Gate.open(server.url);
      gate.rule = ({ method }) => {
        if (gate.calls % 3 === 0) return 503;
        return gate.calls % 4 === 0 && method !== 'POST' && name !== 'gcs' ? 'lost' : 'pass';
      };
      const bytes = bytesOf(18 * MiB + 7);
      const script = `
        import { ObjectUpload } from '${path.resolve('src/storage/object-upload.ts')}';
        const bytes = Buffer.alloc(${bytes.length}); for await (const c of process.stdin) c.copy(bytes, globalThis.at ??= 0), globalThis.at += c.length;
        const upload = new ObjectUpload('${root}/flaky'); await upload.write(bytes); await upload.end(); await upload.publish();`;
      const child = execFile(process.execPath, ['--input-type=module', '-e', script], {
        env: { ...process.env, ...env(gate.url.origin) },
      });
      let stderr = '';
      child.stderr!.on('data', (text: string) => {
        stderr += text;
      });
      child.stdin!.end(bytes);
      const [code] = await once(child, 'exit');
      expect(code, stderr).toBe(0);
      expect(gate.calls).toBeGreaterThan(5);
      expect((await read(`${root}/flaky`)).equals(bytes)).toBe(true);
    });
  });
}

describe('resumable uploads of Google', () => {
  /** As documented at https://cloud.google.com/storage/docs/performing-resumable-uploads. */
  test.each(['lost answers', 'partly stored chunks', 'a lost last answer'])(
    'continue at the stored bytes: %s',
    async (fault) => {
      const stored: Buffer[] = [];
      const size = () => stored.reduce((sum, { length }) => sum + length, 0);
      let complete = false;
      let calls = 0;
      const service = createServer(async (request, response) => {
        const chunks: Buffer[] = [];
        for await (const chunk of request) chunks.push(chunk as Buffer);
        const body = Buffer.concat(chunks);
        if (request.method === 'GET') {
          const metadata = JSON.stringify({ name: 'x', size: String(size()), generation: complete ? '2' : '1' });
          return void (complete ? response.end(metadata) : response.writeHead(404).end('{}'));
        }
        if (request.method === 'POST') return void response.writeHead(200, { location: `/session?upload_id=1` }).end();
        calls++;
        const [, from, , total] = /^bytes (?:(\d+)-(\d+)|\*)\/(\d+|\*)$/.exec(request.headers['content-range']!)!;
        if (complete) return void response.writeHead(200).end('{}');
        // Bytes before the stored ones are ignored; a gap is an error.
        if (from !== undefined && Number(from) > size()) return void response.writeHead(400).end();
        let fresh = from === undefined ? Buffer.alloc(0) : body.subarray(size() - Number(from));
        if (fault === 'partly stored chunks' && calls % 2 === 1) fresh = fresh.subarray(0, 256 * 1024 * Math.floor(fresh.length / 2 ** 19)); // biome-ignore format: one line
        stored.push(fresh);
        if (total !== '*' && size() === Number(total)) complete = true;
        if ((fault === 'lost answers' && calls % 2 === 1) || (fault === 'a lost last answer' && complete)) {
          return void response.destroy();
        }
        if (complete) return void response.writeHead(200).end('{}');
        response.writeHead(308, size() === 0 ? {} : { range: `bytes=0-${size() - 1}` }).end();
      });
      await once(service.listen(0, '127.0.0.1'), 'listening');
      onTestFinished(() => {
        service.closeAllConnections();
        service.close();
      });
      const env = { STORAGE_EMULATOR_HOST: `http://127.0.0.1:${(service.address() as { port: number }).port}` };
      const store = await openGcs('bank', env);
      const bytes = bytesOf(25 * MiB + 321);
      const upload = await store.beginParts('x');
      for (let at = 0, part = 1; at < bytes.length; at += 8 * MiB, part++) {
        await store.putPart('x', upload, part, bytes.subarray(at, at + 8 * MiB));
      }
      expect(complete).toBe(false);
      await store.completeParts('x', upload, []);
      expect(complete).toBe(true);
      expect(Buffer.concat(stored).equals(bytes)).toBe(true);
    },
  );
});

describe('names of objects', () => {
  test.each(['s3:///k', 's3://bank', 's3://bank/', 'az://B/k', 'gs://-x/k', 's3://BANK/k'])('%s is refused', (name) => {
    expect(() => objectAddress(name)).toThrow(expect.objectContaining({ code: 'usage' }));
  });

  test('a bucket of two letters and a key are taken apart', () => {
    expect(objectAddress('s3://ab/k')).toMatchObject({ bucket: 'ab', key: 'k' });
  });

  test('az:// without an account says which setting it needs', async () => {
    vi.stubEnv('AZURE_STORAGE_CONNECTION_STRING', '');
    vi.stubEnv('AZURE_STORAGE_ACCOUNT', undefined);
    onTestFinished(() => void vi.unstubAllEnvs());
    await expect(storeOf('az://unconfigured/x')).rejects.toThrow(/AZURE_STORAGE_ACCOUNT/);
  });
});

describe('tokens of Microsoft Entra ID', () => {
  test.each(['secret', 'federated', 'managed'])(
    '%s: requested once, renewed before it expires, and never quoted',
    async (kind) => {
      const calls: { url: string; body: string; metadata: unknown }[] = [];
      let lifetime = 3600;
      let refused = false;
      const authority = createServer(async (request, response) => {
        let body = '';
        for await (const chunk of request) body += chunk;
        calls.push({ url: request.url!, body, metadata: request.headers.metadata });
        if (refused) return void response.writeHead(401).end(`{"error":"invalid_client ${body}"}`);
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ access_token: `token-${calls.length}`, expires_in: lifetime }));
      });
      await once(authority.listen(0, '127.0.0.1'), 'listening');
      onTestFinished(() => void authority.close());
      const url = `http://127.0.0.1:${(authority.address() as { port: number }).port}`;
      const file = path.join(scratch(), 'token');
      writeFileSync(file, 'assertion-of-the-pod\n');
      const env: Record<string, string> =
        kind === 'managed'
          ? { AZURE_POD_IDENTITY_AUTHORITY_HOST: url }
          : {
              AZURE_AUTHORITY_HOST: url,
              AZURE_TENANT_ID: 'tenant',
              AZURE_CLIENT_ID: 'client',
              ...(kind === 'secret' ? { AZURE_CLIENT_SECRET: 'very-secret' } : { AZURE_FEDERATED_TOKEN_FILE: file }),
            };
      const token = accessTokens(env);
      expect(await Promise.all([token(), token()])).toEqual(['token-1', 'token-1']);
      expect(await token()).toBe('token-1');
      expect(calls).toHaveLength(1);
      if (kind === 'managed') expect(calls[0]).toMatchObject({ metadata: 'true' });
      else expect(calls[0]!.url).toBe('/tenant/oauth2/v2.0/token');
      if (kind === 'secret') expect(calls[0]!.body).toContain('client_secret=very-secret');
      if (kind === 'federated') expect(calls[0]!.body).toContain('client_assertion=assertion-of-the-pod');
      // Within the margin before the end it is requested again.
      lifetime = 60;
      const short = accessTokens(env);
      expect(await short()).toBe('token-2');
      expect(await short()).toBe('token-3');
      refused = true;
      const error = await short().then(() => null, (e: Error) => e); // biome-ignore format: one line
      expect(error).toMatchObject({ code: 'storage_unavailable', message: expect.stringContaining('401') });
      expect(error!.message).not.toContain('secret');
    },
  );
});
