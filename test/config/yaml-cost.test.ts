// Reading YAML takes time in proportion to its length, whatever stands in it, and refuses what would be more than its text.
import { expect, test } from 'vitest';
import { readYaml } from '../../src/config/yaml.ts';

const problemsOf = (text: string): string[] => {
  const read = readYaml('f', text);
  return read.ok ? [] : read.problems.map((p) => `${p.line}:${p.column} ${p.message}`);
};

const fill = (piece: string, length: number): string => piece.repeat(Math.ceil(length / piece.length));
const SHAPES: Record<string, (length: number) => string> = {
  'commas in a list': (n) => `[${fill(',', n)}]`,
  'question marks in a map': (n) => `{${fill('? ', n)}}`,
  'keys and dashes on a line': (n) => fill('- : ', n),
  'brackets that are not closed': (n) => fill('[', n),
  'dashes on a line': (n) => `${fill('- ', n)}a`,
  quotes: (n) => fill('"\n', n),
  'a key again and again': (n) => fill('? a\n', n),
  anchors: (n) => Array.from({ length: n / 12 }, (_, i) => `- &a${i} x\n`).join(''),
  'anchors with an alias each': (n) =>
    [...Array(n / 24).keys()].map((i) => `- &a${i} x\n`).join('') +
    [...Array(n / 24).keys()].map((i) => `- *a${i}\n`).join(''),
  'entries in order': (n) => `columns:\n${fill('- {name: abc, kind: number}\n', n)}`,
};

const LONGER = 10;
/** Ten times the length takes ten times as long, or a hundred times if the work is quadratic. */
const MOST = 40;

test.each(Object.entries(SHAPES))('%s', (_name, shape) => {
  const cpuMs = (length: number): number => {
    const text = shape(length);
    const before = process.threadCpuUsage();
    readYaml('f', text);
    const { user, system } = process.threadCpuUsage(before);
    return (user + system) / 1000;
  };
  const short = 12 * 1024;
  cpuMs(short);
  const once = Math.max(2, Math.min(cpuMs(short), cpuMs(short)));
  expect(cpuMs(short * LONGER)).toBeLessThan(MOST * once);
});

test('what lies too deep is refused where it begins', () => {
  expect(problemsOf('['.repeat(100) + ']'.repeat(100))).toEqual([]);
  expect(problemsOf('['.repeat(101) + ']'.repeat(101))).toEqual(['1:101 nested more than 100 levels deep']);
  expect(problemsOf(`a: 1\nb: ${'['.repeat(5000)}`)).toEqual(['2:103 nested more than 100 levels deep']);
  const indented = Array.from({ length: 150 }, (_, i) => `${' '.repeat(i)}a:\n`).join('');
  expect(problemsOf(indented)).toEqual(['101:101 nested more than 100 levels deep']);
});

test('aliases are counted, and what they repeat', () => {
  expect(problemsOf(`a: &a [1, 2]\nb: [${fill('*a , ', 5000)}]`)).toEqual([]);
  expect(problemsOf(`a: &a [1, 2]\nb: [${fill('*a , ', 5005)}]`)).toEqual(['2:5005 more than 1000 aliases']);
  const wide = `a: &a [${fill('1, ', 6000)}]\nb: [${fill('*a , ', 2600)}]`;
  expect(problemsOf(wide)).toEqual([expect.stringMatching(/^2:\d+ the aliases expand to more than/)]);
  const laughs = ['a: &a [x,x,x,x,x,x,x,x,x]'];
  for (const [i, c] of [...'bcdefghij'].entries())
    laughs.push(`${c}: &${c} [${Array(9).fill(`*${'abcdefghij'[i]}`).join(',')}]`);
  expect(problemsOf(laughs.join('\n'))).toEqual([expect.stringMatching(/^7:\d+ the aliases expand to more than/)]);
  expect(problemsOf('a: *x\n')).toEqual(['1:4 the alias refers to an anchor that is not defined above it']);
  expect(problemsOf('a: &a [*a]\n')).toEqual(['1:8 the alias refers to an anchor that is not defined above it']);
  expect(problemsOf('a: &a {x: 1}\nb: {<<: *a, y: 2}\n')).toEqual([]);
});

test('faults beyond a hundred are counted, and a second document is one', () => {
  const many = problemsOf(fill('"\n', 2000));
  expect(many).toHaveLength(101);
  expect(many.at(-1)).toMatch(/^\d+:1 and \d+ more errors from this line on$/);
  expect(problemsOf('a: 1\n---\nb: 2\n')).toEqual(['2:1 a second document: the file must have one']);
});
