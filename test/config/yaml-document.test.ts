// Faults of a YAML file are all reported at once, where they stand, with the word that was probably meant.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseYaml } from '../../src/config/yaml-document.ts';
import { formatProblem } from '../../src/config/yaml-problem.ts';
import { ManifestSchema } from '../../src/model/package/manifest.ts';

const YAML = readFileSync('src/bundled/credit-default/1/model.yaml', 'utf8');
const problems = (text: string): string[] => {
  const parsed = parseYaml('model.yaml', text, ManifestSchema);
  return parsed.ok ? [] : parsed.problems.map(formatProblem);
};

test('the bundled package is sound', () => {
  expect(problems(YAML)).toEqual([]);
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
