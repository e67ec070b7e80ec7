// Values that reach a model as text are the characters of model.yaml, or the file is refused with their place.
import { expect, test } from 'vitest';
import { readModelYaml } from '../../../src/model/package/read-model-yaml.ts';

interface Written {
  flag?: string;
  /** The replacement of a missing value. */
  missing?: string;
  unseen?: string;
  /** Type of the input that takes all columns. */
  type?: string;
  /** The smallest number that is accepted. */
  least?: string;
  comment?: string;
}

const manifestOf = ({ flag = "'True'", missing = "'-1'", unseen = "'other'", type = 'string', least = '0', comment = '' }: Written) => `
id: words
version: 1
task: regression
onnx: { file: model.onnx, sha256: ${'a'.repeat(64)}, value: y }
columns:
  - { name: amount, kind: number, range: { min: ${least} }, missing: { as: value, value: ${missing} } }
  - { name: insured, kind: boolean, false_as: 'no', true_as: ${flag} }
  - { name: product, kind: category, values: [a, b], unseen: value, unseen_value: ${unseen} }
inputs:
  - { name: x, type: ${type}, columns: [amount, insured, product] }
${comment}`; // biome-ignore format: the text is YAML

const read = (written: Written) => readModelYaml('model.yaml', manifestOf(written));
/** Longer than what is read without a thread. */
const LONG = `# ${'x'.repeat(70_000)}`;

/** Scalars that YAML alters as it reads them, with what they become; and those that stay as they are. */
const ALTERED: readonly [scalar: string, read: string][] = [
  ['True', 'true'], ['TRUE', 'true'], ['False', 'false'], ['1.50', '1.5'], ['1.0', '1'], ['.5', '0.5'], ['1.', '1'], ['1e3', '1000'], ['+7', '7'], ['0x10', '16'], ['0o7', '7'], ['-0', '0'], ['9007199254740993', '9007199254740992'],
]; // biome-ignore format: a table
const KEPT = ['true', 'false', '1', '-999', '1.5', '0230', '"True"', "'1.50'", '!!str True', 'yes', 'No', 'NA', '1_000', '""']; // biome-ignore format: a table

test.each(ALTERED)('%s, which YAML reads as %s, is refused where the model takes text', async (scalar, value) => {
  const fields = ['columns.amount.missing.value', 'columns.insured.true_as', 'columns.product.unseen_value'];
  const keys = ['missing', 'flag', 'unseen'] as const;
  for (const [i, key] of keys.entries()) {
    const answer = await read({ [key]: scalar });
    expect(answer, key).toMatchObject({ ok: false, problems: [{ line: 7 + i, message: expect.stringContaining(`${fields[i]} is text for the model, and YAML reads ${scalar} as ${value}`) }] }); // biome-ignore format: one line
  }
});

test('each place of a file is refused again, with and without a thread', async () => {
  for (const comment of ['', LONG, LONG, '']) {
    const answer = await read({ flag: 'True', unseen: '1.50', comment });
    expect(answer.ok ? [] : answer.problems.map(({ line, column }) => [line, column])).toEqual([[8, 62], [9, 83]]); // biome-ignore format: one line
  }
});

test('an alias is refused by the text that it repeats', async () => {
  const aliased = await read({ flag: '*number', least: '&number 1.50' });
  expect(aliased).toMatchObject({ ok: false, problems: [{ line: 8 }] });
  expect(await read({ flag: '*number', least: '&number 1.5' })).toMatchObject({ ok: true });
});

test.each(KEPT)('%s keeps its characters', async (scalar) => {
  for (const comment of ['', LONG])
    expect(await read({ flag: scalar, missing: scalar, unseen: scalar, comment })).toMatchObject({ ok: true });
});

test('where the model takes numbers, all notations of a number are the number', async () => {
  for (const [scalar] of ALTERED.filter(([text]) => /^[-+.\d]/.test(text)))
    expect(await read({ missing: scalar, type: 'float32' })).toMatchObject({ ok: true });
});
