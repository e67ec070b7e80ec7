// Registers model files of LightGBM, XGBoost and CatBoost as their users save them, and scores rows that training did not see.
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { type Booster, boosterOf } from '../../src/inference/boosters/booster.ts';
import { readModel } from '../../src/inference/boosters/read-model.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { pythonWith } from '../support/python-environment.ts';
import { checkTest, SEED, stride, times } from '../support/tiers.ts';

const FIXTURE = 'test/fixtures/booster-registration';

/** null: the library rejects the row. */
type Prediction = number | number[] | null;

interface Answer {
  probability?: number;
  probabilities?: Record<string, number>;
  value?: number;
  error?: object;
}

/** Runs `model add` for a model file. */
const addModel = (file: string, table = path.join(FIXTURE, 'train.csv'), flags: readonly string[] = []) =>
  sluiceHere(['model', 'add', file, '--id', 'm', '--training-data', table, '--registry', scratch(), ...flags]);

/** Registers the model of `folder` with its predictions, and compares the holdout with those of the library. */
async function checkRegistration(folder: string): Promise<void> {
  const about = JSON.parse(readFileSync(path.join(folder, 'about.json'), 'utf8')) as { file: string; task: string };
  const registry = scratch();
  const of = (name: string): string => path.join(folder, name);
  const encoding = existsSync(of('codes.json')) ? ['--encoding', of('codes.json')] : [];
  const added = await sluiceHere(
    ['model', 'add', of(about.file), '--id', 'm', '--training-data', of('train.csv'), '--expected', of('expected.csv'),
      ...encoding, '--registry', registry, '--tolerance', '1e-12'],
  ); // biome-ignore format: a command
  expect(added.code, `${folder}: ${added.stderr}`).toBe(0);
  const report = JSON.parse(readFileSync(path.join(registry, 'm/1/report.json'), 'utf8'));
  expect(report.selfTest, folder).toMatchObject({ passed: true });
  expect(report.interpretation.method, folder).toBe('tree_interventional');
  expect(readFileSync(path.join(registry, 'm/1', about.file))).toEqual(readFileSync(of(about.file)));

  const expected = JSON.parse(readFileSync(of('holdout.json'), 'utf8')) as Prediction[];
  const [out, rejects] = [path.join(scratch(), 'out.ndjson'), path.join(scratch(), 'rejects.csv')];
  const scored = await sluiceHere([
    'score',
    of('holdout.csv'),
    '--model',
    'm',
    '--registry',
    registry,
    '-o',
    out,
    '--rejects',
    rejects,
  ]);
  const float32 = path.basename(folder).startsWith('xgb');
  const predicted = expected.filter((e) => e !== null);
  expect(scored.code, `${folder}: ${scored.stderr}`).toBe(predicted.length === expected.length ? 0 : 3);
  const lines = (file: string): string[] => readFileSync(file, 'utf8').trimEnd().split('\n');
  const refused = lines(rejects).slice(1);
  expect(refused.length, folder).toBe(expected.length - predicted.length);
  for (const line of refused) expect(line).toContain('unseen_category');
  const answers = lines(out)
    .map((line) => JSON.parse(line) as Answer)
    .filter((a) => !a.error);
  expect(answers.length, folder).toBe(predicted.length);
  for (const [row, want] of predicted.entries()) {
    const got = answers[row]!;
    const where = `${folder}, answer ${row + 1}: ${JSON.stringify(got)}`;
    const values = Array.isArray(want)
      ? Object.values(got.probabilities ?? {})
      : [about.task === 'binary' ? got.probability! : got.value!];
    // XGBoost predicts in float32, of which an answer has the shortest text.
    for (const [c, p] of [want].flat().entries())
      if (float32) expect(Math.fround(values[c]!), where).toBe(p);
      else expect(Math.abs(values[c]! - p) / Math.max(1, Math.abs(p)), where).toBeLessThanOrEqual(1e-12);
  }
}

test('a LightGBM file with pandas categories needs nothing but its training table', async () => {
  await checkRegistration(FIXTURE);
});

/** Models whose categories can be assigned to other codes or columns. */
const UNUSUAL = new Set(['cat-booleans', 'lgb-ordered']);

checkTest('models trained on data frames are registered and predict like their library', async ({ skip }) => {
  const made = await pythonWith('clients/python/tests/requirements.txt');
  if ('missing' in made) return skip(made.missing);
  for (let i = 0; i < times('registered models of training libraries', { quick: 0, check: 1, campaigns: 10 }); i++) {
    const folder = scratch();
    await promisify(execFile)(made.python, ['test/onboarding/train_boosters.py', String(SEED + i), folder]);
    const names = readdirSync(folder);
    expect(names.length).toBe(15);
    // The check registers every third model, and the unusual ones.
    const step = stride('registered models', { quick: 3, check: 3 });
    for (const [at, name] of names.sort().entries())
      if (at % step === 0 || UNUSUAL.has(name)) await checkRegistration(path.join(folder, name));
  }
});

test('a table without a column of the model is rejected with the names', async () => {
  const table = path.join(scratch(), 'train.csv');
  const text = readFileSync(path.join(FIXTURE, 'train.csv'), 'utf8');
  writeFileSync(table, text.replace('postcode', 'zip'));
  const added = await addModel(path.join(FIXTURE, 'model.txt'), table);
  expect(added.code).toBe(1);
  expect(added.stderr).toContain('columns that the training table does not have: postcode');
});

/** The table on which `xgb-missing.json` was trained, with `gap` for a missing income. */
function tableWithGaps(gap: string): string {
  const rows = Array.from({ length: 400 }, (_, i) => {
    const [income, age] = [(i * 37) % 101, (i * 53) % 89];
    const missing = i % 7 === 0 || (i * i) % 11 === 3;
    const good = missing ? (i * 29) % 10 < 8 : income > 60 + (age % 7);
    return `${missing ? gap : income},${age},${Number(good)}`;
  });
  return ['income,age,good', ...rows, ''].join('\n');
}

// The files of XGBoost do not contain its parameter `missing`.
test.each([
  { missing: '0', refused: true },
  { missing: '-999', refused: true },
  { missing: '', refused: false },
])('XGBoost trained with missing=$missing: refused $refused', async ({ missing, refused }) => {
  const table = path.join(scratch(), 'train.csv');
  writeFileSync(table, tableWithGaps(missing));
  const added = await addModel(path.join(FIXTURE, 'xgb-missing.json'), table, [
    '--outcome',
    'good',
    '--positive-class',
    '1',
  ]);
  expect(added.code).toBe(refused ? 1 : 0);
  const words = `${missing} as a missing value in all columns`;
  if (refused) expect(added.stderr).toMatch(new RegExp(`${words}.*\\n.*\\[registration_contradicted\\]`));
  else expect(added.stderr).not.toContain(words);
});

test('labels that texts and numbers sort differently need their order', async () => {
  const folder = scratch();
  const of = (name: string): string => path.join(folder, name);
  const training = readFileSync(path.join(FIXTURE, 'train.csv'), 'utf8');
  // As LightGBM sorts texts: "10" is the first class, "9" the second.
  writeFileSync(of('train.csv'), training.replaceAll(/,0$/gm, ',10').replaceAll(/,1$/gm, ',9'));
  const add = (classes: readonly (string | number)[] | null, positive: string) => {
    writeFileSync(of('encoding.json'), JSON.stringify({ classes }));
    const stated = classes === null ? [] : ['--encoding', of('encoding.json')];
    const flags = [
      '--outcome',
      'ok',
      '--positive-class',
      positive,
      '--expected',
      path.join(FIXTURE, 'expected.csv'),
      ...stated,
    ];
    return addModel(path.join(FIXTURE, 'model.txt'), of('train.csv'), flags);
  };
  const unknown = await add(null, '9');
  expect(unknown.code).toBe(1);
  expect(unknown.stderr).toContain(
    '{"classes": [9,10]} if the labels were numbers, {"classes": ["10","9"]} if they were texts',
  );
  expect((await add(['10', '9'], '9')).code).toBe(0);
  // The predictions are those of the class 9.
  expect((await add(['10', '9'], '10')).stderr).toContain('use --positive-class 9');
  expect((await add(['10', '9', '8'], '9')).stderr).toContain('--encoding states 3 classes, the model has 2');
  expect((await add(['10', '10'], '10')).stderr).toContain(
    'classes must be a list of different texts or whole numbers',
  );
});

test('binary files of CatBoost are rejected with the way to save them', async () => {
  const file = path.join(scratch(), 'model.cbm');
  writeFileSync(file, Buffer.concat([Buffer.from('CBM1'), Buffer.alloc(100)]));
  const added = await addModel(file);
  expect(added.stderr).toContain('save_model(file, format="json")');
  expect(added.stderr).toContain('docs/exporting.md');
});

test('an early stopped Booster of XGBoost is rejected with both ways to save it', async () => {
  const early = 'test/fixtures/boosters/xgb-early/model.json';
  const added = await addModel(early);
  expect(added.code).toBe(1);
  expect(added.stderr).toContain('[registration_refused]');
  expect(added.stderr).toContain('save booster[: booster.best_iteration + 1]');
  expect(added.stderr).toContain('booster.set_attr(best_iteration=None, best_score=None)');

  // The scikit-learn interface states that the best iteration counts. Without the attributes, all trees count.
  const { learner, ...rest } = JSON.parse(readFileSync(early, 'utf8'));
  const boosterWith = (attributes: object): Booster =>
    boosterOf(readModel(Buffer.from(JSON.stringify({ ...rest, learner: { ...learner, attributes } }))))!;
  const best = Number(learner.attributes.best_iteration);
  const all = learner.gradient_booster.model.trees.length;
  expect(best + 1).toBeLessThan(all);
  const wrapped = boosterWith({ ...learner.attributes, scikit_learn: '{"_estimator_type": "classifier"}' });
  expect([wrapped.trees.length, wrapped.ambiguity]).toEqual([best + 1, null]);
  const whole = boosterWith({});
  expect([whole.trees.length, whole.ambiguity]).toEqual([all, null]);
  const last = boosterWith({ best_iteration: String(all - 1) });
  expect([last.trees.length, last.ambiguity]).toEqual([all, null]);
});
