// The files that ARCHITECTURE.md, CONTRIBUTING.md and docs/design.md name exist, and the first of them stays short.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const TEXT = readFileSync('ARCHITECTURE.md', 'utf8');
const FILES = readdirSync('src', { recursive: true, encoding: 'utf8' });

/** Files and folders that are named in a text, as they stand there. */
const named = (text: string): string[] => [...text.matchAll(/`([\w./-]+(?:\.ts|\.md|\/))`/g)].map((m) => m[1]!);

/** A path below src or below the project, or the end of one below src. */
const isThere = (name: string): boolean =>
  existsSync(path.join('src', name)) ||
  existsSync(name) ||
  FILES.some((f) => `/${f}`.endsWith(`/${name.replace(/\/$/, '')}`));

test.each([
  ['ARCHITECTURE.md', 40],
  ['docs/design.md', 30],
  ['CONTRIBUTING.md', 40],
])('every file that %s names is there', (page, least) => {
  const names = named(readFileSync(page, 'utf8'));
  expect(names.length).toBeGreaterThan(least);
  expect(names.filter((n) => !isThere(n))).toEqual([]);
  expect(['runs/nothing.ts', 'nowhere/'].filter(isThere)).toEqual([]);
});

test('ARCHITECTURE.md can be read in one go, and has at most 25 terms', () => {
  expect(Buffer.byteLength(TEXT)).toBeLessThanOrEqual(15_000);
  const terms = TEXT.slice(TEXT.indexOf('## Terms')).match(/^\| (?!term \||---)/gm)!;
  expect(terms.length).toBeLessThanOrEqual(25);
});

test('every file of src/ states its purpose in its first line', () => {
  const silent = FILES.filter(
    (file) => file.endsWith('.ts') && !/^\/\/ |^#!/.test(readFileSync(path.join('src', file), 'utf8')),
  );
  expect(silent).toEqual([]);
});

test('lines of prose have at most 120 characters', () => {
  const long = TEXT.split('\n').filter((l) => l.length > 120 && !l.startsWith('|'));
  expect(long).toEqual([]);
});
