// The model of the crossing of types: a column of every kind whose value its score shows, so that no two values can be taken for each other.
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import YAML from 'yaml';
import { buildOnnx } from '../../support/onnx-build.ts';

/** A column as model.yaml has it. */
export interface KindColumn {
  name: string;
  kind: 'number' | 'boolean' | 'category' | 'text';
  missing?: { values?: string[]; as?: 'value' | 'error'; value?: number | string };
  codes?: Record<string, number>;
  values?: string[];
  unseen?: 'error' | 'missing' | 'value';
  unseen_value?: number;
  true_values?: string[];
  false_values?: string[];
  range?: [number, number];
}

/** What the model gets for a missing value; no value of a carrier is the same. */
const MISSING_NUMBER = 7_654_321.5;
const MISSING_CODE = 4321;
const UNSEEN_CODE = 8765;
/** Words of categories: the texts of many values, and their neighbours. */
const WORDS = ['A', '0230', '230', '007', '36.0', ' 36 ', '1e2', 'NULL', 'true', 'Zürich', '€ “x”', '1.50', '2024-02-29', '日本 😀', 'two\nlines', 'Y', '1', '36']; // biome-ignore format: a list
const NUMBERS = [
  '1',
  '36',
  '230',
  '1.5',
  '-7',
  '0',
  '100',
  '0.1',
  '36.6',
  '601',
  '9007199254740991',
  '-0.05',
  '1e+22',
  '127',
  '1234',
];
const codesOf = (words: readonly string[]): Record<string, number> =>
  Object.fromEntries(words.map((word, i) => [word, i]));
const missing = { as: 'value', value: MISSING_NUMBER } as const;
const coded = { as: 'value', value: MISSING_CODE } as const;

export type InputType = 'float64' | 'float32' | 'int64' | 'string';
/** By the type of the input of the model. */
export const COLUMNS: Readonly<Record<InputType, readonly KindColumn[]>> = {
  float64: [
    { name: 'number', kind: 'number', missing },
    { name: 'number_marked', kind: 'number', missing: { ...missing, values: ['', 'NA', '-999', '36.0'] }, range: [-1000, 600] },
  ],
  float32: [
    { name: 'number32', kind: 'number', missing },
    { name: 'boolean', kind: 'boolean', missing: coded },
    { name: 'boolean_words', kind: 'boolean', missing: { as: 'error', values: ['', 'NA'] }, true_values: ['Y', '1'], false_values: ['N', '36'] },
    { name: 'word', kind: 'category', missing: coded, codes: codesOf(WORDS) },
    { name: 'word_unseen', kind: 'category', missing: { as: 'error' }, codes: codesOf(WORDS), unseen: 'value', unseen_value: UNSEEN_CODE },
    { name: 'code', kind: 'category', missing: coded, codes: codesOf(NUMBERS) },
    { name: 'code_marked', kind: 'category', missing: { ...coded, values: ['', '-999', '36.0', 'NA'] }, codes: codesOf(NUMBERS), unseen: 'missing' },
    { name: 'code_unseen', kind: 'category', missing: coded, codes: codesOf(NUMBERS), unseen: 'value', unseen_value: UNSEEN_CODE },
    { name: 'truth', kind: 'category', missing: coded, codes: { true: 0, false: 2 } },
  ],
  int64: [{ name: 'whole', kind: 'number', missing: { as: 'value', value: 7_654_321 } }],
  string: [
    { name: 'text', kind: 'text', missing: { as: 'value', value: 'nothing at all' } },
    { name: 'listed', kind: 'category', missing: { as: 'value', value: 'nothing at all' }, values: WORDS },
    { name: 'listed_code', kind: 'category', missing: { as: 'value', value: 'nothing at all' }, values: NUMBERS },
  ],
}; // biome-ignore format: a table

/** A column of the model that every application has, so that a missing value makes no empty row. */
export const ALWAYS = 'always';
export const ALL: readonly KindColumn[] = Object.values(COLUMNS).flat();
export const inputOf = (column: KindColumn): InputType =>
  (Object.keys(COLUMNS) as InputType[]).find((type) => COLUMNS[type].includes(column))!;

/** The value of a column in the applications that are about another one. It adds nothing to the score. */
export const constantOf = ({ kind, codes, values, false_values }: KindColumn): string => {
  if (kind === 'number') return '0';
  if (kind === 'boolean') return false_values?.[0] ?? 'false';
  return kind === 'text' ? 'A' : (values?.[0] ?? Object.keys(codes!).find((word) => codes![word] === 0)!);
};

/** Texts with a share of their own in the score, beginning with the constant. */
const OTHER_TEXTS = ['3.6e1', 'false', 'True', '-999', '-999.0', 'NA', 'NaN', 'nan', 'Infinity', '9007199254740993', '1,5', '1.234', '12 345', '"', 'long '.repeat(40), 'N', '36.60', 'nothing at all', '']; // biome-ignore format: a list
const textsOf = (column: KindColumn): string[] => [
  ...new Set([constantOf(column), ...WORDS, ...NUMBERS, ...OTHER_TEXTS]),
];
const UNKNOWN_TEXT = 500;

/** What a feature adds to the score. */
export function shareOf(column: KindColumn, feature: number | string): number {
  if (typeof feature === 'number') return inputOf(column) === 'float32' ? Math.fround(feature) : feature;
  const at = textsOf(column).indexOf(feature);
  return at < 0 ? UNKNOWN_TEXT : at;
}

/** Columns of a package: those of the model by the type of their input, the name of each, and of the one that is always there. */
interface Shape {
  columns: Readonly<Record<InputType, readonly KindColumn[]>>;
  nameOf: (column: KindColumn) => string;
  always: string;
}
const EVERY: Shape = { columns: COLUMNS, nameOf: ({ name }) => name, always: ALWAYS };

/** A package whose columns have the names of the carriers: `x`, which is of this kind, and `row`. null: `row` alone. */
export function writeNarrowPackage(registry: string, id: string, spec: KindColumn | null): void {
  const columns = Object.fromEntries(
    Object.entries(COLUMNS).map(([type, some]) => [type, some.filter((column) => column === spec)]),
  ) as Record<InputType, KindColumn[]>;
  writePackage(registry, id, 'refuse', { columns, nameOf: () => 'x', always: 'row' });
}

/** Writes the package `ID/1` of a registry. */
export function writePackage(
  registry: string,
  id: string,
  numbers: 'refuse' | 'accept',
  { columns: { float64, float32, int64, string }, nameOf, always }: Shape = EVERY,
): void {
  const folder = path.join(registry, id, '1');
  mkdirSync(folder, { recursive: true });
  const column = (name: string, type: InputType, width: number) => ({ name, type, shape: [null, width] });
  const sum = (input: string, ones: string, output: string) => ({
    op: 'MatMul',
    inputs: [input, ones],
    outputs: [output],
  });
  const cast = (input: string, output: string) => ({
    op: 'Cast',
    inputs: [input],
    outputs: [output],
    attributes: { to: { i: 11 } },
  });
  const given = (columns: readonly KindColumn[], ...parts: object[]) => (columns.length > 0 ? parts : []);
  // Every term is a double; the first one is always there.
  const terms = ['float32_wide', ...given(float64, 'float64' as never), ...given(int64, 'int64_wide' as never), ...string.map(({ name }) => `${name}_wide`)]; // biome-ignore format: one line
  const onnx = buildOnnx({
    inputs: [
      ...given(float64, column('doubles', 'float64', float64.length)),
      column('floats', 'float32', float32.length + 1),
      ...given(int64, column('wholes', 'int64', 1)),
      ...string.map(({ name }) => column(name, 'string', 1)),
    ],
    outputs: [column('value', 'float64', 1)],
    constants: [
      ...given(float64, { name: 'ones64', type: 'float64', dims: [float64.length, 1], values: float64.map(() => 1) }),
      { name: 'ones32', type: 'float32', dims: [float32.length + 1, 1], values: [...float32.map(() => 1), 0] },
      { name: 'zero', type: 'float64', dims: [1], values: [0] },
    ],
    nodes: [
      ...given(float64, sum('doubles', 'ones64', 'float64')),
      sum('floats', 'ones32', 'float32'),
      cast('float32', 'float32_wide'),
      ...given(int64, cast('wholes', 'int64_wide')),
      ...string.flatMap((column) => [
        { op: 'LabelEncoder', domain: 'ai.onnx.ml', inputs: [column.name], outputs: [`${column.name}_share`], attributes: { keys_strings: { strings: textsOf(column) }, values_floats: { floats: textsOf(column).map((_, i) => i) }, default_float: { f: UNKNOWN_TEXT } } },
        cast(`${column.name}_share`, `${column.name}_wide`),
      ]),
      ...terms.map((term, i) => ({ op: 'Add', inputs: [i === 0 ? 'zero' : `sum${i}`, term], outputs: [i === terms.length - 1 ? 'value' : `sum${i + 1}`] })),
    ],
  } as Parameters<typeof buildOnnx>[0]); // biome-ignore format: a graph
  writeFileSync(path.join(folder, 'model.onnx'), onnx);
  const all = [float64, float32, int64, string].flat();
  const manifest = {
    id,
    version: 1,
    task: 'regression',
    onnx: { file: 'model.onnx', sha256: createHash('sha256').update(onnx).digest('hex'), value: 'value' },
    numbers,
    columns: [...all.map((c) => ({ ...c, name: nameOf(c) })), { name: always, kind: 'number', missing: { as: 'value', value: 0 } }],
    inputs: [
      ...given(float64, { name: 'doubles', type: 'float64', columns: float64.map(nameOf) }),
      { name: 'floats', type: 'float32', columns: [...float32.map(nameOf), always] },
      ...given(int64, { name: 'wholes', type: 'int64', columns: int64.map(nameOf) }),
      ...string.map((c) => ({ name: c.name, type: 'string', column: nameOf(c) })),
    ],
    explain: { method: 'exact', space: 'value', background: 'background.csv' },
    output: { kind: 'value' },
  }; // biome-ignore format: a table
  writeFileSync(path.join(folder, 'model.yaml'), YAML.stringify(manifest));
  const background = [...all.map((c) => [nameOf(c), constantOf(c)]), [always, '1']];
  writeFileSync(path.join(folder, 'background.csv'), `${background.map(([name]) => name).join(',')}\n${background.map(([, value]) => `"${value}"`).join(',')}\n`); // biome-ignore format: one line
}
