// The Python client against a running service: frames, streams, retries, secrets, files, and the sluice command without a service.
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../src/config/server-config.ts';
import { createKey } from '../../src/doors/commands/keys.ts';
import { serve } from '../../src/doors/http/service.ts';
import { devCertificate } from '../../src/doors/http/wire/listener.ts';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import { copyBundled } from '../support/bundled-models.ts';
import { MAIN, scratch } from '../support/cli.ts';
import { pythonTest } from '../support/python-environment.ts';
import { startProcess } from '../support/service.ts';

const run = promisify(execFile);
const CLIENT = path.resolve('clients/python');
const TESTS = path.join(CLIENT, 'tests', 'service');
const REQUIREMENTS = path.join('clients', 'python', 'tests', 'service', 'requirements.txt');
const FRAMES = path.resolve('test/frames');
const COMMAND = `'${process.execPath}' --disable-warning=ExperimentalWarning '${MAIN}'`;

/** A registry with the bundled model, the model of the frames, and the same model with plain numbers as categories. */
function registry(): string {
  const folder = path.join(scratch(), 'models');
  cpSync(path.join(FRAMES, 'packages'), folder, { recursive: true });
  copyBundled(folder);
  const [typed, numeric] = ['typed-columns', 'numeric-codes'].map((id) => path.join(folder, id, '1')) as [
    string,
    string,
  ];
  mkdirSync(numeric, { recursive: true });
  cpSync(path.join(typed, 'model.onnx'), path.join(numeric, 'model.onnx'));
  const manifest = readFileSync(path.join(typed, 'model.yaml'), 'utf8')
    .replace('id: typed-columns', 'id: numeric-codes')
    .replace(
      /values: \["0230".*\]/,
      'values: ["230", "12", "1000"], missing: { values: [""], as: category, value: "1000" }',
    );
  writeFileSync(path.join(numeric, 'model.yaml'), manifest);
  return folder;
}

interface Endpoint {
  port: number;
  token: string;
  certificate: string;
  models: string;
}

/** A service as people start it, with one key that may do everything. */
async function devService(): Promise<Endpoint> {
  const models = registry();
  const certificate = path.join(scratch(), 'dev.crt');
  const { port, token } = await startProcess(models, ['--cert-out', certificate]);
  return { port, token, certificate, models };
}

/** A service with a key that may only predict, five times a second. */
async function restrictedService(): Promise<Endpoint> {
  const models = registry();
  const folder = scratch();
  const file = path.join(folder, 'keys.yaml');
  const certificate = path.join(folder, 'tls.crt');
  const { cert, key } = await devCertificate();
  writeFileSync(certificate, cert);
  writeFileSync(path.join(folder, 'tls.key'), key);
  const token = await createKey('reader', { file, scopes: 'predict' });
  const settings = [
    'listen.port=0',
    'listen.host=127.0.0.1',
    'workers=1',
    'limits.requests_per_second_per_key=5',
    `keys_file=${file}`,
    `tls.certificate=${certificate}`,
    `tls.key=${folder}/tls.key`,
    `jobs.folder=${folder}/jobs`,
    `spill.folder=${folder}`,
  ];
  const config = await loadConfig(ServerConfigSchema, { settings });
  const running = await serve({ config, registry: new FolderRegistry([models]) });
  onTestFinished(() => running.stop());
  return { port: Number(new URL(running.url).port), token, certificate, models };
}

/** Runs the tests of a Python module against a service. Returns what they print. */
async function runTests(python: string, module: string, service: Endpoint): Promise<string> {
  const env = {
    ...process.env,
    PYTHONPATH: path.join(CLIENT, 'src'),
    SLUICE_URL: `https://localhost:${service.port}`,
    SLUICE_API_KEY: service.token,
    SLUICE_CA: service.certificate,
    SLUICE_COMMAND: COMMAND,
    SLUICE_REGISTRY: service.models,
    FRAMES,
    TMPDIR: scratch(),
  };
  const result = await run(python, ['-m', 'unittest', module], { cwd: TESTS, env }).catch((error) => error);
  expect(result.stderr).toMatch(/\nRan \d+ tests in [\d.]+s\n\nOK/);
  return result.stdout;
}

await pythonTest(REQUIREMENTS, 'every kind of frame is right or refused', async (python) => {
  const printed = await runTests(python, 'test_frames', await devService());
  expect(printed).toMatch(/\d+ right, \d+ refused, 0 silent differences/);
});

const NAME = 'streams, retries, errors, secrets, models, files and the local command';
await pythonTest(REQUIREMENTS, NAME, async (python) => {
  await runTests(python, 'test_client', await devService());
});

await pythonTest(REQUIREMENTS, 'a key that may only predict, and a rate limit', async (python) => {
  await runTests(python, 'test_restricted', await restrictedService());
});
