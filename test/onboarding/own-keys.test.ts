// Columns and categories whose names are keys of every JavaScript object.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import { readEncoding } from '../../src/onboarding/encoding-file.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { lightGbm } from '../support/lightgbm-file.ts';
import { startService } from '../support/service.ts';

const NAMES = ['__proto__', 'constructor', 'toString'];
const LIST = ['__proto__', 'constructor', 'zeta'];

describe('encoding files keep', () => {
  const codes = { ['__proto__']: 0, constructor: 1, zeta: 2 };
  test.each(NAMES)('the column %s in each form', async (column) => {
    const feature = { column, codes, missing: 7, unseen: 'missing', false: 0, true: 1 };
    const own = <T>(value: T) => ({ [column]: value });
    const parts = { codes: own(codes), missing: own(7), unseen: own('missing'), booleans: own([0, 1]) };
    const forms = [
      parts,
      { ...parts, codes: own(LIST) },
      { features: [feature] },
      { inputs: [{ ...feature, name: column }] },
    ];
    for (const form of forms) {
      const file = path.join(scratch(), 'encoding.json');
      writeFileSync(file, JSON.stringify(form));
      const read = await readEncoding(file);
      expect(JSON.parse(JSON.stringify({ ...read, order: undefined, inputs: undefined }))).toEqual(
        JSON.parse(JSON.stringify(parts)),
      );
      if (read.inputs) expect(Object.entries(read.inputs)).toEqual([[column, [column]]]);
    }
    const missingCode = path.join(scratch(), 'encoding.json');
    writeFileSync(missingCode, JSON.stringify(own({ a: 0, nan: 5 })));
    expect(Object.entries((await readEncoding(missingCode)).missing)).toEqual([[column, 5]]);
  });
});

test.each(NAMES)('a model with the column %s is registered, described and served', async (column) => {
  const folder = scratch();
  const [model, training] = [path.join(folder, 'model.txt'), path.join(folder, 'train.csv')];
  const features = [
    { name: 'a', info: '[0:59]' },
    { name: column, info: '-1:0:1:2' },
  ];
  writeFileSync(model, lightGbm(features, JSON.stringify([LIST])));
  const rows = Array.from({ length: 60 }, (_, r) => `${r},${LIST[Math.min(r % 4, 2)]}`);
  writeFileSync(training, `${[`a,${column}`, ...rows].join('\n')}\n`);
  const registry = path.join(folder, 'models');
  const added = await sluiceHere([
    'model',
    'add',
    model,
    '--id',
    'm',
    '--training-data',
    training,
    '--registry',
    registry,
  ]);
  expect(added.code, added.stderr).toBe(0);
  const shown = await sluiceHere(['model', 'show', 'm', '--registry', registry]);
  expect(shown.code, shown.stderr).toBe(0);
  expect(shown.stdout).toContain(`${column}  category  ${LIST.join(', ')}`);

  const service = await startService([], scratch(), { registry: new FolderRegistry([registry]) });
  const described = await service.call('GET', '/api/v1/models/m');
  expect(described.status).toBe(200);
  expect(described.json.columns[1]).toMatchObject({ name: column, values: LIST });
  // The most frequent category of the training table, which the baseline counts.
  expect(Object.entries(described.json.sample)[1]).toEqual([column, 'zeta']);
  const score = async (application: object) => {
    const body = JSON.stringify([application]);
    return (await service.call('POST', '/api/v1/scoring/predict.json?modelId=m', { body })).json.predictions;
  };
  // The trees add 1 for a number above 0.5, and 1 for any category except the first.
  expect(await score(described.json.sample)).toMatchObject([{ value: 2 }]);
  expect(await score({ a: 1, [column]: '__proto__' })).toMatchObject([{ value: 1 }]);
  expect(await score({ a: 1, [column]: 'zeta' })).toMatchObject([{ value: 2 }]);
});
