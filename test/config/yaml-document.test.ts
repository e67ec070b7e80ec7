// Faults of a YAML file are all reported at once, where they stand, with the word that was probably meant.
import { readFileSync } from 'node:fs';
import { Type } from 'typebox';
import { expect, test } from 'vitest';
import { readYaml } from '../../src/config/yaml.ts';
import { parseYaml } from '../../src/config/yaml-document.ts';
import { formatProblem } from '../../src/config/yaml-problem.ts';
import { ManifestSchema } from '../../src/model/package/manifest.ts';

const closed = { additionalProperties: false };
const YAML = readFileSync('src/bundled/credit-default/1/model.yaml', 'utf8');
const problems = (text: string): string[] => {
  const parsed = parseYaml('model.yaml', text, ManifestSchema);
  return parsed.ok ? [] : parsed.problems.map(formatProblem);
};

test('the bundled package is sound', () => {
  expect(problems(YAML)).toEqual([]);
});

test('numbers with leading zeros are text, so that categories keep them', () => {
  const read = readYaml('a.yaml', '[0230, -007, +01, 00.5, 01e3, 0, -0, 0.5, 0e1, 0x10, 0o7, 230, {007: 008}]');
  expect(read.ok && read.value).toEqual(['0230', '-007', '+01', '00.5', '01e3', 0, -0, 0.5, 0, 16, 7, 230, { '007': '008' }]); // biome-ignore format: one line
});

test('several faults, each with its line and column', () => {
  const text = YAML.replace('task: binary', 'task: binry')
    .replace('positive_class', 'positive_clas')
    .replace('kind: number', 'kind: numbr');
  const lines = text.split('\n');
  const got = problems(text);
  const at = (needle: string) => {
    const line = lines.findIndex((l) => l.includes(needle));
    return `model.yaml:${line + 1}:${lines[line]!.indexOf(needle) + 1} `;
  };
  expect(got).toHaveLength(3);
  expect(got[0]).toBe(`${at('binry')}task must be one of binary, multiclass, regression, score`);
  expect(got[1]).toBe(`${at('positive_clas')}unknown key positive_clas (did you mean positive_class?)`);
  expect(got[2]).toMatch(/^model\.yaml:\d+:\d+ columns\.0\.kind must be one of number, boolean, category, text/);
  expect(got[2]!.startsWith(at('numbr'))).toBe(true);
});

test('of a union, only the branch that fits best is reported', () => {
  const settings = Type.Union([Type.Boolean(), Type.Object({ ca_file: Type.Optional(Type.String()) }, closed)]);
  const secret = Type.Union([
    Type.Object({ file: Type.String() }, closed),
    Type.Object({ env: Type.String() }, closed),
  ]);
  const limit = Type.Union([Type.Number(), Type.Record(Type.String(), Type.Number())]);
  const ignored = Type.Union([Type.Array(Type.String()), Type.Enum(['*'])]);
  const schema = Type.Partial(
    Type.Object({ tls: settings, secret, limit, ignored, list: Type.Array(settings) }, closed),
  );
  const faults = (text: string) => {
    const parsed = parseYaml('a.yaml', text, schema);
    return parsed.ok ? [] : parsed.problems.map(formatProblem);
  };
  expect(faults('tls: { ca: a.pem }')).toEqual(['a.yaml:1:8 unknown key ca']);
  expect(faults('tls: { ca_fil: a.pem }')).toEqual(['a.yaml:1:8 unknown key ca_fil (did you mean ca_file?)']);
  expect(faults('tls: { ca_file: 1 }')).toEqual(['a.yaml:1:17 tls.ca_file must be string']);
  expect(faults('tls: yes please')).toEqual(['a.yaml:1:6 tls must be true or false, or a mapping']);
  expect(faults('secret: hunter2')).toEqual(['a.yaml:1:9 secret must be a mapping with file, or a mapping with env']);
  expect(faults('secret: { env: 1 }')).toEqual(['a.yaml:1:16 secret.env must be string']);
  expect(faults('limit: many')).toEqual(['a.yaml:1:8 limit must be a number, or a mapping']);
  expect(faults('limit: { a: many }')).toEqual(['a.yaml:1:13 limit.a must be number']);
  expect(faults('ignored: all')).toEqual(['a.yaml:1:10 ignored must be *, or a list']);
  expect(faults('list: [true, { ca: 1 }, { ca_file: 2 }]')).toEqual([
    'a.yaml:1:16 unknown key ca',
    'a.yaml:1:36 list.2.ca_file must be string',
  ]);
});

test('a key that is there twice, a tab, a cut file', () => {
  expect(problems('id: a\nid: b\n')[0]).toMatch(/^model\.yaml:2:1 Map keys must be unique/);
  expect(problems('id: a\n\tversion: 1\n')[0]).toMatch(/^model\.yaml:2:/);
  expect(problems('columns: [{name: x')[0]).toMatch(/^model\.yaml:1:/);
  expect(problems('')[0]).toMatch(/^model\.yaml:1:1/);
});

test('keys are text: a category that YAML would read as a number keeps its zeros', () => {
  const parsed = parseYaml('m.yaml', YAML, ManifestSchema);
  if (!parsed.ok) throw new Error('not parsed');
  const codes = parsed.value.columns.find((c) => c.name === 'verificator_id')!.codes!;
  expect(Object.keys(codes)).toContain('008');
});

test('a billion laughs are refused', () => {
  const bomb = [
    'a: &a [x,x,x,x,x,x,x,x,x]',
    ...'bcdefghi'.split('').map((c, i) => `${c}: &${c} [${Array(9).fill(`*${'abcdefgh'[i]}`).join(',')}]`),
  ];
  expect(problems(bomb.join('\n')).join()).toMatch(/alias/i);
});
