// The Python client against a running service: frames, streams, retries, secrets, files, and the sluice command without a service.
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
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
  cpSync('src/bundled/credit-default', path.join(folder, 'credit-default'), { recursive: true });
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

for (const [module, name] of [
  ['test_frames', 'every kind of frame is right or refused'],
  ['test_client', 'streams, retries, errors, secrets, models, files and the local command'],
] as const) {
  await pythonTest(REQUIREMENTS, name, async (python) => {
    const models = registry();
    const certificate = path.join(scratch(), 'dev.crt');
    const service = await startProcess(models, ['--cert-out', certificate]);
    const env = {
      ...process.env,
      PYTHONPATH: path.join(CLIENT, 'src'),
      PYTHONDONTWRITEBYTECODE: '1',
      SLUICE_URL: `https://localhost:${service.port}`,
      SLUICE_API_KEY: service.token,
      SLUICE_CA: certificate,
      SLUICE_COMMAND: COMMAND,
      SLUICE_REGISTRY: models,
      FRAMES,
      TMPDIR: scratch(),
    };
    const result = await run(python, ['-m', 'unittest', module], { cwd: TESTS, env }).catch((error) => error);
    expect(result.stderr).toMatch(/\nRan \d+ tests in [\d.]+s\n\nOK/);
    if (module === 'test_frames') expect(result.stdout).toMatch(/\d+ right, \d+ refused, 0 silent differences/);
  });
}
