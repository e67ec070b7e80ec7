// The registry in a real MLflow tracking server: conformance, numbers given by the server, models without a package.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { scratch } from '../../support/cli.ts';
import { conformance, openTest, QUICK, type Remote } from '../../support/registries/conformance.ts';
import { Gate } from '../../support/registries/gate.ts';
import { installMlflow } from '../../support/registries/install.ts';
import { codeOf, makePackage, refOf } from '../../support/registries/packages.ts';
import { requireServer } from '../../support/registries/require.ts';
import { Server } from '../../support/registries/servers.ts';

await requireServer('the registry in MLflow', installMlflow, (installed) => {
  let server: Server;
  let gate: Gate;

  beforeAll(async () => {
    server = await Server.mlflow(installed);
    gate = await Gate.open(server.url);
  });
  afterAll(async () => {
    await gate?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  // biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
  const api = async (method: string, below: string, body?: object): Promise<any> => {
    const init =
      body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const answer = await fetch(new URL(`/api/2.0/mlflow/${below}`, server.url), { method, ...init });
    if (!answer.ok) throw new Error(`${below}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const putArtifact = async (artifact: string, body: string | Buffer) => {
    const url = new URL(`/api/2.0/mlflow-artifacts/artifacts/${artifact}`, server.url);
    const answer = await fetch(url, { method: 'PUT', body: typeof body === 'string' ? body : Uint8Array.from(body) });
    expect(answer.status).toBe(200);
  };

  const remote = async (): Promise<Remote> => {
    gate.up();
    gate.delayMs = 0;
    const { registered_models: models = [] } = await api('GET', 'registered-models/search');
    for (const { name } of models) await api('DELETE', 'registered-models/delete', { name });
    return {
      gate,
      address: `mlflow+${gate.url.href}`,
      env: QUICK,
      keepsStates: false,
      isLastUpload: ({ method, path: p }) => method === 'PUT' && p.endsWith('/model.yaml'),
      later: async () => {
        vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 2 * 3600_000 });
        onTestFinished(() => void vi.useRealTimers());
        return '3';
      },
      overwrite: async (id, version, name, bytes) => {
        const { artifact_uri: uri } = await api('GET', `model-versions/get-download-uri?name=${id}&version=${version}`);
        await putArtifact(`${uri.replace('mlflow-artifacts:/', '')}/${name}`, bytes);
      },
    };
  };
  conformance(remote);

  /** A run with these artifacts under `model`, registered as a version of `name` the way other tools do it. */
  const register = async (name: string, artifacts: Record<string, string | Buffer>): Promise<void> => {
    await api('POST', 'registered-models/create', { name }).catch(() => {});
    const { run } = await api('POST', 'runs/create', { experiment_id: '0' });
    const uri: string = run.info.artifact_uri;
    for (const [file, body] of Object.entries(artifacts)) {
      await putArtifact(`${uri.replace('mlflow-artifacts:/', '')}/model/${file}`, body);
    }
    await api('POST', 'model-versions/create', { name, source: `${uri}/model`, run_id: run.info.run_id });
  };

  test('a model without model.yaml is listed, and refused with what to do', async () => {
    const { registry } = openTest(await remote());
    await register('flavour', { MLmodel: 'flavors: {onnx: {data: model.onnx}}\n', 'model.onnx': 'bytes' });
    await register('Not An Id', { MLmodel: '' });
    expect((await registry.list()).map((e) => e.id)).toEqual(['credit-default', 'flavour']);
    expect(await refOf(registry.resolve('flavour'))).toMatch(
      /^model_invalid: flavour:1 holds an MLflow model without model.yaml: .*sluice model add/,
    );
    expect(await codeOf(registry.moveAlias('flavour', 'champion', '1', 'a'))).toBe('model_invalid');
  });

  test('a package that other tools registered is served, under the number it says it has', async () => {
    const { registry } = openTest(await remote());
    const folder = makePackage('m', 1);
    const yaml = readFileSync(path.join(folder, 'model.yaml'), 'utf8');
    const onnx = readFileSync(path.join(folder, 'model.onnx'));
    await register('m', { 'model.yaml': yaml, 'model.onnx': onnx, 'deeper/notes.txt': 'x' });
    const model = await registry.resolve('m:1');
    expect(readFileSync(path.join(model.folder, 'model.onnx')).equals(onnx)).toBe(true);
    expect(readFileSync(path.join(model.folder, 'deeper', 'notes.txt'), 'utf8')).toBe('x');
    await register('m', { 'model.yaml': yaml, 'model.onnx': onnx });
    // A registry may answer from a list that is refresh_ms old.
    await expect.poll(() => refOf(registry.resolve('m:2'))).toMatch(/^model_invalid: .*model.yaml of m:2 names m:1/);
    await register('m', { 'model.yaml': yaml, 'model.onnx': 'another file' });
    await expect.poll(() => codeOf(registry.resolve('m:3'))).toBe('model_hash_mismatch');
  });

  test('the server numbers versions: a gap is skipped, and model.yaml gets the number', async () => {
    const r = await remote();
    const { registry } = openTest(r);
    await registry.add('m', '1', makePackage('m', 1));
    gate.rule = (c) => (r.isLastUpload(c) ? 400 : 'pass');
    expect(await codeOf(registry.add('m', '2', makePackage('m', 2)))).toBe('registry_unavailable');
    gate.up();
    expect(await registry.add('m', '2', makePackage('m', 2, 'the third'))).toBe('3');
    const model = await openTest(r).registry.resolve('m');
    expect([model.ref, model.manifest.description]).toEqual(['m:3', 'the third']);
    expect(await refOf(registry.add('m', '9', makePackage('m', 9)).then((ref) => ({ ref })))).toMatch(
      /^usage: .*assigns version numbers: the next version of m is 4, not 9/,
    );
    expect(await codeOf(registry.add('m', 'spring', makePackage('m', 'spring')))).toBe('usage');
    expect((await registry.list()).find((e) => e.id === 'm')?.versions).toEqual(['1', '3']);
  });

  test('moves at the same time, and moves of other tools: the history holds them all', async () => {
    const r = await remote();
    const { registry } = openTest(r);
    for (const v of [1, 2]) await registry.add('m', String(v), makePackage('m', v));
    const movers = [1, 2, 1, 2].map((v, i) => openTest(r).registry.moveAlias('m', 'champion', String(v), `mover ${i}`));
    await Promise.all(movers);
    const history = await registry.history('m');
    expect(
      history
        .filter((h) => h.who.startsWith('mover'))
        .map((h) => h.who)
        .sort(),
    ).toEqual([0, 1, 2, 3].map((i) => `mover ${i}`));
    await registry.moveAlias('m', 'champion', '1', 'a');
    await api('POST', 'registered-models/alias', { name: 'm', alias: 'champion', version: '2' });
    await registry.moveAlias('m', 'champion', '1', 'b');
    const told = (await registry.history('m')).slice(-3).map((h) => `${h.who}: ${h.from} ${h.to}`);
    expect(told.slice(-2)).toEqual(['moved in MLflow: 1 2', 'b: 2 1']);
    expect(await refOf(registry.moveAlias('m', 'latest', '1', 'a').then(() => ({ ref: '' })))).toMatch(
      /^usage: .*reserved/,
    );
  });

  test('a token goes along over TLS that is checked', async () => {
    const r = await remote();
    const { private: key, cert } = await generate([{ name: 'commonName', value: '127.0.0.1' }], {
      extensions: [{ name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] }],
    });
    await using secure = await Gate.open(server.url, { tls: { key, cert } });
    const folder = scratch();
    writeFileSync(path.join(folder, 'ca.pem'), cert);
    writeFileSync(path.join(folder, 'token'), 'the-token\n');
    const seen = new Set<string | undefined>();
    secure.rule = ({ headers }) => {
      seen.add(headers.authorization);
      return headers.authorization === 'Bearer the-token' || headers.authorization?.startsWith('Basic ') ? 'pass' : 401;
    };
    const there = { ...r, address: `mlflow+${secure.url.href}` };
    const ca = { MLFLOW_TRACKING_SERVER_CERT_PATH: path.join(folder, 'ca.pem') };
    const token = { ...ca, SLUICE_REGISTRY_OPTIONS__TOKEN_FILE: path.join(folder, 'token') };
    await openTest(there, scratch(), token).registry.add('m', '1', makePackage('m', 1));
    const basic = { ...ca, MLFLOW_TRACKING_USERNAME: 'u', MLFLOW_TRACKING_PASSWORD: 'p' };
    expect(await refOf(openTest(there, scratch(), basic).registry.resolve('m'))).toBe('m:1');
    expect(seen).toEqual(new Set(['Bearer the-token', `Basic ${btoa('u:p')}`]));
    expect(await refOf(openTest(there, scratch(), ca).registry.resolve('m'))).toMatch(/^registry_unavailable: .*401/);
    const untrusted = { MLFLOW_TRACKING_TOKEN: 'the-token' };
    expect(await refOf(openTest(there, scratch(), untrusted).registry.resolve('m'))).toMatch(
      /^registry_unavailable: .*SELF_SIGNED/,
    );
  });
});
