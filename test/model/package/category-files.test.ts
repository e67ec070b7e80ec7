// Categories beside model.yaml: the same columns as in it, whatever the words hold.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { readYaml } from '../../../src/config/yaml.ts';
import { categoriesOf, withCategoryFiles } from '../../../src/model/package/category-files.ts';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import type { ColumnSpec, Manifest } from '../../../src/model/package/manifest.ts';
import { asMessage, fromMessage, type ModelPackage } from '../../../src/model/package/model-package.ts';
import { copyUnlocked } from '../../support/registries/packages.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';

const WORDS = ['', ' ', '0230', '230', '10', '9', 'a,b', 'a"b', '"', 'line\nbreak', 'cr\rlf\r\n', '__proto__', 'constructor', 'é', '人', '\u2028', '#', '-1', 'x'.repeat(500)]; // biome-ignore format: one line
const PLAIN = Array.from({ length: 1_200 }, (_, i) => `EMP-${i}`);
const codesOf = (words: readonly string[]): Record<string, number> =>
  Object.fromEntries(words.map((word, i) => [word, [i, -i - 0.5, 1e21 * i, i / 3, -0][i % 5]!]));

/** The bundled package with other columns; `change` may do something to its folder before it is loaded, which `use` sees. */
async function loaded<T>(
  column: Partial<ColumnSpec>,
  use: (model: ModelPackage, files: readonly string[]) => T,
  change: (folder: string) => void = () => {},
): Promise<Awaited<T>> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-categories-'));
  try {
    copyUnlocked(CREDIT_DEFAULT, folder);
    const { manifest: own } = await loadPackage(folder);
    const columns = own.columns.map(({ codes, ...c }) => (c.name === 'source_type' ? { ...c, ...column } : codes ? { ...c, codes } : c)); // biome-ignore format: one line
    const { manifest, files } = withCategoryFiles({ ...own, columns } as Manifest);
    mkdirSync(path.join(folder, 'categories'));
    for (const [name, content] of files) writeFileSync(path.join(folder, name), content);
    // JSON is YAML.
    writeFileSync(path.join(folder, 'model.yaml'), JSON.stringify(manifest));
    change(folder);
    return await use(await loadPackage(folder), [...files.keys()]);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const sourceType = ({ manifest }: ModelPackage): ColumnSpec => manifest.columns.find((c) => c.name === 'source_type')!;

test.each([
  ['plain words', PLAIN],
  ['words with commas, quotes and line ends', [...WORDS, ...PLAIN]],
])('codes in a file are those of model.yaml: %s', async (_, words) => {
  const codes = codesOf(words);
  await loaded({ codes }, async (model, files) => {
    expect(files).toEqual(['categories/source_type.csv']);
    for (const read of [model, await fromMessage(structuredClone(asMessage(model)))]) {
      const spec = sourceType(read);
      const { values, codes: given, index } = categoriesOf(spec)!;
      expect(values).toEqual(Object.keys(codes));
      expect(given).toStrictEqual(Object.values(codes));
      expect([...index]).toEqual(values.map((value, i) => [value, i]));
      expect(spec.codes).toStrictEqual(codes);
      expect(spec.codes_file).toBe(files[0]);
    }
    expect(JSON.stringify(asMessage(model)).length).toBeLessThan(30_000);
  });
});

test('words that the model takes itself stand in a file alike, and few stay in model.yaml', async () => {
  const { manifest } = await loadPackage(CREDIT_DEFAULT);
  const [first, ...others] = manifest.columns;
  const values = [...WORDS, ...PLAIN];
  const named = withCategoryFiles({ ...manifest, columns: [{ ...first!, name: 'A/b', values }, { ...first!, name: 'a b', values }, ...others] }); // biome-ignore format: one line
  expect([...named.files.keys()]).toEqual(['categories/A_b.csv', 'categories/a_b-2.csv']);
  expect(named.manifest.columns[0]).toEqual({ ...first!, name: 'A/b', values_file: 'categories/A_b.csv' });
  expect(named.manifest.columns.slice(2)).toEqual(others);
  expect(named.files.get('categories/A_b.csv')).toContain('\n"a""b"\n');
});

describe('refused, with the place', () => {
  const codes = codesOf(PLAIN);
  const file = 'categories/source_type.csv';
  test.each([
    ['value,code\na,1\nb,x\n', `${file}:3: the code is not a number`],
    ['value,code\na,1\nb,0x10\n', `${file}:3: the code is not a number`],
    ['value,code\na,1\nb, 1\n', `${file}:3: the code is not a number`],
    ['value,code\na,1\nb,1e999\n', `${file}:3: the code is not a number`],
    ['value,code\na,1\nb\n', `${file}:3: a category and its code expected`],
    ['value,code\na,1\nb,1,2\n', `${file}:3: a category and its code expected`],
    ['value,code\na,1\nb,1\na,2\n', `${file}:4: a duplicate category`],
    ['value,code\n"a",1\n"b",1\na,2\n', `${file}:4: a duplicate category`],
    ['code,value\na,1\n', `${file}:1: the first line must be value,code`],
    ['value,code\n', `${file}:1: the first line must be value,code, followed by at least one category`],
    ['', `${file}:1: the first line must be value,code, followed by at least one category`],
    ['value,code\n"a,1\n', `${file}: Quote Not Closed`],
    [Buffer.from([...Buffer.from('value,code\n'), 0xff, 0x2c, 0x31, 0x0a]), `${file}: bytes that are not UTF-8`],
  ])('%j', async (content, says) => {
    const change = (folder: string) => writeFileSync(path.join(folder, file), content);
    await expect(loaded({ codes }, () => null, change)).rejects.toThrow(says);
  });

  test('a file that is not there, lies outside, or says what model.yaml says too', async () => {
    const gone = (folder: string) => rmSync(path.join(folder, file));
    await expect(loaded({ codes }, () => null, gone)).rejects.toThrow(`${file} cannot be read`);
    await expect(loaded({ codes_file: '../x.csv' }, () => null)).rejects.toThrow('lies outside the package');
    const twice = (folder: string) => {
      const at = path.join(folder, 'model.yaml');
      writeFileSync(at, JSON.stringify(JSON.parse(readFileSync(at, 'utf8'), (key, v) => (key === '' ? v : v?.codes_file ? { ...v, codes: { a: 1 } } : v)))); // biome-ignore format: one line
    };
    await expect(loaded({ codes }, () => null, twice)).rejects.toThrow(
      'set only one of codes, codes_file, values and values_file',
    );
  });
});

describe('a map of YAML', () => {
  test.each([
    ['a: 1\nb: 2\na: 3\n', [3]],
    ['x: { a: 1, b: 2, "a": 3 }\ny: { a: 1 }\n', [1]],
    ['- a: 1\n  a: 2\n- a: 1\n- { 1: x, 01: y, 1: z }\n', [2, 4]],
    ['"a": 1\n? a\n: 2\n', [2]],
    ['a: &x { b: 1 }\nc: { <<: *x, b: 2 }\n', []],
  ])('has a key once: %j', (yaml, lines) => {
    const read = readYaml('f.yaml', yaml);
    const problems = read.ok ? [] : read.problems;
    expect(problems.map(({ line, message }) => [line, message])).toEqual(lines.map((line) => [line, 'Map keys must be unique'])); // biome-ignore format: one line
  });
});
