// Every file of src reads time and starts timers through core/clock.ts, so that tests can control leases, expiries and timeouts.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const SRC = path.resolve('src');

/** Reads of time and timers that no replaced clock would see. */
const DIRECT: RegExp[] = [
  /\bDate\.now\b/,
  /\bnew Date(?:\(\s*\)|(?!\s*[(\w]))/,
  /(?<![\w.)]|new )\bDate\(/,
  /\bperformance\b\s*\.\s*now\b/,
  /\bprocess\.(?:hrtime|uptime)\b/,
  /(?<![\w.#])(?:set|clear)(?:Timeout|Interval)\b/,
];

/** Files that read the system's time, and why. */
const EXEMPT: Record<string, string> = {
  'core/clock.ts': 'is the clock',
  'core/async.ts': 'measures how long this thread has computed; a stopped clock would keep it from yielding',
  'inference/explain/hybrids.ts': 'measures how long one block computes',
  'inference/sandbox/probe-entry.ts': 'measures how fast a model computes in a process of its own',
  'io/sink/owner.ts': 'makes a name unique where no process table is readable',
  'connectors/kafka/kafkajs/repairs.ts':
    'compares with throttledUntil (Date.now()) and authenticatedAt (process.hrtime()) of the client',
};

const directIn = (text: string): string[] => {
  const code = text.replaceAll(/\/\*[\s\S]*?\*\/|(^|\s)\/\/.*$/gm, '$1');
  return code.split('\n').filter((line) => DIRECT.some((form) => form.test(line)));
};

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((f) => f.endsWith('.ts'))
  .map((f) => ({ name: f, direct: directIn(readFileSync(path.join(SRC, f), 'utf8')).map((line) => line.trim()) }));

test.each([
  'const began = Date.now();',
  'constructor(now: () => number = Date.now) {',
  'const time = new Date().toISOString();',
  'const time = new Date;',
  'const text = Date();',
  'const began = performance.now();',
  'const began = process.hrtime.bigint();',
  'const timer = setTimeout(work, 5);',
  "import { setTimeout as sleep } from 'node:timers/promises';",
  'setInterval(work, 5).unref();',
])('%s is found', (line) => {
  expect(directIn(line)).toEqual([line]);
});

test.each([
  'const time = new Date(epochMs()).toISOString();',
  'const day = new Date(ms);',
  'const ms = Date.parse(text);',
  'const ms = Date.UTC(1970, 0);',
  'const isDate = value instanceof Date;',
  '// Date.now() of the broker',
  'socket.setTimeout(0);',
])('%s is not found', (line) => {
  expect(directIn(line)).toEqual([]);
});

test('only the clock and the exempt files read the time of the system', () => {
  expect(files.length).toBeGreaterThan(200);
  const found = files
    .filter((f) => EXEMPT[f.name] === undefined)
    .flatMap((f) => f.direct.map((l) => `${f.name}: ${l}`));
  expect(found).toEqual([]);
});

test('every exemption is needed', () => {
  const needed = files.filter((f) => f.direct.length > 0).map((f) => f.name);
  expect(Object.keys(EXEMPT).filter((name) => !needed.includes(name))).toEqual([]);
});
