// Model files of training libraries: their predictions are those of the library, and damaged files are rejected.
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { SluiceError } from '../../../src/core/errors.ts';
import { Random } from '../../../src/core/random.ts';
import { boosterOf } from '../../../src/inference/boosters/booster.ts';
import { catBoostHash } from '../../../src/inference/boosters/city-hash.ts';
import { boosterFormat, readModel } from '../../../src/inference/boosters/read-model.ts';
import { logf } from '../../../src/inference/trees/float.ts';
import { scratch } from '../../support/cli.ts';
import { pythonWith } from '../../support/python-environment.ts';
import { campaignTest, SEED, times } from '../../support/tiers.ts';
import { evaluateCase, largestDifference, readCase } from './booster-case.ts';

const FIXTURES = 'test/fixtures/boosters';
const NAMES = readdirSync(FIXTURES);

function checkCase(folder: string): void {
  const { about, bytes } = readCase(folder);
  if (about.rejected !== undefined) {
    expect(() => readModel(bytes), folder).toThrow(about.rejected);
    expect(() => readModel(bytes), folder).toThrow('docs/exporting.md');
    return;
  }
  const { interpreted, compiled, expected } = evaluateCase(folder);
  expect(compiled, folder).toEqual(interpreted);
  expect(largestDifference(compiled, expected), folder).toBeLessThanOrEqual(about.tolerance);
}

describe('files of training libraries', () => {
  test.each(NAMES)('%s has the predictions of its library, or is rejected by name', (name) => {
    checkCase(path.join(FIXTURES, name));
  });

  // The fixtures are such models of a fixed seed.
  campaignTest('newly trained models have the predictions of their library', async ({ skip }) => {
    const made = await pythonWith('clients/python/tests/requirements.txt');
    if ('missing' in made) return skip(made.missing);
    for (let i = 0; i < times('training of models', { quick: 0, check: 0, campaigns: 20 }); i++) {
      const folder = scratch();
      await promisify(execFile)(made.python, ['test/inference/boosters/train.py', String(SEED + i), folder]);
      const names = readdirSync(folder, { withFileTypes: true }).filter((e) => e.isDirectory());
      expect(names.length).toBeGreaterThanOrEqual(55);
      for (const { name } of names) checkCase(path.join(folder, name));
    }
  });
});

/** A file with something unknown in one part. */
type Novelty = [fixture: string, part: string, add: (text: string) => string];
const key = '"novelty":[1],';
const NOVELTIES: readonly Novelty[] = [
  ['xgb-dart', 'learner', (text) => text.replace('"learner":{', `"learner":{${key}`)],
  [
    'xgb-dart',
    'learner_model_param',
    (text) => text.replace('"learner_model_param":{', `"learner_model_param":{${key}`),
  ],
  ['xgb-dart', 'gradient_booster', (text) => text.replace('"gradient_booster":{', `"gradient_booster":{${key}`)],
  ['xgb-dart', 'gradient_booster', (text) => text.replace('"gbtree":{', `"gbtree":{${key}`)],
  ['xgb-dart-3.4', 'gradient_booster', (text) => text.replace('"gradient_booster":{', `"gradient_booster":{${key}`)],
  ['xgb-dart-3.4', 'model', (text) => text.replace('"model":{', `"model":{${key}`)],
  [
    'xgb-dart-3.4',
    'gbtree_model_param',
    (text) => text.replace('"gbtree_model_param":{', `"gbtree_model_param":{${key}`),
  ],
  ['xgb-dart-3.4', 'a tree', (text) => text.replace('"trees":[{', `"trees":[{${key}`)],
  ['xgb-dart-3.4', 'tree_param', (text) => text.replace('"tree_param":{', `"tree_param":{${key}`)],
  ['lgb-dart', 'the header', (text) => text.replace('num_class=', 'novelty=1\nnum_class=')],
  ['lgb-dart', 'the header', (text) => text.replace('num_class=', 'novelty\nnum_class=')],
  ['lgb-dart', 'a tree', (text) => text.replace('num_leaves=', 'novelty=1\nnum_leaves=')],
  ['lgb-dart', 'a tree', (text) => text.replace('num_leaves=', 'novelty\nnum_leaves=')],
  ['cat-categories', 'the file', (text) => text.replace('{', `{${key}`)],
  ['cat-categories', 'features_info', (text) => text.replace(/"features_info":\s*\{/, `$&${key}`)],
  ['cat-categories', 'a tree', (text) => text.replace(/"oblivious_trees":\s*\[\s*\{/, `$&${key}`)],
  ['cat-categories', 'a split', (text) => text.replace(/"splits":\s*\[\s*\{/, `$&${key}`)],
  ['cat-depthwise', 'a tree', (text) => text.replace(/"trees":\s*\[\s*\{/, `$&${key}`)],
];

describe('what a later release of a library may write', () => {
  test.each(NOVELTIES)('%s: something unknown in %s is rejected', (fixture, part, add) => {
    const { bytes } = readCase(path.join(FIXTURES, fixture));
    const text = bytes.toString();
    const changed = add(text);
    expect(changed).not.toBe(text);
    expect(() => readModel(bytes)).not.toThrow();
    expect(() => readModel(Buffer.from(changed))).toThrow(
      `${part} contains "novelty", which this release does not know`,
    );
  });
});

test('XGBoost 1.0 does not count deleted nodes, and has counts of its own', () => {
  const { bytes } = readCase(path.join(FIXTURES, 'xgb-pruned'));
  const text = bytes.toString();
  const asOld = text
    .replaceAll(/"num_deleted":"\d+",/g, '')
    .replaceAll('"left_children":', '"leaf_child_counts":[],$&');
  expect(asOld).not.toContain('num_deleted');
  expect(boosterOf(readModel(Buffer.from(asOld)))).toEqual(boosterOf(readModel(bytes)));
  const wrong = text.replace(/"num_deleted":"\d+"/, '"num_deleted":"1"');
  expect(() => readModel(Buffer.from(wrong))).toThrow(/tree 0: \d+ nodes are not reachable/);
});

describe('damaged files', () => {
  test.each(NAMES)('%s: changed, cut off and repeated bytes are a model or an error with a code', (name) => {
    const { bytes } = readCase(path.join(FIXTURES, name));
    const random = new Random();
    random.seed(SEED, 0);
    const next = (below: number): number => Math.floor(random.uniform() * below);
    for (let i = 0; i < times('damaged model files', { quick: 40, check: 80, campaigns: 20_000 }); i++) {
      let damaged: Buffer = Buffer.from(bytes);
      const at = next(bytes.length);
      const kind = i % 4;
      if (kind === 0) damaged = damaged.subarray(0, at);
      else if (kind === 1) damaged[at] = next(256);
      else if (kind === 2) damaged[at] = '0123456789-,:[]{}="'.charCodeAt(next(19));
      else damaged = Buffer.concat([damaged.subarray(0, at), damaged.subarray(next(at + 1))]);
      try {
        readModel(damaged);
      } catch (error) {
        expect(error).toBeInstanceOf(SluiceError);
        expect((error as SluiceError).code).toBe('model_invalid');
      }
    }
  });

  test('a length beyond the file is rejected before memory is allocated', () => {
    const huge = Buffer.from('7b690161 5b24442349 4c7fffffffffffffff'.replaceAll(' ', '').replace('2349', '23'), 'hex');
    expect(() => readModel(huge)).toThrow(/UBJSON|damaged/);
    const many = Buffer.from('{i\x01a[$Z#L\x00\x00\x00\xff\xff\xff\xff\xff', 'latin1');
    expect(() => readModel(many)).toThrow('an array is longer than the file');
  });

  test('other JSON is named', () => {
    expect(() => readModel(Buffer.from('{"a": 1}'))).toThrow('neither a model of XGBoost');
    expect(() => readModel(Buffer.from('{"a": '))).toThrow('it cannot be parsed');
    expect(boosterFormat(Buffer.from('{ }'))).toBeNull();
  });
});

test('a CatBoost model with another threshold than 0.5 is rejected', () => {
  const text = readCase(path.join(FIXTURES, 'cat-words')).bytes.toString();
  const withThreshold = (threshold: string): Buffer =>
    Buffer.from(text.replace(/"model_info":\s*\{/, `$&"binclass_probability_threshold":"${threshold}",`));
  expect(() => readModel(withThreshold('0.2'))).toThrow('its predict compares the probability with 0.2');
  expect(boosterOf(readModel(withThreshold('0.5')))).toEqual(boosterOf(readModel(Buffer.from(text))));
});

test('a CatBoost model that was saved with a pool is read as without one', () => {
  const withPool = (fixture: string): Buffer => {
    const text = readCase(path.join(FIXTURES, fixture)).bytes.toString();
    const info = '"cat_features_hash":[{"hash":3489901818,"value":"a"}],';
    return Buffer.from(
      text.replace(/"features_info":\s*\{/, `$&${info}`).replaceAll('"feature_id"', '"feature_name":"a",$&'),
    );
  };
  const plain = boosterOf(readModel(readCase(path.join(FIXTURES, 'cat-categories')).bytes));
  expect(boosterOf(readModel(withPool('cat-categories')))).toEqual(plain);
  expect(plain?.version).toMatch(/^\d+\.\d+(\.\d+)?$/);
  // A file with categories of target statistics can be saved only with a pool.
  expect(() => readModel(withPool('cat-ctr'))).toThrow('it uses target statistics of categories');
});

test('hashes of categories are those of CatBoost', () => {
  const texts: [string, number][] = [
    ['', 797982799],
    ['x', -784473192],
    ['ab', -204718274],
    ['abcd', 345588365],
    ['abcdefgh', -24192233],
    ['abcdefghi', -1275414319],
    ['abcdefghijklmnopq', 322581478],
    ['Зарплата по договору', -1789467490],
    ['hello world, a long category name of fifty chars!!', -1403822406],
    ['d'.repeat(64), 2086956261],
    ['e'.repeat(65), -1174585066],
    ['f'.repeat(150), -1062418248],
  ];
  // Repeated letters do not show which bytes are read.
  const sentence =
    'The borrower of contract 4711 (Zürich branch, 3rd floor) asked to defer two instalments; she also pays 1,250.75 a month for a flat & lends her car to J. Müller-Doe, who has been unemployed since 2024-02-29!';
  const starts: [length: number, hash: number][] = [
    [3, 802589044],
    [7, -2082918311],
    [8, 998037127],
    [9, 512669945],
    [15, 2034745080],
    [16, 1627751367],
    [17, -1197223853],
    [24, -205881393],
    [32, -1650435408],
    [33, 1907919984],
    [50, 47547864],
    [62, 1670305437],
    [63, -1676295665],
    [64, -650300667],
    [90, -940360422],
    [126, -546375614],
    [127, -60281265],
    [128, -1871073056],
    [190, 702458853],
    [206, -1964440301],
  ];
  for (const [length, hash] of starts) texts.push([sentence.slice(0, length), hash]);
  for (const [text, hash] of texts) expect(catBoostHash(text), text).toBe(hash);
});

test('logf is within one unit in the last place, and exact where XGBoost needs it', () => {
  expect(logf(Math.fround(1.0149766))).toBe(0.014865579083561897);
  expect(logf(1)).toBe(0);
  for (let x = 1e-30; x < 1e30; x *= 1.37) {
    const exact = Math.log(Math.fround(x));
    expect(Math.abs(logf(Math.fround(x)) - exact)).toBeLessThanOrEqual(Math.max(1, Math.abs(exact)) * 2 ** -23);
  }
});
