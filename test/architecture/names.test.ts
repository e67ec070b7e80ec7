// A name means one thing: no exported name is in two files, no file name in two folders.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const SRC = path.resolve('src');

/** Exported names that are in two files and mean the same: name → why. */
const SAME_MEANING: Record<string, string> = {
  ErrorCode: 'index.ts hands it on: part of the public interface',
  ErrorDetail: 'index.ts hands it on: part of the public interface',
  SluiceError: 'index.ts hands it on: part of the public interface',
  TextFormat: 'index.ts hands it on: part of the public interface',
};
/** File names that are in two folders and mean the same: name → why. */
const SAME_FILE: Record<string, string> = {};

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((f) => f.endsWith('.ts'))
  .map((name) => ({ name, text: readFileSync(path.join(SRC, name), 'utf8') }));

/** Names a file exports: declarations, and what `export { … }` lists or forwards. */
function exportsOf(text: string): string[] {
  const declared = text.matchAll(
    /^export (?:declare )?(?:abstract )?(?:async )?(?:const|let|function\*?|class|interface|type) ([A-Za-z_$][\w$]*)/gm,
  );
  const listed = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap((m) => m[1]!.split(','));
  return [
    ...[...declared].map((m) => m[1]!),
    ...listed.map((n) => n.trim().split(/\s+/).at(-1)!).filter((n) => n !== ''),
  ];
}

/** Names that stand for more than one file, as `name: file, file`. */
function twice(pairs: readonly (readonly [name: string, file: string])[], allowed: readonly string[]): string[] {
  return [...Map.groupBy(pairs, ([name]) => name)]
    .map(([name, list]) => [name, [...new Set(list.map(([, file]) => file))].sort()] as const)
    .filter(([name, where]) => where.length > 1 && !allowed.includes(name))
    .map(([name, where]) => `${name}: ${where.join(', ')}`);
}

const exported = files.flatMap((f) => exportsOf(f.text).map((name) => [name, f.name] as const));
const basenames = files.map((f) => [path.basename(f.name), f.name] as const);

test('what a file exports is found in every form', () => {
  const text = `export const a = 1;
export async function b() {}
export function* c() {}
export abstract class D {}
export interface E {}
export type F = 1;
export type { G, H as I } from './x.ts';
export { j, type K };
const notExported = 'export const l';
`;
  expect(exportsOf(text).sort()).toEqual(['D', 'E', 'F', 'G', 'I', 'K', 'a', 'b', 'c', 'j']);
  expect(exported.length).toBeGreaterThan(600);
  expect(twice([['n', 'a.ts'], ['n', 'b.ts'], ['m', 'a.ts']], [])).toEqual(['n: a.ts, b.ts']); // biome-ignore format: one case
});

test('no exported name is in two files', () => {
  expect(twice(exported, Object.keys(SAME_MEANING))).toEqual([]);
});

test('no file name is in two folders', () => {
  expect(twice(basenames, Object.keys(SAME_FILE))).toEqual([]);
});

test('every exception is still needed', () => {
  const names = (found: readonly string[]) => found.map((line) => line.slice(0, line.indexOf(':')));
  const exceptions = Object.keys(SAME_MEANING);
  expect(exceptions.filter((n) => !names(twice(exported, [])).includes(n))).toEqual([]);
  expect(Object.keys(SAME_FILE).filter((n) => !names(twice(basenames, [])).includes(n))).toEqual([]);
});
