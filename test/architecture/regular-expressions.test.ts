// No regular expression of the program takes more than linear time: what it is given comes from outside.
import { readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import path from 'node:path';
import { parse, type Token } from 'acorn';
import { isSafe } from 'redos-detector';
import { expect, test } from 'vitest';
import { ManifestSchema } from '../../src/model/package/manifest.ts';
import { END_SCHEMAS, KEYS_OF_ALL_PIPELINES } from '../../src/runs/complete-pipeline.ts';
import { checkTest } from '../support/tiers.ts';

const SRC = path.resolve(import.meta.dirname, '../../src');

interface Literal {
  at: string;
  source: string;
  flags: string;
}

/** Regular expressions of a file, and where one is made of a string. */
function expressionsOf(file: string, text: string): { literals: Literal[]; made: string[] } {
  const literals: Literal[] = [];
  const made: string[] = [];
  const onToken = ({ type, value, loc }: Token & { value?: unknown }): void => {
    const at = `${file}:${loc!.start.line}`;
    if (type.label === 'regexp') {
      const { pattern, flags } = value as { pattern: string; flags: string };
      literals.push({ at, source: pattern, flags });
    } else if (type.label === 'name' && value === 'RegExp') made.push(at);
  };
  parse(stripTypeScriptTypes(text), { ecmaVersion: 'latest', sourceType: 'module', locations: true, onToken });
  return { literals, made };
}

const all = () =>
  readdirSync(SRC, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'))
    .map((name) => expressionsOf(name, readFileSync(path.join(SRC, name), 'utf8')));

/** Without a repetition, the time depends on the length of the expression only. */
const slow = ({ source, flags }: Pick<Literal, 'source' | 'flags'>): boolean =>
  /[*+{]/.test(source) && !isSafe(new RegExp(source, flags), { timeout: Infinity }).safe;

/** Patterns of the schemas that config/schema.ts compiles. */
function patternsOf(at: string, schema: unknown): Literal[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const { pattern, patternProperties = {} } = schema as { pattern?: unknown; patternProperties?: object };
  const own = [...(typeof pattern === 'string' ? [pattern] : []), ...Object.keys(patternProperties)];
  return [
    ...own.map((source) => ({ at, source, flags: 'u' })),
    ...Object.entries(schema).flatMap(([key, inner]) => patternsOf(`${at}.${key}`, inner)),
  ];
}

test.each([
  ['nested repetition', '^(a+)+$'],
  ['a digit that two parts can take', '^[+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][+-]?\\d+)?$'],
  ['a repetition at the end of which something is wanted, tried from everywhere', '\\s+$'],
  ['text between marks, tried from every mark', '<a>(.*?)</a>'],
])('%s is seen to be slow', (_, source) => {
  expect(slow({ source, flags: '' })).toBe(true);
});

test('a regular expression in TypeScript is found, and one that is made of a string', () => {
  const text = 'const a: RegExp = /x+/i;\nconst b = new RegExp(a.source);\nconst c = 4 / 2 / 1;';
  expect(expressionsOf('f', text)).toEqual({ literals: [{ at: 'f:1', source: 'x+', flags: 'i' }], made: ['f:2'] });
});

test('none is made of a string but patterns of schemas and that of an operator for topics', () => {
  const made = all().flatMap((f) => f.made.map((at) => at.split(':')[0]));
  expect(new Set(made)).toEqual(new Set(['config/schema.ts', 'connectors/kafka/topics.ts']));
});

checkTest('each is linear', () => {
  const patterns = patternsOf('schema', [ManifestSchema, END_SCHEMAS, KEYS_OF_ALL_PIPELINES]);
  expect(patterns.length).toBeGreaterThan(10);
  const literals = [...all().flatMap((f) => f.literals), ...patterns];
  expect(literals.length).toBeGreaterThan(80);
  const unique = new Map(literals.map((literal) => [`/${literal.source}/${literal.flags}`, literal]));
  expect([...unique.values()].filter(slow).map(({ at, source }) => `${at} /${source}/`)).toEqual([]);
});
