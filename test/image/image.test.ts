// The Dockerfile, really built and run: what is in the image, how it runs where nothing is permitted, and that it comes out the same.
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { createKey } from '../../src/doors/commands/keys.ts';
import { devCertificate } from '../../src/doors/http/wire/listener.ts';
import { freePort } from '../support/ports.ts';
import { call } from '../support/service.ts';
import { campaignTestNeeding, checkTestNeeding } from '../support/tools.ts';
import { until } from '../support/until.ts';
import { Container, Images } from './containers.ts';

const NEEDED = ['buildah', 'crun', 'unshare as root', 'Debian'] as const;
const MB = 1e6;

function images(): Images {
  const made = new Images();
  onTestFinished(() => made.remove());
  return made;
}

/** Settings, a certificate and a key in a folder that the user of the image can read. */
async function settings(port: number): Promise<{ etc: string; token: string }> {
  const etc = mkdtempSync(path.join(tmpdir(), 'sluice-etc-'));
  onTestFinished(() => rmSync(etc, { recursive: true, force: true }));
  chmodSync(etc, 0o755);
  const { cert, key } = await devCertificate();
  writeFileSync(path.join(etc, 'tls.crt'), cert);
  writeFileSync(path.join(etc, 'tls.key'), key);
  const token = await createKey('somebody', { file: path.join(etc, 'keys.yaml'), scopes: 'predict,models:read' });
  chmodSync(path.join(etc, 'keys.yaml'), 0o644);
  writeFileSync(
    path.join(etc, 'sluice.yaml'),
    [
      `listen: { port: ${port} }`,
      'tls: { certificate: /etc/sluice/tls.crt, key: /etc/sluice/tls.key }',
      'keys_file: /etc/sluice/keys.yaml',
      'preload: [credit-default@champion]',
      'workers: 1',
      'jobs: { folder: /var/lib/sluice/jobs }',
      'spill: { folder: /var/lib/sluice/spill }',
    ].join('\n'),
  );
  return { etc, token };
}

checkTestNeeding(NEEDED, 'the image is small, lists what is in it, and serves where nothing is permitted', async () => {
  const built = images();
  const layers = built.build('sluice:one');
  expect(layers).toHaveLength(2);
  const image = built.settings('sluice:one');
  expect(image.config).toMatchObject({ User: 'node', WorkingDir: '/app' });
  expect(image.config.Healthcheck.Test).toEqual(['CMD', 'node', '/app/healthcheck.js']);

  const root = built.mount('sluice:one');
  const own = execFileSync('sh', ['-c', `tar -c -C "$1" app models var/lib/sluice | wc -c`, 'sh', root], {
    encoding: 'utf8',
  });
  expect(Number(own)).toBeLessThan(90 * MB);
  expect(readdirSync(path.join(root, 'app')).sort()).toEqual([
    'dist',
    'healthcheck.js',
    'node_modules',
    'package.json',
    'sbom.cdx.json',
  ]);
  billIsTrue(path.join(root, 'app'));

  const port = await freePort();
  const { etc, token } = await settings(port);
  const container = new Container(root, image, etc);
  onTestFinished(() => container.remove());
  const served = () => container.words.includes('service_started') || container.process.exitCode !== null;
  await until(served);
  expect(container.words).toContain('service_started');
  const reply = await call(port, token, 'GET', '/api/v1/models/credit-default@champion');
  expect(reply.status).toBe(200);

  const status = container.exec('cat', '/proc/1/status');
  expect(container.exec('cat', '/proc/1/cmdline').split('\0').slice(0, -1)).toEqual([
    ...image.config.Entrypoint,
    ...image.config.Cmd,
  ]);
  expect(status).toMatch(/^Uid:\t1000\t1000\t1000\t1000$/m);
  expect(status).toMatch(/^NoNewPrivs:\t1$/m);
  expect([...status.matchAll(/^Cap\w+:\t(\w+)$/gm)].map(([, set]) => Number(set))).toEqual([0, 0, 0, 0, 0]);
  expect(() => container.exec('touch', '/app/x')).toThrow(/Read-only file system/);
  const doctor = container
    .exec('node', 'dist/main.js', 'doctor', '--config', '/etc/sluice/sluice.yaml')
    .trimEnd()
    .split('\n');
  expect(doctor.length).toBeGreaterThan(7);
  // What is free on this machine is none of the image's business.
  expect(doctor.filter((line) => !/^ok |^warning (?:machine|jobs folder|spill folder):/.test(line))).toEqual([]);
  container.exec('env', `SLUICE_HEALTH_URL=https://127.0.0.1:${port}/livez`, 'node', '/app/healthcheck.js');
  expect(() =>
    container.exec('env', 'SLUICE_HEALTH_URL=http://127.0.0.1:1/livez', 'node', '/app/healthcheck.js'),
  ).toThrow();

  container.signal('SIGTERM');
  expect(await container.exit).toEqual({ code: 0, signal: null });
  expect(container.words).toContain('service_stopped');
});

/** Every package, copied or below node_modules, and every native library that is there stands in it, and nothing else. */
function billIsTrue(app: string): void {
  const bill = JSON.parse(readFileSync(path.join(app, 'sbom.cdx.json'), 'utf8'));
  expect(bill).toMatchObject({
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    metadata: { component: { name: 'sluice' } },
  });
  const files = readdirSync(path.join(app, 'node_modules'), { recursive: true, encoding: 'utf8' });
  const packages = files
    .filter((f) => /(?:^|node_modules\/)(?:@[^/]+\/)?[^/@]+\/package\.json$/.test(f))
    .map((f) => `node_modules/${path.dirname(f)}`);
  const natives = files.filter((f) => /\.(?:node|wasm|so\.1)$/.test(f)).map((f) => `node_modules/${f}`);
  const listed: { 'bom-ref': string; purl?: string; hashes: unknown[] }[] = bill.components;
  const copied = ['dist/doors/http/reference/swagger-ui'];
  expect(listed.map((c) => c['bom-ref'])).toEqual([...packages, ...natives, ...copied].sort());
  expect(natives.filter((f) => f.includes('onnxruntime'))).toHaveLength(2);
  for (const component of listed) {
    expect(component.hashes).toHaveLength(1);
    expect(existsSync(path.join(app, component['bom-ref'])), component['bom-ref']).toBe(true);
  }
}

campaignTestNeeding(NEEDED, 'two builds give the same layers', () => {
  const built = images();
  const once = built.build('sluice:one');
  // Later, elsewhere in time, with files that were touched.
  execFileSync('find', [built.context, '-type', 'f', '-exec', 'touch', '-d', '2001-02-03', '{}', '+']);
  expect(built.build('sluice:two')).toEqual(once);
});
