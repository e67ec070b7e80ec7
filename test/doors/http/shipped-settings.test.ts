// The settings of k8s/ as they are, but for where the pod is: a service with them answers, spools and registers.
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import path from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { loadConfig } from '../../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../../src/config/server-config.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { createKey } from '../../../src/doors/commands/keys.ts';
import { serve } from '../../../src/doors/http/service.ts';
import { devCertificate } from '../../../src/doors/http/wire/listener.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { scratch } from '../../support/cli.ts';
import { call, openUpload, predictUrl } from '../../support/service.ts';
import { checkTest } from '../../support/tiers.ts';

const BUNDLED = path.resolve('src/bundled/credit-default/1');

interface Pod {
  containers: { volumeMounts: { mountPath: string }[]; securityContext: { readOnlyRootFilesystem: boolean } }[];
}

checkTest('the service of k8s/ begins with empty volumes, answers uploads while they arrive and clients of HTTP/1.0 whole, and takes a model', async () => {
  const root = scratch();
  const { data } = parse(readFileSync('k8s/base/config.yaml', 'utf8')) as { data: Record<string, string> };
  // The volumes are there and empty; everything else of the file system is read-only.
  const deployment = parseAllDocuments(readFileSync('k8s/base/serve.yaml', 'utf8'))[0]!.toJS();
  const { containers } = deployment.spec.template.spec as Pod;
  expect(containers[0]!.securityContext.readOnlyRootFilesystem).toBe(true);
  const mounts = containers[0]!.volumeMounts.map((m) => m.mountPath).filter((m) => !m.endsWith('.yaml'));
  for (const mount of mounts) mkdirSync(path.join(root, mount), { recursive: true });
  const { cert, key } = await devCertificate();
  writeFileSync(path.join(root, '/etc/sluice/tls/tls.crt'), cert);
  writeFileSync(path.join(root, '/etc/sluice/tls/tls.key'), key);
  const keys = path.join(root, '/etc/sluice/keys/keys.yaml');
  const token = await createKey('all', { file: keys, scopes: 'predict,models:read,models:write' });
  const models = path.join(root, 'models');
  mkdirSync(path.join(models, 'credit-default'), { recursive: true });
  const registry = new FolderRegistry([models, path.resolve('src/bundled')]);

  const file = path.join(root, 'sluice.yaml');
  const moved = data['sluice.yaml']!.replaceAll(/\/(etc|var)\/(?=[\w/.]*)/g, `${root}/$1/`);
  expect(moved).toContain(`${root}/var/`);
  writeFileSync(file, moved);
  // What one key and one answer may hold fits the volume several times over: a pod that exceeds it is evicted.
  const volume = deployment.spec.template.spec.volumes.find((v: { name: string }) => v.name === 'data');
  expect(volume.emptyDir.sizeLimit).toBe('20Gi');
  // Of the place: its port, its registry, and an alias in it.
  const config = await loadConfig(ServerConfigSchema, {
    file,
    settings: ['listen.port=0', 'listen.host=127.0.0.1', 'preload=["credit-default"]'],
  });
  expect(4 * (config.jobs.max_bytes + config.spill.max_bytes)).toBeLessThanOrEqual(20 * 1024 ** 3);
  const running = await serve({ config, registry });
  onTestFinished(() => running.stop());
  const port = Number(new URL(running.url).port);

  const body = Buffer.concat([...generatePortfolio({ rows: 60_000, seed: 5, delimiter: '\t', oddness: 'none' })]);
  const answer = await call(port, token, 'POST', predictUrl('csv'), { body, headers: { via: '1.0 proxy' } });
  expect([answer.status, answer.text.trimEnd().split('\n').length]).toEqual([200, 60_001]);

  expect((await call(port, token, 'GET', '/readyz')).status).toBe(200);
  const lines = body.toString().trimEnd().split('\n');
  const upload = openUpload(port, { authorization: token });
  upload.write(`${lines.slice(0, 40_001).join('\n')}\n`);
  const [early] = (await once(upload, 'response')) as [IncomingMessage];
  let got = '';
  early.setEncoding('utf8').on('data', (text) => {
    got += text;
  });
  // Predictions of the first part are there before the second is sent.
  await expect.poll(() => got).toContain('\n20000\t');
  upload.end(lines.slice(40_001).join('\n'));
  await once(early, 'end');
  expect(got.trimEnd().split('\n')).toHaveLength(60_001);

  const names = ['model.yaml', 'model.onnx', 'background.csv', 'selftest.csv', 'selftest-expected.csv'];
  const parts = names.flatMap((name) => {
    const bytes = readFileSync(path.join(BUNDLED, name));
    const text = name === 'model.yaml' ? Buffer.from(bytes.toString().replace(/^id: .*$/m, 'id: another')) : bytes;
    return [Buffer.from(`--x\r\ncontent-disposition: form-data; name="f"; filename="${name}"\r\n\r\n`), text, Buffer.from('\r\n')];
  });
  const headers = { 'content-type': 'multipart/form-data; boundary=x' };
  const form = Buffer.concat([...parts, Buffer.from('--x--\r\n')]);
  const made = await call(port, token, 'POST', '/api/v1/models', { body: form, headers });
  expect([made.status, made.headers.location], made.text).toEqual([201, '/api/v1/models/another:1']);
}); // biome-ignore format: one story
