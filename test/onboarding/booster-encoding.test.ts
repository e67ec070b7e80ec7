// The encoding that `model add` reads from the files of training libraries, for each way of passing categories to them.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { boosterOf } from '../../src/inference/boosters/booster.ts';
import { catBoostHash } from '../../src/inference/boosters/city-hash.ts';
import { readModel } from '../../src/inference/boosters/read-model.ts';
import type { ColumnSpec } from '../../src/model/package/manifest.ts';
import { boosterEncoding } from '../../src/onboarding/booster-encoding.ts';
import { type EncodingFile, NO_ENCODING } from '../../src/onboarding/encoding-file.ts';
import { proposePackage } from '../../src/onboarding/register.ts';
import { Findings } from '../../src/onboarding/report-card.ts';
import { readTrainingTable } from '../../src/onboarding/training-table.ts';
import { scratch } from '../support/cli.ts';
import { type Feature, lightGbm } from '../support/lightgbm-file.ts';
import { SEED, times } from '../support/tiers.ts';

interface Read {
  encoding: EncodingFile;
  findings: Findings;
}

/** The encoding for a model file and a training table of `columns`. */
async function encodingOf(
  model: string,
  columns: Record<string, readonly string[]>,
  given: Partial<EncodingFile> = {},
): Promise<Read> {
  const names = Object.keys(columns);
  const rows = Object.values(columns)[0]!.map((_, r) => names.map((name) => columns[name]![r]).join(','));
  const file = path.join(scratch(), 'train.csv');
  writeFileSync(file, `${[names.join(','), ...rows].join('\n')}\n`);
  const findings = new Findings();
  const booster = boosterOf(readModel(Buffer.from(model)))!;
  const table = await readTrainingTable(file);
  return { encoding: boosterEncoding(booster, table, { ...NO_ENCODING, ...given }, findings), findings };
}

const levels = ({ findings }: Read): string[] => findings.list.filter((f) => f.level !== 'info').map((f) => f.level);

/** A model of CatBoost that tests these categories of the column `owner`. */
const catBoost = (...tested: string[]): string =>
  JSON.stringify({
    model_info: { params: { loss_function: { type: 'RMSE' } } },
    scale_and_bias: [1, [0]],
    features_info: {
      categorical_features: [
        { feature_id: 'owner', feature_index: 0, flat_feature_index: 0, values: tested.map(catBoostHash) },
      ],
    },
    oblivious_trees: tested.map((text) => ({
      splits: [{ split_type: 'OneHotFeature', cat_feature_index: 0, value: catBoostHash(text) }],
      leaf_values: [0, 1],
    })),
  });

const UNTESTED = -1;

describe('categories of CatBoost have the codes of their hashes', () => {
  test.each([
    ['booleans', ['1'], ['True', 'False'], { True: 0, False: UNTESTED }],
    ['booleans of which false is tested', ['0'], ['True', 'False'], { True: UNTESTED, False: 0 }],
    ['booleans in lower case', ['1', '0'], ['true', 'false'], { true: 0, false: 1 }],
    ['booleans and a text', ['0', 'lodger'], ['True', 'False', 'lodger'], { True: UNTESTED, False: 0, lodger: 1 }],
    ['booleans that the program converted to texts', ['False'], ['True', 'False'], { True: UNTESTED, False: 0 }],
    ['texts in lower case that it converted', ['False'], ['true', 'false'], { true: UNTESTED, false: 0 }],
    ['booleans and the number 1', ['0'], ['1', 'True', 'False'], { '1': UNTESTED, True: UNTESTED, False: 0 }],
    ['0 and 1', ['1'], ['0', '1'], { '0': UNTESTED, '1': 0 }],
    ['texts', ['Y'], ['Y', 'N'], { Y: 0, N: UNTESTED }],
    ['digits with leading zeros', ['007'], ['7', '007'], { '7': UNTESTED, '007': 0 }],
    ['whole numbers with gaps', ['12'], ['12.0', '24.0'], { '12': 0, '24': UNTESTED }],
    ['texts of numbers with gaps', ['12.0'], ['12.0', '24.0'], { '12.0': 0, '24.0': UNTESTED }],
    ['a text that usually means a missing value', ['N/A', 'Y'], ['Y', 'N', 'N/A'], { Y: 1, N: UNTESTED, 'N/A': 0 }],
    ['such a text besides the one for gaps', ['NA', 'nan', 'Y'], ['Y', 'NA', 'nan'], { Y: 2, NA: 0 }],
    ['whole numbers beyond 2^53', ['9007199254740993'], ['9007199254740993', '5'], { '9007199254740993': 0, '5': UNTESTED }],
  ])('%s', async (_, tested, cells, codes) => {
    const read = await encodingOf(catBoost(...tested), { owner: cells });
    expect(read.encoding.codes.owner).toEqual(codes);
    expect(levels(read)).toEqual([]);
  }); // biome-ignore format: a table

  test('if texts and booleans match, the texts are assumed', async () => {
    const read = await encodingOf(catBoost('1'), { owner: ['1', 'True', 'False'] });
    expect(read.encoding.codes.owner).toEqual({ '1': 0, True: UNTESTED, False: UNTESTED });
    expect(levels(read)).toEqual(['assumed']);
  });

  test('a column of texts and booleans that a table cannot tell apart is rejected', async () => {
    const mixed = encodingOf(catBoost('True', '1'), { owner: ['True', 'False'] });
    await expect(mixed).rejects.toThrow(/categories of the column owner match .* as texts and as booleans/);
    await expect(mixed).rejects.toMatchObject({ code: 'registration_refused' });
  });

  test('a table without any tested category is rejected, unless the codes are declared', async () => {
    const cells = { owner: ['yes', 'no'] };
    const other = encodingOf(catBoost('rent', 'own'), cells);
    await expect(other).rejects.toMatchObject({ code: 'registration_refused' });
    await expect(other).rejects.toThrow(/tests 2 values of the column owner, .* declare the codes in --encoding/);
    const declared = await encodingOf(catBoost('rent', 'own'), cells, { codes: { owner: { yes: 1, no: 0 } } });
    expect(declared.encoding.codes.owner).toEqual({ yes: 1, no: 0 });
  });

  test('a column of which only the missing value is tested is accepted', async () => {
    const { encoding } = await encodingOf(catBoost('nan'), { owner: ['yes', 'no', 'nan'] });
    expect(encoding.codes.owner).toEqual({ yes: UNTESTED, no: UNTESTED });
    expect(encoding.missing.owner).toBe(0);
  });

  test('a tested category that the table lacks is a warning', async () => {
    const read = await encodingOf(catBoost('rent', 'own'), { owner: ['rent', 'lodger'] });
    expect(read.encoding.codes.owner).toEqual({ rent: 0, lodger: UNTESTED });
    expect(levels(read)).toEqual(['warning']);
  });
});

const codesOf = (...categories: string[]): Record<string, number> =>
  Object.fromEntries(categories.map((category, code) => [category, code]));

const ONE_TO_FIVE = ['1', '2', '3', '4', '5'];

describe('lists of pandas categories belong to the columns whose values they contain', () => {
  const grade = { grade: ONE_TO_FIVE, branch: ONE_TO_FIVE };

  test.each([
    ['an ordered category that is a number to the model, beside a column of categorical_feature',
      '[[1, 2, 3, 4, 5]]', '[0:4]', '-1:1:2:3:4:5', grade, { grade: codesOf(...ONE_TO_FIVE) }],
    ['the same in descending order',
      '[[5, 4, 3, 2, 1]]', '[0:4]', '-1:1:2:3:4:5', grade, { grade: codesOf('5', '4', '3', '2', '1') }],
    ['a category beside a number with the same values',
      '[[1, 2, 3, 4, 5]]', '[1:5]', '-1:0:1:2:3:4', grade, { branch: codesOf(...ONE_TO_FIVE) }],
    ['a category beside a number of which training saw a part',
      '[[1, 2, 3, 4, 5]]', '[2:4]', '-1:0:1:2:3:4', { grade: ['2', '3', '4', '1', '2'], branch: ONE_TO_FIVE }, { branch: codesOf(...ONE_TO_FIVE) }],
    ['texts, and a column of categorical_feature with as many values',
      '[["a", "b"]]', '[0:1]', '-1:1:2', { grade: ['a', 'b'], branch: ['1', '2'] }, { grade: codesOf('a', 'b') }],
    ['a category with the codes of its values, beside a number',
      '[[0, 1]]', '[0:1]', '-1:0:1', { grade: ['0', '1'], branch: ['0', '1'] }, { branch: codesOf('0', '1') }],
    ['two categories, of which the model splits one',
      '[["a", "b"], ["a", "b", "c"]]', 'none', '-1:0:1:2', { grade: ['a', 'a', 'a'], branch: ['a', 'b', 'c'] }, { grade: codesOf('a', 'b'), branch: codesOf('a', 'b', 'c') }],
    ['texts of which training did not see all',
      '[["a", "b"]]', '-1:0:1', '[1:2]', { grade: ['a', 'b', 'c'], branch: ['1', '2', '1'] }, { grade: codesOf('a', 'b') }],
  ])('%s', async (_, lists, first, second, columns, codes) => {
    const features = [{ name: 'grade', info: first }, { name: 'branch', info: second }];
    const read = await encodingOf(lightGbm(features, lists), columns);
    expect(read.encoding.codes).toEqual(codes);
    expect(levels(read)).toEqual([]);
  }); // biome-ignore format: a table

  const equalRanges = [
    { name: 'grade', info: '[0:3]' },
    { name: 'branch', info: '-1:1:2:0:3' },
  ];
  const numbers = { grade: ['0', '1', '2', '3'], branch: ['0', '1', '2', '3'] };
  const reversed = codesOf('3', '2', '1', '0');

  test('if several columns match with different codes, the registration is refused until one is declared', async () => {
    const model = lightGbm(equalRanges, '[[3, 2, 1, 0]]');
    await expect(encodingOf(model, numbers)).rejects.toThrow(
      'the model file has 1 list of pandas categories, but several columns match them (grade, branch)',
    );
    await expect(encodingOf(model, numbers)).rejects.toMatchObject({ code: 'registration_refused' });
    for (const column of ['grade', 'branch']) {
      const { encoding } = await encodingOf(model, numbers, { codes: { [column]: reversed } });
      expect(encoding.codes).toEqual({ [column]: reversed });
    }
  });

  test('declared codes of one column assign the other lists', async () => {
    const features = [...equalRanges, { name: 'job', info: '-1:0:1' }];
    const model = lightGbm(features, '[[3, 2, 1, 0], ["clerk", "nurse"]]');
    const columns = { ...numbers, job: ['clerk', 'nurse', 'clerk', 'nurse'] };
    const { encoding } = await encodingOf(model, columns, { codes: { grade: reversed } });
    expect(encoding.codes).toEqual({ grade: reversed, job: codesOf('clerk', 'nurse') });
  });

  test('a column that no tree splits may be either', async () => {
    const features = [{ name: 'grade', info: '[0:3]', isUnused: true }, equalRanges[1]!];
    const { encoding } = await encodingOf(lightGbm(features, '[[0, 1, 2, 3]]'), numbers);
    expect(Object.keys(encoding.codes)).toEqual(['branch']);
  });

  test('a list of values that no column has is refused', async () => {
    const model = lightGbm(equalRanges, '[[7, 8, 9, 10]]');
    await expect(encodingOf(model, numbers)).rejects.toThrow('no columns of the training table match them');
  });

  test('each assignment gives the training values the numbers of the library, or is refused', async () => {
    const random = new Random();
    random.seed(SEED, 0);
    const below = (n: number): number => Math.floor(random.uniform() * n);
    let assigned = 0;
    for (let i = 0; i < times('frames with pandas categories', { quick: 100, check: 200, campaigns: 20_000 }); i++) {
      const frame = Array.from({ length: 2 + below(5) }, (_, c) => randomColumn(`c${c}`, below));
      const lists = JSON.stringify(frame.flatMap((c) => (c.list ? [c.list] : [])));
      const columns = Object.fromEntries(frame.map((c) => [c.name, c.cells]));
      const model = lightGbm(frame, lists);
      const read = await encodingOf(model, columns).catch((error: Error) => error);
      if (read instanceof Error) {
        expect(read.message, model).toContain('several columns match them');
        continue;
      }
      assigned++;
      const { codes } = read.encoding;
      for (const { name, cells, numbers } of frame)
        expect(
          cells.map((cell) => (codes[name] ? codes[name][cell] : Number(cell))),
          `${name}\n${model}`,
        ).toEqual(numbers);
    }
    expect(assigned).toBeGreaterThan(10);
  });
});

describe('a category into which training converted missing values', () => {
  const read = (list: string, cells: readonly string[], given: Partial<EncodingFile> = {}): Promise<Read> => {
    const codes = (JSON.parse(list) as unknown[]).map((_, code) => code);
    const features = [{ name: 'a', info: '[0:2]' }, { name: 'job', info: `-1:${codes.join(':')}` }];
    return encodingOf(lightGbm(features, `[${list}]`), { a: ['0', '1', '2'], job: cells }, given);
  }; // biome-ignore format: the columns

  test.each([
    ['astype(str)', '["clerk", "nan", "nurse"]', ['clerk', 'nurse', ''], 1, []],
    ['astype(str), which the table has', '["clerk", "nan"]', ['clerk', 'nan', 'nan'], 1, []],
    ['fillna("")', '["", "clerk"]', ['clerk', 'clerk', ''], 0, []],
    ['fillna("missing")', '["clerk", "missing"]', ['clerk', 'clerk', ''], 1, []],
    ['both', '["", "clerk", "nan"]', ['clerk', 'clerk', ''], 0, ['assumed']],
    ['an ordinary category', '["clerk", "missing"]', ['clerk', 'missing', ''], 'nan', []],
    ['an ordinary category None', '["None", "clerk"]', ['None', 'clerk', ''], 'nan', []],
    ['a category, and no missing values', '["clerk", "missing"]', ['clerk', 'clerk', 'clerk'], 'nan', []],
  ])('%s', async (_, list, cells, missing, expected) => {
    const { encoding, findings } = await read(list, cells);
    expect(encoding.missing.job).toBe(missing);
    // LightGBM treats unseen categories like NaN, not like the category of missing values.
    expect(encoding.unseen.job).toBe(missing === 'nan' ? 'missing' : 'nan');
    expect(levels({ encoding, findings })).toEqual(expected);
  });

  test('declared replacements do not apply to unseen categories', async () => {
    const { encoding } = await read('["clerk", "nurse"]', ['clerk', 'nurse', ''], { missing: { job: 1 } });
    expect([encoding.missing.job, encoding.unseen.job]).toEqual([1, 'nan']);
  });
});

describe('a LightGBM number without missing values in training', () => {
  const model = (info: string, ...parameters: string[]): string =>
    lightGbm([{ name: 'a', info: '[0:2]' }, { name: 'debt', info }], '[]', parameters); // biome-ignore format: columns
  const gaps = { a: ['0', '1', '2'], debt: ['1', '5', ''] };

  test.each([
    ['[-999:5]', -999],
    ['[1:1000000]', 1e6],
    ['[1:5]', 0],
  ])('with the range %s, a table with gaps is refused', async (range, replacement) => {
    const refused = encodingOf(model(range, '[use_missing: 1]'), gaps);
    await expect(refused).rejects.toMatchObject({ code: 'registration_refused' });
    await expect(refused).rejects.toThrow(
      `column debt has missing values in the training table, but the model was trained without missing values. Declare their replacement in --encoding, such as {"missing":{"debt":${replacement}}}`,
    );
  });

  test('it is accepted with a declaration, without gaps, and if LightGBM ignored missing values', async () => {
    const used = model('[-999:5]', '[use_missing: 1]');
    for (const missing of [{ debt: -999 }, { debt: 'nan' }, { '*': 0 }] as const)
      expect((await encodingOf(used, gaps, { missing })).encoding.missing).toEqual(missing);
    expect((await encodingOf(used, { ...gaps, debt: ['1', '5', '5'] })).encoding.missing).toEqual({});
    expect((await encodingOf(model('[-999:5]', '[use_missing: 0]'), gaps)).encoding.missing).toEqual({});
  });
});

describe('an XGBoost number without missing values in training', () => {
  /** A model with a tree for each direction of missing values at its only split, by column: 0 is to the right. */
  const model = (directions: Record<string, readonly (0 | 1)[]>): string =>
    JSON.stringify({
      version: [3, 4, 1],
      learner: {
        feature_names: Object.keys(directions),
        feature_types: Object.keys(directions).map(() => 'float'),
        learner_model_param: { base_score: '5E-1', num_class: '0', num_feature: `${Object.keys(directions).length}` },
        objective: { name: 'binary:logistic' },
        gradient_booster: {
          name: 'gbtree',
          model: {
            tree_info: Object.values(directions).flatMap((of) => of.map(() => 0)),
            trees: Object.values(directions).flatMap((of, feature) =>
              of.map((left) => ({
                left_children: [1, -1, -1],
                right_children: [2, -1, -1],
                parents: [2147483647, 0, 0],
                split_indices: [feature, 0, 0],
                split_conditions: [3, -0.1, 0.1],
                split_type: [0, 0, 0],
                default_left: [left, 0, 0],
              })),
            ),
          },
        },
      },
    });
  const same = (direction: 0 | 1, splits: number) => Array.from({ length: splits }, () => direction);
  const gaps = { a: ['0', '1', '2'], debt: ['1', '5', ''] };

  test.each([0, 1] as const)('all missing values in direction %s: a table with gaps is refused', async (direction) => {
    const refused = encodingOf(model({ a: same(direction, 4), debt: same(direction, 4) }), gaps);
    await expect(refused).rejects.toMatchObject({ code: 'registration_refused' });
    await expect(refused).rejects.toThrow(
      'column debt has missing values in the training table, but the model was trained without missing values. Declare',
    );
  });

  test('it is accepted with a declaration, without gaps, with both directions, and with few splits', async () => {
    const uniform = model({ a: same(0, 4), debt: same(0, 4) });
    for (const missing of [{ debt: -999 }, { debt: 'nan' }, { '*': 0 }] as const)
      expect((await encodingOf(uniform, gaps, { missing })).encoding.missing).toEqual(missing);
    expect((await encodingOf(uniform, { ...gaps, debt: ['1', '5', '5'] })).encoding.missing).toEqual({});
    for (const a of [[1], []] as const)
      expect((await encodingOf(model({ a, debt: same(0, 7) }), gaps)).encoding.missing).toEqual({});
  });
});

test('whole numbers beyond 2^53 in a file of XGBoost are refused, unless their codes are declared', async () => {
  const booster = boosterOf(readModel(readFileSync('test/fixtures/boosters/xgb-categories/model.ubj')))!;
  const column = booster.features.findIndex((f) => f.categorical);
  const list = { feature: column, values: ['24', '9007199254740992'], areTexts: false };
  const name = booster.features[column]!.name!;
  const header = booster.features.map((f) => f.name!);
  const file = path.join(scratch(), 'train.csv');
  writeFileSync(file, `${header.join(',')}\n${header.map(() => '24').join(',')}\n`);
  const table = await readTrainingTable(file);
  const read = (given: EncodingFile) =>
    boosterEncoding({ ...booster, categories: [list] }, table, given, new Findings());
  expect(() => read(NO_ENCODING)).toThrow(`the column ${name} has numbers beyond 2^53 as categories`);
  const codes = { [name]: codesOf('24', '9007199254740993') };
  expect(read({ ...NO_ENCODING, codes }).codes).toEqual(codes);
});

describe('columns of pandas categories', () => {
  /** The column `c` of the package for a model with this list. */
  async function columnOf(list: string, cells: readonly string[], codes?: EncodingFile['codes']): Promise<ColumnSpec> {
    const folder = scratch();
    const [modelFile, trainingFile] = [path.join(folder, 'model.txt'), path.join(folder, 'train.csv')];
    const info = `-1:${(JSON.parse(list) as unknown[]).map((_, i) => i).join(':')}`;
    writeFileSync(
      modelFile,
      lightGbm(
        [
          { name: 'a', info: '[0:59]' },
          { name: 'c', info },
        ],
        `[${list}]`,
      ),
    );
    const rows = Array.from({ length: 60 }, (_, r) => `${r},${cells[r % cells.length]}`);
    writeFileSync(trainingFile, `${['a,c', ...rows].join('\n')}\n`);
    const encoding = codes ? { encoding: { ...NO_ENCODING, codes, unseen: { c: 'missing' as const } } } : {};
    const { manifest, report } = await proposePackage({
      modelFile,
      trainingFile,
      id: 'm',
      version: 1,
      benchMs: 1,
      ...encoding,
    });
    expect(report.findings.filter((f) => /has no code/.test(f.text))).toEqual([]);
    return manifest.columns.find((column) => column.name === 'c')!;
  }

  test.each([
    ['integers', '[12, 24]', ['12', '24'], codesOf('12', '24')],
    ['integers in a table with gaps', '[12, 24]', ['12.0', '24.0', ''], codesOf('12', '24')],
    ['whole floats', '[12.0, 24.0]', ['12.0', '24.0'], codesOf('12', '24')],
    ['floats', '[1.5, 2.0]', ['1.5', '2.0'], codesOf('1.5', '2')],
    ['0 with a sign', '[-0.0, 1.0]', ['-0.0', '1.0'], codesOf('0', '1')],
    ['floats below 1e-6', '[1e-07, 1.0]', ['1e-07', '1.0'], codesOf('1e-7', '1')],
    ['integers beyond 2^53', '[5, 9007199254740993]', ['5', '9007199254740993'], codesOf('5', '9007199254740993')],
    [
      'integers of 64 bits',
      '[24, 18446744073709551615]',
      ['24', '18446744073709551615'],
      codesOf('24', '18446744073709551615'),
    ],
    ['texts of digits', '["007", "1.10"]', ['007', '1.10'], codesOf('007', '1.10')],
    ['texts of floats', '["12.0", "24.0"]', ['12.0', '24.0'], codesOf('12.0', '24.0')],
    ['texts and numbers', '[12, "x"]', ['12', 'x'], codesOf('12', 'x')],
    ['the texts N and Y', '["N", "Y"]', ['N', 'Y'], codesOf('N', 'Y')],
    ['the texts no and yes', '["no", "yes"]', ['no', 'yes'], codesOf('no', 'yes')],
  ])('%s are categories', async (_, list, cells, codes) => {
    const column = await columnOf(list, cells);
    expect(column).toMatchObject({ kind: 'category', unseen: 'missing' });
    expect(column.codes).toEqual(codes);
  });

  test.each(['1e+16', '1e+22', '9007199254740992.0'])('the float %s is refused', async (large) => {
    const column = columnOf(`[101.0, ${large}]`, ['101.0', large]);
    await expect(column).rejects.toThrow('the column c has numbers beyond 2^53 as categories');
  });

  test('unseen categories are NaN even if a category is called nan', async () => {
    const column = await columnOf('["clerk", "nan"]', ['clerk', '']);
    expect(column).toMatchObject({ missing: { as: 'value', value: 1 }, unseen: 'value', unseen_value: 'NaN' });
    expect(column.codes).toEqual(codesOf('clerk', 'nan'));
  });

  test.each(['[false, true]', '["False", "True"]'])('%s are booleans', async (list) => {
    expect(await columnOf(list, ['True', 'False'])).toMatchObject({ kind: 'boolean', false_as: 0, true_as: 1 });
  });

  test.each([
    ['both spellings', { '12': 0, '12.0': 0, '24': 1, '24.0': 1 }, ['12', '24'], { '12': 0, '24': 1 }],
    ['the spelling of floats, for a table of integers', { '12.0': 0, '24.0': 1 }, ['12', '24'], { '12': 0, '24': 1 }],
    ['integers, for a table with gaps', { '12': 0, '24': 1 }, ['12.0', '24.0'], { '12': 0, '24': 1 }],
    ['the spelling of the table', { '12.0': 0, '24.0': 1 }, ['12.0', '24.0'], { '12.0': 0, '24.0': 1 }],
    ['texts of digits', { '1.10': 0, '007': 1 }, ['1.10', '007'], { '1.10': 0, '007': 1 }],
    ['numbers and a text', { '12': 0, x: 1 }, ['12.0', 'x'], { '12': 0, '12.0': 0, x: 1 }],
  ])('declared codes with %s', async (_, declared, cells, codes) => {
    expect((await columnOf('["declared", "codes"]', cells, { c: declared })).codes).toEqual(codes);
  });
});

interface Column extends Feature {
  list: (string | number)[] | null;
  cells: string[];
  /** What LightGBM gets for each cell. */
  numbers: number[];
}

/** A column of texts or whole numbers: a pandas category (ordered or not), a column of categorical_feature or a number. */
function randomColumn(name: string, below: (n: number) => number): Column {
  const first = below(3);
  const values = Array.from({ length: 2 + below(3) }, (_, v) => first + v);
  const kind = ['texts', 'unordered', 'ordered', 'declared', 'number'][below(5)]!;
  const isText = kind === 'texts';
  if (kind === 'ordered' && below(2) === 0) values.reverse();
  const list = isText ? values.map((v) => `t${v}`) : kind === 'unordered' || kind === 'ordered' ? values : null;
  const places = [...values.keys(), ...Array.from({ length: 20 - values.length }, () => below(values.length))];
  const numbers = places.map((p) => (list ? p : values[p]!));
  const seen = [...new Set(numbers)].sort((a, b) => a - b);
  const isNumber = kind === 'ordered' || kind === 'number';
  return {
    name,
    info: isNumber ? `[${seen[0]}:${seen.at(-1)}]` : `-1:${seen.join(':')}`,
    list,
    cells: places.map((p) => String(list ? list[p] : values[p])),
    numbers,
  };
}
