// Constants and texts for missing values in a pipeline file mean what the same characters mean in an input, or they are refused.
import { afterAll, expect, test } from 'vitest';
import YAML from 'yaml';
import { readYaml } from '../../src/config/yaml.ts';
import { parsePipeline } from '../../src/runs/read-pipeline.ts';
import { declaredBy } from '../../src/runs/spec.ts';
import { TIER } from '../support/tiers.ts';
import { knownValues } from './oracle.ts';
import { Crossing } from './types/crossing.ts';
import { ALL, inputOf } from './types/model.ts';
import { meaningOf, type Value } from './types/rule.ts';

/** Every constant is compiled, so that the check has a column of each kind. */
const SPECS = TIER === 'campaigns' ? ALL : ALL.filter(({ name }) => ['number', 'boolean_words', 'word', 'code', 'text', 'listed_code'].includes(name)); // biome-ignore format: one line
const crossing = new Crossing();
afterAll(() => crossing.close());

/** Scalars as people write them, with their values: a number only if it loses nothing as one. */
const SCALARS: readonly (readonly [scalar: string, value: Value])[] = [
  ...['0', '1', '36', '230', '-7', '36.0', '1.50', '3.6e1', '-999', '0.1', '1e22', '9007199254740993'].map((n) => [n, { n }] as const),
  ...['0230', '007', '-007', '+0230', '00.50', '01e1', '1_000', '1,5', '2024-02-29', 'A', 'Y', 'NA', 'yes', '1:30', '36 36'].map((t) => [t, { t }] as const),
  ["'0230'", { t: '0230' }],
  ['"36.0"', { t: '36.0' }],
  ['!!str 230', { t: '230' }],
  ['true', { b: true }],
  ['false', { b: false }],
]; // biome-ignore format: a table

const pipelineOf = (source: string): string =>
  `model: kinds\nsink: { type: file, path: out.csv }\nsource:\n  type: file\n  path: in.csv\n  ${source}\n`;

test.each(['refuse', 'accept'] as const)('constants, with a model that is told to %s numbers', async (numbers) => {
  const setting = { declared: {}, numbers };
  const found: string[] = [];
  for (const spec of numbers === 'accept' ? SPECS.filter(({ kind }) => kind !== 'number') : SPECS) {
    for (const [scalar, value] of SCALARS) {
      const text = pipelineOf(`columns:\n    constants:\n      ${spec.name}: ${scalar}`);
      const parsed = await parsePipeline('p.yaml', text);
      if (!parsed.ok) throw new Error(parsed.problems[0]!.message);
      const constants = declaredBy(parsed.value.source)!.columns!.constants;
      const name = `${spec.name}: ${scalar}`;
      const answers = await crossing.constant(constants as Record<string, string>, spec, numbers);
      const meaning = meaningOf(value, { ...spec, input: inputOf(spec) }, setting);
      if (answers !== 'usage') found.push(...(typeof answers === 'string' ? [answers] : crossing.compare(answers, spec, setting, { name, values: [value] })));
      // What a column takes for an unknown category is no constant.
      else if (!('code' in meaning) && isKnown(spec, value)) found.push(`${name}: refused`);
    }
  }
  expect(found).toEqual([]);
}); // biome-ignore format: one line

/** Whether the model knows a value of the column by this name. */
function isKnown(spec: (typeof ALL)[number], value: Value): boolean {
  const column = { ...spec, input: inputOf(spec) };
  if (spec.kind !== 'category') return true;
  // A number is its plain text.
  return knownValues(column).includes('n' in value! ? String(Number(value.n)) : String(Object.values(value!)[0]));
}

test('texts for missing values keep the characters that they have, or are refused', async () => {
  for (const [scalar, value] of SCALARS) {
    const parsed = await parsePipeline('p.yaml', pipelineOf(`null_values:\n    - ${scalar}`));
    if (parsed.ok)
      expect(declaredBy(parsed.value.source)!.texts!.nullValues, scalar).toEqual([(value as { t: string }).t]); // biome-ignore format: one line
    else expect(value, scalar).not.toHaveProperty('t');
  }
});

test('what YAML writes is read as the same values', () => {
  const values = [0, -0, 7, -7.5, 1e21, 5e-324, '0230', '-007', '00.5', '08:30', '0x10', '1e3', 'true', '~', '', null];
  const read = readYaml('p.yaml', YAML.stringify(values));
  expect(read.ok && read.value).toEqual(values.map((value) => (Object.is(value, -0) ? expect.toSatisfy((v) => v === 0) : value))); // biome-ignore format: one line
});
