// Work that nobody waits for goes through inBackground(): a rejected promise that nobody hears of ends the process.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { inBackground, onBackgroundFault } from '../../src/core/async.ts';
import { faultOf } from '../../src/core/log.ts';

const SRC = path.resolve('src');

/** How a promise is let go of without anybody hearing of its failure. */
const LOOSE: [string, RegExp][] = [
  ['void of a call', /(?<![\w:|<] ?|\|\s)\bvoid\s+(?!0\b)[\w#$([][^\n;]*\(/],
  ['an async callback of a timer', /\bset(?:Timeout|Interval|Immediate)\(\s*async\b/],
  ['an async listener', /\.(?:on|once|addEventListener|addListener)\(\s*'[^']+',\s*async\b/],
  ['forEach with an async callback', /\.forEach\(\s*async\b/],
];

const looseIn = (text: string): string[] => {
  const code = text.replaceAll(/\/\*[\s\S]*?\*\/|(^|\s)\/\/.*$/gm, '$1');
  return code.split('\n').flatMap((line) => LOOSE.filter(([, form]) => form.test(line)).map(([why]) => `${why}: ${line.trim()}`)); // biome-ignore format: one line
};

test('what lets go of a promise is found in every form', () => {
  for (const line of [
    'void this.#sweep();',
    'setInterval(() => void this.#sweep(), 5);',
    'if (current()) void lease.abandon();',
    'void consumer.disconnect().catch(() => {});',
    'setTimeout(async () => {',
    "socket.on('data', async (x) => {",
    'list.forEach(async (x) => {',
  ])
    expect(looseIn(line), line).toHaveLength(1);
  for (const line of [
    'close(): void;',
    'const f = (): void => run();',
    'work: () => void | Promise<void>,',
    'Promise<void>((resolve) => work(resolve));',
    "app.addHook('onClose', () => jobs.close());",
    '// void this.#sweep() without a catch',
  ])
    expect(looseIn(line), line).toEqual([]);
});

test('no promise is let go of', () => {
  const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((f) => f.endsWith('.ts'));
  expect(files.length).toBeGreaterThan(200);
  const found = files.flatMap((f) => looseIn(readFileSync(path.join(SRC, f), 'utf8')).map((line) => `${f}: ${line}`));
  expect(found).toEqual([]);
});

test.each([
  ['throws', () => { throw new TypeError('secret'); }],
  ['rejects', () => Promise.reject(new TypeError('secret'))],
  ['rejects later', async () => { await null; throw new TypeError('secret'); }],
])('what %s in the background is told, without its message', async (_, work) => {
  const told: [string, string][] = [];
  const end = onBackgroundFault((task, error) => told.push([task, faultOf(error)]));
  inBackground('a task', work);
  await expect.poll(() => told).toHaveLength(1);
  end();
  expect(told[0]![0]).toBe('a task');
  expect(told[0]![1]).toMatch(/^TypeError at .*background\.test\.ts/);
  expect(told[0]![1]).not.toContain('secret');
}); // biome-ignore format: a table
