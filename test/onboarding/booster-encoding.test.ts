// The encoding that `model add` reads from the files of training libraries, for each way of passing categories to them.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { boosterOf } from '../../src/inference/boosters/booster.ts';
import { catBoostHash } from '../../src/inference/boosters/city-hash.ts';
import { readModel } from '../../src/inference/boosters/read-model.ts';
import { boosterEncoding } from '../../src/onboarding/booster-encoding.ts';
import { type EncodingFile, NO_ENCODING } from '../../src/onboarding/encoding-file.ts';
import { Findings } from '../../src/onboarding/report-card.ts';
import { readTrainingTable } from '../../src/onboarding/training-table.ts';
import { scratch } from '../support/cli.ts';

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
