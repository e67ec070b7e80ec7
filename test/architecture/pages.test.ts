// ARCHITECTURE.md and CONTRIBUTING.md point at files that are there, and the prose of the former fits a screen.
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
  ['ARCHITECTURE.md', 100],
  ['CONTRIBUTING.md', 40],
])('every file that %s names is there', (page, least) => {
  const names = named(readFileSync(page, 'utf8'));
  expect(names.length).toBeGreaterThan(least);
  expect(names.filter((n) => !isThere(n))).toEqual([]);
  expect(['runs/nothing.ts', 'nowhere/'].filter(isThere)).toEqual([]);
});

test('the index of words is in the order of the alphabet, and each of its files is named whole once', () => {
  const index = TEXT.slice(TEXT.indexOf('## Where is'), TEXT.indexOf('## How the parts work'));
  const rows = [...index.matchAll(/^\| (.+?) \| (`.+) \|$/gm)];
  expect(rows.length).toBeGreaterThan(30);
  const words = rows.map((r) => `${r[1]!.toLowerCase()} |`);
  expect(words).toEqual(words.toSorted());
  for (const [, , files] of rows) expect(named(files!)[0], files).toMatch(/\//);
});

test('lines of prose have at most 120 characters', () => {
  const long = TEXT.split('\n').filter((l) => l.length > 120 && !l.startsWith('|'));
  expect(long).toEqual([]);
});
