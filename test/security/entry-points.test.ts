// docs/limits.md lists every entry point with its bounds: what it names exists, with the values it states, and nothing is left out.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ServerConfigSchema } from '../../src/config/server-config.ts';
import type { OpenApiDocument } from '../../src/doors/http/openapi/document-types.ts';

const PAGE = readFileSync('docs/limits.md', 'utf8');

/** The cells of the table below a heading, without its head. */
function tableOf(heading: string): string[][] {
  const part = PAGE.slice(PAGE.indexOf(`## ${heading}\n`));
  const rows = /(?:^\|.*\|\n)+/m.exec(part)![0].trim().split('\n').slice(2);
  return rows.map((row) =>
    row
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  );
}

const named = (text: string): string[] => [...text.matchAll(/`([^`]+)`/g)].map((m) => m[1]!);
const entries = tableOf('Entry points');
const settings = tableOf('Settings and their defaults');
const constants = tableOf('Constants');

test('every operation of the service is in the table once', () => {
  const listed = entries.flatMap(([entry]) => named(entry!)).sort();
  const { paths } = JSON.parse(readFileSync('docs/openapi.json', 'utf8')) as OpenApiDocument;
  expect(listed).toEqual(Object.keys(paths).sort());
});

test('every entry point has a bound of each kind, or says why there is none', () => {
  for (const [entry, ...bounds] of entries) {
    expect(bounds, entry).toHaveLength(6);
    for (const bound of bounds) expect(bound, entry).not.toBe('');
  }
});

test.each(settings)('the setting %s has the default %s', (name, value) => {
  const [section, key] = named(name!)[0]!.split('.') as [string, string];
  const sections = ServerConfigSchema.properties as unknown as Record<
    string,
    { properties: Record<string, { default?: unknown }> }
  >;
  expect(sections[section]!.properties[key]!.default).toBe(Number(value));
});

test.each(constants)('the constant %s is %s in %s', (name, value, file) => {
  const source = readFileSync(named(file!)[0]!, 'utf8');
  const stated = new RegExp(`^(?:export )?const ${named(name!)[0]} = ([^;]+);`, 'm').exec(source);
  expect(stated, 'it is declared').not.toBe(null);
  // Products and powers of numbers, and MiB.
  const expression = stated![1]!.replaceAll('_', '').replaceAll('MIB', '2 ** 20');
  expect(expression).toMatch(/^[0-9*+\- ]+$/);
  expect(numberOf(expression)).toBe(Number(value!.split(',')[0]));
});

function numberOf(expression: string): number {
  return expression.split(' - ').reduce((sum, part, i) => {
    const product = part.split(/ \* /).reduce((p, factor) => {
      const [base, exponent] = factor.split(' ** ').map(Number) as [number, number | undefined];
      return p * (exponent === undefined ? base : base ** exponent);
    }, 1);
    return i === 0 ? product : sum - product;
  }, 0);
}

test('every setting and constant of the table is stated, and each one that is stated is in the table', () => {
  const text = entries.map((row) => row.join(' ')).join(' ');
  const inTable = new Set(named(text).filter((name) => /^(limits|timeouts|jobs)\.|^M[A-Z_]+$/.test(name)));
  const stated = [...settings, ...constants].map(([name]) => named(name!)[0]!);
  expect([...inTable].sort()).toEqual(stated.sort());
});

test('every limit of the configuration is stated', () => {
  const stated = settings.map(([name]) => named(name!)[0]!);
  const limits = Object.keys((ServerConfigSchema.properties.limits as { properties: object }).properties);
  expect(stated.filter((name) => name.startsWith('limits.')).sort()).toEqual(limits.map((l) => `limits.${l}`).sort());
});
