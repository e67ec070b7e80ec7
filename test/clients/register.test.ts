// The Python package of clients/python: pipelines are registered and scored, its own tests pass, and its wheel installs.
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { VERSION } from '../../src/core/version.ts';
import { packWheel } from '../../tools/pack/python.ts';
import { MAIN, scratch } from '../support/cli.ts';
import { pythonTest as withPackages } from '../support/python-environment.ts';
import { startProcess } from '../support/service.ts';
import { SEED, TIER, times } from '../support/tiers.ts';

const run = promisify(execFile);
const CLIENT = path.resolve('clients/python');
const COMMAND = `'${process.execPath}' --disable-warning=ExperimentalWarning '${MAIN}'`;

interface Verdict {
  name: string;
  /** Problems as [what, why, remedy]; null: the pipeline was registered. */
  rejected: [string, string, string][] | null;
  /** Largest difference on the hold-out. */
  largest: number | null;
  /** Rows that only one side rejected. */
  disagreed?: number;
  silent: boolean;
  wrong: boolean;
}

const pythonTest = (name: string, body: (python: string) => Promise<void>): Promise<void> =>
  withPackages(path.join('clients', 'python', 'tests', 'requirements.txt'), name, body);

const environmentWith = (folder: string): NodeJS.ProcessEnv => ({
  ...process.env,
  PYTHONPATH: [path.join(CLIENT, 'src'), path.join(CLIENT, 'tests')].join(path.delimiter),
  PYTHONWARNINGS: 'ignore',
  SLUICE_COMMAND: COMMAND,
  // CatBoost and joblib write to the working directory and to temporary folders.
  TMPDIR: folder,
});

test('the package has the version of the program', () => {
  const project = readFileSync(path.join(CLIENT, 'pyproject.toml'), 'utf8');
  expect(project).toContain(`\nversion = "${VERSION}"\n`);
  expect(readFileSync(path.join(CLIENT, 'src/sluice/__init__.py'), 'utf8')).toContain(`__version__ = "${VERSION}"\n`);
});

test('every Python file states its purpose in its first line', () => {
  const files = readdirSync(CLIENT, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.py'));
  expect(files.length).toBeGreaterThan(12);
  expect(files.filter((file) => !readFileSync(path.join(CLIENT, file), 'utf8').startsWith('"""'))).toEqual([]);
});

/** Numbers of the pipelines that `npm run check` tries: kinds of encoders, estimators, labels and rejections that differ most. */
const SAMPLE = [9, 17, 21, 26, 28];

await pythonTest('thirty pipelines score as in Python, or are rejected by name', async (python) => {
  const { numbers, fewest } =
    TIER === 'campaigns'
      ? { numbers: Array.from({ length: 30 }, (_, i) => i + 1), fewest: 24 }
      : { numbers: SAMPLE, fewest: 3 };
  const seeds = times('seeds of thirty pipelines', { quick: 0, check: 1, campaigns: 20 });
  for (let seed = SEED; seed < SEED + seeds; seed++) {
    const folder = scratch();
    const script = path.join(CLIENT, 'tests', 'thirty_pipelines.py');
    const args = [
      script,
      '--command',
      COMMAND,
      '--folder',
      folder,
      '--seed',
      String(seed),
      '--only',
      numbers.join(','),
    ];
    const { stdout } = await run(python, args, { cwd: folder, env: environmentWith(folder) }).catch((error) => error);
    process.stdout.write(`seed ${seed}\n${stdout}\n`);
    const verdicts = JSON.parse(readFileSync(path.join(folder, 'verdicts.json'), 'utf8')) as Verdict[];
    expect(verdicts).toHaveLength(numbers.length);
    expect(verdicts.filter((v) => v.silent || v.wrong)).toEqual([]);
    const registered = verdicts.filter((v) => v.rejected === null);
    expect(registered.length).toBeGreaterThanOrEqual(fewest);
    for (const { name, largest, disagreed } of registered) {
      expect(largest, name).toBeLessThanOrEqual(1e-6);
      expect(disagreed, name).toBe(0);
    }
  }
});

await pythonTest('problems, encodings, commands and files of boosting libraries', async (python) => {
  const folder = scratch();
  const args = ['-m', 'unittest', 'discover', '-s', path.join(CLIENT, 'tests')];
  const result = await run(python, args, { cwd: folder, env: environmentWith(folder) });
  expect(result.stderr).toMatch(/\nRan \d+ tests in [\d.]+s\n\nOK/);
});

/** What a data scientist has: a trained booster, and the frame with the outcome. */
const TRAINED = `
import json, sys
import lightgbm as lgb, numpy as np, pandas as pd
rng = np.random.default_rng(int(sys.argv[1]))
X = pd.DataFrame({"income": rng.lognormal(8, 1, 2000).round(2), "postcode": pd.Categorical(rng.choice(["02134", "10115"], 2000))})
X.loc[::9, "income"] = np.nan
y = pd.Series((rng.random(2000) < 0.3 + 0.4 * (X["postcode"] == "02134")).astype(int), name="ok")
model = lgb.train({"objective": "binary", "verbosity": -1}, lgb.Dataset(X, y), 50)
`;
/** The two lines. */
const REGISTERED = `
import sluice
sluice.register(model, X, y, id="credit")
`;
const EXPECTED = `
rows = X.head(20)
cells = json.loads(rows.astype({"postcode": str}).to_json(orient="records"))
print(json.dumps([cells, model.predict(rows).tolist()]))
`;

await pythonTest('lgb.train, two lines of Python and one command answer over HTTPS', async (python) => {
  const folder = scratch();
  const program = `${TRAINED}${REGISTERED}${EXPECTED}`;
  const registry = path.join(folder, 'models');
  const { stdout } = await run(python, ['-c', program, String(SEED)], {
    cwd: folder,
    env: { ...environmentWith(folder), SLUICE_REGISTRY: registry },
  });
  const [cells, expected] = JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as [object[], number[]];
  const service = await startProcess(registry);
  const reply = await service.call('POST', '/api/v1/scoring/predict.json?modelId=credit', {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(cells),
  });
  expect(reply.status, reply.text).toBe(200);
  const answers = reply.json.predictions as { probability: number }[];
  expect(answers.map((a) => a.probability)).toEqual(expected.map((p) => expect.closeTo(p, 12)));
});

await pythonTest('the wheel has the package, its types and nothing else', async (python) => {
  const folder = scratch();
  const root = path.join(folder, 'checkout');
  mkdirSync(path.join(root, 'clients'), { recursive: true });
  cpSync(CLIENT, path.join(root, 'clients', 'python'), { recursive: true });
  const wheel = packWheel(root, python, folder);
  expect(path.basename(wheel)).toBe(`sluice_client-${VERSION}-py3-none-any.whl`);
  expect(statSync(wheel).size).toBeLessThan(100_000);
  const site = path.join(folder, 'site');
  await run(python, ['-m', 'pip', 'install', '-q', '--no-deps', '--no-index', '--target', site, wheel]);
  expect(readdirSync(path.join(site, 'sluice'))).toEqual(expect.arrayContaining(['__init__.py', 'py.typed']));
  const installed = readdirSync(site).filter((name) => name !== '__pycache__' && name !== 'bin');
  expect(installed.sort()).toEqual(['sluice', `sluice_client-${VERSION}.dist-info`]);
  const { stdout } = await run(python, ['-c', 'import sluice; print(sluice.__version__, sluice.__file__)'], {
    cwd: tmpdir(),
    env: { ...process.env, PYTHONPATH: site },
  });
  expect(stdout.trim()).toBe(`${VERSION} ${path.join(site, 'sluice', '__init__.py')}`);
});
