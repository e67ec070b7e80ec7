// Tests in TypeScript and Python wait as long as only something that hangs needs: a shorter limit fails when the machine is busy.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { PATIENCE_MS } from '../support/patience.ts';

/** Limits of a wait that are written as a number, and functions with short limits of their own. */
const SHORT: RegExp[] = [
  /\b(?:timeout|timeoutMs): *\d/,
  /\bsetDefault(?:Navigation)?Timeout\(\d/,
  /\bAbortSignal\.timeout\(\d/,
  /\bvi\s*\.\s*wait(?:For|Until)\(/,
];

/** A limit in Python, and a call of a library whose own limit is 5 seconds if none is given. */
const PYTHON_LIMIT = /\btimeout *= *(?<seconds>[0-9.]+)/;
const PYTHON_CALL = /\bhttpx2?\.(?:get|post|put|request|stream|Client|AsyncClient)\(/;

/** Files with such a line, and why. */
const EXEMPT: Record<string, string> = {
  'clients/python/tests/test_register.py': 'waits until the time of a command is up',
  'test/architecture/patience.test.ts': 'has examples',
  'test/mutation/campaign.ts': 'counts mutants that ended in a timeout',
  'test/support/python-environment.ts': 'waits for an installation, longer than for anything else',
};

const shortIn = (text: string): string[] =>
  text.split('\n').filter((line) => SHORT.some((form) => form.test(line.replace(/\/\/.*/, ''))));

const shortInPython = (text: string): string[] =>
  text.split('\n').filter((line, i, lines) => {
    const limit = PYTHON_LIMIT.exec(line)?.groups?.seconds;
    if (limit !== undefined) return Number(limit) * 1000 < PATIENCE_MS;
    return PYTHON_CALL.test(line) && !/\btimeout *=/.test(argumentsFrom(lines.slice(i).join('\n')));
  });

/** The text up to the parenthesis that closes its first one. */
function argumentsFrom(text: string): string {
  let depth = 0;
  for (let at = text.indexOf('('); at < text.length; at++) {
    depth += Number(text[at] === '(') - Number(text[at] === ')');
    if (depth === 0) return text.slice(0, at);
  }
  return text;
}

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

test.each([
  ['answer = httpx2.post(url, timeout=20)', 1],
  ['answer = httpx.get(address(host), headers=headers)\nlimit(timeout=180)', 1],
  ['answer = httpx2.post(\n    url(),\n    timeout=180,\n)', 0],
  ['call(timeout=limit)', 0],
])('Python: %j has %i short limits', (text, short) => {
  expect(shortInPython(text)).toHaveLength(short);
});

test('no test limits a wait by a number of its own', () => {
  const filesIn = (folder: string, kind: string) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith(kind))
      .map((file) => `${folder}/${file}`);
  const inTypeScript = filesIn('test', '.ts');
  const inPython = [...filesIn('test', '.py'), ...filesIn('clients/python/tests', '.py')];
  expect([inTypeScript.length > 300, inPython.length > 20]).toEqual([true, true]);
  const found = (files: string[], shortOf: (text: string) => string[]) =>
    files.filter((file) => shortOf(readFileSync(file, 'utf8')).length > 0);
  const all = [...found(inTypeScript, shortIn), ...found(inPython, shortInPython)];
  expect(all.sort()).toEqual(Object.keys(EXEMPT).sort());
});
