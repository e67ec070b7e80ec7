// Tests wait as long as only something that hangs needs: a shorter limit fails when the machine is busy.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

/** Limits of a wait that are written as a number, and functions with short limits of their own. */
const SHORT: RegExp[] = [
  /\b(?:timeout|timeoutMs): *\d/,
  /\bsetDefault(?:Navigation)?Timeout\(\d/,
  /\bAbortSignal\.timeout\(\d/,
  /\bvi\s*\.\s*wait(?:For|Until)\(/,
];

/** Files with such a line, and why. */
const EXEMPT: Record<string, string> = {
  'architecture/patience.test.ts': 'has examples',
  'mutation/campaign.ts': 'counts mutants that ended in a timeout',
  'support/python-environment.ts': 'waits for an installation, longer than for anything else',
};

const shortIn = (text: string): string[] =>
  text.split('\n').filter((line) => SHORT.some((form) => form.test(line.replace(/\/\/.*/, ''))));

test.each([
  'await vi.waitUntil(() => done);',
  'await vi.waitFor(() => expect(done).toBe(true), { timeout: PATIENCE_MS });',
  'await expect.poll(state, { timeout: 20_000 }).toBe(1);',
  'page.setDefaultTimeout(20_000);',
  'fetch(url, { signal: AbortSignal.timeout(5000) });',
])('%s is found', (line) => {
  expect(shortIn(line)).toEqual([line]);
});

test.each([
  'await until(() => done);',
  'await expect.poll(state, { interval: 20 }).toBe(1);',
  'page.setDefaultTimeout(PATIENCE_MS);',
])('%s is not found', (line) => {
  expect(shortIn(line)).toEqual([]);
});

test('no test limits a wait by a number of its own', () => {
  const files = readdirSync('test', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  expect(files.length).toBeGreaterThan(300);
  const found = files.flatMap((file) => shortIn(readFileSync(`test/${file}`, 'utf8')).map(() => file));
  expect([...new Set(found)].sort()).toEqual(Object.keys(EXEMPT).sort());
});
