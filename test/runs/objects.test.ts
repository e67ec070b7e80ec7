// Inputs and outputs in object storage, on a real server that checks signatures: the same bytes as on a disk, a broken connection goes on,
// a changed object is refused, and an output is whole or not there.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server as TcpServer } from 'node:net';
import path from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { AwsClient } from 'aws4fetch';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { ObjectSet } from '../../src/io/sink/object-set.ts';
import { scratch, sluice } from '../support/cli.ts';
import { type Job, killedRun, madeBy, OFTEN, scoreJob, unchained } from '../support/interrupted.ts';
import { Gate } from '../support/registries/gate.ts';
import { requireServer } from '../support/registries/require.ts';
import { S3_KEYS, S3_MAKES, type Server } from '../support/registries/servers.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { campaignTest, checkTest } from '../support/tiers.ts';

function inObjectStorage(start: () => Promise<Server>): void {
  let server: Server;
  const client = new AwsClient({
    accessKeyId: S3_KEYS.AWS_ACCESS_KEY_ID,
    secretAccessKey: S3_KEYS.AWS_SECRET_ACCESS_KEY,
    service: 's3',
    region: 'us-east-1',
    retries: 0,
  });
  const portfolio = Buffer.concat([
    ...generatePortfolio({ rows: 12_000, seed: 3, faults: 3, oddness: 'none', ids: true }),
  ]);

  beforeAll(async () => {
    server = await start();
    expect((await client.fetch(new URL('/bank', server.url), { method: 'PUT' })).status).toBe(200);
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
  });

  const object = (key: string) => new URL(`/bank/${key}`, server.url);
  const put = async (key: string, body: Buffer) => {
    expect((await client.fetch(object(key), { method: 'PUT', body: Uint8Array.from(body) })).status).toBe(200);
  };
  const get = async (key: string): Promise<Buffer | null> => {
    const reply = await client.fetch(object(key));
    return reply.status === 404 ? null : Buffer.from(await reply.arrayBuffer());
  };
  const score = (args: string[], cwd: string, endpoint = server.url.href) =>
    sluice(['score', ...args, '-m', 'credit-default', '--workers', '1', '--quiet', '--passthrough', 'application_id'], {
      cwd,
      env: { ...S3_KEYS, AWS_ENDPOINT_URL: endpoint },
    });

  /** A way to the server that breaks after so many bytes of an answer, again and again, `cutsMax` times; `onCut`: between two of them. */
  const breaking = async (
    bytes: number,
    onCut: () => Promise<void> = async () => {},
    cutsMax = Infinity,
  ): Promise<{ url: string; cuts: () => number; close(): void }> => {
    // biome-ignore format: one line
    let cuts = 0;
    const way: TcpServer = createServer((near) => {
      const far = connect(Number(server.url.port), '127.0.0.1');
      let passed = 0;
      near.pipe(far);
      far.on('data', (chunk: Buffer) => {
        passed += chunk.length;
        if (passed <= bytes || cuts >= cutsMax) return void near.write(chunk);
        cuts++;
        far.pause();
        void onCut().then(() => {
          near.destroy();
          far.destroy();
        });
      });
      for (const [a, b] of [
        [near, far],
        [far, near],
      ] as const)
        a.on('error', () => b.destroy()).on('close', () => b.destroy());
    });
    way.listen(0, '127.0.0.1');
    await once(way, 'listening');
    const { port } = way.address() as { port: number };
    return { url: `http://127.0.0.1:${port}`, cuts: () => cuts, close: () => way.close() };
  };

  test('from object to object: the bytes of a disk, and the list beside', async () => {
    const cwd = scratch();
    writeFileSync(path.join(cwd, 'in.csv'), portfolio);
    await put('in/portfolio.csv.gz', gzipSync(portfolio));
    expect((await score(['in.csv', '-o', 'out.ndjson', '--rejects', 'list.csv'], cwd)).code).toBe(3);
    const away = await score(['s3://bank/in/portfolio.csv.gz', '-o', 's3://bank/out/scored.ndjson.gz', '--rejects', 's3://bank/out/list.csv'], cwd); // biome-ignore format: one line
    expect([away.code, away.stderr]).toEqual([3, '']);
    expect(gunzipSync((await get('out/scored.ndjson.gz'))!).equals(readFileSync(path.join(cwd, 'out.ndjson')))).toBe(
      true,
    );
    const list = readFileSync(path.join(cwd, 'list.csv'), 'utf8').replaceAll(
      /^in\.csv/gm,
      's3://bank/in/portfolio.csv.gz',
    );
    expect((await get('out/list.csv'))!.toString()).toBe(list);
  });

  test('a pattern, each object into one of its own', async () => {
    const cwd = scratch();
    for (const key of ['many/b.csv', 'many/a.csv', 'many/deeper/c.csv', 'many/x.txt']) await put(key, portfolio);
    const { code, stderr } = await score(['s3://bank/many/*.csv', '-o', 's3://bank/each/{name}.ndjson'], cwd);
    expect([code, stderr]).toEqual([3, expect.any(String)]);
    expect((await get('each/a.ndjson'))!.equals((await get('each/b.ndjson'))!)).toBe(true);
    expect(await get('each/c.ndjson')).toBe(null);
    writeFileSync(path.join(cwd, 'p.yaml'), 'model: credit-default\nsource: { type: file, path: "s3://bank/many/[ab].csv" }\nscore: { passthrough: [application_id] }\nsink: { type: file, path: "s3://bank/nightly/{name}.ndjson" }\n'); // biome-ignore format: one line
    const env = { ...S3_KEYS, AWS_ENDPOINT_URL: server.url.href };
    const night = async () => JSON.parse((await sluice(['run', 'p.yaml', '--json'], { cwd, env })).stdout);
    expect([(await night()).inputsDoneBefore, (await night()).inputsDoneBefore]).toEqual([0, 2]);
    const none = await score(['s3://bank/none/*.csv', '-o', 's3://bank/each/{name}.ndjson'], cwd);
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('no objects match s3://bank/none/*.csv')]);
  });

  test('a connection that breaks again and again costs nothing but time; an object that changes meanwhile is refused', async () => {
    const cwd = scratch();
    writeFileSync(path.join(cwd, 'in.csv'), portfolio);
    await put('in/broken.csv', portfolio);
    expect((await score(['in.csv', '-o', 'out.csv'], cwd)).code).toBe(3);
    const way = await breaking(400_000);
    const broken = await score(['s3://bank/in/broken.csv', '-o', 'broken.csv'], cwd, way.url);
    way.close();
    expect([broken.code, broken.stderr]).toEqual([3, '']);
    expect(way.cuts()).toBeGreaterThan(2);
    expect(readFileSync(path.join(cwd, 'broken.csv')).equals(readFileSync(path.join(cwd, 'out.csv')))).toBe(true);
    const changing = await breaking(400_000, () => put('in/broken.csv', Buffer.concat([portfolio, Buffer.from('\n')])));
    const changed = await score(['s3://bank/in/broken.csv', '-o', 's3://bank/out/changed.csv'], cwd, changing.url);
    changing.close();
    expect([changed.code, changed.stderr]).toEqual([1, expect.stringContaining('input_changed')]);
    expect(await get('out/changed.csv')).toBe(null);
  });

  test('an output of several parts is there when it is whole; of a run that fails nothing is', async () => {
    const cwd = scratch();
    const many = Buffer.concat([
      portfolio,
      ...Array.from({ length: 12 }, () => portfolio.subarray(portfolio.indexOf(10) + 1)),
    ]);
    writeFileSync(path.join(cwd, 'in.csv'), many);
    await put('in/many.csv', many);
    const same = await score(['in.csv', '-o', 'out.ndjson'], cwd);
    const away = await score(['s3://bank/in/many.csv', '-o', 's3://bank/out/parts.ndjson'], cwd);
    expect([same.code, away.code], away.stderr).toEqual([3, 3]);
    const stored = (await get('out/parts.ndjson'))!;
    expect(stored.length).toBeGreaterThan(9 * 1024 * 1024);
    expect(stored.equals(readFileSync(path.join(cwd, 'out.ndjson')))).toBe(true);
    // Its last record is cut in a quote, so the run fails after the first part was sent.
    const failed = await score(
      ['s3://bank/in/many.csv', '-o', 's3://bank/out/failed.ndjson', '--on-invalid', 'fail'],
      cwd,
    );
    expect(failed.code).toBe(1);
    expect(await get('out/failed.ndjson')).toBe(null);
    const uploads = await (await client.fetch(new URL('/bank?uploads', server.url))).text();
    expect(uploads).not.toContain('<UploadId>');
  });

  test('when an object cannot be published, no parts stay in storage, neither its own nor those of the others', async () => {
    await using gate = await Gate.open(server.url);
    gate.rule = ({ method, path: call }) => (method === 'POST' && /refused.*uploadId/.test(call) ? 403 : 'pass');
    onTestFinished(() => void vi.unstubAllEnvs());
    const endpoint = gate.url.origin;
    for (const [name, value] of Object.entries({ ...S3_KEYS, AWS_ENDPOINT_URL: endpoint })) vi.stubEnv(name, value);
    const set = new ObjectSet();
    const bytes = Buffer.alloc(9 * 1024 * 1024, 'x');
    for (const [name, beside] of [
      ['main', false],
      ['refused', true],
    ] as const) {
      const sink = set.open(`s3://bank/published/${name}`, beside);
      await sink.write(bytes);
      await sink.commit();
    }
    const uploads = async () => (await client.fetch(new URL('/bank?uploads', server.url))).text();
    expect((await uploads()).match(/<UploadId>/g)).toHaveLength(2);
    await expect(set.publish()).rejects.toThrow(/403/);
    expect(await uploads()).not.toContain('<UploadId>');
    for (const name of ['main', 'refused']) expect(await get(`published/${name}`)).toBe(null);
  });

  test('the manifests of an output are a chain, which verifies what is there and names the row that is not', async () => {
    const cwd = scratch();
    const rows = portfolio.subarray(0, portfolio.indexOf('\n', 40_000) + 1);
    await put('in/proven.csv', rows);
    const run = () => score(['s3://bank/in/proven.csv', '-o', 's3://bank/out/proven.ndjson'], cwd);
    const previous = async () => {
      const text = (await get('out/proven.ndjson.manifest.json'))!;
      const { payload } = JSON.parse(text.toString());
      const { predicate } = JSON.parse(Buffer.from(payload, 'base64').toString());
      return { previous: predicate.previous, sha256: createHash('sha256').update(text).digest('hex') };
    };
    expect((await run()).stderr).toBe('');
    const first = await previous();
    await run();
    const second = await previous();
    expect([first.previous, second.previous]).toEqual([null, first.sha256]);
    const verify = () =>
      sluice(
        ['verify', 's3://bank/out/proven.ndjson', '--input', 's3://bank/in/proven.csv', '--package', CREDIT_DEFAULT],
        {
          cwd,
          env: { ...S3_KEYS, AWS_ENDPOINT_URL: server.url.href },
        },
      );
    const whole = await verify();
    expect([whole.code, whole.stdout], whole.stderr).toEqual([0, expect.stringContaining('checked: manifest, output')]);
    const scored = (await get('out/proven.ndjson'))!.toString().split('\n');
    scored[6] = scored[6]!.replace(/"probability":0\.\d/, '"probability":0.5');
    await put('out/proven.ndjson', Buffer.from(scored.join('\n')));
    const edited = await verify();
    expect([edited.code, edited.stdout]).toEqual([1, expect.stringMatching(/row 7\b/)]);
  });

  test('Parquet is read in ranges, and what says the totals of an object lies beside it', async () => {
    const cwd = scratch();
    const lines = portfolio.subarray(0, portfolio.indexOf('\n', 60_000)).toString().split('\n').map((line) => line.split(',')); // biome-ignore format: one line
    const [head, ...rows] = lines.filter((line) => line.length === lines[0]!.length);
    const columnData = head!.map((name, i) => ({ name, type: 'STRING' as const, data: rows.map((row) => row[i]!) }));
    const parquet = Buffer.from(parquetWriteBuffer({ columnData, rowGroupSize: 50 }));
    writeFileSync(path.join(cwd, 'in.parquet'), parquet);
    await put('in/columns.parquet', parquet);
    const here = await score(['in.parquet', '-o', 'out.csv'], cwd);
    // Its end is asked for first, and with it most of such a small one.
    const way = await breaking(parquet.length * 0.6, undefined, 3);
    const away = await score(['s3://bank/in/columns.parquet', '-o', 'away.csv'], cwd, way.url);
    way.close();
    expect([away.code, away.stderr]).toEqual([here.code, here.stderr]);
    expect(way.cuts()).toBeGreaterThan(0);
    expect(readFileSync(path.join(cwd, 'away.csv')).equals(readFileSync(path.join(cwd, 'out.csv')))).toBe(true);

    await put('in/counted.csv', portfolio);
    const counted = () => score(['s3://bank/in/counted.csv', '-o', 'c.csv', '--control-file', '{path}.ctl'], cwd);
    expect((await counted()).stderr).toContain('control_total_mismatch');
    await put('in/counted.csv.ctl', Buffer.from('rows=12000\n'));
    expect((await counted()).code).toBe(3);
    await put('in/counted.csv.ctl', Buffer.from('rows=12001\n'));
    expect((await counted()).stderr).toContain('control_total_mismatch');
  });

  const plannedRun = (ending: string) => async () => {
    const cwd = scratch();
    const env = { ...S3_KEYS, AWS_ENDPOINT_URL: server.url.href };
    const text = portfolio.subarray(0, portfolio.indexOf('\n', 200_000) + 1).toString();
    const quoted = text.replaceAll(/^(A\d*7),/gm, '"$1\n\r\n",');
    const folder = `cut-${ending}`;
    const rows = text.trimEnd().split('\n').map((line) => line.split(',')); // biome-ignore format: one line
    const whole = rows.filter((row) => row.length === rows[0]!.length);
    const columnData = rows[0]!.map((name, i) => ({ name, type: 'STRING' as const, data: whole.slice(1).map((row) => row[i]!) })); // biome-ignore format: one line
    const stored =
      ending === 'parquet'
        ? Buffer.from(parquetWriteBuffer({ columnData, rowGroupSize: 150 }))
        : ending === 'csv'
          ? Buffer.from(quoted)
          : gzipSync(quoted);
    for (const name of ['a', 'b']) await put(`${folder}/${name}.${ending}`, stored);
    const command = (...args: string[]) => sluice(args, { cwd, env });
    const plan = `s3://bank/${folder}/plan.json`;
    const planned = await command('plan', `s3://bank/${folder}/*.${ending}`, '--shards', '3', '-o', plan);
    expect(planned.code, planned.stderr).toBe(0);
    const options = ['-m', 'credit-default', '--workers', '1', '--quiet', '--passthrough', 'application_id'];
    const shard = (n: number) =>
      command('score', '--plan', plan, '--shard', String(n), '-o', `s3://bank/${folder}/part-{shard}-{name}.csv`, ...options); // biome-ignore format: one line
    for (const n of [0, 1, 2]) {
      const { code, stderr } = await shard(n);
      expect([0, 3], stderr).toContain(code);
    }
    const merged = await command('merge', plan, '--parts', `s3://bank/${folder}/part-*.csv`, '-o', `s3://bank/${folder}/all-{name}.csv`); // biome-ignore format: one line
    expect([0, 3], merged.stderr).toContain(merged.code);
    const one = await command('score', `s3://bank/${folder}/[ab].${ending}`, '-o', 'one-{name}.csv', ...options);
    expect(one.code, one.stderr).toBe(merged.code);
    for (const name of ['a', 'b']) {
      const expected = readFileSync(path.join(cwd, `one-${name}.csv`));
      expect((await get(`${folder}/all-${name}.csv`))!.equals(expected)).toBe(true);
    }
    const verified = await command('verify', `s3://bank/${folder}/all-a.csv`, '--input', `s3://bank/${folder}/a.${ending}`); // biome-ignore format: one line
    expect([verified.code, verified.stdout], verified.stderr).toEqual([0, expect.stringContaining('input')]);
    // One byte, and no other size.
    const other = Buffer.from(stored);
    other[other.length >> 1]! ^= 1;
    await put(`${folder}/a.${ending}`, other);
    expect((await Promise.all([shard(0), shard(1), shard(2)])).map((s) => s.stderr).join()).toContain('input_changed');
  };
  checkTest('a run in shards whose processes share a prefix of objects, all at once', async () => {
    const cwd = scratch();
    await put('shared/in.csv', portfolio);
    const options = ['-m', 'credit-default', '--workers', '1', '--quiet', '--passthrough', 'application_id'];
    const where = ['--work', 's3://bank/shared/work', '-o', 's3://bank/shared/out.csv'];
    const command = (...args: string[]) =>
      sluice(args, { cwd, env: { ...S3_KEYS, AWS_ENDPOINT_URL: server.url.href } });
    const ended = await Promise.all(
      [2, 1, 0].map((n) => command('shards', 's3://bank/shared/in.csv', '--shards', '3', '--shard', `${n}`, ...where, ...options)), // biome-ignore format: one line
    );
    for (const { code, stderr } of ended) expect([0, 3], stderr).toContain(code);
    const one = await command('score', 's3://bank/shared/in.csv', '-o', 'shared.csv', ...options);
    expect(one.code, one.stderr).toBe(3);
    expect((await get('shared/out.csv'))!.equals(readFileSync(path.join(cwd, 'shared.csv')))).toBe(true);
    for (const name of ['in.0.csv', 'in.0.csv.part.json', 'in.2.csv'])
      expect(await get(`shared/work/parts/${name}`)).toBe(null);
    expect(JSON.parse(String(await get('shared/work/merged.json')))).toMatchObject({
      output: 's3://bank/shared/out.csv',
    });
    const again = await command('shards', 's3://bank/shared/in.csv', '--shards', '3', '--shard', '1', ...where, ...options); // biome-ignore format: one line
    expect(again.code, again.stderr).toBe(0);
  });
  for (const ending of ['csv', 'csv.gz', 'parquet']) {
    campaignTest(`a plan of ${ending} in object storage: shards and their merge are one run`, plannedRun(ending));
  }

  test('a run into a file that was killed goes on, and ends with the file of an unbroken one', async () => {
    for (const [name, value] of Object.entries({ ...S3_KEYS, AWS_ENDPOINT_URL: server.url.href }))
      vi.stubEnv(name, value);
    onTestFinished(() => void vi.unstubAllEnvs());
    const flags = ['--evaluator', 'native', '--block-bytes', '4096', '--passthrough', 'application_id'];
    const job: Job = { folder: scratch(), input: 's3://bank/in/killed.csv', output: 'out.csv', flags };
    await put('in/killed.csv', portfolio);
    const made = unchained(madeBy(job, await scoreJob(job, '--checkpoint-every', '0')));
    for (const name of Object.keys(made.files)) rmSync(path.join(job.folder, name));
    const { rows } = await killedRun(job);
    const again = await scoreJob(job, '--resume', ...OFTEN);
    expect([again.code, unchained(madeBy(job, again))], again.stderr).toEqual([3, made]);
    expect(JSON.parse(again.stdout).resumedRows).toBeGreaterThanOrEqual(rows);
  });
}

for (const { make, install, start } of S3_MAKES) {
  await requireServer(`runs in object storage, ${make}`, install, (installed) =>
    inObjectStorage(() => start(installed)),
  );
}
